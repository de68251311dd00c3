"""Compares what `ckpt stat --json` prints with torch in double precision."""
import json
import math
import subprocess

import torch


def as_doubles(t):
    """Returns the elements as doubles, or the magnitudes of complex ones; None if the type is not numeric."""
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    if t.dtype.is_complex:
        t = t.to(torch.complex128) if t.dtype != getattr(torch, "complex32", None) else t.to(torch.complex64)
        return t.abs().to(torch.float64).reshape(-1)
    try:
        return t.to(torch.float64).reshape(-1)
    except (RuntimeError, NotImplementedError, TypeError):
        return None


def is_close(a, b, scale):
    return abs(a - b) <= 1e-9 * scale + 1e-300


def find_wrong_value(row, t):
    """Returns which value of ROW is wrong for T, or None."""
    x = as_doubles(t)
    if x is None:
        return None
    if row["elements"] != x.numel():
        return f"{row['elements']} elements, not {x.numel()}"
    finite = x[torch.isfinite(x)]
    counts = {"nan": torch.isnan(x), "inf": torch.isinf(x), "zeros": x == 0}
    for key, which in counts.items():
        if row[key] != int(which.sum()):
            return f"{key} {row[key]}, not {int(which.sum())}"
    if sum(row["histogram"]) != row["sampled"] or row["sampled"] > finite.numel():
        return "the histogram does not add up"
    if finite.numel() <= 4096 and x.numel() <= 4096 and row["sampled"] != finite.numel():
        return "elements are missing in the histogram"
    if not finite.numel():
        return None if row["min"] is row["max"] is row["mean"] is row["std"] is None else "values without finite elements"
    size = float(finite.abs().max())
    if row["norm"] == "Infinity":
        return None if size > 1e150 else "the norm is infinite"
    if t.dtype in (torch.int64, torch.uint64):
        low, high = (min(t.reshape(-1).tolist()), max(t.reshape(-1).tolist()))
        if row["min"] != low or row["max"] != high:
            return f"{row['min']} to {row['max']}, not {low} to {high}"
    elif not is_close(row["min"], float(finite.min()), size * 1e-6) or \
            not is_close(row["max"], float(finite.max()), size * 1e-6):
        return f"{row['min']} to {row['max']}, not {float(finite.min())} to {float(finite.max())}"
    if not is_close(row["mean"], float(finite.mean()), size):
        return f"mean {row['mean']}, not {float(finite.mean())}"
    norm = float(torch.linalg.vector_norm(finite))
    if not is_close(row["norm"], norm, norm):
        return f"norm {row['norm']}, not {norm}"
    if finite.numel() < 2:
        return None if row["std"] is None else "one number has a deviation"
    std = float(torch.std(finite))
    return None if is_close(row["std"], std, max(std, size * 1e-6)) else f"std {row['std']}, not {std}"


def read_statistics(ckpt, path):
    """Returns {name: what `ckpt stat` prints for the tensor}, without names that come twice; None if stat fails."""
    p = subprocess.run([ckpt, "stat", "--json", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if p.returncode:
        return None
    out = {}
    for r in json.loads(p.stdout)["tensors"]:
        out[r["name"]] = None if r["name"] in out or r["elements"] is None else r
    return {name: r for name, r in out.items() if r}


def samples():
    """Returns tensors of every dtype with difficult values: NaN, infinities, subnormals, extremes."""
    g = torch.Generator().manual_seed(7)
    x = torch.randn(20000, generator=g, dtype=torch.float64)
    difficult = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-300, 5e-324, 1e-45, 6e-8, 65504, 3e38])
    out = {}
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                 "float8_e5m2fnuz", "float8_e8m0fnu"):
        dt = getattr(torch, name, None)
        if dt is None:
            continue
        v = x.abs() if name.endswith("e8m0fnu") else x
        out[name] = v.to(dt)
        out[name + "_difficult"] = torch.cat([x[:100], difficult.double()]).abs().to(dt)
        out[name + "_matrix"] = v[:19999 // 7 * 7].to(dt).reshape(-1, 7).contiguous()
    out["far"] = (1e6 + 1e-3 * x).to(torch.float64)
    for name in ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"):
        dt = getattr(torch, name, None)
        if dt is None:
            continue
        i = torch.randint(0, 100, (9001,), generator=g)
        out[name] = (i if name.startswith("u") else i - 50).to(dt)
    out["int64_wide"] = torch.tensor([2 ** 63 - 1, -2 ** 63, 2 ** 53 + 1, 0])
    out["bool"] = x > 0
    out["complex64"] = torch.randn(5001, generator=g, dtype=torch.complex64)
    out["complex128"] = torch.randn(5001, generator=g, dtype=torch.complex128)
    out["transposed"] = torch.randn(700, 300, generator=g).t()
    out["expanded"] = torch.randn(1, 64, generator=g).expand(100, 64)
    return out
