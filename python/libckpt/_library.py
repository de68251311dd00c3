"""The shared library, its structs as ckpt.h declares them, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
import signal
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Optional

NO_OFFSET = 2**64 - 1
NO_TENSOR = 2**32 - 1

Progress = Callable[[int, int], Any]


class Str(Structure):
    _fields_ = [("ptr", c_void_p), ("len", c_size_t)]
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Str:
        """A text for the arguments of a call; it refers to DATA, which it keeps."""
        text = cls(ctypes.cast(ctypes.c_char_p(data), c_void_p).value, len(data))
        text.data = data
        return text

    def bytes(self) -> bytes:
        return ctypes.string_at(self.ptr, self.len) if self.len else b""

    def text(self) -> str:
        return decode(self.bytes())


class ErrorStruct(Structure):
    _fields_ = [
        ("status", c_uint32),
        ("sys_errno", c_int32),
        ("offset", c_uint64),
        ("file", c_char * 512),
        ("where", c_char * 256),
        ("what", c_char * 384),
        ("hint", c_char * 256),
        ("found", c_char * 96),
        ("allowed", c_char * 96),
        ("innermost", c_uint32),
        ("reserved", c_char * 428),
    ]


class Sized(Structure):
    """A struct whose first field is its size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.struct_size = ctypes.sizeof(self)


class RemoteStruct(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_requests", c_uint32),
        ("offline", c_uint8),
        ("netrc", c_uint8),
        ("reserved", c_uint8 * 6),
        ("ca_file", c_char_p),
        ("hub_endpoint", c_char_p),
        ("hub_token", c_char_p),
        ("hub_token_from", c_char_p),
        ("s3_endpoint", c_char_p),
        ("s3_region", c_char_p),
        ("s3_key_id", c_char_p),
        ("s3_secret", c_char_p),
        ("s3_session", c_char_p),
    ]


class Limits(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_depth", c_uint32),
        ("max_metadata", c_uint64),
        ("max_header", c_uint64),
        ("max_tensors", c_uint64),
        ("max_expanded", c_uint64),
        ("parallel", c_char_p),
        ("names", c_int32),
        ("reserved", c_uint32),
        ("void_dtypes", c_char_p),
        ("remote", POINTER(RemoteStruct)),
    ]


class Tensor(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_uint16),
        ("kind", c_uint16),
        ("name", Str),
        ("path", c_void_p),
        ("npath", c_uint32),
        ("ndim", c_uint32),
        ("has_shape", c_uint8),
        ("has_data", c_uint8),
        ("conj", c_uint8),
        ("neg", c_uint8),
        ("requires_grad", c_uint8),
        ("parameter", c_uint8),
        ("reserved", c_uint8 * 2),
        ("shape", POINTER(c_uint64)),
        ("stride", POINTER(c_uint64)),
        ("elements", c_uint64),
        ("nbytes", c_uint64),
        ("storage", c_uint32),
        ("storage_offset", c_uint64),
        ("file_offset", c_uint64),
        ("alias_of", c_uint32),
        ("part_of", c_uint32),
        ("klass", Str),
        ("location", Str),
        ("note", Str),
        ("value", c_void_p),
        ("dtype_name", c_char_p),
    ]
    file: Any


class Storage(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("has_crc", c_uint32),
        ("nbytes", c_uint64),
        ("file_offset", c_uint64),
        ("key", Str),
        ("location", Str),
        ("file", Str),
    ]


class Leaf(Structure):
    _fields_ = [
        ("name", Str),
        ("path", c_void_p),
        ("npath", c_uint32),
        ("value", c_void_p),
        ("containers", c_void_p),
    ]


READ_AT = ctypes.CFUNCTYPE(c_int64, c_void_p, c_uint64, c_void_p, c_size_t)
PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class OpenOptions(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("salvage", c_uint32),
        ("names", c_uint32),
        ("reserved", c_uint32),
        ("limits", POINTER(Limits)),
        ("data", c_void_p),
        ("size", c_size_t),
        ("callbacks", c_void_p),
        ("progress", PROGRESS),
        ("user", c_void_p),
        ("wanted", POINTER(c_char_p)),
        ("nwanted", c_size_t),
    ]


class BuilderTensor(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_uint32),
        ("shape", POINTER(c_uint64)),
        ("ndim", c_uint32),
        ("reserved", c_uint32),
        ("data", c_void_p),
        ("nbytes", c_size_t),
        ("callbacks", c_void_p),
    ]


class WriteOptions(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("force", c_uint32),
        ("strict", c_uint32),
        ("dry_run", c_uint32),
        ("no_sync", c_uint32),
        ("follow_links", c_uint32),
        ("ties", c_uint32),
        ("threads", c_uint32),
        ("format", c_char_p),
        ("max_shard", c_uint64),
        ("progress", PROGRESS),
        ("user", c_void_p),
        ("shards", c_uint64),
        ("architecture", c_char_p),
        ("compress", c_uint32),
        ("keep_shards", c_uint32),
        ("part", c_uint32),
        ("parts", c_uint32),
        ("part_by_file", c_uint32),
        ("reserved", c_uint32),
        ("planned", c_void_p),
    ]


class WriteResult(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("format", c_char_p),
        ("outputs", POINTER(c_char_p)),
        ("noutputs", c_size_t),
        ("tensors", c_uint64),
        ("bytes", c_uint64),
        ("ndropped", c_size_t),
        ("naliases", c_size_t),
        ("ncasts", c_size_t),
        ("plan_id", c_char_p),
        ("part_bytes", c_uint64),
        ("part_found", c_uint64),
    ]


class Dropped(Structure):
    _fields_ = [("name", Str), ("path", c_void_p), ("npath", c_uint32), ("type", Str), ("why", Str)]


class Info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("has_weights", c_uint32),
        ("producer", Str),
        ("weights_root", Str),
        ("weights_why", Str),
        ("nweights", c_size_t),
        ("nwrappers", c_size_t),
        ("optimizer", Str),
        ("optimizer_path", Str),
        ("elements", c_uint64),
        ("nbytes", c_uint64),
        ("unreferenced", c_uint64),
        ("aliases", c_uint64),
        ("weights_only_why", Str),
        ("weights_only", c_int32),
        ("executes_code", c_uint32),
        ("ranks", c_void_p),
        ("nquantized", c_size_t),
        ("adapter", c_void_p),
    ]


# By the name that a struct has in ckpt.h, for the test that compares sizes and offsets with the compiler's.
STRUCTS = {
    "ckpt_str": Str,
    "ckpt_error": ErrorStruct,
    "ckpt_remote": RemoteStruct,
    "ckpt_limits": Limits,
    "ckpt_tensor": Tensor,
    "ckpt_storage": Storage,
    "ckpt_leaf": Leaf,
    "ckpt_open_options": OpenOptions,
    "ckpt_builder_tensor": BuilderTensor,
    "ckpt_write_options": WriteOptions,
    "ckpt_write_result": WriteResult,
    "ckpt_dropped": Dropped,
    "ckpt_info": Info,
}


# Hints that name an option of the command line, in words of Python
_HINTS = {
    "use -f to replace it": "force=True replaces it",
    "without --strict they are left out and listed": "strict=False leaves them out",
}


class Error(Exception):
    """What libckpt or ckpt reports: the text is the line that `ckpt` prints, and the hint.

    Attributes that are not known are None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: str = "usage",
        file: Optional[str] = None,
        offset: Optional[int] = None,
        where: Optional[str] = None,
        what: Optional[str] = None,
        hint: Optional[str] = None,
        found: Optional[str] = None,
        allowed: Optional[str] = None,
        errno: Optional[int] = None,
    ) -> None:
        hint = _HINTS.get(hint, hint) if hint else None
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.status = status
        self.file = file
        self.offset = offset
        self.where = where
        self.what = what if what is not None else message
        self.hint = hint
        self.found = found
        self.allowed = allowed
        self.errno = errno


def decode(data: bytes) -> str:
    """Names of a pickle may hold lone surrogates, and those of other formats any bytes."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The reverse of decode."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def argument(data: bytes, what: str) -> bytes:
    """Returns DATA, an argument that ends at the first NUL; ValueError: it has one, and WHAT would be cut there."""
    if b"\0" in data:
        raise ValueError(f"{what} cannot have a NUL: {decode(data)!r}")
    return data


def _find() -> str:
    given = os.environ.get("CKPT_LIBRARY")
    if given:
        return given
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libckpt.so.0")
    return beside if os.path.exists(beside) else "libckpt.so.0"


def _load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"libckpt: {path} cannot be loaded ({error}); pip install libckpt has it for Linux, "
            "else install it by `make install`, or set CKPT_LIBRARY to the path of libckpt.so"
        ) from None


path = _find()
library = _load()


def _declare(result: Any, name: str, *arguments: Any) -> None:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise ImportError(f"libckpt: {path} has no {name}; it is of another version than this package") from None
    function.restype = result
    function.argtypes = arguments


_ERROR = POINTER(ErrorStruct)
_HANDLE = c_void_p
_declare(c_char_p, "ckpt_version")
_declare(c_char_p, "ckpt_status_name", c_int)
_declare(c_char_p, "ckpt_error_text", _ERROR, c_char_p, c_size_t)
_declare(c_int, "ckpt_open_with", c_char_p, POINTER(OpenOptions), POINTER(_HANDLE), _ERROR)
_declare(None, "ckpt_close", _HANDLE)
_declare(c_char_p, "ckpt_file_format", _HANDLE)
_declare(c_char_p, "ckpt_file_title", _HANDLE)
_declare(c_uint64, "ckpt_file_bytes", _HANDLE)
_declare(c_uint32, "ckpt_tensor_count", _HANDLE)
_declare(c_bool, "ckpt_tensor_at", _HANDLE, c_uint32, POINTER(Tensor))
_declare(c_uint32, "ckpt_tensor_names", _HANDLE, c_uint32, c_uint32, POINTER(Str))
_declare(c_uint32, "ckpt_tensor_find", _HANDLE, Str)
_declare(c_char_p, "ckpt_tensor_dtype_name", POINTER(Tensor))
_declare(c_char_p, "ckpt_kind_name", c_int)
_declare(c_int, "ckpt_dtype_parse", Str)
_declare(c_int, "ckpt_file_narrow", _HANDLE, c_char_p, POINTER(c_char_p), c_size_t, _ERROR)
_declare(c_int, "ckpt_table_json", _HANDLE, c_void_p, POINTER(c_void_p), POINTER(c_size_t), _ERROR)
_declare(None, "ckpt_free", c_void_p)
_declare(c_int, "ckpt_file_locate", _HANDLE, _ERROR)
_declare(c_bool, "ckpt_storage_at", _HANDLE, c_uint32, POINTER(Storage))
_declare(c_int, "ckpt_tensor_read", _HANDLE, c_uint32, c_uint64, c_uint64, c_void_p, _ERROR)
_declare(c_int, "ckpt_tensor_borrow", _HANDLE, c_uint32, POINTER(c_void_p), POINTER(c_size_t), _ERROR)
_declare(c_size_t, "ckpt_leaf_count", _HANDLE)
_declare(POINTER(Leaf), "ckpt_leaf_at", _HANDLE, c_size_t)
_declare(c_char_p, "ckpt_notice_at", _HANDLE, c_size_t)
_declare(c_int, "ckpt_value_get_type", c_void_p)
_declare(c_size_t, "ckpt_value_text", c_void_p, c_size_t, c_char_p, c_size_t)
_declare(c_bool, "ckpt_value_bool", c_void_p)
_declare(c_int64, "ckpt_value_int", c_void_p)
_declare(c_double, "ckpt_value_float", c_void_p)
_declare(Str, "ckpt_value_str", c_void_p)
_declare(c_int, "ckpt_inspect", _HANDLE, POINTER(Info), _ERROR)
_declare(c_int, "ckpt_builder_new", c_char_p, POINTER(_HANDLE), _ERROR)
_declare(None, "ckpt_builder_free", _HANDLE)
_declare(c_int, "ckpt_builder_add_tensor", _HANDLE, c_char_p, POINTER(BuilderTensor), _ERROR)
_declare(c_int, "ckpt_builder_add_tie", _HANDLE, c_char_p, c_char_p, _ERROR)
_declare(c_int, "ckpt_builder_add_none", _HANDLE, c_char_p, _ERROR)
_declare(c_int, "ckpt_builder_add_bool", _HANDLE, c_char_p, c_bool, _ERROR)
_declare(c_int, "ckpt_builder_add_int", _HANDLE, c_char_p, c_int64, _ERROR)
_declare(c_int, "ckpt_builder_add_float", _HANDLE, c_char_p, c_double, _ERROR)
_declare(c_int, "ckpt_builder_add_text", _HANDLE, c_char_p, c_char_p, _ERROR)
_declare(c_int, "ckpt_builder_begin_dict", _HANDLE, c_char_p, _ERROR)
_declare(c_int, "ckpt_builder_end_dict", _HANDLE, _ERROR)
_declare(c_int, "ckpt_builder_add_metadata", _HANDLE, c_char_p, c_char_p, _ERROR)
_declare(c_int, "ckpt_builder_finish", _HANDLE, POINTER(_HANDLE), _ERROR)
_declare(c_int, "ckpt_plan_new", _HANDLE, POINTER(_HANDLE), _ERROR)
_declare(None, "ckpt_plan_free", _HANDLE)
_declare(c_int, "ckpt_plan_write", _HANDLE, c_char_p, POINTER(WriteOptions), POINTER(WriteResult), _ERROR)
_declare(POINTER(Dropped), "ckpt_plan_dropped_at", _HANDLE, c_size_t)


def version() -> str:
    """Returns the version of the library."""
    return decode(library.ckpt_version())


def _text(field: bytes) -> Optional[str]:
    return decode(field) if field else None


def make_error(error: ErrorStruct) -> Error:
    line = ctypes.create_string_buffer(2048)
    library.ckpt_error_text(ctypes.byref(error), line, len(line))
    return Error(
        decode(line.value),
        status=decode(library.ckpt_status_name(error.status)),
        file=_text(error.file),
        offset=None if error.offset == NO_OFFSET else error.offset,
        where=_text(error.where),
        what=_text(error.what),
        hint=_text(error.hint),
        found=_text(error.found),
        allowed=_text(error.allowed),
        errno=error.sys_errno or None,
    )


def call(name: str, *arguments: Any) -> None:
    """Calls the function NAME, whose last argument is the error, and raises that."""
    error = ErrorStruct()
    if getattr(library, name)(*arguments, ctypes.byref(error)):
        raise make_error(error)


class Watch:
    """A progress callback for the library while it works: `with Watch(progress) as watch`.

    It calls the user's function, if there is one, and Python's handler of Ctrl-C. What either raises stops the library,
    and is raised again at the end, in place of the library's error. Python itself would call the handler when a callback
    begins, where nothing can catch what it raises: ctypes prints that, and the library goes on.
    """

    def __init__(self, progress: Optional[Progress] = None) -> None:
        self._progress = progress
        self._raised: Optional[BaseException] = None
        self._handler: Any = None  # of Ctrl-C; None: it is not Python's, or this is not the main thread
        self._signal: Optional[tuple[int, Any]] = None  # the arguments of the handler, until it is called
        self.function = PROGRESS(self._step)

    def __enter__(self) -> Watch:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            try:
                signal.signal(signal.SIGINT, self._defer)
                self._handler = handler
            except ValueError:  # only the main thread may; another one gets no signal
                pass
        return self

    def __exit__(self, *_: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if self._raised is not None:
            raise self._raised
        self._call_handler()

    def _defer(self, number: int, frame: Any) -> None:
        self._signal = number, frame

    def _call_handler(self) -> None:
        arguments, self._signal = self._signal, None
        if arguments is not None:
            self._handler(*arguments)

    def _step(self, _user: Any, done: int, total: int) -> int:
        try:
            self._call_handler()
            if self._progress is not None:
                self._progress(done, total)
        except BaseException as error:  # also KeyboardInterrupt
            self._raised = error
            return 1
        return 0
