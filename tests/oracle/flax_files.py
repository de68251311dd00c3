"""Checks that Python's msgpack, and flax if it is installed, load what ckpt has written to .msgpack files.

    flax_files.py CKPT

Packs MODELS random nested maps as flax.serialization does: a copy by ckpt must have the same bytes. As many times,
ckpt renames a key of a small map, and converts a random safetensors file to .msgpack, which must hold the same arrays.
"""
import json
import os
import random
import struct
import sys

import msgpack

from checks import check_seeds

try:
    import flax.serialization
    import numpy
except ImportError:
    flax = None

MODELS = int(os.environ.get("MODELS", 200))
WIDTHS = {  # bytes of an element
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int64": 8,
    "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "complex64": 8}
SAFETENSORS_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64"}
ARRAY, COMPLEX, SCALAR = 1, 2, 3  # the types of extension objects in flax.serialization


def random_array(rng, scalar=False):
    """Returns [shape, dtype, bytes] as flax stores an array, with random bytes."""
    shape = [] if scalar else [rng.choice((0, 1, 2, 3, 7, 200)) for _ in range(rng.randrange(4))]
    dtype = rng.choice(list(WIDTHS))
    nbytes = WIDTHS[dtype]
    for size in shape:
        nbytes *= size
    return [shape, dtype, bytes(rng.randrange(2) for _ in range(nbytes)) if dtype == "bool" else rng.randbytes(nbytes)]


def pack_array(rng):
    return msgpack.ExtType(ARRAY, msgpack.packb(random_array(rng)))


def random_value(rng, depth):
    """Returns a value of any kind that flax stores, with maps and lists nested at most DEPTH deep."""
    kind = rng.randrange(16)
    if kind < 5:
        return pack_array(rng)
    if kind < 8 and depth:
        return random_map(rng, depth - 1)
    if kind == 8 and depth:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(20))]
    if kind == 9:
        return msgpack.ExtType(SCALAR, msgpack.packb(random_array(rng, scalar=True)))
    if kind == 10:
        return msgpack.ExtType(COMPLEX, msgpack.packb((rng.random(), -rng.random())))
    if kind == 11:
        return rng.choice((rng.randrange(-300, 300), rng.randrange(-2**63, 2**64)))
    return rng.choice((None, True, False, rng.random(), "x" * rng.randrange(400), rng.randbytes(rng.randrange(400))))


def random_map(rng, depth):
    return {f"{rng.choice(('dense', 'a/b', 'a.b', 'Conv'))}_{i}": random_value(rng, depth)
            for i in range(rng.randrange(40))}


def unpack(data):
    """Unpacks DATA, with each extension object as (type, unpacked content)."""
    return msgpack.unpackb(data, ext_hook=lambda code, data: (code, msgpack.unpackb(data)), strict_map_key=False)


def safetensors_file(arrays):
    """Returns the bytes of a safetensors file with ARRAYS, {name: [shape, dtype, bytes]}."""
    header, data = {}, b""
    for name, (shape, dtype, elements) in arrays.items():
        offsets = [len(data), len(data) + len(elements)]
        header[name] = {"dtype": SAFETENSORS_DTYPES[dtype], "shape": shape, "data_offsets": offsets}
        data += elements
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def run_on_file(checks, suffix, data, command, *words):
    """Returns the .msgpack that COMMAND of ckpt makes of a file with DATA, or None if it fails."""
    source, out = checks.path("in" + suffix), checks.path("out.msgpack")
    with open(source, "wb") as f:
        f.write(data)
    if checks.run(command, *words, source, "-o", out) is None:
        return None
    with open(out, "rb") as f:
        return f.read()


def flax_loads(packed, arrays):
    """Returns whether flax loads PACKED as a map of ARRAYS."""
    loaded = flax.serialization.msgpack_restore(packed)
    return list(loaded) == list(arrays) and all(
        (list(loaded[name].shape), loaded[name].dtype.name, numpy.asarray(loaded[name]).tobytes()) == tuple(arrays[name])
        for name in arrays)


def check_model(checks, seed):
    """Checks a copy of a random map, a renamed key, and a conversion from safetensors."""
    rng = random.Random(seed)
    model = {"params": {"w": pack_array(rng), **random_map(rng, 3)}, **random_map(rng, 2)}
    packed = msgpack.packb(model, strict_types=True)
    checks.expect(run_on_file(checks, ".msgpack", packed, "convert") == packed, f"model {seed}: copied")
    weights = {name: pack_array(rng) for name in ("w", "bias")}
    small = {"params": weights, "step": random_value(rng, 0)}
    renamed = run_on_file(checks, ".msgpack", msgpack.packb(small), "rename", "-s", "^w$=>kernel")
    small["params"] = {"kernel": weights["w"], "bias": weights["bias"]}
    checks.expect(renamed == msgpack.packb(small), f"model {seed}: renamed")
    arrays = {f"layer.{i}.{rng.choice('wb')}": random_array(rng) for i in range(rng.randrange(1, 30))}
    packed = run_on_file(checks, ".safetensors", safetensors_file(arrays), "convert")
    good = packed is not None and unpack(packed) == {name: (ARRAY, a) for name, a in arrays.items()}
    checks.expect(good, f"model {seed}: from safetensors")
    if flax:
        checks.expect(packed is not None and flax_loads(packed, arrays), f"model {seed}: loaded by flax")


def main(ckpt):
    if not flax:
        print("oracle-flax: no flax here; msgpack alone reads what is written")
    return check_seeds(ckpt, "oracle-flax", MODELS, check_model)


sys.exit(main(sys.argv[1]))
