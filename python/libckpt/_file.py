"""An open checkpoint as a mapping of names to arrays."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Optional, Sequence, Union

from . import _library
from ._dtypes import numpy_dtype, torch_dtype
from ._library import NO_OFFSET, NO_TENSOR, call, library
from ._remote import Remote, is_url

Path = Union[str, "os.PathLike[str]"]

# Values of ckpt_value_type
_NONE, _BOOL, _INT, _BIGINT, _FLOAT, _STR, _STR8, _BYTES = range(8)


class _Handle:
    """The ckpt_file. It is closed when nothing refers to it any more, arrays over its bytes included.

    It is itself the argument of a call, so that another thread cannot close the file while the library works.
    """

    def __init__(self, pointer: int, remote: Optional[_library.RemoteStruct]) -> None:
        self._as_parameter_ = ctypes.c_void_p(pointer)
        self.remote = remote  # its texts must outlive the file
        # not at exit, when functions of atexit may still use the file and its arrays
        weakref.finalize(self, library.ckpt_close, self._as_parameter_).atexit = False


def _python_value(value: int) -> Any:
    """A value as Python has it; that of a class is a text as `ckpt show` prints it."""
    kind = library.ckpt_value_get_type(value)
    if kind == _NONE:
        return None
    if kind == _BOOL:
        return library.ckpt_value_bool(value)
    if kind == _INT:
        return library.ckpt_value_int(value)
    if kind == _FLOAT:
        return library.ckpt_value_float(value)
    size = library.ckpt_value_text(value, 100, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    library.ckpt_value_text(value, 100, text, size)
    if kind in (_STR, _STR8, _BYTES):
        read = library.ckpt_value_str(value)
        if read.len or text.value.strip(b"bu") in (b"''", b'""'):  # else it is too long to be in memory
            return read.text() if kind == _STR else read.bytes()
    return int(text.value) if kind == _BIGINT and text.value.lstrip(b"-").isdigit() else _library.decode(text.value)


class Slice:
    """A tensor of which only what is indexed is read: `file.slice("w")[0:2]`."""

    def __init__(self, file: "File", row: int) -> None:
        self._file = file
        self._row = row
        self._tensor = file._tensor(row)

    @property
    def shape(self) -> tuple[int, ...]:
        return _shape(self._tensor)

    @property
    def dtype(self) -> str:
        return _dtype_name(self._tensor)

    def __repr__(self) -> str:
        return f"<libckpt.Slice {self._tensor.name.text()!r}, {self.dtype}, {list(self.shape)}>"

    def __getitem__(self, key: Any) -> Any:
        """Returns the array that NumPy's basic or advanced indexing gives; reads the rows of the first dimension."""
        mapped = self._file._borrow(self._row)
        if mapped is not None:
            return self._file._as_array(self._tensor, mapped)[key]
        first, count, rest = _leading_rows(key, self.shape)
        return self._file._read_rows(self._row, self._tensor, first, count)[rest]


def _leading_rows(key: Any, shape: tuple[int, ...]) -> tuple[int, int, Any]:
    """Which rows of the first dimension KEY needs, and what indexes these rows as KEY indexes all."""
    keys = key if isinstance(key, tuple) else (key,)
    if not shape:
        return 0, 1, key
    if keys and isinstance(keys[0], slice) and keys[0].step in (None, 1):
        first, stop, _ = keys[0].indices(shape[0])
        return first, max(stop - first, 0), (slice(None), *keys[1:])
    if keys and isinstance(keys[0], int) and not isinstance(keys[0], bool):
        first = keys[0] + shape[0] if keys[0] < 0 else keys[0]
        if not 0 <= first < shape[0]:
            raise IndexError(f"index {keys[0]} is out of bounds for dimension 0 of size {shape[0]}")
        return first, 1, (0, *keys[1:])
    return 0, shape[0], key


def _shape(tensor: _library.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()


def _dtype_name(tensor: _library.Tensor) -> str:
    return _library.decode(library.ckpt_tensor_dtype_name(ctypes.byref(tensor)))


class File(Mapping[str, Any]):
    """An open checkpoint: a mapping of the names of tensors to NumPy arrays. `open` makes it.

    An array has the bytes of the file itself, mapped and read-only, if they are stored as NumPy has them; else it is a
    copy. Such an array stays valid when the file is closed. If a program truncates the file, reading the array ends
    this process (SIGBUS): for a file that is being written, use `read`, which copies.
    """

    def __init__(self, handle: _Handle, path: str) -> None:
        self._open_handle: Optional[_Handle] = handle
        self._rows: Optional[dict[str, int]] = None
        self.path = path

    # ---------------------------------------------------------------- opening and closing

    @property
    def _handle(self) -> _Handle:
        if self._open_handle is None:
            raise ValueError(f"{self.path} is closed")
        return self._open_handle

    def close(self) -> None:
        """Closes the file as soon as no array refers to its bytes."""
        self._open_handle = None

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a File cannot be pickled or copied: open the path in each process")

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<libckpt.File {self.path!r}, closed>"
        return f"<libckpt.File {self.path!r}, {self.format}, {len(self)} tensors>"

    # ---------------------------------------------------------------- the mapping

    def __len__(self) -> int:
        return len(self._index())

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __getitem__(self, name: str) -> Any:
        """Returns the tensor NAME as an array, without a copy where that is possible."""
        row = self._row(name)
        tensor = self._tensor(row)
        mapped = self._borrow(row)
        return self._read(row, tensor) if mapped is None else self._as_array(tensor, mapped)

    def _index(self) -> dict[str, int]:
        """Names and rows; of two tensors of one name, the first."""
        if self._rows is None:
            handle = self._handle
            count = library.ckpt_tensor_count(handle)
            texts = (ctypes.c_size_t * (2 * count))()  # an address and a length each
            library.ckpt_tensor_names(handle, 0, count, ctypes.cast(texts, ctypes.POINTER(_library.Str)))
            places = list(texts)
            rows: dict[str, int] = {}
            for row, (start, size) in enumerate(zip(places[::2], places[1::2])):
                rows.setdefault(_library.decode(ctypes.string_at(start, size)), row)
            self._rows = rows
        return self._rows

    def check_names(self) -> None:
        """Raises Error if two tensors have one name, of which this mapping has the first: of a pickle of
        {"a": {"b": x}, "a.b": y}, both are called a.b."""
        rows = set(self._index().values())
        for row in range(library.ckpt_tensor_count(self._handle)):
            if row not in rows:
                what = f'two tensors are called "{self._tensor(row).name.text()}"'
                raise _library.Error(
                    f"{self.path}: {what}", status="exists", file=self.path, what=what, hint="File.table lists both"
                )

    def _find(self, name: str) -> Optional[int]:
        if self._rows is not None:
            return self._rows.get(name)
        row: int = library.ckpt_tensor_find(self._handle, _library.Str.of(_library.encode(name)))
        return None if row == NO_TENSOR else row

    def _row(self, name: str) -> int:
        row = self._find(name) if isinstance(name, str) else None
        if row is None:
            raise KeyError(name)
        return row

    def _tensor(self, row: int) -> _library.Tensor:
        handle, tensor = self._handle, _library.Tensor()
        library.ckpt_tensor_at(handle, row, ctypes.byref(tensor))
        tensor.file = handle  # its name and shape are in the memory of the file
        return tensor

    # ---------------------------------------------------------------- bytes

    def _borrow(self, row: int) -> Optional[memoryview]:
        """The bytes of a tensor where they are, read-only; None: a copy is needed."""
        handle = self._handle
        start, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        error = _library.ErrorStruct()
        if library.ckpt_tensor_borrow(handle, row, ctypes.byref(start), ctypes.byref(nbytes), ctypes.byref(error)):
            made = _library.make_error(error)
            if made.status == "unsupported":
                return None
            raise made
        if not nbytes.value:
            return memoryview(b"")
        array = (ctypes.c_ubyte * nbytes.value).from_address(start.value or 0)
        setattr(array, "_handle", handle)  # the file stays open as long as the array
        return memoryview(array).toreadonly().cast("B")

    def _copy(self, row: int, tensor: _library.Tensor) -> bytearray:
        data = bytearray(tensor.nbytes)
        count = tensor.nbytes if _is_packed(tensor) else tensor.elements
        self._read_into(row, 0, count, data)
        return data

    def _read_into(self, row: int, first: int, count: int, out: Any) -> None:
        pointer = (ctypes.c_ubyte * len(out)).from_buffer(out) if len(out) else None
        call("ckpt_tensor_read", self._handle, row, first, count, pointer)

    def _as_array(self, tensor: _library.Tensor, data: Any) -> Any:
        dtype = numpy_dtype(_dtype_name(tensor))
        import numpy

        return numpy.frombuffer(data, dtype=dtype).reshape(_shape(tensor))

    def _read(self, row: int, tensor: _library.Tensor) -> Any:
        numpy_dtype(_dtype_name(tensor))  # before anything is read
        return self._as_array(tensor, self._copy(row, tensor))

    def _read_rows(self, row: int, tensor: _library.Tensor, first: int, count: int) -> Any:
        dtype, shape = numpy_dtype(_dtype_name(tensor)), _shape(tensor)
        import numpy

        per_row = tensor.elements // shape[0] if shape and shape[0] else tensor.elements
        data = bytearray(count * per_row * dtype.itemsize)
        self._read_into(row, first * per_row, count * per_row, data)
        return numpy.frombuffer(data, dtype=dtype).reshape((count, *shape[1:]) if shape else ())

    # ---------------------------------------------------------------- tensors

    def read(self, name: str) -> Any:
        """Returns the tensor NAME as an array of its own, which may be changed. Compares its checksum, if it has one."""
        row = self._row(name)
        return self._read(row, self._tensor(row))

    def read_into(self, name: str, address: int, nbytes: int) -> None:
        """Reads the tensor NAME, row-major and little-endian, to the NBYTES bytes at ADDRESS, which must be its size:
        what `ndarray.ctypes.data` or `Tensor.data_ptr()` gives. Several threads may read at a time."""
        row = self._row(name)
        tensor = self._tensor(row)
        if nbytes != tensor.nbytes:
            raise ValueError(f"{name!r} has {tensor.nbytes} bytes, not {nbytes}")
        count = tensor.nbytes if _is_packed(tensor) else tensor.elements
        call("ckpt_tensor_read", self._handle, row, 0, count, ctypes.c_void_p(address))

    def slice(self, name: str) -> Slice:
        """Returns the tensor NAME as something to index: only the rows that are indexed are read."""
        return Slice(self, self._row(name))

    def raw(self, name: str) -> memoryview:
        """Returns the bytes of the tensor NAME, of any dtype: row-major, little-endian; read-only where not copied."""
        row = self._row(name)
        mapped = self._borrow(row)
        return memoryview(self._copy(row, self._tensor(row))) if mapped is None else mapped

    def torch(self, name: str) -> Any:
        """Returns the tensor NAME as a torch tensor.

        Where the bytes are stored as torch has them, they are mapped: pages are read when they are used, and a change
        stays in this process. Else they are copied.
        """
        row = self._row(name)
        tensor = self._tensor(row)
        dtype, shape = torch_dtype(_dtype_name(tensor)), _shape(tensor)
        import torch

        if not tensor.nbytes:
            if not tensor.has_data:
                self._borrow(row)  # raises the reason
            return torch.empty(shape, dtype=dtype)
        place = self._private_map(row, tensor)
        if place is None:
            return torch.frombuffer(self._copy(row, tensor), dtype=dtype).reshape(shape)
        mapped, offset = place
        count = tensor.nbytes // dtype.itemsize
        return torch.frombuffer(mapped, dtype=dtype, count=count, offset=offset).reshape(shape)

    def _private_map(self, row: int, tensor: _library.Tensor) -> Optional[tuple[mmap.mmap, int]]:
        """A copy-on-write mapping of the page that TENSOR begins in, up to its end, and its offset in there. None: its
        bytes are not stored raw, or the file is not the one that was opened."""
        borrowed = self._borrow(row)
        if borrowed is None:
            return None
        if tensor.file_offset == NO_OFFSET:
            call("ckpt_file_locate", self._handle)
            tensor = self._tensor(row)
        storage = _library.Storage()
        library.ckpt_storage_at(self._handle, tensor.storage, ctypes.byref(storage))
        path = storage.file.text() or self.path
        if storage.file.text() and not os.path.isabs(path):
            folder = self.path if os.path.isdir(self.path) else os.path.dirname(self.path)
            path = os.path.join(folder, path)
        if tensor.file_offset == NO_OFFSET or not os.path.isfile(path):
            return None
        skipped = tensor.file_offset % mmap.ALLOCATIONGRANULARITY
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            mapped = mmap.mmap(
                descriptor, skipped + tensor.nbytes, access=mmap.ACCESS_COPY, offset=tensor.file_offset - skipped
            )
        except (OSError, ValueError):  # it is shorter now
            return None
        finally:
            os.close(descriptor)
        ends = min(tensor.nbytes, 4096)
        same = mapped[skipped : skipped + ends] == borrowed[:ends] and mapped[-ends:] == borrowed[-ends:]
        return (mapped, skipped) if same else None

    def shape(self, name: str) -> tuple[int, ...]:
        return _shape(self._tensor(self._row(name)))

    def dtype(self, name: str) -> str:
        """Returns the dtype of the tensor NAME as torch calls it, "bfloat16"."""
        return _dtype_name(self._tensor(self._row(name)))

    # ---------------------------------------------------------------- about the file

    @property
    def format(self) -> str:
        """The format as `ckpt info` names it: "torch-zip", "safetensors" …"""
        return _library.decode(library.ckpt_file_format(self._handle))

    @property
    def notices(self) -> list[str]:
        """What a user should know about the file although it is no error."""
        handle = self._handle
        found: list[str] = []
        while (text := library.ckpt_notice_at(handle, len(found))) is not None:
            found.append(_library.decode(text))
        return found

    @property
    def info(self) -> dict[str, Any]:
        """What the checkpoint is: its format, producer, size, weights, optimizer."""
        handle, about = self._handle, _library.Info()
        call("ckpt_inspect", handle, ctypes.byref(about))
        refuses = {1: True, 0: False}
        return {
            "path": self.path,
            "format": self.format,
            "title": _library.decode(library.ckpt_file_title(handle)),
            "file_bytes": library.ckpt_file_bytes(handle),
            "producer": about.producer.text() or None,
            "tensors": library.ckpt_tensor_count(handle),
            "elements": about.elements,
            "bytes": about.nbytes,
            "aliases": about.aliases,
            "weights_root": about.weights_root.text() if about.has_weights else None,
            "optimizer": about.optimizer.text() or None,
            "weights_only": refuses.get(about.weights_only),
            "weights_only_why": about.weights_only_why.text() or None,
            "executes_code": bool(about.executes_code),
        }

    @property
    def others(self) -> dict[str, Any]:
        """What is not a tensor, by joined name: numbers, texts, None, bytes. Objects of classes are short texts,
        and so are texts and bytes of more than 64 KiB: what `ckpt show` prints."""
        found, handle = {}, self._handle
        for index in range(library.ckpt_leaf_count(handle)):
            leaf = library.ckpt_leaf_at(handle, index).contents
            found[leaf.name.text()] = _python_value(leaf.value)
        return found

    def table(self) -> dict[str, list[Any]]:
        """Returns all tensors as a dict of columns, which pandas.DataFrame and pyarrow.table take.

        file_offset is that of bytes that are stored raw; alias_of is the first of several names of the same bytes.
        """
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        call("ckpt_file_locate", self._handle)
        call("ckpt_table_json", self._handle, None, ctypes.byref(text), ctypes.byref(size))
        try:
            rows = json.loads(ctypes.string_at(text.value or 0, size.value))["tensors"]
        finally:
            library.ckpt_free(text)
        columns = "name dtype shape elements bytes kind file_offset alias_of".split()
        return {column: [row.get(column) for row in rows] for column in columns}


def _is_packed(tensor: _library.Tensor) -> bool:
    """True if the library counts the bytes of TENSOR in place of its elements."""
    return bool(tensor.nbytes < tensor.elements or (tensor.elements and tensor.nbytes % tensor.elements))


def open(  # noqa: A001 (the name that users expect)
    path: Path,
    *,
    root: Optional[str] = None,
    keep: Sequence[str] = (),
    salvage: bool = False,
    remote: Optional[Remote] = None,
    progress: Optional[_library.Progress] = None,
) -> File:
    """Opens the checkpoint PATH, a file or folder of any format or a URL, and reads its metadata, but no tensor.

    root     only what is below this container, named from there; "auto": the weights
    keep     only tensors whose names match one of these globs ("!GLOB" excludes)
    salvage  open a damaged file: what is lost has no bytes
    remote   how to read a URL; None: as the environment has it, see Remote.from_environment
    progress is called with the bytes read so far, and those to read

    >>> import tempfile, numpy
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> _ = save({"fc": {"weight": numpy.eye(2, dtype="float32")}}, path)
    >>> with open(path) as file:
    ...     print(list(file), file["fc.weight"][1], file.shape("fc.weight"))
    ['fc.weight'] [0. 1.] (2, 2)
    """
    name = os.fspath(path)
    named = _library.argument(os.fsencode(name), "a path")
    root_name = None if root is None else _library.argument(_library.encode(root), "a root")
    globs = [_library.argument(_library.encode(glob), "a glob") for glob in keep]
    watch = _library.Watch(progress)
    server = (remote or Remote.from_environment(name)).struct() if remote or is_url(name) else None
    limits = _library.Limits(remote=ctypes.pointer(server) if server else None)
    options = _library.OpenOptions(salvage=salvage, progress=watch.function, limits=ctypes.pointer(limits))
    pointer = ctypes.c_void_p()
    with watch:
        call("ckpt_open_with", named, ctypes.byref(options), ctypes.byref(pointer))
        handle = _Handle(pointer.value or 0, server)
    if root is not None or keep:
        call("ckpt_file_narrow", handle, root_name, (ctypes.c_char_p * len(globs))(*globs), len(globs))
    return File(handle, name)


from ._save import save  # noqa: E402 (for the example above)
