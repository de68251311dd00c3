"""How to read from servers."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, Optional

from . import _library

_SCHEMES = ("https://", "http://", "hf://", "s3://")


@dataclass(repr=False)
class Remote:
    """How `open` reads a path that begins with https://, http://, hf:// or s3://; see ckpt-remote(7).

    A secret is sent only to the server that it is for.
    """

    offline: bool = False  # nothing is requested: each URL is refused
    netrc: bool = False  # names and passwords are those of ~/.netrc
    max_requests: int = 0  # at a time; 0: 16
    ca_file: Optional[str] = None  # certificates of the authorities to trust, in PEM; None: the system's
    hub_endpoint: Optional[str] = None  # what hf:// stands for
    hub_token: Optional[str] = None
    s3_endpoint: Optional[str] = None
    s3_region: Optional[str] = None
    s3_key_id: Optional[str] = None  # with s3_secret, signs requests
    s3_secret: Optional[str] = None
    s3_session: Optional[str] = None

    def __repr__(self) -> str:  # no secret in a traceback
        return f"Remote({', '.join(field.name for field in fields(self) if getattr(self, field.name))})"

    @classmethod
    def from_environment(cls, url: str) -> Remote:
        """What the command `ckpt` takes from the environment for URL: the variables of huggingface_hub and of AWS."""
        env = _setting
        is_hub = url.lower().startswith("hf://")
        return cls(
            offline=env("CKPT_OFFLINE") not in (None, "0") or (is_hub and _is_true("HF_HUB_OFFLINE")),
            hub_endpoint=env("HF_ENDPOINT"),
            hub_token=_find_hub_token() if is_hub else None,
            s3_endpoint=env("AWS_ENDPOINT_URL_S3") or env("AWS_ENDPOINT_URL"),
            s3_region=env("AWS_REGION") or env("AWS_DEFAULT_REGION"),
            s3_key_id=env("AWS_ACCESS_KEY_ID"),
            s3_secret=env("AWS_SECRET_ACCESS_KEY"),
            s3_session=env("AWS_SESSION_TOKEN"),
        )

    def struct(self) -> _library.RemoteStruct:
        """What ckpt.h calls ckpt_remote; a file that is opened with it needs it until it is closed."""
        values: dict[str, Any] = {
            field.name: os.fsencode(value) if isinstance(value, str) else int(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        for name, value in values.items():
            if isinstance(value, bytes) and any(not 0x20 < byte < 0x7F for byte in value) and name != "ca_file":
                raise ValueError(f"{name} has a blank, a control character or one that is not ASCII")
        return _library.RemoteStruct(**values)


def is_url(path: str) -> bool:
    return path.lower().startswith(_SCHEMES)


def _setting(name: str) -> Optional[str]:
    return os.environ.get(name) or None


def _is_true(name: str) -> bool:
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")


def _find_hub_token() -> Optional[str]:
    """The token of the Hub, found in the order of huggingface_hub."""
    if _is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None
    token = os.environ.get("HF_TOKEN", "").strip()
    home = _setting("HF_HOME") or os.path.join(_setting("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    path = os.path.expanduser(_setting("HF_TOKEN_PATH") or os.path.join(home, "token"))
    if not token and os.path.isfile(path):
        with open(path, encoding="ascii", errors="surrogateescape") as file:
            token = file.read(4097).strip()
    return token or None
