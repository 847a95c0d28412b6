"""Masked arrays of NumPy: a tensor has no mask, so that masked entries are refused.

Taken as numbers, what lies below a mask would count. An array of `numpy.ma` none of whose entries
is masked is an array like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

_MAX_LEVELS = 64  # levels of lists, as many as an array of NumPy has axes
_PLAIN = (int, float, complex, str, bytes, np.generic, type(None))


def masked_entries(value: Any) -> str | None:
    """Where a value that becomes an array has masked entries, in words; None where it has none.

    The words follow the name of the value: " is a masked array, 1 of whose 3 entries is masked".
    """
    loaded = sys.modules.get("numpy.ma")  # without it no value can be one
    kind = getattr(loaded, "MaskedArray", None)
    if kind is None or type(value) is np.ndarray:
        return None
    if _is_sequence(type(value)):
        try:
            value = list(value)
        except Exception:  # no sequence after all; the conversion that follows tells of it
            return None
    if not isinstance(value, (list, tuple)):
        return _told(value, kind)
    return _path_and_words(value, kind) if _listed(value, kind) else None


def _is_sequence(kind: type) -> bool:
    """True for what NumPy reads entry by entry although it is no list: a deque, say."""
    if issubclass(kind, (list, tuple, range, memoryview, bytearray, np.ndarray, Mapping, *_PLAIN)):
        return False
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not _gives_array(kind)


def _gives_array(kind: type) -> bool:
    return hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")


def _told(value: Any, kind: Any) -> str | None:
    """The words for one entry of a list, or for a value that is no list."""
    if not isinstance(value, kind):
        if isinstance(value, (*_PLAIN, np.ndarray)) or not _gives_array(type(value)):
            return None
        try:
            value = np.asanyarray(value)  # what it gives to NumPy may have a mask
        except Exception:  # whatever its code does; the conversion that follows tells of it
            return None
        if not isinstance(value, kind):
            return None
    count = int(np.count_nonzero(np.ma.getmaskarray(value)))
    if count == 0:
        return None
    if value.ndim == 0:
        return " is masked"
    verb = "is" if count == 1 else "are"
    return f" is a masked array, {count} of whose {value.size} entries {verb} masked"


def _listed(value: Iterable[Any], kind: Any) -> bool:
    """Whether anything in nested lists may be masked; looks at types, level by level."""
    level = value
    for _ in range(_MAX_LEVELS):
        kinds = set(map(type, level))
        nested = tuple(one for one in kinds if issubclass(one, (list, tuple)))
        for one in kinds.difference(nested):
            if issubclass(one, _PLAIN) or one is np.ndarray:
                continue
            if issubclass(one, kind) or _gives_array(one) or _is_sequence(one):
                return True
        if not nested:
            return False
        mixed = len(nested) < len(kinds)
        inner = [one for one in level if isinstance(one, nested)] if mixed else level
        level = list(chain.from_iterable(inner))
    return False


def _path_and_words(value: Any, kind: Any, depth: int = 0) -> str | None:
    """The way to the first masked entry of nested lists, and the words for it."""
    for index, one in enumerate(value):
        if isinstance(one, (list, tuple)):
            found = _path_and_words(one, kind, depth + 1) if depth < _MAX_LEVELS else None
        elif _is_sequence(type(one)):
            found = masked_entries(one)
        else:
            found = _told(one, kind)
        if found is not None:
            return f"[{index}]{found}"
    return None
