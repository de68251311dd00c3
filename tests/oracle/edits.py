"""Compares what `ckpt edit` makes of random state dicts with what torch makes of them, byte by byte.

    edits.py CKPT

MODELS state dicts are saved as .pt, .safetensors, a set of shards, a distributed checkpoint or big-endian arrays of NumPy.
Up to six random rules are applied to each, by ckpt and by the functions of torch of the same name, and the output is a .pt
or .safetensors. One in 15 has a tensor of MB, which is larger than what is read at a time.
"""
import atexit
import fnmatch
import json
import math
import os
import random
import shutil
import sys
import tempfile

import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from checks import check_seeds

MODELS = int(os.environ.get("MODELS", 2000))
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
          torch.float8_e4m3fn, torch.complex64]
OTHERS = tempfile.mkdtemp()  # what `set` brings
atexit.register(shutil.rmtree, OTHERS)


def random_tensor(rng, shape, dtype):
    count = 1
    for size in shape:
        count *= size
    width = torch.empty(0, dtype=dtype).element_size()
    data = bytearray(rng.randbytes(count * width))
    if dtype == torch.bool:
        data = bytearray(byte % 2 for byte in data)
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


def stored_anyhow(rng, tensor):
    """Returns TENSOR, perhaps with other strides or as a view of a larger storage."""
    kind = rng.randrange(4)
    if kind == 0 and tensor.ndim > 1:
        dims = list(range(tensor.ndim))
        rng.shuffle(dims)
        back = [dims.index(k) for k in range(tensor.ndim)]
        return tensor.permute(dims).contiguous().permute(back)
    if kind == 1 and tensor.ndim:
        return torch.cat([tensor, tensor])[:tensor.shape[0]]
    return tensor


def random_state(rng):
    state, dtype, width = {}, rng.choice(DTYPES), rng.choice((0, 1, 2, 3, 6)) * rng.randrange(1, 4)
    for i in range(rng.randrange(1, 4)):
        for name in "qkv":
            state[f"h.{i}.{name}.weight"] = random_tensor(rng, (rng.choice((0, 2, 4, 6)), width), dtype)
        shape = [rng.choice((1, 2, 3, 4)) for _ in range(rng.randrange(4))]
        for e in range(rng.randrange(1, 12)):
            state[f"h.{i}.experts.{e}.w"] = random_tensor(rng, shape, dtype)
        state[f"h.{i}.cube"] = random_tensor(rng, [rng.choice((1, 2, 4, 6)) for _ in range(3)], rng.choice(DTYPES))
    state["head.weight"] = random_tensor(rng, (rng.randrange(1, 9), 3), rng.choice(DTYPES))
    state["scalar"] = random_tensor(rng, (), rng.choice(DTYPES))
    if rng.randrange(15) == 0:
        shape = rng.choice(((1021, 1301), (2, 70001, 5), (97, 130, 71), (3000, 64, 12), (5, 1 << 18)))
        state["big"] = random_tensor(rng, shape, rng.choice(DTYPES))
    state = {name: stored_anyhow(rng, tensor) for name, tensor in state.items()}
    if rng.randrange(3) == 0:
        state["tied.weight"] = state["head.weight"]
    if rng.randrange(6) == 0:
        state["h.1.cube"] = state["h.0.cube"]
    return state


def layers(state, suffix):
    return [i for i in range(3) if f"h.{i}.{suffix}" in state]


# Each of these applies a random rule to STATE and returns its text, or None if it does not fit.

def concat(rng, state):
    found = layers(state, "q.weight")
    if not found or any(f"h.{i}.{n}.weight" not in state for i in found for n in "kv"):
        return None
    for i in found:
        state[f"h.{i}.qkv"] = torch.cat([state.pop(f"h.{i}.{n}.weight") for n in "qkv"])
    return "concat h.{i}.q.weight, h.{i}.k.weight, h.{i}.v.weight dim 0 -> h.{i}.qkv"


def stack(rng, state):
    found = layers(state, "experts.0.w")
    if not found:
        return None
    dim = rng.randrange(min(state[f"h.{i}.experts.0.w"].ndim for i in found) + 1)
    for i in found:
        n = sum(f"h.{i}.experts.{e}.w" in state for e in range(12))
        state[f"h.{i}.experts"] = torch.stack([state.pop(f"h.{i}.experts.{e}.w") for e in range(n)], dim)
    return "stack h.{i}.experts.{e}.w dim %d -> h.{i}.experts" % dim


def unstack(rng, state):
    found = layers(state, "cube")
    dim = rng.randrange(-1, 3)
    if not found or any(not state[f"h.{i}.cube"].shape[dim] for i in found):
        return None
    for i in found:
        for e, part in enumerate(state.pop(f"h.{i}.cube").unbind(dim)):
            state[f"h.{i}.slices.{e}"] = part
    return "unstack h.{i}.cube dim %d -> h.{i}.slices.{e}" % dim


def split(rng, state):
    size = state["head.weight"].shape[0] if "head.weight" in state else 0
    if not size:
        return None
    first = rng.randrange(size + 1)
    a, b = state.pop("head.weight").split([first, size - first])
    state["a"], state["b"] = a, b
    return f"split head.weight dim 0 sizes {first} {size - first} -> a, b"


def split_equally(rng, state):
    found = layers(state, "cube")
    if not found or any(state[f"h.{i}.cube"].shape[1] % 2 for i in found):
        return None
    for i in found:
        state[f"h.{i}.left"], state[f"h.{i}.right"] = state.pop(f"h.{i}.cube").chunk(2, 1)
    return "split *.cube dim 1 -> *.left, *.right"


def change_cube(rng, state, rule, change):
    found = layers(state, "cube")
    for i in found:
        state[f"h.{i}.cube"] = change(state[f"h.{i}.cube"])
    return f"{rule[0]} h.{{i}}.cube {rule[1]}" if found else None


def permute(rng, state):
    order = rng.sample(range(3), 3)
    return change_cube(rng, state, ("permute", " ".join(map(str, order))), lambda t: t.permute(order))


def transpose(rng, state):
    a, b = rng.randrange(-3, 3), rng.randrange(-3, 3)
    return change_cube(rng, state, ("transpose", f"dims {a} {b}"), lambda t: t.transpose(a, b))


def slice_some(rng, state):
    start, stop, step = rng.randrange(-3, 3), rng.randrange(-1, 9), rng.randrange(1, 3)
    return change_cube(rng, state, ("slice", f"[..., {start}:{stop}:{step}]"), lambda t: t[..., start:stop:step]) \
        if all(state[f"h.{i}.cube"].numel() for i in layers(state, "cube")) else None


def unflatten(rng, state):
    """Divides a dimension in two, and joins two dimensions, so that there are three again."""
    dim, first, size = rng.randrange(-3, 3), rng.randrange(3), rng.choice((1, 2, 3))
    if any(state[f"h.{i}.cube"].shape[dim] % size or not state[f"h.{i}.cube"].numel() for i in layers(state, "cube")):
        return None
    sizes = rng.choice(((size, -1), (-1, size)))
    return change_cube(rng, state, ("unflatten", f"dim {dim} [{sizes[0]}, {sizes[1]}] ; flatten dims {first} {first - 3}"),
                       lambda t: t.unflatten(dim, sizes).flatten(first, first - 3))


def pad(rng, state):
    if "head.weight" not in state:
        return None
    tensor = state["head.weight"]
    more = rng.randrange(4)
    number = rng.choice((0, 1)) if tensor.dtype == torch.bool else rng.choice((0, 1, 2, 100))
    if tensor.dtype.is_floating_point or tensor.dtype in (torch.int8, torch.int32, torch.int64):
        number = rng.choice((number, -1, -128))
    if tensor.dtype.is_floating_point:
        number = rng.choice((number, 0.1, -3e-5, math.nan, math.inf if tensor.dtype != torch.float8_e4m3fn else 0))
    state["head.weight"] = torch.cat([tensor, torch.full((more, tensor.shape[1]), number, dtype=tensor.dtype)])
    number = 0 if tensor.is_complex() else number
    if tensor.is_complex():
        state["head.weight"][tensor.shape[0]:] = 0
    return f"pad head.weight dim 0 to {tensor.shape[0] + more} with {number}"


def pad_mean(rng, state):
    if "head.weight" not in state:
        return None
    tensor = state["head.weight"]
    dim, more = rng.randrange(2), rng.randrange(1, 4)
    if not tensor.dtype.is_floating_point or not tensor.numel():
        return None
    sums = torch.cumsum(tensor.double(), dim).select(dim, -1)
    if tensor.isfinite().all() and not sums.isfinite().all():
        return None
    mean = round_once(sums / tensor.shape[dim], tensor.dtype).unsqueeze(dim)
    state["head.weight"] = torch.cat([tensor] + more * [mean], dim)
    return f"pad head.weight dim {dim} to {tensor.shape[dim] + more} with mean"


def round_once(numbers, dtype):
    """Returns NUMBERS, of float64, as DTYPE; torch rounds to float32 in between. Of the two neighbours, that with an
    odd mantissa is no tie."""
    if dtype in (torch.float64, torch.float32):
        return numbers.to(dtype)
    single = numbers.float()
    bits = single.view(torch.int32)
    toward_zero = torch.where((single.double().abs() > numbers.abs()) & single.isfinite(), bits - 1, bits)
    inexact = (single.double() != numbers) & single.isfinite()
    rounded = torch.where(inexact, toward_zero | 1, bits).view(torch.float32).to(dtype)
    return torch.where(numbers.isnan(), torch.tensor(math.nan).to(dtype).float(), rounded.float()).to(dtype)


def set_tensor(rng, state):
    name = rng.choice(("scalar", "head.weight"))
    if name not in state:
        return None
    tensor = state[name]
    number = rng.choice(("0", "1") if tensor.dtype == torch.bool else ("0", "1", "7"))
    state[name] = torch.full_like(tensor, int(number), memory_format=torch.contiguous_format)
    return f"set {name} = {number}"


def reshape(rng, state):
    if "head.weight" not in state or state["head.weight"].shape[1] != 3:
        return None
    tensor = state["head.weight"]
    state["head.weight"] = tensor.reshape(3, -1).permute(1, 0).reshape(tensor.shape)
    return f"reshape head.weight [3, -1] ; permute 1 0 ; reshape [{tensor.shape[0]}, 3]"


def change_big(rng, state):
    """Applies several views to one large tensor."""
    if "big" not in state:
        return None
    tensor, rules = state["big"], []
    for _ in range(rng.randrange(1, 7)):
        kind, shape = rng.randrange(4), tensor.shape
        if kind == 0:
            order = rng.sample(range(tensor.ndim), tensor.ndim)
            rules.append("permute " + " ".join(map(str, order)))
            tensor = tensor.permute(order)
        elif kind == 1 and tensor.ndim < 5:
            factors = [f for f in range(1, 100) if shape[-1] % f == 0]
            new = [*shape[:-1], rng.choice(factors), -1]
            rules.append(f"reshape {new}")
            tensor = tensor.reshape(new)
        elif kind == 2 and tensor.ndim > 1:
            new = [*shape[1:-1], -1]
            rules.append(f"reshape {new}")
            tensor = tensor.reshape(new)
        else:
            start, step = rng.randrange(3), rng.randrange(1, 3)
            rules.append(f"slice [..., {start}::{step}]")
            tensor = tensor[..., start::step]
            if not tensor.numel():
                return None
    state["big"] = tensor
    rules[0] = rules[0].replace(" ", " big ", 1)
    return " ; ".join(rules)


def tie(rng, state):
    if "scalar" not in state:
        return None
    old = state.get("other", state["scalar"])
    if old.dtype != state["scalar"].dtype or old.shape != state["scalar"].shape:
        return None
    state["other"] = state["scalar"]
    return "tie scalar other"


def untie(rng, state):
    return "untie? *.weight"


def drop(rng, state):
    names = [name for name in state if name.endswith(".slices.0")]
    for name in names:
        del state[name]
    return "drop? *.slices.0"


def keep(rng, state):
    """Leaves out what some glob does not match."""
    glob = rng.choice(("h.*", "*.weight", "*[a-z]", "h.0.*"))
    names = [name for name in state if not fnmatch.fnmatchcase(name, glob)]
    if len(names) == len(state):
        return None
    for name in names:
        del state[name]
    return f"keep {glob}"


def set_from_file(rng, state):
    """Replaces or adds a tensor by one of another file."""
    name = rng.choice(("scalar", "head.weight", "added", *("h.0.cube" for _ in range("h.0.cube" in state))))
    shape = {"head.weight": (rng.randrange(5), 3), "h.0.cube": [rng.randrange(1, 4) for _ in range(3)]}.get(
        name, [rng.randrange(4) for _ in range(rng.randrange(3))])
    tensor = random_tensor(rng, shape, rng.choice(DTYPES))
    path = os.path.join(OTHERS, f"other.{rng.choice(('pt', 'safetensors'))}")
    state[name] = tensor
    other = {"x.y": tensor, "z": torch.zeros(1)}
    torch.save({"a": other}, path) if path.endswith("pt") else save_file(other, path)
    kept = f"{path}.{len(os.listdir(OTHERS))}"
    os.rename(path, kept)
    return f'set {name} = "{kept}":{"a." if ".pt." in kept else ""}x.y'


def rename(rng, state):
    for name in list(state):
        if name.startswith("h.0."):
            state["g.0." + name[4:]] = state.pop(name)
    return "rename ^h\\.0\\. => g.0."


def cast(rng, state):
    """Casts floats, which is done when they are written: the last of the rules."""
    floats = [name for name, tensor in state.items() if tensor.dtype.is_floating_point]
    dtype = rng.choice((torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2))
    if not floats:
        return None
    never_tied = [name for name in floats if name.endswith((".q.weight", ".w", ".qkv", "experts", "big", "added"))]
    pattern = rng.choice(("*", *never_tied[:2]))
    for name in floats:
        if pattern in ("*", name):
            state[name] = round_once(state[name].double(), dtype)
    return f"cast {pattern} {str(dtype)[6:]}"


RULES = [concat, stack, unstack, split, split_equally, permute, transpose, slice_some, unflatten, pad, pad_mean, set_tensor,
         reshape, change_big, tie, untie, drop, set_from_file]


def random_rules(rng, state):
    rules = []
    while len(rules) < rng.randrange(1, 7):
        rule = rng.choice(RULES)(rng, state)
        if rule:
            rules.append(rule)
    for last in (keep, cast):
        rule = last(rng, state) if rng.randrange(6) == 0 and len(rules) < 6 else None
        if rule:
            rules.append(rule)
    if rng.randrange(4) == 0 and any(name.startswith("h.0.") for name in state):
        rules.append(rename(rng, state))
    return rules


def save_set(rng, state, folder):
    """Saves STATE in shards, and returns the path of their index."""
    count = rng.randrange(2, 4)
    files = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    weight_map = {name: rng.choice(files) for name in state}
    for file in files:
        save_file({k: v.clone().contiguous() for k, v in state.items() if weight_map[k] == file}, os.path.join(folder, file))
    path = os.path.join(folder, "model.safetensors.index.json")
    with open(path, "w") as index:
        json.dump({"metadata": {}, "weight_map": weight_map}, index)
    return path


def save_big_endian(state, path):
    arrays = {k: v.numpy() for k, v in state.items()}
    numpy.savez(path, **{k: a.astype(a.dtype.newbyteorder(">")) for k, a in arrays.items()})


def save(rng, state, folder):
    """Saves STATE in a random format, and returns the path."""
    has_numpy = all(v.dtype not in (torch.bfloat16, torch.float8_e4m3fn) for v in state.values())
    kind = rng.choice(("pt", "pt", "safetensors", "set", "dcp", "nested", *(("npz", "npz") if has_numpy else ())))
    path = os.path.join(folder, f"in.{kind}")
    if kind == "pt":
        torch.save(state, path)
    elif kind == "nested":
        path = os.path.join(folder, "in.pt")
        torch.save({"epoch": 3, "state_dict": state}, path)
    elif kind == "dcp":
        path = os.path.join(folder, f"dcp{rng.random()}")
        dcp.save({k: v.contiguous() for k, v in state.items()}, checkpoint_id=path, no_dist=True)
    elif kind == "set":
        path = save_set(rng, state, folder)
    elif kind == "npz":
        save_big_endian(state, path)
    else:
        save_file({k: v.clone().contiguous() for k, v in state.items()}, path)
    return path


def load(path):
    if path.endswith(".pt"):
        return torch.load(path, weights_only=True)
    return load_file(path)


def element_bytes(tensor):
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def are_same(left, right):
    """Returns true if the elements are the same; any NaN is the same as another."""
    if element_bytes(left) == element_bytes(right):
        return True
    if not left.dtype.is_floating_point:
        return False
    a, b = left.double(), right.double()
    return bool(((a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan())).all())


def find_difference(want, got):
    if set(want) != set(got):
        return f"names {sorted(set(want) ^ set(got))}"
    for name, tensor in want.items():
        other = got[name]
        if tensor.dtype != other.dtype or tensor.shape != other.shape or not are_same(tensor, other):
            return f"{name} {tensor.dtype} {tuple(tensor.shape)} became {other.dtype} {tuple(other.shape)}"
    return None


def check(checks, seed):
    rng = random.Random(seed)
    state = random_state(rng)
    source = save(rng, state, checks.folder)
    want = dict(state)
    rules = random_rules(rng, want)
    out = checks.path(f"out.{rng.choice(('pt', 'safetensors'))}")
    words = [word for rule in rules for word in ("-e", rule)]
    done = checks.run("edit", source, "-o", out, "--root", "auto", "--ties", "copy", *words)
    difference = find_difference(want, load(out)) if done is not None else "failed"
    checks.expect(difference is None, f"seed {seed}: {os.path.basename(source)} {rules}: {difference}")
    if seed % 8 == 0:
        check_join(checks, rng, seed)


def check_join(checks, rng, seed):
    """Cuts the tensors of a state into parts for several files, and joins them again."""
    state, count, rules = {}, rng.randrange(1, 5), []
    files = [{} for _ in range(count)]
    for i in range(rng.randrange(1, 6)):
        shape = [rng.randrange(4) for _ in range(rng.randrange(1, 4))]
        dim = rng.choice((None, *range(-len(shape), len(shape))))
        parts = [random_tensor(rng, [n if dim is None or k != dim % len(shape) else rng.randrange(4) for k, n in enumerate(shape)],
                               torch.bfloat16) for _ in range(1 if dim is None else count)]
        state[f"t.{i}"] = parts[0] if dim is None else torch.cat(parts, dim)
        for k, file in enumerate(files):
            file[f"t.{i}"] = stored_anyhow(rng, parts[k % len(parts)])
        rules += ["-e", f"join t.{i}" if dim is None else f"join t.{i} dim {dim}"]
    paths = []
    for k, file in enumerate(files):
        folder = checks.path(f"part{k}")
        os.makedirs(folder, exist_ok=True)
        paths.append(save(random.Random(seed), file, folder))  # all in one format
    out = checks.path("joined.safetensors")
    done = checks.run("edit", *paths, "--shards", "-o", out, "--root", "auto", *rules)
    difference = find_difference(state, load(out)) if done is not None else "failed"
    checks.expect(difference is None, f"seed {seed}: {count} files {rules}: {difference}")


sys.exit(check_seeds(sys.argv[1], "oracle-edit", MODELS, check))
