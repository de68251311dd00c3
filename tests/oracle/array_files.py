"""Checks that numpy and the official safetensors library load the arrays that ckpt has converted.

    array_files.py CKPT CORPUS

numpy writes MODELS random .npz files, and the safetensors library as many .safetensors files. ckpt converts each to both
formats, and one of its arrays to .npy. The libraries must load equal arrays, numpy with allow_pickle=False. Then ckpt
converts each file in the folders FORMATS of CORPUS to safetensors: the bytes of each tensor must have the digest that
`ckpt hash` prints for the source. The object graph of tf.train.Checkpoint is not compared.
"""
import hashlib
import json
import os
import random
import sys
import tempfile

import numpy
import safetensors
import safetensors.numpy

from checks import Checks

MODELS = int(os.environ.get("MODELS", 200))
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]
FORMATS = ["flax", "gguf", "keras", "mindspore", "mxnet", "numpy", "onnx", "openvino", "orbax", "paddle", "tensordict", "tensorflow", "tensorizer",
           "tfjs", "thinc"]


def random_array(rng, any_order):
    """Returns a random array. If ANY_ORDER, it may be big-endian or in Fortran order."""
    dtype = rng.choice(DTYPES)
    shape = [rng.choice((0, 1, 2, 3, 7, 200)) for _ in range(rng.randrange(4))]
    nbytes = int(numpy.prod(shape, dtype=int)) * numpy.dtype(dtype).itemsize
    data = bytes(rng.randrange(2) for _ in range(nbytes)) if dtype == "?" else rng.randbytes(nbytes)
    array = numpy.frombuffer(data, dtype).reshape(shape)
    if any_order and rng.randrange(3) == 0:
        array = array.astype(array.dtype.newbyteorder(">"))
    return numpy.asfortranarray(array) if any_order and rng.randrange(3) == 0 else array


def normalized(array):
    """Returns the shape, the dtype and the elements of ARRAY, in little-endian byte order."""
    array = array.astype(array.dtype.newbyteorder("<"))
    return array.shape, array.dtype, array.tobytes()


def have_equal_arrays(model, other):
    """Returns whether both models have equal arrays by the same names in the same order; byte orders may differ."""
    return list(model) == list(other) and all(normalized(model[k]) == normalized(other[k]) for k in model)


def sort_names(model):
    return {name: model[name] for name in sorted(model)}


def load(path):
    if path.endswith(".safetensors"):
        return sort_names(safetensors.numpy.load_file(path))
    with numpy.load(path, allow_pickle=False) as f:
        return sort_names({name: f[name] for name in f.files})


def check_model(checks, seed, suffix):
    """Makes a random model in a file with SUFFIX, and checks what ckpt converts it to."""
    rng = random.Random(f"{seed} {suffix}")
    model = sort_names({f"layer.{i}.{rng.choice('wb')}": random_array(rng, any_order=suffix == ".npz")
                        for i in range(rng.randrange(1, 20))})
    source = checks.path("in" + suffix)
    if suffix == ".npz":
        rng.choice((numpy.savez, numpy.savez_compressed))(source, **model)
    else:
        safetensors.numpy.save_file(model, source)
    for what, out_name, options in ((".safetensors", "out.safetensors", []), (".npz", "out.npz", []),
                                    ("compressed .npz", "compressed.npz", ["--compress"])):
        out = checks.path(out_name)
        done = checks.run("convert", *options, source, out)
        checks.expect(done is not None and have_equal_arrays(model, load(out)), f"model {seed}{suffix} as {what}")
    name, out = rng.choice(list(model)), checks.path("out.npy")
    done = checks.run("convert", "--keep", name, source, out)
    good = done is not None and have_equal_arrays({name: model[name]}, {name: numpy.load(out, allow_pickle=False)})
    checks.expect(good, f"model {seed}{suffix}: {name} as .npy")


def digests(checks, path):
    """Returns {name: SHA-256} as `ckpt hash` prints it, or None if it refuses PATH."""
    printed = checks.run("hash", "--json", path)
    if printed is None:
        return None
    return {t["name"]: t["digest"] for line in printed.splitlines() for t in json.loads(line).get("tensors", [])
            if "digest" in t and t["name"] != "_CHECKPOINTABLE_OBJECT_GRAPH"}


def check_corpus_file(checks, path):
    """Converts PATH to a safetensors file, opens that with the library, and compares the digests of all tensors."""
    out = checks.path("out.safetensors")
    expected = digests(checks, path)
    if not expected or checks.run("convert", "--root", "", "--ties", "copy", path, out) is None:
        return
    with safetensors.safe_open(out, "np") as f, open(out, "rb") as raw:
        header = json.loads(raw.read(int.from_bytes(raw.read(8), "little")))
        data_begin = raw.tell()
        loaded = {}
        for name in f.keys():
            begin, end = header[name]["data_offsets"]
            raw.seek(data_begin + begin)
            loaded[name] = hashlib.sha256(raw.read(end - begin)).hexdigest()
    checks.expect(expected == loaded, f"{path} as .safetensors")


def main(ckpt, corpus):
    with tempfile.TemporaryDirectory() as folder:
        models, files = Checks(ckpt, folder), Checks(ckpt, folder)
        for seed in range(MODELS):
            check_model(models, seed, ".npz")
            check_model(models, seed, ".safetensors")
        models.print_summary("oracle-numpy")
        for name in FORMATS:
            for parent, _, names in sorted(os.walk(os.path.join(corpus, name))):
                for file in sorted(names):
                    check_corpus_file(files, os.path.join(parent, file))
        files.print_summary("oracle-safetensors")
        return models.failed + files.failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
