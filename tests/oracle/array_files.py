"""Checks that numpy and the official safetensors library read from ckpt's files what ckpt had read.

    array_files.py CKPT CORPUS

Converts MODELS random .npz files of numpy and as many .safetensors files of the official library to both formats, and
one array of each to .npy; numpy loads with allow_pickle=False. Then converts each file of CORPUS with tensors of other
formats to safetensors, where the library must load the bytes whose digests `ckpt hash` prints for the source;
tf.train.Checkpoint's object graph is not compared.
"""
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import safetensors
import safetensors.numpy

MODELS = int(os.environ.get("MODELS", 200))
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]
FORMATS = ["flax", "gguf", "keras", "mxnet", "numpy", "onnx", "orbax", "paddle", "tensorflow"]


class Oracle:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.passed = self.failed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        return subprocess.run([self.ckpt, *words], capture_output=True, text=True, errors="replace")

    def convert(self, *words):
        done = self.run("convert", "-q", "-f", "--no-sync", *words)
        if done.returncode:
            print(done.stderr.strip())
        return done.returncode == 0

    def expect(self, good, what):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print("FAILED", what)


def array(some, order=True):
    """Returns a random array; ORDER: with random byte order and memory order, too."""
    kind = some.choice(DTYPES)
    shape = [some.choice((0, 1, 2, 3, 7, 200)) for _ in range(some.randrange(4))]
    n = int(numpy.prod(shape, dtype=int)) * numpy.dtype(kind).itemsize
    bytes_ = bytes(some.randrange(2) for _ in range(n)) if kind == "?" else some.randbytes(n)
    made = numpy.frombuffer(bytes_, kind).reshape(shape)
    if order and some.randrange(3) == 0:
        made = made.astype(made.dtype.newbyteorder(">"))
    return numpy.asfortranarray(made) if order and some.randrange(3) == 0 else made


def same(was, now):
    """Returns whether two models have the same names, shapes, element types (in any byte order) and elements."""
    return list(was) == list(now) and all(
        was[k].shape == now[k].shape and was[k].dtype.newbyteorder("=") == now[k].dtype.newbyteorder("=")
        and was[k].astype(was[k].dtype.newbyteorder("<")).tobytes() == now[k].astype(now[k].dtype.newbyteorder("<")).tobytes()
        for k in was)


def in_order(model):
    return {name: model[name] for name in sorted(model)}


def load(path):
    if path.endswith(".safetensors"):
        return in_order(safetensors.numpy.load_file(path))
    with numpy.load(path, allow_pickle=False) as f:
        return in_order({name: f[name] for name in f.files})


def check_model(oracle, seed, suffix):
    some = random.Random(f"{seed} {suffix}")
    model = in_order({f"layer.{i}.{some.choice('wb')}": array(some, suffix == ".npz") for i in range(some.randrange(1, 20))})
    source = oracle.path("in" + suffix)
    if suffix == ".npz":
        some.choice((numpy.savez, numpy.savez_compressed))(source, **model)
    else:
        safetensors.numpy.save_file(model, source)
    for what, out, more in ((".safetensors", "o.safetensors", []), (".npz", "o.npz", []), ("deflated", "d.npz", ["--compress"])):
        done = oracle.convert(*more, source, oracle.path(out))
        oracle.expect(done and same(model, load(oracle.path(out))), f"model {seed}{suffix}: {what}")
    name = some.choice(list(model))
    done = oracle.convert("--keep", name, source, oracle.path("o.npy"))
    good = done and same({name: model[name]}, {name: numpy.load(oracle.path("o.npy"), allow_pickle=False)})
    oracle.expect(good, f"model {seed}{suffix}: {name} as .npy")


def digests(oracle, path):
    """Returns {name: SHA-256} as `ckpt hash` prints them; None: it refuses PATH."""
    done = oracle.run("hash", "--json", path)
    if done.returncode:
        return None
    return {t["name"]: t["digest"] for line in done.stdout.splitlines() for t in json.loads(line).get("tensors", [])
            if "digest" in t and t["name"] != "_CHECKPOINTABLE_OBJECT_GRAPH"}


def check_corpus(oracle, path):
    """Converts PATH to safetensors and compares what the library reads with the source."""
    out = oracle.path("c.safetensors")
    was = digests(oracle, path)
    if not was or oracle.run("convert", "-q", "-f", "--no-sync", "--root", "", "--ties", "copy", path, out).returncode:
        return
    with safetensors.safe_open(out, "np") as f, open(out, "rb") as raw:
        header = json.loads(raw.read(int.from_bytes(raw.read(8), "little")))
        begin = raw.tell()
        now = {}
        for name in f.keys():
            at, end = header[name]["data_offsets"]
            raw.seek(begin + at)
            now[name] = hashlib.sha256(raw.read(end - at)).hexdigest()
    oracle.expect(was == now, f"{path}: as safetensors")


def main(ckpt, corpus):
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(ckpt, folder)
        for seed in range(MODELS):
            check_model(oracle, seed, ".npz")
            check_model(oracle, seed, ".safetensors")
        print(f"oracle-numpy: {oracle.passed} passed, {oracle.failed} failed")
        models = oracle.failed
        oracle.passed = oracle.failed = 0
        for name in FORMATS:
            for below, _, names in sorted(os.walk(os.path.join(corpus, name))):
                for file in sorted(names):
                    check_corpus(oracle, os.path.join(below, file))
        print(f"oracle-safetensors: {oracle.passed} passed, {oracle.failed} failed")
        return models + oracle.failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
