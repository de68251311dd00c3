"""Weights of any format into a torch model."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._file import open as open_file


def load_file(path: Union[str, "os.PathLike[str]"], *, root: Optional[str] = "auto") -> dict[str, Any]:
    """Returns the tensors of the checkpoint PATH as a dict of torch tensors, mapped where they are stored raw.

    root  the container that they are in; "auto": the weights, None: the whole file
    """
    with open_file(path, root=root) as file:
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
    return model.load_state_dict(load_file(path, root=root), strict=strict, assign=assign)
