"""How much memory a value takes with all that it holds, without running any code of the user's.

Containers and objects are looked through as far as a budget goes: of long ones a sample is read and
the rest estimated; where the budget ends, what was found is the least that it takes. What is held
at two places of one value counts once; classes, modules and functions count nothing.
"""

from __future__ import annotations

import collections
import gc
import types
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

import numpy as np

from kbench.engine.inspect import describe, sparse_summary

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

EXACT, ABOUT, LEAST = "", "~", ">"
MAX_OBJECTS = 1_000
"""Objects within one value that are looked at."""
MAX_WHOLE_ITEMS = 128
"""Items of a container that are all looked at."""
SAMPLE_ITEMS = 32
"""Items of a longer container that are looked at."""
MAX_FRAME_ROWS = 20_000
"""Of a table whose texts are all counted."""

DICT_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_SHARED = (
    type(None), bool, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType,
    types.MethodType, types.CodeType, types.FrameType, types.GeneratorType, types.CoroutineType,
)  # fmt: skip
_PLAIN = (str, bytes, bytearray, int, float, complex, range)
_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
_C_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
"""Attributes written in C."""
_NBYTES_PACKAGES = frozenset("torch jaxlib jax tensorflow pyarrow xarray polars dask h5py".split())
"""Packages whose memory Python cannot see, but whose objects tell it at once, in `nbytes`."""
_GC_TYPE_FLAG = 1 << 14
"""Py_TPFLAGS_HAVE_GC: of classes whose objects the collector knows."""
_GC_HEADER_BYTES = 16
"""Before each object that the collector knows."""


class Frame(Protocol):
    """A table, a column or an index of pandas."""

    ndim: int
    shape: tuple[int, ...]
    dtype: object  # of a column or an index

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice) -> Frame: ...
    def memory_usage(self, deep: bool) -> ArrayLike: ...


class _Part(NamedTuple):
    """The bytes of an object itself, what it holds, and how many each of these stands for."""

    own: int
    held: Sequence[object] = ()
    each: float = 1.0
    mark: str = EXACT


def of(value: object) -> tuple[int, str]:
    """Bytes, and how they are known: EXACT, ABOUT (estimated from a sample) or LEAST."""
    seen: set[int] = set()
    waiting: list[tuple[object, float]] = [(value, 1.0)]
    total, mark = 0.0, EXACT
    while waiting:
        value, weight = waiting.pop()
        if id(value) in seen or issubclass(type(value), _SHARED):
            continue
        if len(seen) == MAX_OBJECTS:
            return round(total), LEAST
        seen.add(id(value))
        part = _part(value)
        total += weight * part.own
        mark = part.mark or mark
        waiting += [(child, weight * part.each) for child in part.held]
    return round(total), mark


def _part(value: object) -> _Part:
    kind = type(value)
    if issubclass(kind, _PLAIN):
        return _Part(_own(value))
    for base in _CONTAINERS:
        if issubclass(kind, base):
            return _container(value, base)
    if describe.is_tensor(value) or issubclass(kind, (np.ndarray, np.generic)):
        return _array(value)
    if is_frame(value):
        return _frame(value)
    declared = _declared_bytes(value)
    if declared is not None:
        return _Part(_own(value) + declared)
    matrix = sparse_summary.held_matrix(value)
    listed = None if matrix is None else sparse_summary.facts(matrix)["bytes"]
    return _Part(_own(value), gc.get_referents(value)) if listed is None else _Part(listed)


def is_frame(value: object) -> TypeGuard[Frame]:
    """True for a table, a column or an index of pandas; a class made of one may do anything."""
    return _package(value) == "pandas" and _static(type(value), "memory_usage") is not None


def _package(value: object) -> str:
    """The package that defines a value's class."""
    return str(type.__getattribute__(type(value), "__module__")).partition(".")[0]


def _static(kind: type, name: str) -> Any:
    """What a class or one of its bases defines under a name; None where it is nothing."""
    for base in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get(name)
        if found is not None:
            return found
    return None


def _declared_bytes(value: Any) -> int | None:
    """The `nbytes` of an object, where no code of the user's is needed to ask."""
    found = _static(type(value), "nbytes")
    if isinstance(found, _C_DESCRIPTORS):
        found = found.__get__(value)
    elif found is not None and _package(value) in _NBYTES_PACKAGES:
        found = value.nbytes
    return int(found) if isinstance(found, (int, np.integer)) else None


def _own(value: object) -> int:
    """The bytes of an object without what it holds, by the first rule of its class that is in C."""
    for base in type.__getattribute__(type(value), "__mro__"):
        rule = type.__getattribute__(base, "__dict__").get("__sizeof__")
        if type(rule) is types.MethodDescriptorType:
            collected = type.__getattribute__(type(value), "__flags__") & _GC_TYPE_FLAG
            return int(rule(value)) + (_GC_HEADER_BYTES if collected else 0)
    return 0


def _container(value: Any, base: Any) -> _Part:
    """A container with what it holds, or a sample of that, read in one go: it may be changing."""
    length = base.__len__(value)
    step = 1 if length <= MAX_WHOLE_ITEMS else length // SAMPLE_ITEMS
    if base is list or base is tuple:
        held = list(base.__getitem__(value, slice(None, None, step)))
    elif base is dict:
        pairs = list(islice(dict.items(value), length if step == 1 else SAMPLE_ITEMS))
        held = [part for pair in pairs for part in pair]
        length *= 2
    else:
        held = list(islice(base.__iter__(value), length if step == 1 else SAMPLE_ITEMS))
    if step == 1:
        own = (
            [] if type(value) is base else gc.get_referents(value)
        )  # attributes of a class made of it
        return _Part(_own(value), [*held, *own])
    few = 2 * len(set(map(id, held))) < len(held)  # the same objects again and again
    return _Part(_own(value), held, 1.0 if few else length / len(held), ABOUT)


def _array(value: object) -> _Part:
    """A tensor's value, a number of NumPy's, an array with its entries where they are objects."""
    held = describe.held_array(value)
    if held is None:
        matrix = sparse_summary.held_matrix(value)
        return _Part(0 if matrix is None else int(sparse_summary.facts(matrix)["bytes"] or 0))
    if held.dtype != object or not held.size:
        return _Part(int(held.nbytes))
    step = 1 if held.size <= MAX_WHOLE_ITEMS else held.size // SAMPLE_ITEMS
    found = list(held.flat[::step])
    return _Part(int(held.nbytes), found, held.size / len(found), EXACT if step == 1 else ABOUT)


def _frame(value: Frame) -> _Part:
    """A table, a column or an index of pandas, as it says itself; of many texts a part is read."""
    length = len(value)
    if length <= MAX_FRAME_ROWS:
        return _Part(int(np.sum(value.memory_usage(deep=True))))
    part = value[:MAX_FRAME_ROWS]
    texts = int(np.sum(part.memory_usage(deep=True))) - int(np.sum(part.memory_usage(deep=False)))
    whole = int(np.sum(value.memory_usage(deep=False)))
    return _Part(whole + round(texts * length / MAX_FRAME_ROWS), mark=ABOUT if texts else EXACT)
