"""Nested structures of lists, tuples and dicts: their leaves, and new leaves in the same form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def flatten(structure: object) -> list[Any]:
    """The leaves, from left to right."""
    if isinstance(structure, dict):
        return [leaf for item in structure.values() for leaf in flatten(item)]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item)]
    return [structure]


def rebuild(structure: object, leaves: Iterable[object]) -> Any:
    """The structure with other leaves."""
    return _rebuilt(structure, iter(leaves))


def _rebuilt(structure: object, leaves: Iterator[object]) -> Any:
    if isinstance(structure, dict):
        return {key: _rebuilt(item, leaves) for key, item in structure.items()}
    if not isinstance(structure, (list, tuple)):
        return next(leaves)
    items = [_rebuilt(item, leaves) for item in structure]
    if isinstance(structure, list):
        return items
    return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
