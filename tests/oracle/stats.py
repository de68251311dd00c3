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
    """Returns whether A and B differ by at most the billionth of SCALE."""
    return abs(a - b) <= 1e-9 * scale + 1e-300  # so that subnormal numbers count as 0


def find_wrong_value(row, t):
    """Returns a text about the first statistic in ROW that is wrong for the tensor T, or None."""
    values = as_doubles(t)
    if values is None:
        return None
    if row["elements"] != values.numel():
        return f"{row['elements']} elements, not {values.numel()}"
    finite = values[torch.isfinite(values)]
    counts = {"nan": torch.isnan(values), "inf": torch.isinf(values), "zeros": values == 0}
    for key, elements in counts.items():
        if row[key] != int(elements.sum()):
            return f"{key} {row[key]}, not {int(elements.sum())}"
    if sum(row["histogram"]) != row["sampled"] or row["sampled"] > finite.numel():
        return "the histogram does not add up"
    if values.numel() <= 4096 and row["sampled"] != finite.numel():
        return "elements are missing in the histogram"
    if not finite.numel():
        return None if row["min"] is row["max"] is row["mean"] is row["std"] is None else "values without finite elements"
    largest = float(finite.abs().max())
    if row["norm"] == "Infinity":
        return None if largest > 1e150 else "the norm is infinite"  # the sum of the squares overflows
    if t.dtype in (torch.int64, torch.uint64):
        low, high = (min(t.reshape(-1).tolist()), max(t.reshape(-1).tolist()))
        if row["min"] != low or row["max"] != high:
            return f"{row['min']} to {row['max']}, not {low} to {high}"
    elif not is_close(row["min"], float(finite.min()), largest * 1e-6) or \
            not is_close(row["max"], float(finite.max()), largest * 1e-6):
        return f"{row['min']} to {row['max']}, not {float(finite.min())} to {float(finite.max())}"
    if not is_close(row["mean"], float(finite.mean()), largest):
        return f"mean {row['mean']}, not {float(finite.mean())}"
    norm = float(torch.linalg.vector_norm(finite))
    if not is_close(row["norm"], norm, norm):
        return f"norm {row['norm']}, not {norm}"
    if finite.numel() < 2:
        return None if row["std"] is None else "one number has a deviation"
    std = float(torch.std(finite))
    return None if is_close(row["std"], std, max(std, largest * 1e-6)) else f"std {row['std']}, not {std}"


def read_statistics(ckpt, path):
    """Returns {name: what `ckpt stat` prints for the tensor}, without names that come twice and tensors whose elements
    ckpt does not read. Returns None if ckpt fails."""
    done = subprocess.run([ckpt, "stat", "--json", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode:
        return None
    out = {}
    for row in json.loads(done.stdout)["tensors"]:
        is_unusable = row["name"] in out or row["elements"] is None
        out[row["name"]] = None if is_unusable else row
    return {name: row for name, row in out.items() if row}


def samples():
    """Returns tensors of every dtype with difficult values: NaN, infinities, subnormals, extremes."""
    generator = torch.Generator().manual_seed(7)
    normal = torch.randn(20000, generator=generator, dtype=torch.float64)
    difficult = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-300, 5e-324, 1e-45, 6e-8, 65504, 3e38])
    out = {}
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                 "float8_e5m2fnuz", "float8_e8m0fnu"):
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        numbers = normal.abs() if name.endswith("e8m0fnu") else normal  # e8m0fnu has no sign
        out[name] = numbers.to(dtype)
        out[name + "_difficult"] = torch.cat([normal[:100], difficult.double()]).abs().to(dtype)
        out[name + "_matrix"] = numbers[:19999 // 7 * 7].to(dtype).reshape(-1, 7).contiguous()
    out["far_from_zero"] = (1e6 + 1e-3 * normal).to(torch.float64)
    for name in ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"):
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        integers = torch.randint(0, 100, (9001,), generator=generator)
        out[name] = (integers if name.startswith("u") else integers - 50).to(dtype)
    out["int64_wide"] = torch.tensor([2 ** 63 - 1, -2 ** 63, 2 ** 53 + 1, 0])
    out["bool"] = normal > 0
    out["complex64"] = torch.randn(5001, generator=generator, dtype=torch.complex64)
    out["complex128"] = torch.randn(5001, generator=generator, dtype=torch.complex128)
    out["transposed"] = torch.randn(700, 300, generator=generator).t()
    out["expanded"] = torch.randn(1, 64, generator=generator).expand(100, 64)
    return out
