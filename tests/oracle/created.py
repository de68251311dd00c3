"""Checks that torch and the official safetensors library load what oracle/create has put into its files."""
import subprocess
import warnings

import safetensors
import safetensors.torch as st
import torch

warnings.filterwarnings("ignore", message="ComplexHalf")
FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
          "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]
OTHERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
COMPLEX = ["complex32", "complex64", "complex128"]
VALUES = {"none": None, "yes": True, "int": -2**63, "float": 0.1, "text": "tensor \u00e9"}


def byte_at(i):
    """Returns byte I of each tensor that create.c adds."""
    return (i * 37 + 5) % 251


def storage_bytes(tensor):
    return bytes(torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage()).tolist())


def find_wrong_bytes(name, tensor, dtype, shape):
    if tensor.dtype != getattr(torch, dtype) or list(tensor.shape) != shape or not tensor.is_contiguous():
        return f"{name}: {tensor.dtype} {list(tensor.shape)}"
    expected = bytes(byte_at(i) for i in range(tensor.numel() * tensor.element_size()))
    return None if storage_bytes(tensor) == expected else f"{name}: different bytes"


def find_wrong_tensor(model, dtypes):
    """Returns what in MODEL differs from the tensors that create.c adds, or None. DTYPES are those expected."""
    tensors = {name: (name, [3, 4]) for name in dtypes}
    tensors.update(scalar=("uint8", []), empty=("float32", [0, 5]), tied=("float32", [3, 4]))
    if set(tensors) != {k for k in model if k != "empty_dict"}:
        return f"names {sorted(model)}"
    found = [find_wrong_bytes(name, model[name], dtype, shape) for name, (dtype, shape) in tensors.items()]
    return next((f for f in found if f), None)


def check_torch(path):
    for mmap in (False, True):
        values = torch.load(path, weights_only=True, mmap=mmap)
        model = values.pop("model")
        found = find_wrong_tensor(model, FLOATS + OTHERS + COMPLEX)
        if found:
            return found
        if model["tied"].data_ptr() != model["float32"].data_ptr() or model["empty_dict"] != {}:
            return "the tie or the empty dict is wrong"
        if list(values) != list(VALUES) or any(type(values[k]) is not type(v) or values[k] != v
                                               for k, v in VALUES.items()):
            return f"values {values}"
    return None


def check_safetensors(path):
    with safetensors.safe_open(path, "pt") as f:
        if f.metadata() != {"author": "oracle", "format": "pt", "model.tied": "model.float32"}:
            return f"metadata {f.metadata()}"
    model = {k.removeprefix("model."): v for k, v in st.load_file(path).items()}
    model["tied"] = model["float32"]
    return find_wrong_tensor(model, FLOATS + OTHERS + ["complex64"])


def outcomes(program, path):
    """Yields (file, what is wrong or None) for each file that PROGRAM creates below the folder PATH."""
    jobs = (("created.pt", check_torch, []),  # file, function that checks it, tensors that safetensors cannot hold
            ("created.safetensors", check_safetensors, ["model.complex32", "model.complex128"]))
    for name, check, dropped in jobs:
        out = f"{path}/{name}"
        made = subprocess.run([program, out, *dropped], capture_output=True, text=True, timeout=60)
        yield name, made.stderr.strip() or check(out)
