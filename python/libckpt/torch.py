"""Weights of any format into a torch model."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, Union

from ._dtypes import torch_dtype
from ._file import File
from ._file import open as open_file


def load_file(path: Union[str, "os.PathLike[str]"], *, root: Optional[str] = "auto") -> dict[str, Any]:
    """Returns the tensors of the checkpoint PATH as a dict of torch tensors, mapped where they are stored raw.

    root  the container that they are in; "auto": the weights, None: the whole file
    """
    with open_file(path, root=root) as file:
        file.check_names()
        return {name: file.torch(name) for name in file}


def load_state_dict(
    model: Any,
    path: Union[str, "os.PathLike[str]"],
    *,
    root: Optional[str] = "auto",
    strict: bool = True,
    assign: bool = False,
) -> Any:
    """Loads the checkpoint PATH, of any format, into MODEL.

    Returns what torch's load_state_dict does: the missing and the unexpected keys, which are an error if STRICT is set.
    With ASSIGN, the model gets the mapped tensors themselves, and no copy is made.
    """
    with open_file(path, root=root) as file:
        file.check_names()
        filled = {} if assign else _fill(model, file)
        weights = {name: filled[name] if name in filled else file.torch(name) for name in file}
        try:
            return model.load_state_dict(weights, strict=strict, assign=assign)
        except RuntimeError as error:
            if weights.keys() & model.state_dict().keys():
                raise
            hint = f"`ckpt doctor {shlex.quote(file.path)}` finds the prefix of a wrapper, and `ckpt strip` removes it"
            raise RuntimeError(f"{error}\nhint: no name is one of the model; {hint}") from None


def _fill(model: Any, file: File) -> dict[str, Any]:
    """Reads tensors of FILE to where MODEL keeps them, which takes less time than to map and copy them. Returns the
    tensors that were filled; torch's load_state_dict then has nothing to copy, and checks the names as ever."""
    import torch

    if not _loads_as_torch(model):
        return {}
    own = dict(_places(model))
    owners = Counter(tensor.untyped_storage().data_ptr() for tensor in own.values())
    ready = {
        name: own[name]
        for name in file
        if name in own and _is_plain(own[name], file, name) and owners[own[name].untyped_storage().data_ptr()] == 1
    }
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(lambda name: file.read_into(name, ready[name].data_ptr(), ready[name].nbytes), ready))
    if ready and hasattr(torch.autograd.graph, "increment_version"):
        torch.autograd.graph.increment_version(list(ready.values()))
    return ready


def _loads_as_torch(model: Any) -> bool:
    """False if a hook or a method of MODEL may change or leave out tensors, or want to see the old ones."""
    import torch

    base, norm = torch.nn.Module, torch.nn.modules.batchnorm._NormBase  # the latter only adds a counter
    loads = {base._load_from_state_dict, norm._load_from_state_dict}
    return getattr(model.load_state_dict, "__func__", None) is base.load_state_dict and all(
        not module._load_state_dict_pre_hooks and getattr(module._load_from_state_dict, "__func__", None) in loads
        for module in model.modules()
    )


def _places(model: Any) -> Iterator[tuple[str, Any]]:
    """The plain tensors that torch's load_state_dict fills, by the name that it seeks; not by state_dict, which may
    have other ones."""
    import torch

    for prefix, module in model.named_modules(remove_duplicate=False):
        buffers = [item for item in module._buffers.items() if item[0] not in module._non_persistent_buffers_set]
        for name, tensor in [*module._parameters.items(), *buffers]:
            if type(tensor) in (torch.Tensor, torch.nn.Parameter):
                yield (f"{prefix}.{name}" if prefix else name), tensor


def _is_plain(tensor: Any, file: File, name: str) -> bool:
    """True if TENSOR has the bytes of tensor NAME of FILE as they are stored."""
    import torch

    try:
        dtype = torch_dtype(file.dtype(name))
    except TypeError:  # torch has no such dtype
        return False
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.dtype == dtype
        and tuple(tensor.shape) == file.shape(name)
        and tensor.is_contiguous()
        and tensor.nbytes > 0
        and not (tensor.is_conj() or tensor.is_neg())
    )
