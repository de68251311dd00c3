"""Checks that gguf-py reads from ckpt's files what ckpt had read.

    gguf_files.py CKPT CORPUS

Takes each GGUF file of the corpus that both read, and MODELS random ones by gguf-py's writer: copies them, adds and
strips prefixes, edits pairs, splits and merges them, and converts from safetensors.
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType as Type, GGUFValueType as Value
from gguf.quants import quantize

MODELS = int(os.environ.get("MODELS", 200))
SPLIT = {"split.no": Value.UINT16, "split.count": Value.UINT16, "split.tensors.count": Value.INT32}


class Oracle:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.passed = self.failed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        sync = [] if words[0] == "ls" else ["--no-sync"]
        done = subprocess.run([self.ckpt, words[0], *sync, *words[1:]], capture_output=True, text=True, errors="replace")
        return None if done.returncode else done.stdout

    def expect(self, good, what):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print("FAILED", what)


def pairs(reader):
    """Returns {key: types and bytes of the value}, without the keys that describe the file itself."""
    return {key: ([int(t) for t in field.types], [field.parts[i].tobytes() for i in field.data])
            for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def tensors(readers):
    return [(t.name, int(t.tensor_type), [int(n) for n in t.shape], t.data.tobytes()) for r in readers for t in r.tensors]


def same(was, now, prefix=""):
    """Returns whether two models are equal, except for a PREFIX of the names of the second."""
    named = [(prefix + name, *rest) for name, *rest in tensors([was])]
    return pairs(was) == pairs(now) and named == tensors([now])


def check_split(oracle, source, was, what):
    """Checks a split into files as llama.cpp names them, and the merge of these."""
    size = max([t.n_bytes for t in was.tensors] + [1])
    if len(was.tensors) < 2 or oracle.run("convert", f"--max-shard-size={size}", source, oracle.path("s.gguf")) is None:
        return
    names = sorted(n for n in os.listdir(oracle.folder) if n.startswith("s-"))
    if not names:
        return os.remove(oracle.path("s.gguf"))
    parts = [GGUFReader(oracle.path(name)) for name in names]
    good = tensors(parts) == tensors([was])
    for i, part in enumerate(parts):
        own = pairs(part)
        values = [int(numpy.frombuffer(own[key][1][0], kind)[0])
                  for key, kind in zip(SPLIT, ("u2", "u2", "i4"))]
        good = good and values == [i, len(parts), len(was.tensors)]
        good = good and [own.pop(key)[0] for key in SPLIT] == [[int(t)] for t in SPLIT.values()]
        good = good and own == ({k: v for k, v in pairs(was).items() if k not in SPLIT} if i == 0 else {})
    oracle.expect(good, f"{what}: in parts")
    done = oracle.run("convert", oracle.path(names[0]), oracle.path("m.gguf"))
    oracle.expect(done is not None and same(was, GGUFReader(oracle.path("m.gguf"))), f"{what}: put together")


def clean(oracle):
    for name in os.listdir(oracle.folder):
        os.remove(oracle.path(name))


def check_file(oracle, source, what):
    was = GGUFReader(source)
    clean_names = all(len(t.name.encode()) < 60 for t in was.tensors)
    if oracle.run("convert", source, oracle.path("o.gguf")) is None:
        return
    oracle.expect(same(was, GGUFReader(oracle.path("o.gguf"))), f"{what}: written again")
    if was.tensors and clean_names:
        done = oracle.run("add", "x.", source, "-o", oracle.path("a.gguf"))
        oracle.expect(done is not None and same(was, GGUFReader(oracle.path("a.gguf")), "x."), f"{what}: add")
        check_split(oracle, source, was, what)


def check_pairs(oracle, source, what):
    """Sets and removes pairs by `ckpt meta`, and reads them by gguf-py."""
    done = oracle.run("meta", "-o", oracle.path("p.gguf"), source, "-u", "m.tags", "m.count=77", "new:f32=0.5", "t=x",
                      "l:[i16]=[1,-2]")
    want = pairs(GGUFReader(source))
    del want["m.tags"]
    want["m.count"] = ([int(Value.UINT32)], [numpy.uint32(77).tobytes()])
    want["new"] = ([int(Value.FLOAT32)], [numpy.float32(0.5).tobytes()])
    want["t"] = ([int(Value.STRING)], [b"x"])
    want["l"] = ([int(Value.ARRAY), int(Value.INT16)], [numpy.int16(1).tobytes(), numpy.int16(-2).tobytes()])
    oracle.expect(done is not None and pairs(GGUFReader(oracle.path("p.gguf"))) == want, f"{what}: pairs")


def random_model(path, seed):
    """Writes a model with tensors of all types that gguf-py can write, and pairs of all types."""
    rng = random.Random(seed)
    noise = numpy.random.default_rng(seed)
    writer = GGUFWriter(path, "net")
    if rng.random() < 0.3:
        writer.add_custom_alignment(rng.choice([8, 16, 64, 256]))
    writer.add_uint32("m.count", rng.randrange(2**32))
    writer.add_float64("m.rate", rng.random())
    writer.add_array("m.tags", [f"tag{i}" for i in range(rng.randrange(1, 200))])
    writer.add_array("m.sizes", [rng.randrange(1000) for _ in range(rng.randrange(1, 9))])
    kinds = [Type.F32, Type.F16, Type.F64, Type.I8, Type.I32, Type.I64, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1]
    for i in range(rng.randrange(1, 12)):
        shape = [rng.randrange(1, 5) for _ in range(rng.randrange(3))] + [32 * rng.randrange(1, 4)]
        kind = rng.choice(kinds)
        data = noise.standard_normal(shape).astype(numpy.float32)
        if kind in (Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1):
            writer.add_tensor(f"blk.{i}.w", quantize(data, kind), raw_dtype=kind)
        else:
            names = {Type.F32: "f4", Type.F16: "f2", Type.F64: "f8", Type.I8: "i1", Type.I32: "i4", Type.I64: "i8"}
            writer.add_tensor(f"blk.{i}.w", (data * 9).astype(names[kind]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_safetensors(oracle, source, what):
    """Converts a model to safetensors and back, which must keep all tensors and set the architecture given."""
    was = GGUFReader(source)
    if any(t.tensor_type not in (Type.F32, Type.F16, Type.F64, Type.I8, Type.I32, Type.I64) for t in was.tensors):
        return
    oracle.run("convert", source, oracle.path("f.safetensors"))
    done = oracle.run("convert", "--architecture=net", oracle.path("f.safetensors"), oracle.path("f.gguf"))
    now = GGUFReader(oracle.path("f.gguf")) if done is not None else None
    good = now is not None and sorted(tensors([now])) == sorted(tensors([was]))
    oracle.expect(good and now.fields["general.architecture"].contents() == "net", f"{what}: of safetensors")


def main(ckpt, corpus):
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(ckpt, folder)
        for below, _, names in sorted(os.walk(os.path.join(corpus, "gguf"))):
            for name in sorted(names):
                source = os.path.join(below, name)
                if oracle.run("ls", source) is None:  # gguf-py would allocate all memory for a count that is too large
                    continue
                try:
                    split = "split.count" in GGUFReader(source).fields
                    big = GGUFReader(source).byte_order == "S"
                except Exception:  # gguf-py raises various exceptions for malformed files
                    continue
                if not split and not big and name != "rand_Q8_1.gguf":
                    check_file(oracle, source, name)
                clean(oracle)
        for seed in range(MODELS):
            source = oracle.path("model.gguf")
            random_model(source, seed)
            check_file(oracle, source, f"model {seed}")
            check_pairs(oracle, source, f"model {seed}")
            check_safetensors(oracle, source, f"model {seed}")
            clean(oracle)
        print(f"oracle-gguf: {oracle.passed} passed, {oracle.failed} failed")
        return oracle.failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
