"""keras.json: reads the settings from it and writes them back.

Its field "backend" names a module that is imported, so a file is believed only if nobody but the
user, or root, can have written it or can change its folder: the rule of compiled kernels.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.runtime import config, paths

SAVED_SETTINGS = ("epsilon", "floatx", "image_data_format")
MAX_FILE_BYTES = 1 << 20
"""Bytes of a file that is read; one of Keras has a hundred."""

_MAX_LEVELS = 100  # levels of lists and objects
_MAX_DIGITS = 4000  # digits of a number: below what Python turns into an integer
_TOKEN = r'"(?:\\.|[^"\\])*"|[\[{]|[\]}]|\d+'


class _Unreadable(Exception):
    """What is wrong with a file as a whole, in words."""


# ------------------------------------------------------------------ reading


def _read(path: Path) -> tuple[dict[str, Any], str, str | None]:
    """The fields of the file, its text, and what is wrong with it as a whole."""
    try:
        paths.check_own(path.parent)
        text = _decoded(paths.read_regular(path, MAX_FILE_BYTES, own=True))
        return _parsed(text), text, None
    except FileNotFoundError:
        return {}, "", None
    except _Unreadable as problem:
        return {}, "", f"{path}, {problem}"
    except OSError as error:
        return {}, "", f"{path}: {error.strerror or error}"


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _Unreadable(f"line {_line(data[: error.start])}: it is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise _Unreadable("line 1: it begins with a byte order mark, which JSON does not allow")
    return text


def _parsed(text: str) -> dict[str, Any]:
    """The fields of a text; `_Unreadable` when it is not one object, each field there once."""
    _check_extent(text)
    pairs: list[tuple[str, Any]] = []

    def made(found: list[tuple[str, object]]) -> dict[str, Any]:
        pairs[:] = found  # the whole file's come last
        return dict(found)

    try:
        fields = json.loads(text, object_pairs_hook=made)
    except json.JSONDecodeError as error:
        raise _Unreadable(f"line {error.lineno}: {error.msg}") from None
    if not isinstance(fields, dict):
        raise _Unreadable("line 1: not a JSON object")
    names = [name for name, _ in pairs]
    for name in fields:
        if names.count(name) > 1:
            raise _Unreadable(f"line {_line_of(name, text, -1)}: {shown(name)} appears twice")
    return fields


def _check_extent(text: str) -> None:
    """Refuse what Python's reader of JSON does not cope with."""
    depth = 0
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        found = token.group()
        depth += (found in ("[", "{")) - (found in ("]", "}"))
        if depth > _MAX_LEVELS:
            what = f"more than {_MAX_LEVELS} levels of lists and objects"
        elif found[0].isdigit() and len(found) > _MAX_DIGITS:
            what = f"a number of {len(found)} digits"
        else:
            continue
        raise _Unreadable(f"line {_line(text[: token.start()])}: {what}")


def _line(before: str | bytes) -> int:
    newline: Any = "\n" if isinstance(before, str) else b"\n"
    return before.count(newline) + 1


def _line_of(name: str, text: str, place: int = 0) -> int:
    """The line where a field stands, for the first or another time; 1 if it is spelled oddly."""
    found = list(re.finditer(re.escape(json.dumps(name)) + r"\s*:", text))
    return _line(text[: found[place].start()]) if found else 1


def load_file(path: Path | None = None) -> dict[str, Any]:
    """Apply keras.json and return its fields.

    What is wrong gives one warning, and the default.
    """
    path = path or paths.keras_home() / "keras.json"
    fields, text, problem = _read(path)
    problems = [] if problem is None else [problem]
    given = {name: name for name in SAVED_SETTINGS if name in fields}
    if "image_data_format" not in fields and "image_dim_ordering" in fields:
        ordering = fields["image_dim_ordering"]
        known = isinstance(ordering, str) and ordering in config.ORDERINGS
        fields["image_data_format"] = config.ORDERINGS[ordering] if known else ordering
        given["image_data_format"] = "image_dim_ordering"
    for name, written in given.items():
        try:
            _apply(name, fields[name])
        except ArgumentError as error:
            where = "" if problems else f"{path}, "
            at = f"{where}line {_line_of(written, text)}, field {name!r}"
            problems.append(f"{at}: {error.reason}")
    if problems:
        warnings.warn(f"{'; '.join(problems)}; using the defaults", stacklevel=2)
    return fields


def chosen_backend(path: Path | None = None) -> str | None:
    """The backend that keras.json names; None where it names none, or is not to be believed."""
    fields, _text, _problem = _read(path or paths.keras_home() / "keras.json")
    name = fields.get("backend")
    return name if isinstance(name, str) else None


def _apply(name: str, value: object) -> None:
    if name == "epsilon" and isinstance(value, str):
        raise ArgumentError(f"epsilon must be a number, got the string {shown(value)}")
    config.assign(name, value)


# ------------------------------------------------------------------ writing


def save_file(path: Path | None = None, engine: str | None = None) -> Path:
    """Write the settings to keras.json atomically, keeping fields that kbench does not know.

    `engine` is written as the backend; without it the file keeps its own. A file that cannot be
    read is kept beside it as keras.json.broken. OSError where it cannot be written, or would lie
    in a folder that others can write.
    """
    path = path or paths.keras_home() / "keras.json"
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    paths.check_own(path.parent)
    target = Path(os.path.realpath(path))
    fields, _text, problem = _read(target)
    if problem is not None and target.is_file():
        shutil.copyfile(target, target.with_name(f"{target.name}.broken"))
    fields["backend"] = engine or fields.get("backend", "kbench")
    for name in SAVED_SETTINGS:
        fields[name] = config.snapshot()[name]
    _replace(target, json.dumps(fields, indent=4) + "\n")
    return path


def _replace(target: Path, text: str) -> None:
    """Write a file so that at every moment the old or the new one is there, whole."""
    status = target.stat() if target.exists() else None
    mode = status.st_mode & 0o777 if status and paths.is_own(status) else 0o644
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
