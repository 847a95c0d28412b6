"""Addresses of what is inside a value: a name of the user's and the steps from it.

`d['a'][3].w` is read step by step (`entries.resolve`), never evaluated. Behind the last step a
slash may lead into a model of Keras, as behind a name: `nets['small']/0/w1`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CHARACTERS = 2_000
"""Of an address: so deep may what contains itself be followed."""
_ROOT = re.compile(r"[^\[\].{}/'\"]+")
_ATTRIBUTE = re.compile(r"\.[^\W\d]\w*")
_PLACE = re.compile(r"\{\d{1,18}\}")


class Address(NamedTuple):
    """A name, the steps from it, and what a slash leads to."""

    root: str
    steps: tuple[str, ...] = ()
    rest: str = ""


def root_of(text: str) -> str:
    """The user's name that an address begins with."""
    found = _ROOT.match(text)
    return found.group() if found is not None else text


def parse(text: str) -> Address | None:
    """The parts of an address; None for what is none."""
    found = _ROOT.match(text)
    if found is None or len(text) > MAX_CHARACTERS:
        return None
    steps, at = [], found.end()
    while at < len(text) and text[at] != "/":
        end = _step_end(text, at)
        if end is None:
            return None
        steps.append(text[at:end])
        at = end
    return Address(found.group(), tuple(steps), text[at:])


def _step_end(text: str, at: int) -> int | None:
    """Where the step that begins at a place ends."""
    if text[at] != "[":
        found = (_ATTRIBUTE if text[at] == "." else _PLACE).match(text, at)
        return None if found is None else found.end()
    quote = ""
    end = at + 1
    while end < len(text):
        character = text[end]
        if quote:
            if character == "\\":
                end += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character == "]":
            return end + 1
        end += 1
    return None


def is_code(address: str) -> bool:
    """Whether an address can be typed as Python."""
    found = parse(address)
    if found is None or found.rest or split_cell(found.root)[1] is not None:
        return False
    return not any(step[0] == "{" for step in found.steps)


def split_cell(text: str) -> tuple[str, int | None]:
    """The address as of now, and the cell that it is of: `d@3['a']` is `d['a']` after cell 3."""
    root = root_of(text)
    name, mark, cell = root.rpartition("@")
    if not mark or not cell.isdecimal() or len(cell) > 9:
        return text, None
    return name + text[len(root) :], int(cell)


def with_cell(text: str, cell: int) -> str:
    """The address of what this one is after a cell."""
    root = root_of(text)
    return f"{root}@{cell}{text[len(root) :]}"
