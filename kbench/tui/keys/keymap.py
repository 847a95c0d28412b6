"""The user's keys: keys.toml, its preset, and what is wrong with either.

The file holds `preset = "emacs"` (or "vscode", "default") and a table `[keys]` of `id = "key,key"`,
which changes single keys of the preset; ids are those shown on the help page (F1).
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from kbench.engine.runtime import paths
from kbench.tui.keys import keys
from kbench.tui.keys.key import UNBOUND, Key
from kbench.tui.keys.presets import PRESETS
from kbench.tui.panes.registry import PANES
from kbench.tui.session.ui_state import put_aside

MODIFIERS = frozenset(("ctrl", "alt", "shift", "super", "meta", "hyper"))
NAMED = frozenset(
    """escape enter tab space backspace delete insert home end pageup pagedown up down left right
    slash colon left_square_bracket right_square_bracket comma full_stop semicolon minus plus
    underscore equals_sign backslash at less_than_sign greater_than_sign question_mark
    exclamation_mark quotation_mark number_sign dollar_sign percent_sign ampersand apostrophe
    left_parenthesis right_parenthesis asterisk circumflex_accent grave_accent left_curly_bracket
    vertical_line right_curly_bracket tilde""".split()
)
LINE = re.compile(r"(?m)^preset\s*=.*$")


class Keymap(Struct, frozen=True):
    """`changes`: the keys by action id that differ from the table, those of the preset included."""

    preset: str = "default"
    changes: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def load(path: Path) -> Keymap:
    """What a keys.toml says; a missing file changes nothing, one that is no TOML is put aside."""
    try:
        table = tomllib.loads(paths.read_text(path))
    except FileNotFoundError:
        return Keymap()
    except OSError as error:
        return Keymap(problems=(f"{path}: {error}; the default keys are used",))
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor TOML
        return Keymap(problems=(f"{put_aside(path, error)}; the default keys are used",))
    problems = [f"{path}: there is no {name!r}" for name in table if name not in ("preset", "keys")]
    preset, own = table.get("preset", "default"), table.get("keys", {})
    if not isinstance(preset, str) or preset not in PRESETS:
        problems.append(f"{path}: unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
        preset = "default"
    if not isinstance(own, dict):
        problems.append(f"{path}: 'keys' must be a table of id = \"key,key\"")
        own = {}
    changes = dict(PRESETS[preset])
    places = {key.id: key.where for key in keys.TABLE}
    for name, text in own.items():
        problem = _mistake(places.get(name), text)
        if problem:
            problems.append(f"{path}: {name}: {problem}")
        else:
            changes[name] = ",".join(_written(key) for key in text.split(","))
    return Keymap(preset, changes, (*problems, *conflicts(changes)))


def _written(key: str) -> str:
    """A key as Textual writes it: a single character keeps its case, all else is small."""
    key = key.strip()
    return key if len(key) == 1 else key.lower()


def _mistake(place: str | None, text: object) -> str:
    """What is wrong with one line of the table, '' if nothing."""
    if place is None:
        return "there is no such action"
    if not isinstance(text, str) or not all(key.strip() for key in text.split(",")):
        return f'needs a text such as "f5,ctrl+e", got {text!r}'
    for key in (_written(key) for key in text.split(",")):
        *modifiers, last = key.split("+")
        known = len(last) == 1 or last in NAMED or re.fullmatch(r"f([1-9]|1\d|2[0-4])", last)
        if not known or not MODIFIERS.issuperset(modifiers):
            return f"there is no key {key!r}"
        typed = (len(last) == 1 or last == "space") and not set(modifiers) - {"shift"}
        if typed and place in ("main", "prompt", "search", "line"):
            return f"{key} is for typing; take it with ctrl or alt"
    return ""


def conflicts(changes: Mapping[str, str]) -> list[str]:
    """Keys that two actions share where both could be meant, as lines for people."""
    problems: list[str] = []
    panes = [("main", *taker.places) for pane in PANES for taker in pane.takers]
    for places in (*panes, *keys.DIALOGS):
        seen: dict[str, Key] = {}
        for key in (key for place in places for key in keys.of(place)):
            for name in changes.get(key.id, key.keys).split(","):
                if name == UNBOUND:
                    continue
                other = seen.setdefault(name, key)
                if other is not key and (other.id in changes or key.id in changes):
                    where = "everywhere" if key.where == "main" else f"in {key.where}"
                    problems.append(f"{name} is both {other.id} and {key.id} {where}")
    return list(dict.fromkeys(problems))


def choose(path: Path, preset: str) -> str:
    """Write another preset into the file, whose other lines stay; returns what went wrong."""
    line = f'preset = "{preset}"'
    try:
        text = paths.read_text(path) if path.exists() else ""
        head, bracket, rest = text.partition("[keys]")
        if LINE.search(head):
            head = LINE.sub(line, head, count=1)
        else:
            head = f"{line}\n{head}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(head + bracket + rest)
        os.replace(temporary, path)
    except (OSError, ValueError) as error:
        return f"{path}: {error}"
    return ""
