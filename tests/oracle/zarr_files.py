"""Checks that ckpt reads the Zarr groups that zarr-python writes.

    zarr_files.py CKPT

zarr-python writes MODELS random groups of versions 2 and 3: arrays of all dtypes of numbers in chunks and shards of any
size, compressed or not, of either byte order, some without all of their chunks. The digests of `ckpt hash` must be
those of the arrays that zarr-python reads, and the arrays that `ckpt convert` writes to .npz must be equal.
"""
import hashlib
import json
import os
import random
import sys
import tempfile

import numcodecs
import numpy
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from checks import check_seeds

MODELS = int(os.environ.get("MODELS", 200))
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


def random_shape(rng):
    return tuple(rng.choice((0, 1, 2, 3, 5, 8, 30)) for _ in range(rng.randrange(4)))


def compressor(rng, version):
    """Returns a random compressor for an array of VERSION; None: it is not compressed."""
    blosc = {"cname": rng.choice(("lz4", "zlib", "zstd")), "clevel": rng.randrange(1, 9)}
    if version == 2:
        return rng.choice((None, numcodecs.Zstd(), numcodecs.GZip(), numcodecs.Zlib(),
                           numcodecs.Blosc(**blosc, shuffle=rng.randrange(3))))
    shuffle = rng.choice(("noshuffle", "shuffle", "bitshuffle"))
    return rng.choice((None, ZstdCodec(), ZstdCodec(checksum=True), GzipCodec(), BloscCodec(**blosc, shuffle=shuffle)))


def add_array(rng, group, name, version):
    """Adds a random array to GROUP."""
    shape = random_shape(rng)
    dtype = numpy.dtype(rng.choice(DTYPES))
    if rng.randrange(3) == 0:
        dtype = dtype.newbyteorder(">")
    chunks = tuple(rng.randrange(1, max(2, n + 2)) for n in shape)
    options = {"chunks": chunks, "fill_value": rng.choice((0, 1)), "compressors": compressor(rng, version)}
    if version == 2:
        options["order"] = rng.choice("CF")
    elif shape and rng.randrange(3) == 0:
        options["shards"] = tuple(c * rng.randrange(1, 4) for c in chunks)
    array = group.create_array(name, shape=shape, dtype=dtype, **options)
    if rng.randrange(6):
        data = rng.randbytes(int(numpy.prod(shape, dtype=int)) * dtype.itemsize)
        data = bytes(b & 1 for b in data) if dtype.kind == "b" else data
        values = numpy.frombuffer(data, dtype).reshape(shape)
        half = tuple(slice(0, n // 2) if rng.randrange(4) == 0 else slice(None) for n in shape)
        array[half if shape else ...] = values[half] if shape else values
    return array


def digest(array):
    little = numpy.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return hashlib.sha256(little.tobytes()).hexdigest()


def check_group(checks, seed):
    rng = random.Random(f"zarr {seed}")
    version = rng.choice((2, 3))
    path = checks.path(f"group{seed}")
    root = zarr.create_group(path, zarr_format=version)
    expected = {}
    for i in range(rng.randrange(1, 8)):
        inner = rng.choice(("", "a", "a/b", "layer.0"))
        group = root.require_group(inner) if inner else root
        array = add_array(rng, group, f"x{i}", version)
        expected[f"{inner}/x{i}" if inner else f"x{i}"] = numpy.asarray(array[...])
    printed = checks.run("hash", "--json", path)
    found = {t["name"]: t.get("digest") for t in json.loads(printed)["tensors"]} if printed else None
    checks.expect(found == {name: digest(a) for name, a in expected.items()}, f"group {seed} of version {version}")
    out = checks.path(f"group{seed}.npz")
    done = checks.run("convert", path, out)
    with numpy.load(out, allow_pickle=False) if done is not None else tempfile.TemporaryFile() as f:
        good = done is not None and {k: digest(f[k]) for k in f.files} == {k: digest(a) for k, a in expected.items()}
    checks.expect(good, f"group {seed} as .npz")


def main(ckpt):
    return check_seeds(ckpt, "oracle-zarr", MODELS, check_group)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
