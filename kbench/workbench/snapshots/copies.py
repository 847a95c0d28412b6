"""Copies of values that stay as they are, whatever the program does to the originals.

Arrays, variables, Python's containers, tables of pandas, the weights of Keras models, and the
attributes of objects are copied, without running code of the user's. What cannot be copied so is
kept as the name of its class alone, and never held, so that it is freed when the program frees it.
"""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import numpy as np

from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.contents import attributes, preview
from kbench.workbench.inspector import sizes, summary
from kbench.workbench.models import keras_models

MAX_VALUE_BYTES = 4 << 20
"""Of one value: some milliseconds to copy, and to compare with what it was."""
MAX_VALUE_OBJECTS = 2_000
"""Within one value: about a millisecond."""
_WORD_BYTES = 8
"""That are compared at once."""
_OBJECT_BYTES = 64
"""Counted for each object in a container."""
_SEQUENCES: dict[type, Any] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, collections.deque: collections.deque,
}  # fmt: skip
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None), range))
_MATRIX_PARTS = ("data", "indices", "indptr", "row", "col")


class NotKeptError(Exception):
    """There is no copy; the text says why, for people."""


class Weights:
    """The weights of a Keras model or layer, by what follows its name in an address."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays


class Copier:
    """Copies one value; `bytes` counts what the copy takes."""

    def __init__(self, room: int = MAX_VALUE_BYTES) -> None:
        self.bytes = 0
        self._room = room
        self._objects = 0
        self._done: dict[int, object] = {}  # by the id of an original, its copy
        self._held: list[object] = []  # originals, lest an id be given to another meanwhile

    def copy(self, value: Any) -> Any:
        """The copy; raises NotKeptError where there can be none."""
        if id(value) in self._done:
            return self._done[id(value)]
        self._count(_OBJECT_BYTES, 1)
        if is_plain(value):
            self._count(len(value) if type(value) in (str, bytes) else 0)
            return value
        made = self._copied(value)
        self._note(value, made)
        return made

    def _note(self, value: object, made: object) -> None:
        self._done[id(value)] = made
        self._held.append(value)

    def _count(self, size: int, objects: int = 0) -> None:
        self.bytes += size
        self._objects += objects
        if self.bytes > MAX_VALUE_BYTES:
            raise NotKeptError("too large to keep")
        if self.bytes > self._room:
            raise NotKeptError("not kept, too much has changed in one cell")
        if self._objects > MAX_VALUE_OBJECTS:
            raise NotKeptError(f"more than {MAX_VALUE_OBJECTS} objects, too many to keep")

    def _copied(self, value: Any) -> object:
        kind = type(value)
        if keras_models.is_layer(value):
            return Weights({key: self.copy(held) for key, held in _weights(value).items()})
        held = describe.held_array(value)
        if held is not None:
            return self._array(held)
        matrix = sparse_summary.held_matrix(value)
        if matrix is not None:
            size = sparse_summary.facts(matrix)["bytes"]
            if size is None:
                raise NotKeptError("not kept, a sparse matrix of this format")
            self._count(int(size))
            return matrix.copy()
        if describe.is_tensor(value) or describe.is_function(value):
            return stand_in(summary.type_name(value))
        if sizes.is_frame(value):
            frame: Any = value
            self._count(sizes.of(frame)[0])
            return frame.copy()
        if kind is bytearray:
            self._count(len(value))
            return bytes(value)
        if kind in _SEQUENCES or issubclass(kind, dict):
            return self._container(value)
        if preview.plain(value) is not None:  # a date, a path: it cannot change
            return value
        return self._object(value)

    def _array(self, held: np.ndarray) -> np.ndarray:
        self._count(int(held.nbytes))
        if held.dtype != object:
            if held.dtype.hasobject:
                raise NotKeptError("not kept, its fields are objects")
            return held.copy()
        made = np.empty(held.shape, object)
        for at, one in enumerate(held.reshape(-1).tolist()):
            made.reshape(-1)[at] = self.copy(one)
        return made

    def _container(self, value: Any) -> object:
        kind = type(value)
        if issubclass(kind, dict):
            pairs = list(dict.items(value))
            made: dict[object, object] = {}
            self._note(value, made)
            for key, held in pairs:
                made[self._key(key)] = self.copy(held)
            return made
        items = list(kind.__iter__(value))
        if kind in (list, collections.deque):
            grown = _SEQUENCES[kind]()
            self._note(value, grown)
            for one in items:
                grown.append(self.copy(one))
            return grown
        if kind is tuple:
            return tuple(self.copy(one) for one in items)
        return _SEQUENCES[kind](self._key(one) for one in items)

    def _key(self, key: object) -> object:
        """A key or an entry of a set, which must have a hash that is none of the user's."""
        if type(key) is tuple:
            return tuple(self._key(one) for one in key)
        self._count(_OBJECT_BYTES, 1)
        if is_plain(key) or preview.plain(key) is not None:
            return key
        return stand_in(summary.type_name(key))

    def _object(self, value: object) -> object:
        if issubclass(type(value), (type, types.ModuleType)) or callable_of_python(value):
            return stand_in(preview.text(value))
        made = stand_in(summary.type_name(value))
        self._note(value, made)
        for name, held in attributes.held(value).items():
            made.__dict__[name] = self.copy(held)
        return made


def is_plain(value: object) -> bool:
    """Whether a value can never change."""
    return type(value) in _PLAIN or issubclass(type(value), np.generic)


def callable_of_python(value: object) -> bool:
    """Functions and methods, which hold code and no values."""
    return type(value) in (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class StandIn:
    """In place of an object: a class of the same name, with copies of its attributes."""


@functools.lru_cache(maxsize=256)
def _class_named(name: str) -> type[StandIn]:
    return type(name, (StandIn,), {})


def stand_in(name: str) -> StandIn:
    """An object of a class with this name, without attributes."""
    return _class_named(name)()


def _weights(value: Any) -> dict[str, object]:
    found: dict[str, object] = {}
    waiting = [(value, "")]
    while waiting:
        owner, address = waiting.pop(0)
        for part in keras_models.parts(owner, address):
            if part.weight is not None:
                found[part.address] = part.weight.variable
            elif part.value is not owner:
                waiting.append((part.value, part.address))
    return found


# ------------------------------------------------------------------ comparing copies


def same(one: Any, other: Any) -> bool:
    """Whether two copies are alike in every entry; NaN is like NaN."""
    return _same(one, other, set())


def _same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    kind = type(one)
    if kind is not type(other):
        return False
    if one is other or (id(one), id(other)) in seen:
        return True
    if kind in (int, str, bytes, bool, range):
        return bool(one == other)
    if kind in (float, complex) or issubclass(kind, np.generic):
        return repr(one) == repr(other)
    seen.add((id(one), id(other)))
    if issubclass(kind, np.ndarray):
        return _same_arrays(one, other, seen)
    if kind is Weights:
        return _same(one.arrays, other.arrays, seen)
    if kind is dict:
        return list(map(_known, one)) == list(map(_known, other)) and all(
            _same(left, right, seen)
            for left, right in zip(one.values(), other.values(), strict=True)
        )
    if kind in (list, tuple, collections.deque):
        return len(one) == len(other) and all(
            _same(left, right, seen) for left, right in zip(one, other, strict=True)
        )
    if kind in (set, frozenset):
        return sorted(map(_known, one)) == sorted(map(_known, other))
    if issubclass(kind, StandIn):
        return _same(vars(one), vars(other), seen)
    if sizes.is_frame(one):
        return _same_frames(one, other)
    if sparse_summary.held_matrix(one) is not None:
        return one.shape == other.shape and all(
            _same(getattr(one, name, None), getattr(other, name, None), seen)
            for name in _MATRIX_PARTS
        )
    return preview.plain(one) is not None and preview.plain(one) == preview.plain(other)


def _same_frames(one: Any, other: Any) -> bool:
    """Never where there are objects: to compare them could call methods of the user's."""
    kinds = list(one.dtypes) if one.ndim > 1 and hasattr(one, "iloc") else [one.dtype]
    return "object" not in map(str, kinds) and bool(one.equals(other))


def same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two plain arrays of one shape and dtype have the same bytes."""
    if not (one.flags.c_contiguous and other.flags.c_contiguous):
        return one.tobytes() == other.tobytes()
    if not one.nbytes:
        return True
    left, right = (held.reshape(-1).view(np.uint8) for held in (one, other))
    if left.size % _WORD_BYTES == 0:
        left, right = left.view(np.uint64), right.view(np.uint64)
    return bool(np.array_equal(left, right))


def _known(key: object) -> str:
    """A key as a text that tells 1, 1.0 and True apart."""
    if type(key) is tuple:
        return f"({', '.join(map(_known, key))})"
    return f"{type(key).__name__} {key!r}" if type(key) in _PLAIN else preview.text(key)


def _same_arrays(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:
        pairs = zip(one.reshape(-1), other.reshape(-1), strict=True)
        return all(_same(left, right, seen) for left, right in pairs)
    if describe.is_masked(one):
        return _same_arrays(np.ma.getmaskarray(one), np.ma.getmaskarray(other), seen) and (
            _same_arrays(np.ma.getdata(one), np.ma.getdata(other), seen)
        )
    return not one.dtype.hasobject and (one.size == 0 or same_bytes(one, other))
