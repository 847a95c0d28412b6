"""Masked arrays of NumPy: a tensor has no mask, so that masked entries are refused.

Taken as numbers, what lies below a mask would count. An array of `numpy.ma` none of whose entries
is masked is an array like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.ma import MaskedArray

_MAX_LEVELS = 64  # levels of lists, as many as an array of NumPy has axes
_PLAIN = (int, float, complex, str, bytes, np.generic, type(None))


def masked_entries(value: object) -> str | None:
    """Where a value that becomes an array has masked entries, in words; None where it has none.

    The words follow the name of the value: " is a masked array, 1 of whose 3 entries is masked".
    """
    loaded = sys.modules.get("numpy.ma")  # without it no value can be one
    kind: type[MaskedArray] | None = getattr(loaded, "MaskedArray", None)
    if kind is None or type(value) is np.ndarray:
        return None
    if _is_sequence(type(value)):
        try:
            value = list(value)  # type: ignore[call-overload]  # by what `_is_sequence` found
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


def _told(value: object, kind: type[MaskedArray]) -> str | None:
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


def _listed(value: Iterable[object], kind: type[MaskedArray]) -> bool:
    """Whether anything in nested lists may be masked; looks at types, level by level."""
    level = value
    for _ in range(_MAX_LEVELS):
        kinds = set(map(type, level))
        nested = tuple(entry_kind for entry_kind in kinds if issubclass(entry_kind, (list, tuple)))
        for entry_kind in kinds.difference(nested):
            if issubclass(entry_kind, _PLAIN) or entry_kind is np.ndarray:
                continue
            if issubclass(entry_kind, kind) or _gives_array(entry_kind) or _is_sequence(entry_kind):
                return True
        if not nested:
            return False
        mixed = len(nested) < len(kinds)
        inner = [entry for entry in level if isinstance(entry, nested)] if mixed else level
        level = list(chain.from_iterable(inner))  # type: ignore[arg-type]  # all are lists
    return False


def _path_and_words(value: Iterable[object], kind: type[MaskedArray], depth: int = 0) -> str | None:
    """The way to the first masked entry of nested lists, and the words for it."""
    for index, entry in enumerate(value):
        if isinstance(entry, (list, tuple)):
            found = _path_and_words(entry, kind, depth + 1) if depth < _MAX_LEVELS else None
        elif _is_sequence(type(entry)):
            found = masked_entries(entry)
        else:
            found = _told(entry, kind)
        if found is not None:
            return f"[{index}]{found}"
    return None
