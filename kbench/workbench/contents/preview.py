"""A value in a few words, as it stands behind its name in a list: `{'a': 1, 'b': [2, 3], …}`.

Nothing of the user's runs: texts, numbers and containers are written by Python's own rules, values
of the standard library and of pandas by theirs, all else by the name of its class.
"""

from __future__ import annotations

import collections
import enum
import types
from itertools import islice
from typing import Any

from kbench.engine.inspect import describe
from kbench.workbench.contents import attributes
from kbench.workbench.inspector import sizes, summary

MAX_CHARACTERS = 100
"""Of a preview: what a wide terminal has room for."""
_MAX_PARTS = 8
"""Entries of a container that are written out."""
_MAX_DEPTH = 2
"""Containers in each other that are written out."""
_TEXT_CHARACTERS = 60
"""Of a text inside a container."""
MAX_DIGIT_BITS = 13_000
"""Of an integer that is written in decimal digits: below Python's own limit of 4300 digits."""
_WRITTEN_MODULES = frozenset(
    ("datetime", "decimal", "fractions", "pathlib", "uuid", "ipaddress", "zoneinfo")
)
"""Whose own classes write themselves, and call nothing of the user's."""
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}  # fmt: skip
_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def text(value: object, limit: int = MAX_CHARACTERS) -> str:
    """At most `limit` printable characters on one line. Never raises."""
    try:
        return describe.printable(_text(value, 0, limit), limit)
    except Exception as error:  # whatever stands behind a value of another package
        return describe.printable(f"{summary.type_name(value)} ({summary.type_name(error)})", limit)


def plain(value: Any) -> str | None:
    """The text of a value that is one: a number, a date, a path; None for all others."""
    kind = type(value)
    if kind is int:
        return str(value) if _short(value) else hex(value)
    if kind in (bool, float, complex, type(None), type(Ellipsis), type(NotImplemented)):
        return str(value)
    module = str(type.__getattribute__(kind, "__module__"))
    if module.partition(".")[0] in _WRITTEN_MODULES:
        return str(value)
    if module.partition(".")[0] == "pandas" and _is_scalar(kind):
        return str(value).removesuffix(" 00:00:00")
    if issubclass(kind, enum.Enum):
        return f"{kind.__name__}.{attributes.held(value).get('_name_')}"
    return None


def _is_scalar(kind: type) -> bool:
    return kind.__name__ in ("Timestamp", "Timedelta", "Period", "Interval", "NAType", "NaTType")


def _short(value: Any) -> bool:
    return bool(value.bit_length() < MAX_DIGIT_BITS)


def _text(value: Any, depth: int, limit: int) -> str:
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return _quoted(value, limit if depth == 0 else _TEXT_CHARACTERS)
    if kind is float and depth:
        return describe.number(value)
    written = plain(value)
    if written is not None:
        return written
    if describe.is_function(value) or describe.is_tensor(value):
        return summary.line(value)
    held = describe.held_array(value)
    if held is not None:
        if held.ndim == 0:
            return describe.cell(held[()])
        return describe.spec_text(held.shape, held.dtype.name)
    if sizes.is_frame(value):
        return f"{kind.__name__} {describe.spec_text(value.shape, '')}"
    if kind is dict or kind in _BRACKETS:
        return _container(value, depth)
    if issubclass(kind, dict) or summary.safe_length(value) is not None:
        return summary.line(value)
    if issubclass(kind, type):
        return f"class {type.__getattribute__(value, '__name__')}"
    if kind in _CALLABLE or kind is types.ModuleType:
        return _named(value)
    return _object(value, depth)


def _quoted(value: Any, limit: int) -> str:
    cut = "…" if len(value) > limit else ""
    return repr(value[:limit]) + cut


def _container(value: Any, depth: int) -> str:
    kind = type(value)
    count = kind.__len__(value)
    left, right = ("{", "}") if kind is dict else _BRACKETS[kind]
    if not count:
        return "set()" if kind is set else f"{left}{right}"
    if depth >= _MAX_DEPTH:
        return f"{left}…{right}"
    if kind is dict:
        pairs = list(islice(dict.items(value), _MAX_PARTS))
        parts = [f"{_text(key, depth + 1, 0)}: {_text(held, depth + 1, 0)}" for key, held in pairs]
    else:
        parts = [_text(held, depth + 1, 0) for held in islice(kind.__iter__(value), _MAX_PARTS)]
    inside = ", ".join([*parts, "…"] if count > len(parts) else parts)
    return f"{left}{inside}{',' if kind is tuple and count == 1 else ''}{right}"


def _named(value: Any) -> str:
    if type(value) is types.ModuleType:
        return f"module {attributes.module_name(value)}"
    word = "method" if type(value) is types.MethodType else "function"
    function = value.__func__ if type(value) is types.MethodType else value
    name = function.__qualname__ if type(function) in _CALLABLE else type(function).__name__
    return f"{word} {name}"


def _object(value: object, depth: int) -> str:
    """`Point(x=1, y=2)`: the class, and the attributes that are at hand."""
    name = summary.type_name(value)
    if depth >= _MAX_DEPTH:
        return name
    held = attributes.held(value)
    shown = [(key, one) for key, one in held.items() if not key.startswith("_")][:_MAX_PARTS]
    if not shown:
        return name
    parts = [f"{key}={_text(one, depth + 1, 0)}" for key, one in shown]
    more = ", …" if len(held) > len(shown) else ""
    return f"{name}({', '.join(parts)}{more})"
