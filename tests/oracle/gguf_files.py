"""Checks that gguf-py reads the same tensors and key-value pairs from a GGUF file and from what ckpt makes of it.

    gguf_files.py CKPT CORPUS

Takes each GGUF file of the corpus that both ckpt and gguf-py can read, and MODELS random files that gguf-py writes.
ckpt copies each file, adds a prefix to its names, and splits and merges it. If the file is a random one, ckpt also
edits its pairs, and converts it to safetensors and back.
"""
import os
import random
import sys
import tempfile

import numpy
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType as Type, GGUFValueType as Value
from gguf.quants import quantize

from checks import Checks

MODELS = int(os.environ.get("MODELS", 200))
DTYPES = {Type.F32: "f4", Type.F16: "f2", Type.F64: "f8", Type.I8: "i1", Type.I32: "i4", Type.I64: "i8"}  # for numpy
QUANTIZED = [Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1]
SPLIT_KEYS = {"split.no": Value.UINT16, "split.count": Value.UINT16, "split.tensors.count": Value.INT32}


def pairs(reader):
    """Returns {key: (types, bytes of the values)}, without the fields that gguf-py makes of the file header."""
    return {key: ([int(t) for t in field.types], [field.parts[i].tobytes() for i in field.data])
            for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def tensors(readers):
    """Returns (name, type, shape, bytes) of each tensor of READERS."""
    return [(t.name, int(t.tensor_type), [int(n) for n in t.shape], t.data.tobytes()) for r in readers for t in r.tensors]


def is_same(model, other, prefix=""):
    """Returns whether OTHER is equal to MODEL with PREFIX added to the names of its tensors."""
    renamed = [(prefix + name, *rest) for name, *rest in tensors([model])]
    return pairs(model) == pairs(other) and renamed == tensors([other])


def check_split(checks, source, model, what):
    """Splits SOURCE into files named as llama.cpp names them, and merges these."""
    size = max([t.n_bytes for t in model.tensors] + [1])  # so that every tensor fits into one shard
    if len(model.tensors) < 2:
        return
    if checks.run("convert", f"--max-shard-size={size}", source, checks.path("split.gguf")) is None:
        return
    names = sorted(n for n in os.listdir(checks.folder) if n.startswith("split-"))
    if not names:
        return os.remove(checks.path("split.gguf"))  # all tensors fit into one file
    shards = [GGUFReader(checks.path(name)) for name in names]
    good = tensors(shards) == tensors([model])
    for i, shard in enumerate(shards):
        found = pairs(shard)
        split_pairs = [found.pop(key) for key in SPLIT_KEYS]
        numbers = [int(numpy.frombuffer(values[0], dtype)[0])
                   for (_, values), dtype in zip(split_pairs, ("u2", "u2", "i4"))]
        good = good and numbers == [i, len(shards), len(model.tensors)]
        good = good and [types for types, _ in split_pairs] == [[int(t)] for t in SPLIT_KEYS.values()]
        other_pairs = {key: value for key, value in pairs(model).items() if key not in SPLIT_KEYS}
        good = good and found == (other_pairs if i == 0 else {})  # only the first shard has the model's pairs
    checks.expect(good, f"{what}: split")
    merged = checks.path("merged.gguf")
    done = checks.run("convert", checks.path(names[0]), merged)
    checks.expect(done is not None and is_same(model, GGUFReader(merged)), f"{what}: merged")


def remove_files(checks):
    for name in os.listdir(checks.folder):
        os.remove(checks.path(name))


def check_file(checks, source, what):
    """Checks what ckpt makes of SOURCE: a copy, a file with a prefix added to names, and shards. WHAT is the title."""
    model, copy, added = GGUFReader(source), checks.path("copy.gguf"), checks.path("added.gguf")
    if checks.run("convert", source, copy) is None:
        return
    checks.expect(is_same(model, GGUFReader(copy)), f"{what}: copied")
    # GGUF limits names to 64 bytes
    if model.tensors and all(len(t.name.encode()) < 60 for t in model.tensors):
        done = checks.run("add", "x.", source, "-o", added)
        checks.expect(done is not None and is_same(model, GGUFReader(added), "x."), f"{what}: prefix added")
        check_split(checks, source, model, what)


def check_pairs(checks, source, what):
    """Sets and removes pairs by `ckpt meta`."""
    out = checks.path("pairs.gguf")
    done = checks.run("meta", "-o", out, source, "-u", "m.tags", "m.count=77", "new:f32=0.5", "t=x", "l:[i16]=[1,-2]")
    expected = pairs(GGUFReader(source))
    del expected["m.tags"]
    expected["m.count"] = ([int(Value.UINT32)], [numpy.uint32(77).tobytes()])
    expected["new"] = ([int(Value.FLOAT32)], [numpy.float32(0.5).tobytes()])
    expected["t"] = ([int(Value.STRING)], [b"x"])
    expected["l"] = ([int(Value.ARRAY), int(Value.INT16)], [numpy.int16(1).tobytes(), numpy.int16(-2).tobytes()])
    checks.expect(done is not None and pairs(GGUFReader(out)) == expected, f"{what}: pairs")


def write_random_model(path, seed):
    """Writes a model with random tensors and pairs of many types."""
    rng = random.Random(seed)
    noise = numpy.random.default_rng(seed)
    writer = GGUFWriter(path, "net")
    if rng.random() < 0.3:
        writer.add_custom_alignment(rng.choice([8, 16, 64, 256]))
    writer.add_uint32("m.count", rng.randrange(2**32))
    writer.add_float64("m.rate", rng.random())
    writer.add_array("m.tags", [f"tag{i}" for i in range(rng.randrange(1, 200))])
    writer.add_array("m.sizes", [rng.randrange(1000) for _ in range(rng.randrange(1, 9))])
    for i in range(rng.randrange(1, 12)):
        shape = [rng.randrange(1, 5) for _ in range(rng.randrange(3))] + [32 * rng.randrange(1, 4)]
        dtype = rng.choice([*DTYPES, *QUANTIZED])
        data = noise.standard_normal(shape).astype(numpy.float32)
        if dtype in QUANTIZED:
            writer.add_tensor(f"blk.{i}.w", quantize(data, dtype), raw_dtype=dtype)
        else:
            writer.add_tensor(f"blk.{i}.w", (data * 9).astype(DTYPES[dtype]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_safetensors(checks, source, what):
    """Converts SOURCE to safetensors and back, which must keep all tensors and set the architecture given."""
    model, converted, back = GGUFReader(source), checks.path("converted.safetensors"), checks.path("back.gguf")
    if any(t.tensor_type not in DTYPES for t in model.tensors):
        return
    checks.run("convert", source, converted)
    done = checks.run("convert", "--architecture=net", converted, back)
    result = GGUFReader(back) if done is not None else None
    good = result is not None and sorted(tensors([result])) == sorted(tensors([model]))
    checks.expect(good and result.fields["general.architecture"].contents() == "net", f"{what}: from safetensors")


def main(ckpt, corpus):
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(ckpt, folder)
        for parent, _, names in sorted(os.walk(os.path.join(corpus, "gguf"))):
            for name in sorted(names):
                source = os.path.join(parent, name)
                if checks.run("ls", source) is None:  # gguf-py allocates memory for any count of pairs or tensors
                    continue
                try:
                    reader = GGUFReader(source)
                except Exception:  # gguf-py raises various exceptions for malformed files
                    continue
                is_split, is_big_endian = "split.count" in reader.fields, reader.byte_order == "S"
                if not is_split and not is_big_endian and name != "rand_Q8_1.gguf":
                    check_file(checks, source, name)
                remove_files(checks)
        for seed in range(MODELS):
            source = checks.path("model.gguf")
            write_random_model(source, seed)
            for check in check_file, check_pairs, check_safetensors:
                check(checks, source, f"model {seed}")
            remove_files(checks)
        checks.print_summary("oracle-gguf")
        return checks.failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
