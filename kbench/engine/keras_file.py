"""keras.json: reads the settings from it and writes them back."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from kbench.engine import config, folders
from kbench.engine.errors import ArgumentError

KEPT = ("epsilon", "floatx", "image_data_format")


def _read(path: Path) -> tuple[dict[str, Any], str | None]:
    """The fields of the file, and what is wrong with it as a whole."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, None
    except json.JSONDecodeError as error:
        return {}, f"{path}, line {error.lineno}: {error.msg}"
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        return {}, f"{path}: {error}"
    if not isinstance(loaded, dict):
        return {}, f"{path}, line 1: not a JSON object"
    return loaded, None


def load_file(path: Path | None = None) -> dict[str, Any]:
    """Apply keras.json and return its fields; what is wrong gives a warning and the default."""
    path = path or folders.keras_home() / "keras.json"
    fields, problem = _read(path)
    if problem is not None:
        warnings.warn(f"{problem}; using the defaults", stacklevel=2)
    if "image_data_format" not in fields and "image_dim_ordering" in fields:
        ordering = fields["image_dim_ordering"]
        known = isinstance(ordering, str) and ordering in config.ORDERINGS
        fields["image_data_format"] = config.ORDERINGS[ordering] if known else ordering
    for name in KEPT:
        if name in fields:
            try:
                config.assign(name, fields[name])
            except ArgumentError as error:
                warnings.warn(f"{path}, field {name!r}: {error.reason}", stacklevel=2)
    return fields


def save_file(path: Path | None = None, engine: str | None = None) -> Path:
    """Write the settings to keras.json atomically, keeping fields that kbench does not know.

    `engine` is written as the backend; without it the file keeps its own. A file that cannot be
    read is kept beside it as keras.json.broken.
    """
    path = path or folders.keras_home() / "keras.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(path))
    fields, problem = _read(target)
    if problem is not None and target.is_file():
        shutil.copyfile(target, target.with_name(f"{target.name}.broken"))
    fields["backend"] = engine or fields.get("backend", "kbench")
    for name in KEPT:
        fields[name] = config.snapshot()[name]
    _replace(target, json.dumps(fields, indent=4) + "\n")
    return path


def _replace(target: Path, text: str) -> None:
    """Write a file so that at every moment the old or the new one is there, whole."""
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
