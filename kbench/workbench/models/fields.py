"""The fields of objects, read as they are: no method and no property is called."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Place(NamedTuple):
    """Where a class stands in Keras."""

    module: str
    name: str


def fields(value: object) -> dict[str, object]:
    """The object's own dictionary, as it is."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def field(value: object, *path: str) -> object:
    """A field, or a field of a field; None where there is none."""
    for name in path:
        value = fields(value).get(name)
    return value


def listed(value: object) -> list[object]:
    """A copy of a list or tuple, empty for anything else: the other thread may append to it.

    What a class of Keras has made of the list's own methods is not called.
    """
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    return list(tuple.__getitem__(value, slice(None))) if isinstance(value, tuple) else []


def is_a(value: object, place: Place) -> bool:
    """Whether an object is of a class of Keras; of none while its module is not loaded."""
    found = getattr(sys.modules.get(place.module), place.name, None)
    return isinstance(found, type) and issubclass(type(value), found)
