"""Which function is explored: one of the API, by name or itself, or one of the user's."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any

from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.inspect import describe
from kbench.notebook.base.redraw import names

FIRST = "conv2d"


def functions() -> dict[str, list[str]]:
    """The names of the API's functions by family, as the reference lists them."""
    from kbench.api import reference

    found = {}
    for family, members in reference.names().items():
        there = [member for member in members if inspect.isroutine(getattr(K, member, None))]
        if there:
            found[family] = there
    return found


def find(wanted: object) -> tuple[Any, str]:
    """The function that is meant and its name in the API, '' for one of the user's own.

    Raises:
        ArgumentError: no such name, or nothing that can be called.
    """
    if wanted is None:
        wanted = FIRST
    if isinstance(wanted, str):
        name = wanted.strip().removeprefix("kbench.").removeprefix("K.")
        found = getattr(K, name, None) if name in _public() else None
        if found is None:
            own = names().snapshot().get(wanted.strip())
            if callable(own) and not isinstance(own, type) and not describe.is_tensor(own):
                return own, ""
            near = difflib.get_close_matches(name, _public(), 3)
            raise ArgumentError(
                f"there is no function {describe.printable(name)!r}",
                function="explore",
                suggestion=", ".join(repr(name) for name in near) or None,
            )
        return found, name
    if isinstance(wanted, type) or not callable(wanted):
        reason = f"fn must be a function, its name or None; got {describe_operand(wanted)}"
        raise ArgumentError(reason, function="explore")
    name = str(getattr(wanted, "__name__", ""))
    if name in _public() and getattr(K, name) is wanted:
        return wanted, name
    return wanted, ""


@functools.cache
def _public() -> frozenset[str]:
    return frozenset(name for names_of in functions().values() for name in names_of)


def own_name(function: Any) -> str:
    """What the user calls a function, or else its own name if that can stand in a line."""
    for name, value in names().values().items():
        if value is function and name.isidentifier():
            return str(name)
    name = getattr(function, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else "fn"
