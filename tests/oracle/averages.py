"""Compares what `ckpt average` makes of random models with what torch and mergekit make of them.

    averages.py CKPT torch|mergekit

MODELS models of two to four files are averaged by a random method with random options. torch: the formulas of
ckpt-average(1) in float64, rounded once, must give the same bits; of slerp, whose sums have another order, at most the
next number. mergekit: its own functions, which get float64, must give at most the next number.
"""
import math
import os
import random
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from checks import check_seeds

MODELS = int(os.environ.get("MODELS", 200))
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
OTHERS = [torch.float64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.complex64]
counts = {"equal": 0, "next": 0, "other": 0, "cancelled": 0, "skipped": 0}


def bits_of(tensor):
    """Returns the elements of TENSOR as integers."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(width)


def round_once(numbers, dtype):
    """Rounds float64 NUMBERS to DTYPE: torch would round them to float32 first, if DTYPE is smaller."""
    rounded = numbers.to(dtype)
    width = rounded.element_size()
    if width > 2 or not numbers.numel():
        return rounded
    every = torch.arange(2 ** (8 * width - 1), dtype=torch.int32).to(torch.uint8 if width == 1 else torch.int16)
    values = every.view(dtype).double()
    values = values[:int(torch.isfinite(values).sum())]
    size = numbers.abs().nan_to_num(0)
    above = torch.searchsorted(values, size).clamp(1, len(values) - 1)
    low, high = size - values[above - 1], values[above] - size
    nearest = torch.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    fits = torch.isfinite(numbers) & (size < values[-1])
    negative = torch.signbit(numbers) & ~((nearest == 0) & (str(dtype).endswith("fnuz")))
    exact = nearest + negative * 2 ** (8 * width - 1)
    exact = exact.to(torch.uint8) if width == 1 else exact.to(torch.int16)
    return torch.where(fits, exact, bits_of(rounded)).view(dtype)


def distances(want, got):
    """Returns how many numbers are between those of WANT and GOT, of one dtype; NaN is 0 from NaN."""
    def order(tensor):
        bits = bits_of(tensor).to(torch.int64) & (2 ** (8 * tensor.element_size()) - 1) if tensor.element_size() < 8 \
            else bits_of(tensor)
        sign = 2 ** (8 * tensor.element_size() - 1)
        return torch.where(bits >= sign, sign - bits, bits) if tensor.element_size() < 8 else bits
    both_nan = torch.isnan(want.double()) & torch.isnan(got.double())
    return torch.where(both_nan, 0, (order(want) - order(got)).abs())


# ------------------------------------------------------------------------------- formulas

def linear(inputs, base, o):
    weights = o["weights"] or [1.0] * len(inputs)
    deltas = [x - base for x in inputs] if base is not None else inputs
    total = weights[0] * deltas[0]
    for w, x in zip(weights[1:], deltas[1:]):
        total = total + w * x
    if base is None:
        return total / sum(weights) if o["normalize"] is not False else total
    if o["weights"] is None:
        total = total / len(inputs)
    elif o["normalize"] and abs(sum(weights)) >= 1e-8:
        total = total / sum(weights)
    return base + total * o["lambda"]


def least_kept(delta, density):
    """Returns the smallest magnitude of DELTA that is kept."""
    size = delta.abs().flatten()
    if density >= 1 or not size.numel():
        return torch.tensor(0.0)
    return torch.topk(size, max(1, int(density * size.numel()))).values[-1]


def ties(inputs, base, o):
    weights = o["weights"] or [1.0] * len(inputs)
    deltas = []
    for x, w, density in zip(inputs, weights, o["densities"]):
        delta = x - base
        keep = delta.abs() >= least_kept(delta, density) if density > 0 else torch.zeros_like(delta, dtype=torch.bool)
        deltas.append(torch.where(keep, delta, 0.0) * w)
    total, divisor, elected = torch.zeros_like(base), torch.zeros_like(base), torch.zeros_like(base)
    for delta in deltas:
        elected = elected + delta
    for delta, w in zip(deltas, weights):
        agrees = torch.where(elected >= 0, delta > 0, delta < 0)
        total = torch.where(agrees, total + delta, total)
        divisor = torch.where(agrees, divisor + w, divisor)
    if o["normalize"] is not False:
        total = torch.where(divisor != 0, total / divisor, total)
    return base + total * o["lambda"]


def slerp(inputs, base, o):
    a, b = inputs
    t = o["t"]
    norms = [math.sqrt(float((x * x).sum())) for x in inputs]
    norms = [norm if norm > 1e-8 else 1.0 for norm in norms]
    dot = float((a * b).sum()) / (norms[0] * norms[1])
    if abs(dot) > 0.9995:
        return (1 - t) * a + t * b
    theta = math.acos(dot)
    return math.sin((1 - t) * theta) / math.sin(theta) * a + math.sin(t * theta) / math.sin(theta) * b


def mergekit(inputs, base, o, method):
    from mergekit.merge_methods import merge_tensors
    parameters, tensors, base_index = {}, list(inputs), None
    if base is not None:
        tensors, base_index = [base] + tensors, 0
        weights = o["weights"] or [1.0 if method == "ties" else 1.0 / len(inputs)] * len(inputs)
        parameters = {"weight": weights, "lambda": o["lambda"], "normalize": o["normalize"] in (True, None)
                      if method == "ties" else o["normalize"] is True and o["weights"] is not None}
        if method == "ties":
            parameters["density"] = o["densities"]
        name = "ties" if method == "ties" else "task_arithmetic"
    elif method == "slerp":
        name, base_index, parameters = "slerp", 0, {"t": o["t"]}
    else:
        name, parameters = "linear", {"weight": o["weights"] or [1.0] * len(inputs), "normalize": o["normalize"] is not False}
    return merge_tensors(tensors, name, parameters=parameters, base_index=base_index, dtype=torch.float64)


def has_equal_magnitudes(inputs, base, densities):
    """Returns True if mergekit's choice among differences that are equal, to it in float32, is not defined."""
    for x, density in zip(inputs, densities):
        size = torch.sort((x - base).abs().flatten().float(), descending=True).values
        k = max(1, int(density * size.numel()))
        if 0 < density < 1 and k < size.numel() and size[k - 1] == size[k]:
            return True
    return False


# --------------------------------------------------------------------------------- models

def random_tensor(rng, shape, dtype):
    numbers = torch.randn(shape, dtype=torch.float64) * 2.0 ** rng.randrange(-3, 4)
    if dtype.is_complex:
        return torch.complex(numbers, torch.randn(shape, dtype=torch.float64)).to(dtype)
    if rng.randrange(8) == 0 and numbers.numel():
        numbers.view(-1)[rng.randrange(numbers.numel())] = rng.choice((math.inf, -math.inf, math.nan, 0.0, 1e-310, 1e6))
    return numbers.to(dtype)


def random_models(rng, count, dtypes):
    """Returns COUNT state dicts with the same names, dtypes and shapes."""
    shapes = {}
    for i in range(rng.randrange(1, 5)):
        shape = [rng.choice((1, 2, 3, 7, 40)) for _ in range(rng.randrange(4))]
        shapes[f"h.{i}.w"] = ([0] if rng.randrange(12) == 0 else shape, rng.choice(dtypes))
    shapes["big"] = ([rng.randrange(1, 200), rng.randrange(1, 500)], rng.choice(dtypes[:3]))
    models = [{name: random_tensor(rng, *form) for name, form in shapes.items()} for _ in range(count)]
    for number, model in enumerate(models):
        model["count"] = torch.tensor(number)
        if rng.randrange(3) == 0:
            model["big"] = model["big"].t().contiguous().t()
    return models


def save(rng, state, folder, number):
    kind = rng.choice(("pt", "nested", "safetensors", "dcp"))
    path = os.path.join(folder, f"in{number}.{'pt' if kind == 'nested' else kind}")
    if kind == "pt":
        torch.save(state, path)
    elif kind == "nested":
        torch.save({"epoch": 3, "state_dict": state}, path)
    elif kind == "dcp":
        path = os.path.join(folder, f"dcp{rng.random()}")
        dcp.save({k: v.contiguous() for k, v in state.items()}, checkpoint_id=path, no_dist=True)
    else:
        save_file({k: v.clone().contiguous() for k, v in state.items()}, path)
    return path


def random_options(rng, method, count):
    o = {"weights": None, "normalize": rng.choice((None, True, False)), "lambda": 1.0, "t": 0.5, "densities": [1.0] * count}
    has_base = method == "ties" or (method == "linear" and rng.randrange(2) == 0)
    words = ["--method", method]
    if method == "slerp":
        o["t"] = rng.choice((0.0, 0.1, 0.5, 0.7, 1.0))
        return o, False, words + ["--t", repr(o["t"])]
    if rng.randrange(2):
        o["weights"] = [rng.choice((0.5, 0.3, 1.0, 2.0, 0.1)) * (rng.choice((1, 1, 1, -0.25)) if has_base else 1)
                        for _ in range(count)]
        words.append("--weights=" + ",".join(map(repr, o["weights"])))
    if o["normalize"] is not None:
        words.append("--normalize" if o["normalize"] else "--no-normalize")
    if has_base and rng.randrange(2):
        o["lambda"] = rng.choice((0.5, 1.3, -1.0))
        words.append(f"--lambda={o['lambda']!r}")
    if method == "ties":
        o["densities"] = [rng.choice((0.0, 0.001, 0.2, 0.5, 0.9, 1.0)) for _ in range(count)]
        words.append("--density=" + ",".join(map(repr, o["densities"])))
    return o, has_base, words


def wide(tensor):
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def compare(name, want, got, method, size):
    """Returns what is wrong with GOT, or None; WANT is float64. What is left of numbers of SIZE that cancel each other
    out, in mergekit and here, is not compared."""
    if got.is_complex():
        got = torch.view_as_real(got)
    rounded = round_once(want, got.dtype)
    if rounded.shape != got.shape:
        return f"{name} has the shape {tuple(got.shape)}"
    apart = distances(rounded, got)
    if sys.argv[2] == "mergekit":
        cancelled = (want - got.double()).abs() <= 1e-14 * size
        counts["cancelled"] += int(((apart > 1) & cancelled).sum())
        apart = torch.where(cancelled, apart.clamp(max=1), apart)
    counts["equal"] += int((apart == 0).sum())
    counts["next"] += int((apart == 1).sum())
    counts["other"] += int((apart > 1).sum())
    most = int(apart.max()) if apart.numel() else 0
    allowed = 0 if sys.argv[2] == "torch" and method != "slerp" else 1
    return f"{name} {got.dtype} is {most} numbers apart" if most > allowed else None


def find_difference(models, base, method, o, got, own):
    if int(got["count"]) != own:
        return f"count is {int(got['count'])}"
    for name in models[0]:
        inputs = [wide(model[name]) for model in models]
        b = wide(base[name]) if base else None
        if name == "count" or (method != "linear" and got[name].is_complex()):
            continue
        finite = all(torch.isfinite(x).all() for x in inputs + ([b] if base else []))
        if method != "linear" and not finite:
            counts["skipped"] += 1
            continue
        if method == "slerp" and got[name].dtype == torch.float64:  # its last digits depend on the order of sums
            scale = sum(x.abs() for x in inputs)
            if bool(((slerp(inputs, b, o) - got[name]).abs() > 1e-13 * scale).any()):
                return f"{name} is not near"
            continue
        if sys.argv[2] == "mergekit":
            if method == "ties" and has_equal_magnitudes(inputs, b, o["densities"]):
                counts["skipped"] += 1
                continue
            want = mergekit(inputs, b, o, method)
        else:
            want = {"linear": linear, "ties": ties, "slerp": slerp}[method](inputs, b, o)
        size = sum(x.abs() for x in inputs + ([b] if base else []))
        difference = compare(name, want, got[name], method, size)
        if difference:
            return difference
    return None


def check(checks, seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    method = ("linear", "ties", "slerp")[seed % 3]
    count = 2 if method == "slerp" else rng.randrange(2, 5)
    dtypes = FLOATS + ([] if sys.argv[2] == "mergekit" else OTHERS if method == "linear" else OTHERS[:-1])
    models = random_models(rng, count + 1, dtypes)
    base = models.pop()
    o, has_base, words = random_options(rng, method, count)
    paths = [save(rng, model, checks.folder, i) for i, model in enumerate(models)]
    if has_base:
        words += ["--base", save(rng, base, checks.folder, count)]
    ints = rng.choice(("last", "first"))
    out = checks.path("out.safetensors")
    done = checks.run("average", *paths, "--root", "auto", "-o", out, "--ints", ints, "-j", str(rng.randrange(1, 4)), *words)
    own = count - 1 if ints == "last" else 0
    difference = "failed" if done is None else \
        find_difference(models, base if has_base else None, method, o, load_file(out), own)
    checks.expect(difference is None, f"seed {seed}: {paths} {words}: {difference}")


status = check_seeds(sys.argv[1], f"oracle-average-{sys.argv[2]}", MODELS, check)
print(f"    {counts['equal']} numbers are equal, {counts['next']} the next one, {counts['other']} others; "
      f"{counts['cancelled']} that cancel each other out and {counts['skipped']} tensors were not compared")
sys.exit(status)
