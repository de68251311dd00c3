"""Compares what `ckpt convert --cast` writes with torch's .to(dtype)."""
import math

import torch

FLOATS = [n for n in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                      "float8_e5m2fnuz") if hasattr(torch, n)]
DTYPES = {getattr(torch, n) for n in FLOATS}
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


def is_dense(t):
    return t.layout == torch.strided and t.device.type != "meta" and not t.is_quantized and not t.is_nested \
        and type(t) in (torch.Tensor, torch.nn.Parameter)


def element_bytes(t):
    return t.resolve_neg().contiguous().reshape(-1, 1).view(torch.uint8)


def find_wrong_cast(t, got, dtype):
    """Returns the first difference of GOT from T.to(DTYPE), or None; all NaN count as equal."""
    t, got = t.detach(), got.detach()
    want = t.to(dtype)
    if got.dtype != dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)}"
    want_floats, got_floats = want.to(torch.float32).reshape(-1), got.to(torch.float32).reshape(-1)
    both_nan = want_floats.isnan() & got_floats.isnan()
    differs = (element_bytes(want) != element_bytes(got)).any(1) & ~both_nan
    if dtype == getattr(torch, "float8_e4m3fn", None):
        # torch until about 2.10 makes NaN of numbers above 448; ckpt makes 448
        was_number = ~t.to(torch.float32).reshape(-1).isnan()
        differs &= ~(want_floats.isnan() & was_number & (got_floats.abs() == 448))
    if not differs.any():
        return None
    i = int(differs.nonzero()[0])
    return f"{float(t.reshape(-1)[i])!r} became {float(got_floats[i])!r}, not {float(want_floats[i])!r}"


def find_sharing(tensors):
    """Returns for each tensor the index of the first tensor with the same storage; None for empty tensors."""
    first_index = {}  # {address of a storage: index of a tensor}
    return [first_index.setdefault(t.untyped_storage().data_ptr(), i) if t.numel() else None
            for i, t in enumerate(tensors)]


def test_values(name, generator):
    """Returns every bit pattern of the dtype NAME if it has at most 16 bits. If it is wider, returns random
    integers, or floats that a cast must round."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.tensor([False, True])
    if name == "uint8" or "float8" in name:
        return torch.arange(256).to(torch.uint8).view(dtype)
    if name in ("float16", "bfloat16", "int16"):
        return torch.arange(-32768, 32768).to(torch.int16).view(dtype)
    if name == "int8":
        return torch.arange(-128, 128).to(dtype)
    if name == "int64":
        return torch.cat([torch.randint(-2 ** 63, 2 ** 63 - 1, (4096,), generator=generator),
                          torch.randint(-2 ** 54, 2 ** 54, (4096,), generator=generator),
                          torch.arange(-70000, 70000, 7)])
    if name == "int32":
        return torch.randint(-2 ** 31, 2 ** 31 - 1, (4096,), generator=generator).to(dtype)
    # float32: each upper half with lower halves that are near 0 and near the middle, where rounding to 16 bits changes
    high_halves = torch.arange(2 ** 16, dtype=torch.int64).repeat_interleave(5) << 16
    floats = (high_halves + torch.tensor([-1, 0, 1, 0x7fff, 0x8000]).repeat(2 ** 16)) & 0xffffffff
    floats = torch.where(floats >= 2 ** 31, floats - 2 ** 32, floats).to(torch.int32).view(torch.float32)
    if name == "float32":
        return floats
    random = torch.randint(-2 ** 63, 2 ** 63 - 1, (4096,), generator=generator).view(torch.float64)
    doubles = floats.to(torch.float64)
    return torch.cat([random, doubles, doubles * (1 + 2.0 ** -40), doubles * (1 - 2.0 ** -40),
                      torch.tensor([math.inf, 3.5e38, -3.5e38])])


def samples():
    """Returns tensors of every float type with all or many bit patterns, views that share storages, and integers."""
    generator = torch.Generator().manual_seed(11)
    out = {}
    for name in FLOATS + list(INTEGERS):
        out[name] = t = test_values(name, generator)
        if name in FLOATS:
            matrix = t[:252].reshape(12, 21)
            out.update({name + "_transposed": matrix.t(), name + "_every_third": t[1:250:3], name + "_again": t,
                        name + "_row": matrix[3], name + "_expanded": t[5:6].expand(7, 3), name + "_none": t[:0],
                        name + "_one": t[9]})
    out["parameter"] = torch.nn.Parameter(torch.randn(3, 5, generator=generator))
    return out
