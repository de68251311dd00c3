"""Writes a dict of arrays and values as a checkpoint."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _library
from ._library import Watch, argument, call, encode, library


class _Builder:
    """A ckpt_builder, and the objects whose memory it refers to until the file is written."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self._kept: list[Any] = []
        self._seen: dict[int, str] = {}  # a tensor's id -> its joined name
        self._names: set[str] = set()  # the joined names of tensors; two may be equal, as in {"a": {"b": x}, "a.b": y}
        call("ckpt_builder_new", b"the dict", ctypes.byref(self.pointer))

    def add_dict(self, content: Mapping[str, Any], prefix: str) -> None:
        for key, value in content.items():
            if not isinstance(key, str):
                raise TypeError(f"{prefix or 'the dict'}: the key {key!r} is not a str")
            self._add(key, value, f"{prefix}.{key}" if prefix else key)

    def _add(self, key: str, value: Any, name: str) -> None:
        name_of_key = argument(encode(key), "a name")
        if isinstance(value, Mapping):
            call("ckpt_builder_begin_dict", self.pointer, name_of_key)
            self.add_dict(value, name)
            call("ckpt_builder_end_dict", self.pointer)
        elif value is None:
            call("ckpt_builder_add_none", self.pointer, name_of_key)
        elif isinstance(value, bool):
            call("ckpt_builder_add_bool", self.pointer, name_of_key, value)
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise OverflowError(f"{name}: {value} does not fit 64 bits")
            call("ckpt_builder_add_int", self.pointer, name_of_key, value)
        elif isinstance(value, float):
            call("ckpt_builder_add_float", self.pointer, name_of_key, value)
        elif isinstance(value, str):
            call("ckpt_builder_add_text", self.pointer, name_of_key, argument(encode(value), f"the text {name!r}"))
        else:
            if id(value) in self._seen:
                call("ckpt_builder_add_tie", self.pointer, name_of_key, encode(self._seen[id(value)]))
            else:
                self._add_tensor(name_of_key, value, name)
            self._names.add(name)

    def _add_tensor(self, key: bytes, value: Any, name: str) -> None:
        dtype, shape, address, nbytes, memory = _describe(value, name)
        sizes = (ctypes.c_uint64 * max(len(shape), 1))(*shape)
        number = library.ckpt_dtype_parse(_library.Str.of(encode(dtype)))
        if not number:
            raise TypeError(f"{name}: {dtype} is no dtype of a checkpoint")
        tensor = _library.BuilderTensor(dtype=number, shape=sizes, ndim=len(shape), data=address, nbytes=nbytes)
        self._kept += [value, memory]
        call("ckpt_builder_add_tensor", self.pointer, key, ctypes.byref(tensor))
        if name not in self._names:  # else it would mean the first tensor of that name
            self._seen[id(value)] = name

    def finish(self) -> ctypes.c_void_p:
        file = ctypes.c_void_p()
        pointer, self.pointer = self.pointer, ctypes.c_void_p()
        call("ckpt_builder_finish", pointer, ctypes.byref(file))
        return file

    def free(self) -> None:
        library.ckpt_builder_free(self.pointer)


def _describe(value: Any, name: str) -> tuple[str, tuple[int, ...], int, int, Any]:
    """Returns dtype, shape, address and number of bytes of VALUE, and what owns these bytes."""
    if hasattr(value, "untyped_storage"):  # a torch tensor; torch need not be imported for others
        if str(value.layout) != "torch.strided" or value.is_quantized or value.is_nested or value.is_meta:
            kinds = (value.is_quantized, "quantized"), (value.is_nested, "nested"), (value.is_meta, "of the meta device")
            kind = next((text for is_it, text in kinds if is_it), value.layout)
            raise TypeError(f"{name}: only dense tensors can be saved, and this one is {kind}")
        dense = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        dtype = str(dense.dtype).rpartition(".")[2]
        return dtype, tuple(dense.shape), dense.data_ptr(), dense.numel() * dense.element_size(), dense
    try:
        import numpy
    except ImportError:
        raise TypeError(f"{name}: {type(value).__name__} cannot be saved, or needs NumPy") from None
    if not isinstance(value, (numpy.ndarray, numpy.generic)) and not hasattr(value, "__array__"):
        raise TypeError(f"{name}: {type(value).__name__} cannot be saved: use arrays, numbers, texts, None and dicts")
    array = numpy.asarray(value)
    if array.dtype.hasobject or array.dtype.fields:
        raise TypeError(f"{name}: arrays of {array.dtype} cannot be saved")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    dense = numpy.require(array, requirements="C")
    return dense.dtype.name, array.shape, dense.ctypes.data, dense.nbytes, dense


def save(
    content: Mapping[str, Any],
    path: Union[str, "os.PathLike[str]"],
    *,
    format: Optional[str] = None,  # noqa: A002 (the word of the command line)
    metadata: Optional[Mapping[str, str]] = None,
    force: bool = False,
    strict: bool = True,
    max_shard_size: int = 0,
    threads: int = 0,
    progress: Optional[_library.Progress] = None,
) -> list[str]:
    """Writes CONTENT: a dict of arrays or torch tensors, numbers, texts, None and dicts. Returns the paths written.

    The format is that of the suffix, or FORMAT ("safetensors", "torch-zip", "gguf", "npz" …). The output appears whole
    or not at all, and replaces a file only if FORCE is set. A tensor that is there under two names is stored once,
    where the format can. If STRICT is not set, values that the format cannot hold are left out.

    >>> import tempfile, numpy
    >>> path = tempfile.mkdtemp() + "/a.npz"
    >>> [written] = save({"x": numpy.arange(3)}, path)
    >>> written == path
    True
    """
    name = os.fspath(path)
    argument(os.fsencode(name), "a path")
    if max_shard_size < 0 or threads < 0:
        raise ValueError("max_shard_size and threads cannot be negative")
    if not isinstance(content, Mapping):
        raise TypeError(f"a checkpoint is a dict of names and arrays, not a {type(content).__name__}")
    builder = _Builder()
    try:
        for key, text in (metadata or {}).items():
            pair = [argument(encode(part), "metadata") for part in (key, text)]
            call("ckpt_builder_add_metadata", builder.pointer, *pair)
        builder.add_dict(content, "")
        file = builder.finish()
    finally:
        builder.free()
    try:
        return _write(file, name, format, force, strict, max_shard_size, threads, progress)
    finally:
        library.ckpt_close(file)


def _write(
    file: ctypes.c_void_p,
    path: str,
    format: Optional[str],  # noqa: A002
    force: bool,
    strict: bool,
    max_shard_size: int,
    threads: int,
    progress: Optional[_library.Progress],
) -> list[str]:
    watch = Watch(progress)
    options = _library.WriteOptions(
        force=force,
        strict=strict,
        threads=threads,
        format=None if format is None else argument(encode(format), "a format"),
        max_shard=max_shard_size,
        progress=watch.function,
    )
    result = _library.WriteResult()
    plan = ctypes.c_void_p()
    call("ckpt_plan_new", file, ctypes.byref(plan))
    try:
        with watch:
            call("ckpt_plan_write", plan, os.fsencode(path), ctypes.byref(options), ctypes.byref(result))
        return [os.fsdecode(result.outputs[i]) for i in range(result.noutputs)]
    finally:
        library.ckpt_plan_free(plan)
