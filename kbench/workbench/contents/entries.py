"""The entries of a container or an object: how many there are, a page of them, one by its address.

An entry is reached by a step, which is written as Python writes it where that is possible:
`[3]`, `['a']`, `.weight`, and `{3}` for the fourth entry of what has no index (a set, a dict whose
key is an object). Methods of the value's own class are never called: a list is read by the rule of
`list`, whatever is derived from it.
"""

from __future__ import annotations

import array
import ast
import collections
import math
import types
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from kbench.engine.inspect import describe
from kbench.workbench.contents import attributes
from kbench.workbench.inspector import sizes

PROPERTY = "property"
MAX_KEY_CHARACTERS = 200
"""Of a key that is part of an address; the entries of others are counted."""
_MAX_KEY_ITEMS = 8
"""Of a tuple that is a key."""
_INDEXED: tuple[type, ...] = (list, tuple, collections.deque, range, array.array)
_COUNTED: tuple[type, ...] = (set, frozenset, *sizes.DICT_VIEWS)

_PLAIN = frozenset((*_INDEXED, *_COUNTED, dict, types.MappingProxyType))
"""Containers that have no attributes of the user's."""


class Entry(NamedTuple):
    """What is inside: `step` leads to it; `label` is how people read that."""

    label: str
    step: str
    value: object
    kind: str = ""  # PROPERTY: it has no value yet


class Group(Struct, frozen=True):
    """Entries of one sort. `page` lists those from one place to another, `find` takes a step.

    `find` raises LookupError.
    """

    total: int
    page: Callable[[int, int], list[Entry]]
    find: Callable[[str], object]


def groups(value: Any) -> list[Group]:
    """The items of a value and its attributes; nothing for a number or a text."""
    kind = type(value)
    if describe.is_tensor(value) or issubclass(kind, (str, bytes, bytearray)):
        return []
    if issubclass(kind, np.ndarray):
        return [_elements(value)] if kind is np.ndarray and value.dtype == object else []
    items = _items(value)
    found = items if items and kind in _PLAIN else [*items, _attributes(value)]
    return [group for group in found if group.total]


def count(value: object) -> int:
    """How many entries a value has."""
    return sum(group.total for group in groups(value))


def page(value: object, start: int, stop: int) -> list[Entry]:
    """The entries from one place to another; the attributes follow the items."""
    found: list[Entry] = []
    for group in groups(value):
        if start < group.total and stop > 0:
            found += group.page(max(start, 0), min(stop, group.total))
        start, stop = start - group.total, stop - group.total
    return found


def child(value: object, step: str) -> object:
    """The entry behind one step.

    Raises:
        LookupError: there is no such entry; its text says why, for people.
    """
    found = [_elements(value)] if type(value) is np.ndarray else groups(value)
    for group in found:
        try:
            return group.find(step)
        except (KeyError, IndexError):
            continue
    raise LookupError(f"there is no entry {step}")


def resolve(value: object, steps: Iterable[str]) -> object:
    """What several steps lead to; LookupError as `child`."""
    for step in steps:
        value = child(value, step)
    return value


# ------------------------------------------------------------------ items


def _items(value: Any) -> list[Group]:
    kind = type(value)
    if issubclass(kind, tuple) and (names := _field_names(value)):
        return [_fields(value, names)]
    for base in _INDEXED:
        if issubclass(kind, base):
            return [_indexed(value, base)]
    if issubclass(kind, (dict, types.MappingProxyType)):
        return [_mapping(value)]
    for base in _COUNTED:
        if issubclass(kind, base):
            return [_counted(value, base)]
    return []


def _indexed(value: Any, base: Any) -> Group:
    def page(start: int, stop: int) -> list[Entry]:
        if base is collections.deque:
            held: Iterable[object] = islice(base.__iter__(value), start, stop)
        else:
            held = base.__getitem__(value, slice(start, stop))
        return [Entry(f"[{at}]", f"[{at}]", one) for at, one in enumerate(held, start)]

    def find(step: str) -> object:
        at = _literal(step)
        if type(at) is not int or at < 0:
            raise KeyError(step)
        return base.__getitem__(value, at)

    return Group(base.__len__(value), page, find)


def _field_names(value: Any) -> list[str]:
    """The names of a named tuple's fields, in their order."""
    fields = type.__getattribute__(type(value), "__dict__").get("_fields")
    named = type(fields) is tuple and len(fields) == tuple.__len__(value)
    return list(fields) if named and all(type(name) is str for name in fields) else []


def _fields(value: Any, names: list[str]) -> Group:
    def page(start: int, stop: int) -> list[Entry]:
        held = tuple.__getitem__(value, slice(start, stop))
        return [
            Entry(f".{name}", f".{name}", one)
            for name, one in zip(names[start:stop], held, strict=True)
        ]

    def find(step: str) -> object:
        if step[1:] in names and step[0] == ".":
            return tuple.__getitem__(value, names.index(step[1:]))
        at = _literal(step)
        if type(at) is not int or at < 0:
            raise KeyError(step)
        return tuple.__getitem__(value, at)

    return Group(len(names), page, find)


def _mapping(value: Any) -> Group:
    """Of a dict, or a view of one that cannot be written to."""
    plain = issubclass(type(value), dict)
    pairs = dict.items if plain else types.MappingProxyType.items
    total = int(dict.__len__(value) if plain else len(value))

    def entry(at: int, key: object, held: object) -> Entry:
        step = f"[{key!r}]" if _writable(key) else f"{{{at}}}"
        return Entry(step if step[0] == "[" else f"[{_key_label(key)}]", step, held)

    def page(start: int, stop: int) -> list[Entry]:
        found = list(islice(pairs(value), start, stop))  # in one go: it may be changing
        return [entry(at, key, held) for at, (key, held) in enumerate(found, start)]

    def find(step: str) -> object:
        if step[0] == "{":
            return _nth(pairs(value), _place(step))[1]
        if step[0] != "[":
            raise KeyError(step)
        try:
            return dict.__getitem__(value, _literal(step)) if plain else value[_literal(step)]
        except TypeError:  # what cannot be a key
            raise KeyError(step) from None

    return Group(total, page, find)


def _counted(value: Any, base: Any) -> Group:
    def page(start: int, stop: int) -> list[Entry]:
        held = list(islice(base.__iter__(value), start, stop))
        return [Entry(f"{{{at}}}", f"{{{at}}}", one) for at, one in enumerate(held, start)]

    def find(step: str) -> object:
        return _nth(base.__iter__(value), _place(step))

    return Group(base.__len__(value), page, find)


def _elements(value: Any) -> Group:
    """Of an array of objects, in C order."""
    shape = value.shape

    def page(start: int, stop: int) -> list[Entry]:
        places = (np.unravel_index(at, shape) for at in range(start, stop))
        steps = [f"[{', '.join(str(int(one)) for one in place)}]" for place in places]
        held = value.reshape(-1)[start:stop] if value.ndim else [value[()]]
        return [Entry(step, step, one) for step, one in zip(steps, held, strict=True)]

    def find(step: str) -> object:
        index = _literal(step) if step != "[]" else ()
        index = index if type(index) is tuple else (index,)
        if len(index) != value.ndim or any(type(one) is not int for one in index):
            raise KeyError(step)
        return value[index]

    return Group(int(value.size), page, find)


# ------------------------------------------------------------------ attributes


def _attributes(value: object) -> Group:
    held = attributes.held(value)
    names = sorted(held, key=lambda name: name.startswith("_"))  # their own order, private last
    computed = attributes.properties(value)

    def page(start: int, stop: int) -> list[Entry]:
        wanted = [*names, *computed][start:stop]
        return [
            Entry(f".{name}", _attribute_step(name, at), held.get(name), kind)
            for at, name in enumerate(wanted, start)
            for kind in [PROPERTY if name not in held else ""]
        ]

    def find(step: str) -> object:
        name = names[_place(step)] if step[0] == "{" else step[1:]
        if name in computed and name not in held:
            raise LookupError(f"{name} is a property, which is not evaluated by looking")
        if step[0] == "[":
            raise KeyError(step)
        return held[name]

    return Group(len(names) + len(computed), page, find)


def _attribute_step(name: str, at: int) -> str:
    return f".{name}" if name.isidentifier() else f"{{{at}}}"


# ------------------------------------------------------------------ steps


def _nth(entries: Iterable[Any], place: int) -> Any:
    return list(islice(entries, place, place + 1))[0]


def _place(step: str) -> int:
    """The number in `{3}`; KeyError for another step."""
    if step[0] != "{" or not step[1:-1].isdecimal() or len(step) > 20:
        raise KeyError(step)
    return int(step[1:-1])


def _literal(step: str) -> Any:
    """What stands in `[...]`; KeyError for another step."""
    if step[0] != "[":
        raise KeyError(step)
    try:
        return ast.literal_eval(step[1:-1].strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise KeyError(step) from None


def _writable(key: Any, depth: int = 0) -> bool:
    """Whether a key can be written as it is typed, and read back."""
    kind = type(key)
    if kind in (str, bytes):
        return len(key) <= MAX_KEY_CHARACTERS
    if kind is int:
        return bool(key.bit_length() < 64)
    if kind is float:
        return math.isfinite(key)
    if kind is tuple and not depth:
        return 0 < len(key) <= _MAX_KEY_ITEMS and all(_writable(one, 1) for one in key)
    return kind in (bool, type(None))


def _key_label(key: object) -> str:
    from kbench.workbench.contents import preview

    return preview.text(key, 60)
