"""Calls within which NumPy warns of nothing: NaN and infinity are values.

NumPy keeps what it warns of in a variable of the context, so that a call in a context where this is
set once needs no `np.errstate`, which takes as long as a small operation. Such a context knows no
other variables: what is called in it must not print, nor call the user's code.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

_HAS_CONTEXTS = int(np.__version__.partition(".")[0]) > 1  # before, it was kept for each thread
_spare: list[contextvars.Context] = []  # those that nobody is in


def quietly(function: Callable[..., Result], *args: object) -> Result:
    """The result of a call without warnings of NumPy."""
    if not _HAS_CONTEXTS:
        with np.errstate(all="ignore"):
            return function(*args)
    try:
        context = _spare.pop()
    except IndexError:  # each thread needs one, and each call within such a call
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
    try:
        return context.run(function, *args)
    finally:
        _spare.append(context)
