"""The attributes of any object, read without running code of its class.

What `__dict__` and slots hold is read by way of descriptors written in C. A property is named, and
never evaluated.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any


def held(value: object) -> dict[str, object]:
    """The attributes that an object has itself; of a class or a module what it defines.

    A fresh dict: names that begin with two underscores are left out.
    """
    found: dict[str, object] = {}
    for name, held in [*_own(value).items(), *_slots(value)]:
        if type(name) is str and not name.startswith("__"):
            found.setdefault(name, held)
    return found


def properties(value: object) -> list[str]:
    """Names of attributes that only code of the class would compute, and which are not held."""
    if issubclass(type(value), (type, types.ModuleType)):
        return []
    names: dict[str, bool] = {}
    for defined in _definitions(value):
        for name, found in defined.items():
            computed = issubclass(type(found), (property, functools.cached_property))
            names.setdefault(name, computed and not name.startswith("__"))
    own = held(value)
    return [name for name, computed in names.items() if computed and name not in own]


def _own(value: object) -> Mapping[Any, object]:
    """The `__dict__` of an object, by a rule written in C; empty where it has none."""
    if issubclass(type(value), type):
        defined: Mapping[Any, object] = type.__dict__["__dict__"].__get__(value)
        return dict(defined)
    for defined in _definitions(value):
        descriptor: Any = defined.get("__dict__")
        if type(descriptor) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            own = descriptor.__get__(value)
            return dict(own) if type(own) is dict else {}
        if descriptor is not None:
            return {}
    return {}


def _slots(value: object) -> list[tuple[str, object]]:
    """Slots that are filled, and the members of an object written in C."""
    found = []
    if not issubclass(type(value), type):
        for defined in _definitions(value):
            for name, descriptor in defined.items():
                if type(descriptor) is types.MemberDescriptorType:
                    try:
                        found.append((name, descriptor.__get__(value)))
                    except AttributeError:  # not set
                        continue
    return found


def _definitions(value: object) -> list[Mapping[str, Any]]:
    """What the classes of a value define, from its own to the last base."""
    bases = type.__getattribute__(type(value), "__mro__")
    return [type.__dict__["__dict__"].__get__(base) for base in bases if base is not object]


def module_name(module: types.ModuleType) -> str:
    """The name of a module, as it holds it itself."""
    name = _own(module).get("__name__")
    return name if type(name) is str else "without a name"
