"""Checks that Python's msgpack, and flax if it is installed, read from ckpt's files what ckpt had read.

    flax_files.py CKPT

Packs MODELS random maps of maps as flax.serialization does: ckpt must write the same bytes, and rename a key of a small
one. Converts as many random safetensors files to .msgpack, with their names as keys, which flax must load.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import msgpack

try:
    import flax.serialization
    import numpy
except ImportError:
    flax = None

MODELS = int(os.environ.get("MODELS", 200))
WIDTHS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int64": 8,
          "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "complex64": 8}
SAFETENSORS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
               "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
               "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64"}
ARRAY, COMPLEX, SCALAR = 1, 2, 3


def array(some, scalar=False):
    """Returns [shape, dtype, bytes] as flax stores an array, with random bytes."""
    shape = [] if scalar else [some.choice((0, 1, 2, 3, 7, 200)) for _ in range(some.randrange(4))]
    dtype = some.choice(list(WIDTHS))
    n = WIDTHS[dtype]
    for size in shape:
        n *= size
    return [shape, dtype, bytes(some.randrange(2) for _ in range(n)) if dtype == "bool" else some.randbytes(n)]


def value(some, depth):
    kind = some.randrange(16)
    if kind < 5:
        return msgpack.ExtType(ARRAY, msgpack.packb(array(some)))
    if kind < 8 and depth:
        return tree(some, depth - 1)
    if kind == 8 and depth:
        return [value(some, depth - 1) for _ in range(some.randrange(20))]
    if kind == 9:
        return msgpack.ExtType(SCALAR, msgpack.packb(array(some, scalar=True)))
    if kind == 10:
        return msgpack.ExtType(COMPLEX, msgpack.packb((some.random(), -some.random())))
    if kind == 11:
        return some.choice((some.randrange(-300, 300), some.randrange(-2**63, 2**64)))
    return some.choice((None, True, False, some.random(), "x" * some.randrange(400), some.randbytes(some.randrange(400))))


def tree(some, depth):
    return {f"{some.choice(('dense', 'a/b', 'a.b', 'Conv'))}_{i}": value(some, depth) for i in range(some.randrange(40))}


def unpack(bytes_):
    return msgpack.unpackb(bytes_, ext_hook=lambda code, data: (code, msgpack.unpackb(data)), strict_map_key=False)


def safetensors(arrays):
    header, data = {}, b""
    for name, (shape, dtype, bytes_) in arrays.items():
        header[name] = {"dtype": SAFETENSORS[dtype], "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def convert(ckpt, folder, suffix, given, words):
    """Returns what the command WORDS makes of GIVEN; None: it was refused."""
    source, out = os.path.join(folder, "in" + suffix), os.path.join(folder, "out.msgpack")
    with open(source, "wb") as f:
        f.write(given)
    done = subprocess.run([ckpt, words[0], "-q", "-f", "--no-sync", *words[1:], source, "-o", out], capture_output=True)
    if done.returncode:
        print(done.stderr.decode())
        return None
    with open(out, "rb") as f:
        return f.read()


def restores(made, arrays):
    """Returns whether flax loads MADE as ARRAYS, in one map."""
    loaded = flax.serialization.msgpack_restore(made)
    return list(loaded) == list(arrays) and all(
        (list(loaded[name].shape), loaded[name].dtype.name, numpy.asarray(loaded[name]).tobytes()) == tuple(arrays[name])
        for name in arrays)


def main(ckpt):
    checks = failed = 0
    if not flax:
        print("oracle-flax: no flax here; msgpack alone reads what is written")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(MODELS):
            some = random.Random(seed)
            model = {"params": {"w": msgpack.ExtType(ARRAY, msgpack.packb(array(some))), **tree(some, 3)}, **tree(some, 2)}
            packed = msgpack.packb(model, strict_types=True)
            again = convert(ckpt, folder, ".msgpack", packed, ["convert"])
            weights = {name: msgpack.ExtType(ARRAY, msgpack.packb(array(some))) for name in ("w", "bias")}
            few = {"params": weights, "step": value(some, 0)}
            renamed = convert(ckpt, folder, ".msgpack", msgpack.packb(few), ["rename", "-s", "^w$=>kernel"])
            few["params"] = {"kernel": weights["w"], "bias": weights["bias"]}
            arrays = {f"layer.{i}.{some.choice('wb')}": array(some) for i in range(some.randrange(1, 30))}
            made = convert(ckpt, folder, ".safetensors", safetensors(arrays), ["convert"])
            good = {"again": again == packed,
                    "renamed": renamed == msgpack.packb(few),
                    "made": made is not None and unpack(made) == {name: (ARRAY, x) for name, x in arrays.items()}}
            if flax:
                good["restored"] = made is not None and restores(made, arrays)
            checks += len(good)
            for what, is_good in good.items():
                if not is_good:
                    failed += 1
                    print(f"FAILED model {seed}: {what}")
    print(f"oracle-flax: {checks - failed} passed, {failed} failed")
    return failed != 0


sys.exit(main(sys.argv[1]))
