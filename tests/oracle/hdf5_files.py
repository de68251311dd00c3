"""Checks that ckpt reads the same tensors from HDF5 files as h5py.

    hdf5_files.py CKPT

h5py writes MODELS random files: of every version of the format (libver), with all kinds of indexes of chunks, filters
(those of hdf5plugin, if it is installed), dtypes and byte orders, texts, enums, attributes, data sets that are partly
written, grown or shrunk, integers with padding and floats with other fields. `ckpt hash` must print the dtypes, shapes
and digests of what h5py reads, `ckpt show` the attributes, and numpy must load equal arrays from the .npz that ckpt
makes of every second file.
"""
import hashlib
import json
import os
import random
import shutil
import struct
import sys

import h5py
import numpy

from checks import check_seeds, visit_datasets

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

MODELS = int(os.environ.get("MODELS", 200))
VERSIONS = [None, *(v for v in ("earliest", "v108", "v110", "v112", "v114", "v200", "latest")
                    if v in h5py._hl.files.libver_dict)]
NUMBERS = ["?", "i1", "u1", "i2", ">u2", "i4", ">i4", "u4", "i8", ">u8", "f2", ">f2", "f4", ">f4", "f8", ">f8", "c8",
           ">c16"]
TEXTS = [h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype("utf-8", 7), numpy.dtype("S5")]
RECORD = numpy.dtype([("a", "<f4"), ("b", "<i2")])
ENUM = h5py.enum_dtype({"low": -1, "high": 300}, basetype="i4")


def random_plugin(rng):
    """Returns the options of a random filter of hdf5plugin."""
    kind = rng.randrange(4)
    if kind == 0:
        return hdf5plugin.LZ4(nbytes=rng.choice((0, 16, 100, 4096)))
    if kind == 1:
        return hdf5plugin.Bitshuffle(nelems=rng.choice((0, 8, 64, 1024)), cname=rng.choice(("none", "lz4", "zstd")))
    if kind == 2:
        return hdf5plugin.Zstd(clevel=rng.randint(1, 22))
    compressor = rng.choice(("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"))
    return hdf5plugin.Blosc(cname=compressor, clevel=rng.randint(0, 9), shuffle=rng.randrange(3))


def random_szip(rng, dtype, options, properties):
    """Adds szip for chunks of DTYPE to OPTIONS, unless it cannot code them; in some cases, a filter before it."""
    elements = numpy.prod(options["chunks"], dtype=int)
    if not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP) or dtype.itemsize not in (1, 2, 4, 8) or elements < 2:
        return
    if dtype.itemsize < 8 and rng.randrange(4) == 0:
        properties.set_fletcher32()
    options["compression"] = "szip"
    options["compression_opts"] = (rng.choice(("ec", "nn")), rng.randrange(2, min(int(elements), 32) + 1, 2))


def random_filters(rng, dtype, options, properties):
    """Adds random filters for chunks of DTYPE to OPTIONS of create_dataset and to its PROPERTIES."""
    if rng.randrange(2):
        return
    if dtype.kind in "iu" and dtype.metadata is None and rng.randrange(3) == 0:
        options["scaleoffset"] = rng.choice((True, 0, 7))
    elif dtype.kind == "f" and dtype.itemsize in (4, 8) and rng.randrange(3) == 0:
        options["scaleoffset"] = rng.randint(0, 5)
    elif hdf5plugin and dtype.kind in "biufc" and rng.randrange(2):
        options.update(random_plugin(rng))
    elif dtype.kind in "biuf" and rng.randrange(2):
        random_szip(rng, dtype, options, properties)
    else:
        options["compression"] = rng.choice(("gzip", "lzf"))
    options["shuffle"] = rng.randrange(3) == 0
    options["fletcher32"] = ("scaleoffset" not in options and dtype.kind != "O" and properties.get_nfilters() == 0
                             and rng.randrange(4) == 0)


def random_elements(rng, dtype, shape):
    """Returns an array of random elements, which in two of three cases compress well."""
    n = int(numpy.prod(shape, dtype=int))
    if h5py.check_string_dtype(dtype):
        size = h5py.check_string_dtype(dtype).length
        words = ["".join(rng.choice("abc ") for _ in range(rng.randrange(8))).strip() for _ in range(n)]
        array = numpy.empty(n, object)
        array[:] = [w.encode()[:size] for w in words] if size else words
        return array.reshape(shape).astype(dtype) if size else array.reshape(shape)
    if dtype.kind == "b":
        data = [rng.randrange(2) for _ in range(n)]
    elif dtype.metadata:
        data = [rng.choice((-1, 300)) for _ in range(n)]
    elif dtype.kind == "V" or (rng.randrange(3) == 0 and dtype.kind not in "f"):
        return numpy.frombuffer(rng.randbytes(n * dtype.itemsize), dtype).reshape(shape)
    else:
        top = rng.choice((2, 9, 100))
        data = [rng.randrange(top) / (1 if dtype.kind in "iu" else 8) for _ in range(n)]
    return numpy.array(data).astype(dtype).reshape(shape)


def random_layout(rng, shape):
    """Returns a property list and options of create_dataset with random chunks and a random maximum shape."""
    properties, options = h5py.h5p.create(h5py.h5p.DATASET_CREATE), {}
    if not shape or 0 in shape or rng.randrange(4) == 0:
        return properties, options
    options["chunks"] = tuple(rng.randint(1, max(1, min(12, n))) for n in shape)
    if rng.randrange(3):
        options["maxshape"] = tuple(rng.choice((None, n, n, n + rng.randrange(40))) for n in shape)
    if rng.randrange(4) == 0:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    return properties, options


def resize(rng, dataset):
    """Makes DATASET larger in some dimensions and smaller in others, and writes its last row."""
    dataset.resize(tuple(rng.randint(1, n + 20 if most is None else most)
                         for n, most in zip(dataset.shape, dataset.maxshape)))
    if rng.randrange(2):
        dataset[-1] = random_elements(rng, dataset.dtype, dataset.shape[1:])


def add_dataset(rng, group, name, numbers_only):
    dtypes = NUMBERS if numbers_only else NUMBERS + 2 * [*TEXTS, RECORD, ENUM]
    dtype = numpy.dtype(rng.choice(dtypes))
    shape = tuple(rng.randint(1, 30 if rng.randrange(2) else 8) for _ in range(rng.choice((0, 1, 1, 2, 2, 3))))
    if shape and rng.randrange(20) == 0:
        shape = (0, *shape[1:])
    properties, options = random_layout(rng, shape)
    is_text = h5py.check_string_dtype(dtype) is not None
    if "chunks" in options and dtype.kind != "V":
        random_filters(rng, dtype, options, properties)
    if dtype.kind in "iuf" and rng.randrange(3) == 0:
        options["fillvalue"] = numpy.array(1, dtype)[()]
    dataset = group.create_dataset(name, shape, dtype, dcpl=properties, **options)
    elements = random_elements(rng, dtype, shape)
    how = rng.randrange(4)
    if how == 0 and shape and shape[0] > 1:
        dataset[rng.randrange(shape[0]):] = elements[:1]
    elif how != 1 or is_text:
        dataset[...] = elements
    if "maxshape" in options and 0 not in shape and rng.randrange(3) == 0:
        resize(rng, dataset)
    if rng.randrange(4) == 0:
        dataset.attrs["text"] = rng.choice(("", "x" * 70, "y" * 5000))
        dataset.attrs["number"] = rng.randrange(-2**40, 2**40)


def random_integer_type(rng):
    """Returns the type of an integer with padding."""
    kind = rng.choice(("i1", "u1", "i2", ">i2", "u2", "i4", ">u4", "i8", ">i8", "u8"))
    dtype = h5py.h5t.py_create(numpy.dtype(kind)).copy()
    nbits = 8 * dtype.get_size()
    precision = rng.randint(nbits // 2 + 1, nbits)
    dtype.set_precision(precision)
    dtype.set_offset(rng.randint(0, nbits - precision))
    return dtype


def random_float_type(rng):
    """Returns the type of a float whose fields have other places and widths than those of a dtype."""
    size, exponent = rng.choice((2, 3, 4, 8)), rng.randint(3, 8)
    fraction = min(rng.randint(4 * size, 7 * size), 8 * size - exponent - 1, 52)
    offset = rng.randint(0, 8 * size - exponent - fraction - 1)
    dtype = rng.choice((h5py.h5t.IEEE_F64LE, h5py.h5t.IEEE_F64BE)).copy()
    dtype.set_fields(offset + exponent + fraction, offset + fraction, exponent, offset, fraction)
    dtype.set_ebias(rng.choice((2**(exponent - 1) - 1, rng.randint(1, 2**(exponent - 1)))))
    dtype.set_offset(offset)
    dtype.set_precision(1 + exponent + fraction)
    dtype.set_size(size)
    return dtype


def random_numbers(rng, dtype, n):
    """Returns N numbers that DTYPE, a type with padding, has. HDF5 swaps the bytes of big-endian integers without
    offset, whatever their precision: they are not negative here."""
    if isinstance(dtype, h5py.h5t.TypeFloatID):
        return [rng.choice((0, -1, 0.5, rng.gauss(0, 1), rng.gauss(0, 1e-3), float("-inf"))) for _ in range(n)]
    is_swapped = dtype.get_order() == h5py.h5t.ORDER_BE and dtype.get_offset() == 0
    top = 2**(dtype.get_precision() - 1)
    return [rng.randrange(-top if dtype.get_sign() and not is_swapped else 0, top) for _ in range(n)]


def add_packed(rng, group, name):
    """Adds a data set of numbers with padding, with the filter nbit or szip in two of three cases. A libhdf5 up to
    2.0 passes a wrong size to the next filter if nbit had nothing to pack: there is none then."""
    dtype = rng.choice((random_integer_type, random_float_type))(rng)
    shape = tuple(rng.randint(1, 20) for _ in range(rng.choice((1, 2))))
    chunks = tuple(rng.randint(1, n) for n in shape)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    has_padding = dtype.get_precision() < 8 * dtype.get_size()
    filter_id = rng.choice((None, h5py.h5z.FILTER_NBIT, h5py.h5z.FILTER_SZIP))
    if filter_id == h5py.h5z.FILTER_SZIP and (not h5py.h5z.filter_avail(filter_id) or dtype.get_size() == 3
                                              or numpy.prod(chunks, dtype=int) < 8):
        filter_id = None
    if filter_id or rng.randrange(2):
        properties.set_chunk(chunks)
    if filter_id == h5py.h5z.FILTER_NBIT:
        properties.set_filter(filter_id)
    elif filter_id:
        properties.set_szip(rng.choice((h5py.h5z.SZIP_NN_OPTION_MASK, h5py.h5z.SZIP_EC_OPTION_MASK)), 8)
    if filter_id and (has_padding or filter_id == h5py.h5z.FILTER_SZIP) and rng.randrange(2):
        properties.set_deflate(3)
    dataset = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), dtype, h5py.h5s.create_simple(shape), properties))
    if rng.randrange(5):
        numbers = random_numbers(rng, dtype, int(numpy.prod(shape)))
        dataset[...] = numpy.array(numbers).astype(dtype.dtype).reshape(shape)


def write_file(rng, path, numbers_only):
    version = rng.choice(VERSIONS)
    block = rng.choice((0, 0, 0, 512, 2048))
    with h5py.File(path, "w", libver=version, userblock_size=block, track_order=rng.randrange(4) == 0) as f:
        groups = [f] + [f.create_group(f"g{i}/x y") for i in range(rng.randrange(3))]
        for i in range(rng.randrange(1, 12)):
            add_dataset(rng, rng.choice(groups), f"d{i}", numbers_only)
        if rng.randrange(2):
            add_packed(rng, rng.choice(groups), "packed")
        for i in range(rng.choice((0, 3, 20))):
            f.attrs[f"a{i}"] = i


def read_dataset(dataset):
    """Returns the dtype as ckpt names it, the shape and the SHA-256 of DATASET, and its array, or None for texts."""
    array, text = numpy.asarray(dataset[()]), h5py.check_string_dtype(dataset.dtype)
    if text:
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in numpy.asarray(array, object).reshape(-1)]
        data = b"".join(struct.pack("<Q", len(t)) + t for t in texts)
        return "string", dataset.shape, hashlib.sha256(data).hexdigest(), None
    if array.dtype.names:
        return "struct", dataset.shape, hashlib.sha256(array.tobytes()).hexdigest(), None
    array = array.astype(array.dtype.newbyteorder("<"))
    return array.dtype.name, dataset.shape, hashlib.sha256(array.tobytes()).hexdigest(), array


def read_by_h5py(path):
    """Returns ({name: read_dataset(…)}, {name: value of an attribute})."""
    with h5py.File(path) as f:
        items = [("", f), *visit_datasets(f)]
        attributes = {f"{name}@{key}": item.attrs[key] for name, item in items for key in item.attrs}
        return {name: read_dataset(dataset) for name, dataset in visit_datasets(f)}, attributes


def read_by_ckpt(checks, path):
    """Returns {name: (dtype, shape, SHA-256)}, or None if ckpt fails."""
    hashed = checks.run("hash", "--json", path)
    if hashed is None:
        return None
    tensors = json.loads(hashed.splitlines()[0])["tensors"]
    return {t["name"]: (t["dtype"], tuple(t["shape"]), t["digest"]) for t in tensors}


def shown_attributes(checks, path):
    shown = checks.run("show", "--json", path)
    items = json.loads(shown.splitlines()[0])["items"] if shown else []
    return {item["key"]: item.get("value") for item in items if "@" in item["key"]}


def check_npz(checks, path, want, title):
    out = checks.path("out.npz")
    if checks.run("convert", path, out) is None:
        return checks.expect(False, f"{title}: to .npz")
    with numpy.load(out, allow_pickle=False) as arrays:
        good = sorted(arrays.files) == sorted(want) and all(
            arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
            and arrays[name].tobytes() == array.tobytes() for name, (_, _, _, array) in want.items())
    checks.expect(good, f"{title}: as .npz")


def check_model(checks, seed):
    rng = random.Random(f"hdf5 {seed}")
    path, numbers_only = checks.path("in.h5"), seed % 2 == 0
    write_file(rng, path, numbers_only)
    want, attributes = read_by_h5py(path)
    found = read_by_ckpt(checks, path)
    expected = {name: (dtype, shape, digest) for name, (dtype, shape, digest, _) in want.items()}
    checks.expect(found == expected, f"model {seed}: "
                  f"{[n for n in expected if not found or found.get(n) != expected[n]]}")
    shown = shown_attributes(checks, path)
    good = shown.keys() == attributes.keys() and all(shown[key] == value for key, value in attributes.items())
    checks.expect(good, f"model {seed}: attributes")
    if numbers_only:
        check_npz(checks, path, want, f"model {seed}")
    if checks.failed and os.environ.get("KEEP"):
        shutil.copy(path, os.environ["KEEP"])
        sys.exit(f"{path} was kept")


def main(ckpt):
    if not hdf5plugin:
        print("oracle-hdf5: no hdf5plugin here; its filters are not checked")
    return check_seeds(ckpt, "oracle-hdf5", MODELS, check_model)


sys.exit(main(sys.argv[1]))
