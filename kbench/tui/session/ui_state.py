"""What the workbench remembers from one session to the next: theme, pane sizes, watches."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from kbench.engine.runtime import paths

FILE = "workbench.json"


class UiState(Struct):
    """`shares`: the session's part of the screen in percent, per layout."""

    theme: str = ""
    shares: dict[str, int] = field(default_factory=dict)
    watches: list[str] = field(default_factory=list)


def load(folder: Path) -> tuple[UiState, str]:
    """What was remembered and what is wrong with the file; a broken file is put aside."""
    path = folder / FILE
    try:
        table = json.loads(paths.read_text(path))
        theme, shares = table.get("theme", ""), table.get("shares", {})
        kept = {str(key): max(25, min(int(share), 75)) for key, share in shares.items()}
        watches = [
            expression for expression in table.get("watches", []) if isinstance(expression, str)
        ]
        return UiState(str(theme), kept, watches), ""
    except FileNotFoundError:
        return UiState(), ""
    except OSError as error:
        return UiState(), f"{path}: {error}"
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return UiState(), put_aside(path, error)


def put_aside(path: Path, error: Exception) -> str:
    """Rename a file that cannot be read, so that nothing of it is lost; returns words on it."""
    aside = path.with_suffix(".broken")
    for number in range(2, 100):
        if not aside.exists():
            break
        aside = path.with_suffix(f".broken-{number}")
    try:
        os.replace(path, aside)
    except OSError:
        return f"{path} is unreadable: {error}"
    return f"{path.name} was unreadable and is kept as {aside.name}: {error}"


def save(folder: Path, state: UiState) -> str:
    """Write atomically; returns what went wrong, '' if nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=FILE)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(asdict(state), stream)
        os.replace(temporary, folder / FILE)
    except OSError as error:
        return f"{folder / FILE}: {error}"
    return ""
