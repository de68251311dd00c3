"""The commands of `ckpt` as functions: the options of the command line, and its JSON as the result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any, Callable, Union

from ._library import Error

Operand = Union[str, "os.PathLike[str]"]


def _script_folders() -> Iterator[str]:
    """Where pip has put programs when it put this package where it is."""
    site = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    yield os.path.join(site, "bin")  # with --target
    if os.path.basename(site) in ("site-packages", "dist-packages"):
        yield os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(site))), "bin")  # with --prefix
    for scheme in sysconfig.get_scheme_names():
        places = sysconfig.get_paths(scheme)
        if site in (os.path.realpath(places["purelib"]), os.path.realpath(places["platlib"])):
            yield places["scripts"]
    yield os.path.dirname(sys.executable)


def binary() -> str:
    """Returns the path of the program `ckpt`: $CKPT, the one that was installed with this package, or that in PATH."""
    given = os.environ.get("CKPT")
    if given:
        return given
    found = shutil.which("ckpt", path=os.pathsep.join(_script_folders())) or shutil.which("ckpt")
    if found is None:
        raise Error(
            "the program ckpt is not installed",
            status="not-found",
            hint="pip install libckpt has it; else put it into PATH, or set CKPT",
        )
    return found


def _option_words(options: dict[str, Any]) -> list[str]:
    """Options as words: max_shard_size="5GB" is --max-shard-size=5GB, True is a flag, a list repeats the option."""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            text = os.fspath(item) if isinstance(item, os.PathLike) else item
            words.append(option if item is True else f"{option}={text}")
    return words


def _fail(reports: list[Any], errors: str, command: str, status: int) -> Error:
    """The first error that the command reported."""
    for report in reports:
        if report.get("schema") == "ckpt.error.v1":
            known = {key: report.get(key) for key in ("file", "offset", "hint", "found", "allowed")}
            message = report["message"]
            return Error(
                f"{known['file']}: {message}" if known["file"] else message,
                status=report["code"],
                where=report.get("place"),
                what=message,
                **known,
            )
    return Error(errors.strip().removeprefix("ckpt: ") or f"ckpt {command} ended with exit code {status}")


def run(command: str, *operands: Operand, **options: Any) -> Any:
    """Runs `ckpt COMMAND --json`, and returns its report; a list of reports if there are several.

    The exit code is that of the command line: after 2 an Error is raised, and 1 (files differ, a finding) is in the
    report. Options are those of `ckpt COMMAND --help`, with `_` in place of `-`.

    >>> run("hash", "no such file")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    libckpt.Error: ...no such file...
    """
    words = [binary(), command, "--json", *_option_words(options), "--", *[os.fspath(operand) for operand in operands]]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    reports = _json_lines(done.stdout)
    if done.returncode not in (0, 1):
        raise _fail(_json_lines(done.stderr) + reports, done.stderr, command, done.returncode)
    if done.stdout and not reports:  # what would be lost here, such as a checkpoint
        raise Error(f"ckpt {command} printed something else than a report", hint="name a file as output, not '-'")
    return reports[0] if len(reports) == 1 else reports


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line.startswith("{")]


def _function(command: str) -> Callable[..., Any]:
    def call_command(*operands: Operand, **options: Any) -> Any:
        return run(command, *operands, **options)

    call_command.__name__ = call_command.__qualname__ = command.replace("-", "_")
    call_command.__doc__ = f"Runs `ckpt {command}`; see `run`, and `ckpt help {command}`."
    return call_command


add = _function("add")
average = _function("average")
convert = _function("convert")
diff = _function("diff")
doctor = _function("doctor")
edit = _function("edit")
hash = _function("hash")  # noqa: A001 (the command's name)
info = _function("info")
lora = _function("lora")
ls = _function("ls")
match = _function("match")
mem = _function("mem")
merge_parts = _function("merge-parts")
meta = _function("meta")
parts = _function("parts")
rename = _function("rename")
salvage = _function("salvage")
sanitize = _function("sanitize")
scan = _function("scan")
show = _function("show")
stat = _function("stat")
strip = _function("strip")
tree = _function("tree")
verify = _function("verify")
