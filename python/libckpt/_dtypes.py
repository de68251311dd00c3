"""The dtypes of the library as those of NumPy and torch."""

from __future__ import annotations

import importlib
from typing import Any

# Names that NumPy has itself; the other ones are those of ml_dtypes.
_NUMPY = frozenset(
    "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64 complex128".split()
)
_ML_DTYPES = frozenset(
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float8_e3m4 float8_e4m3 "
    "float8_e4m3b11fnuz float4_e2m1fn float6_e2m3fn float6_e3m2fn int4 uint4 int2 uint2 int1 uint1".split()
)


def import_optional(module: str, instead: str) -> Any:
    """Returns MODULE, which this package needs only here; ImportError: what to do, or INSTEAD of it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        text = f"this needs {module}: pip install {module}, or take {instead}"
        raise ModuleNotFoundError(text, name=module) from None


def numpy_dtype(name: str) -> Any:
    """Returns NumPy's dtype called NAME, as torch calls it; TypeError: there is none."""
    numpy = import_optional("numpy", "File.torch or File.raw")
    if name in _NUMPY:
        return numpy.dtype(name)
    if name not in _ML_DTYPES:
        raise TypeError(f"NumPy has no dtype for {name}; File.raw gives the bytes")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy has no dtype for {name}: pip install ml_dtypes, or take File.torch or File.raw"
        ) from None
    try:
        return numpy.dtype(getattr(ml_dtypes, name))
    except AttributeError:
        raise TypeError(f"ml_dtypes {ml_dtypes.__version__} has no {name}; File.raw gives the bytes") from None


def torch_dtype(name: str) -> Any:
    """Returns torch's dtype called NAME; TypeError: this torch has none."""
    torch = import_optional("torch", "File.__getitem__, which gives NumPy's arrays")
    if name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4"):  # torch has them, but a tensor without scales ends the process when it is used
        raise TypeError(f"{name} is quantized: torch needs its scales; File.raw gives the bytes")
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"torch {torch.__version__} has no dtype {name}; File.raw gives the bytes")
    return dtype
