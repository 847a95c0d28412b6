"""Python's parser, for several threads at once.

CPython 3.11 counts how deep a tree is in one place for all threads: where one thread parses while
another does, either may end in a `SystemError` (CPython's issue 106905; 3.12 has no such fault).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

MAX_PARSES = 1000
"""How often a text is parsed at most. Four threads that do nothing else disturb one try in four."""

Tree = TypeVar("Tree")


def parse_module(text: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """The tree of a module, as `ast.parse` gives it."""
    return _parse_again(lambda: ast.parse(text, filename))


def parse_expression(text: str | bytes, filename: str = "<unknown>") -> ast.Expression:
    """The tree of one expression."""
    return _parse_again(lambda: ast.parse(text, filename, "eval"))


def _parse_again(parse: Callable[[], Tree]) -> Tree:
    """What `parse` gives, called again where another thread disturbed it."""
    for _ in range(MAX_PARSES):
        try:
            return parse()
        except SystemError as error:
            disturbed = error
    raise disturbed
