"""Elements by index and by order: take, sort, search, count."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype

from kbench import backend as K
from kbench.api.operations import ArgumentError, ShapeError, Spec, numpy_call
from kbench.keras3.calls.host import common_dtype, flat, host, node_call, operand
from kbench.keras3.complex_numbers.parts import moved
from kbench.keras3.complex_numbers.refusal import real_only, spec_of, whole_only
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.tensor import (
    NotTracedError,
    Traced,
    from_wide,
    in_dtype,
    is_traced,
    place_of,
    plain,
    to_wide,
)


def _whole(name: str, indices: Any) -> Any:
    """Indices as integers of 64 bits."""
    indices = layout.known(indices)
    if 0 not in indices.shape:  # the dtype of [] is one of floats
        whole_only(name, indices=indices)
    return elementwise.cast(indices, "int64")


def _of_nothing(name: str, x: Any, indices: Any, axis: int) -> bool:
    """Whether no entry is taken from an axis of none; ShapeError where one is."""
    if x.shape[axis] != 0:
        return False
    if 0 not in indices.shape and 0 not in _without(x.shape, axis):
        raise ShapeError(
            f"x is {spec_of(x)}, whose axis {axis} has no elements; "
            f"indices is {spec_of(indices)} and asks for some",
            function=name,
        )
    return True


def _from_the_front(name: str, x: Any, indices: Any, axis: int) -> Any:
    """Indices as they count from 0; ShapeError for one that is known and outside of the axis.

    Those of a traced value are checked where they meet the entries.
    """
    size = x.shape[axis]
    if is_traced(indices):
        return elementwise.where(elementwise.less(indices, 0), indices + size, indices)
    outside = (indices < -size) | (indices >= size)
    if outside.any():
        raise ShapeError(
            f"x is {spec_of(x)}, whose axis {axis} has {size} entries; "
            f"index {indices[outside][0]} is outside of it",
            function=name,
        )
    return np.where(indices < 0, indices + size, indices)


def inside(name: str, x: Any, indices: Any, axis: int) -> Any:
    """Indices of 64 bits as they count from 0; each run checks that the axis has traced ones."""
    indices = _from_the_front(name, x, indices, axis)
    if not is_traced(indices):
        return indices
    places = K.constant(np.arange(x.shape[axis]), dtype="int64")
    return Traced(K.gather(places, in_dtype(indices, "int64")))


def take(x: Any, indices: Any, axis: Any = None) -> Any:
    """The entries of an axis by index; negative ones count from the end."""
    x, indices = layout.known(x), _whole("take", indices)
    if axis is None:
        x, axis = layout.ravel(x), 0
    axis = place_of(axis, len(x.shape))
    if _of_nothing("take", x, indices, axis):
        return np.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    if not is_traced(x) and not is_traced(indices):
        try:
            return from_wide(np.take(to_wide(x), indices, axis), x.dtype.name)
        except IndexError:
            _from_the_front("take", x, indices, axis)
            raise
    rows = in_dtype(_from_the_front("take", x, indices, axis), "int64")
    rank, more = len(x.shape), len(indices.shape)

    def build(node: Any) -> Any:
        if not axis:
            return K.gather(node, rows)
        node = K.permute_dimensions(node, (axis, *[i for i in range(rank) if i != axis]))
        order = [*range(more, more + axis), *range(more), *range(more + axis, more + rank - 1)]
        return K.permute_dimensions(K.gather(node, rows), order)

    return moved(build, x)


def take_along_axis(x: Any, indices: Any, axis: Any = None) -> Any:
    """For every place of `indices`, the entry of the axis that it names."""
    x, indices = layout.known(x), _whole("take_along_axis", indices)
    if axis is None:
        x, axis = layout.ravel(x), 0
        indices = layout.ravel(indices)
    axis = place_of(axis, len(x.shape))
    if _of_nothing("take_along_axis", x, indices, axis):
        sizes = np.broadcast_shapes(_without(x.shape, axis), _without(indices.shape, axis))
        return np.zeros(_with(sizes, axis, indices.shape[axis]), x.dtype)
    if not is_traced(x) and not is_traced(indices):
        indices = _from_the_front("take_along_axis", x, indices, axis)
        first, second = _without(x.shape, axis), _without(indices.shape, axis)
        if first != second:
            shape = np.broadcast_shapes(first, second)
            x = np.broadcast_to(x, _with(shape, axis, x.shape[axis]))
            indices = np.broadcast_to(indices, _with(shape, axis, indices.shape[axis]))
        return np.take_along_axis(x, indices, axis)
    shape = np.broadcast_shapes(_without(x.shape, axis), _without(indices.shape, axis))
    x = layout.broadcast_to(x, _with(shape, axis, x.shape[axis]))
    indices = inside("take_along_axis", x, indices, axis)
    indices = layout.broadcast_to(indices, _with(shape, axis, indices.shape[axis]))
    return gathered(x, indices, axis)


def _without(shape: Any, axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _with(shape: Any, axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def gathered(x: Any, indices: Any, axis: int) -> Traced:
    """Along an axis, the entries that indices of the same other sizes name, from 0 on."""
    steps = np.array([int(np.prod(x.shape[i + 1 :])) for i in range(len(x.shape))])
    grid = np.indices(_with(indices.shape, axis, 1), sparse=False)
    base = sum(grid[i] * steps[i] for i in range(len(x.shape)) if i != axis)
    base = np.asarray(base, np.int64)
    places = in_dtype(indices, "int64") * int(steps[axis]) + K.constant(base, dtype="int64")
    return moved(lambda node: K.gather(K.reshape(node, (-1,)), places), x)


def argsort(x: Any, axis: Any = -1) -> Any:
    """The places of the elements in the order of their size; equal ones stay in theirs."""
    x = layout.known(x)
    real_only("argsort", x=x)
    if axis is None:
        x, axis = layout.ravel(x), -1
    if not len(x.shape):
        return np.zeros((), "int32")
    return _argsort(x, axis)


@host(1, dtype="int32", name="argsort")
def _argsort(x: Any, axis: int) -> Any:
    return np.argsort(x, axis, kind="stable")


def _order(x: Any, axis: int) -> Any:
    """The places in order, as a node of a traced value."""
    node = x.node

    def order(array: np.ndarray) -> np.ndarray:
        return np.argsort(array, axis, kind="stable")

    return Traced(numpy_call(order, [node], Spec(node.spec.shape, "int64")))


def sort(x: Any, axis: Any = -1) -> Any:
    """The elements in the order of their size."""
    x = layout.known(x)
    real_only("sort", x=x)
    if axis is None:
        x, axis = layout.ravel(x), -1
    if not is_traced(x):
        return np.sort(to_wide(x), axis).astype(x.dtype) if x.ndim else x
    if not x.shape or 0 in x.shape:
        return x
    return gathered(x, _order(x, axis), place_of(axis, len(x.shape)))


def argpartition(x: Any, kth: int, axis: Any = -1) -> Any:
    """Places such that the entry at `kth` is where sorting would put it."""
    x = layout.known(x)
    if axis is None:
        x, axis = layout.ravel(x), -1
    size = x.shape[axis] if x.shape else 1
    if x.shape and not -size <= kth < size and 0 not in x.shape:
        told = f"x is {spec_of(x)}, whose axis {axis} has {size} elements; kth is {kth}"
        raise ArgumentError(told, function="argpartition")
    return _argpartition(x, kth, axis)


@host(1, dtype="int32", name="argpartition")
def _argpartition(x: Any, kth: int, axis: int) -> Any:
    return np.argpartition(x, kth, axis)


@host(2)
def searchsorted(sorted_sequence: Any, values: Any, side: Any = "left") -> Any:
    """Where values would have to be put in to keep a sequence sorted."""
    if np.ndim(sorted_sequence) != 1:
        raise ValueError(
            "`searchsorted` only supports 1-D sorted sequences. You can use "
            "`keras.ops.vectorized_map` to extend it to N-D sequences. Received: "
            f"sorted_sequence.shape={np.shape(sorted_sequence)}"
        )
    return np.searchsorted(sorted_sequence, values, side)


def digitize(x: Any, bins: Any) -> Any:
    """The number of the bin in which each element lies."""
    return _digitize(x, layout.known(plain(bins)))


@host(2, dtype="int32", name="digitize")
def _digitize(x: Any, bins: np.ndarray) -> Any:
    return np.digitize(x, to_wide(bins))


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Any:
    """How often each integer occurs in a vector, or the sum of its weights, a row for each."""
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with the kbench backend")
    x = layout.known(x)
    real_only("bincount", x=x, weights=weights)
    dtype = "int32" if weights is None else common_dtype(operand(weights))
    if weights is not None and dtype == "int64":
        dtype = "int64"
    given = x if weights is None else (x, layout.known(weights))
    if any(map(is_traced, given if isinstance(given, tuple) else (given,))):
        return _traced_bincount(given, int(minlength), dtype)
    return _bincount(x, None if weights is None else given[1], int(minlength)).astype(dtype)


def watched(name: str, x: Any, look: Callable[[np.ndarray], object]) -> Any:
    """An operand at whose values each call of a step looks."""
    if not is_traced(x):
        look(x)
        return x

    def seen(values: np.ndarray) -> np.ndarray:
        look(values)
        return values

    seen_as = [(tuple(x.shape), standardize_dtype(x.dtype))]
    return node_call(name, seen, (x,), (), {}, None, seen_as, x)


def _check_counted(x: np.ndarray) -> None:
    if (least := x.min(initial=0)) < 0:
        told = f"x is {spec_of(x)} and has {least}; only integers from 0 on are counted"
        raise ArgumentError(told, function="bincount")


def _bincount(x: np.ndarray, weights: Any, length: int) -> np.ndarray:
    weights = None if weights is None else to_wide(weights)
    _check_counted(x)
    if x.ndim == 1:
        return np.bincount(x, weights, length)
    length = max(length, int(x.max(initial=-1)) + 1)
    rows = [
        np.bincount(row, None if weights is None else weights[i], length)[:length]
        for i, row in enumerate(x.reshape(-1, x.shape[-1]))
    ]
    return np.stack(rows).reshape(*x.shape[:-1], length)


def _traced_bincount(given: Any, length: int, dtype: str) -> Any:
    """Sums over one-hot rows: of so many integers as `minlength` says."""
    if not length:
        raise NotTracedError(
            "bincount: minlength is needed in a traced step, where the largest integer is not known"
        )

    def check(values: np.ndarray) -> None:
        _check_counted(values)
        if (most := values.max(initial=0)) >= length:
            told = f"x is {spec_of(values)} and has {most}; in a traced step minlength={length} is "
            raise ArgumentError(f"{told}the length of the result", function="bincount")

    x, weights = given if isinstance(given, tuple) else (given, None)
    hot = K.one_hot(in_dtype(watched("bincount", x, check), "int32"), length)
    wide = dtype if "float" in dtype else "float32"
    if weights is not None:
        hot = hot * K.expand_dims(in_dtype(weights, wide), -1)
    return elementwise.cast(Traced(K.sum(hot, axis=-2)), dtype)


@host(2, dtype="bool", of_complex=flat)
def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element of the first is one of the second."""
    return np.isin(x1, x2, assume_unique=assume_unique, invert=invert)


def unravel_index(indices: Any, shape: Any) -> Any:
    """The index along each axis of elements that are counted through."""
    indices = layout.known(indices)
    whole_only("unravel_index", indices=indices)
    dtype = common_dtype(indices)
    count = math.prod(int(one) for one in shape)

    def check(values: np.ndarray) -> None:
        if ((values < -count) | (values >= count)).any():
            told = f"indices is {spec_of(values)}, {values.min()} to {values.max()}"
            raise ShapeError(f"{told}; shape {tuple(shape)} has {count}", function="unravel_index")

    found, rest = [], watched("unravel_index", indices, check)
    for size in reversed(tuple(int(one) for one in shape)):
        found.append(elementwise.cast(elementwise.mod(rest, size), dtype))
        rest = elementwise.floor_divide(rest, size)
    return tuple(reversed(found))


@host(1, dtype=lambda x: ["int32", elementwise.float_type(x)])
def histogram(x: Any, bins: Any = 10, range: Any = None) -> Any:
    """How many elements lie between neighbouring edges, and the edges."""
    counts, edges = np.histogram(x, bins=bins, range=range)
    return counts, edges


def unique(
    x: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    size: Any = None,
    fill_value: Any = None,
) -> Any:
    """The different elements, in order; with `size` cut, or filled up, to so many."""
    x = layout.known(x)
    if is_traced(x):
        raise NotTracedError("unique is not available in a traced step on kbench")
    values, first, inverse, counts = np.unique(
        to_wide(x), True, True, True, axis=axis, equal_nan=False
    )
    values = values.astype(x.dtype)
    along = 0 if axis is None else axis
    if size is not None:
        values, first, counts = _resized(values, first, counts, along, size, fill_value)
    found = [values]
    for wanted, one in zip(
        (return_index, return_inverse, return_counts), (first, inverse, counts), strict=True
    ):
        if wanted:
            found.append(np.asarray(one).astype("int32"))
    return found[0] if len(found) == 1 else tuple(found)


def _resized(values: Any, first: Any, counts: Any, axis: int, size: int, fill: Any) -> Any:
    there = values.shape[axis]
    if there >= size:
        keep = np.arange(size)
        return np.take(values, keep, axis), first[:size], counts[:size]
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, size - there)
    if fill is None:
        least = np.take(values, [0], axis)
        filled = np.concatenate([values, *[least] * (size - there)], axis)
    else:
        filled = np.pad(values, widths, constant_values=fill)
    missing = (0, size - there)
    start = int(first[0]) if len(first) else 0
    return filled, np.pad(first, missing, constant_values=start), np.pad(counts, missing)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Of every element the choice whose condition holds first."""
    found = operand(default)
    kinds = [operand(one) for one in choicelist]
    dtype = common_dtype(*kinds, found)
    found = elementwise.cast(found, dtype) if hasattr(found, "shape") else found
    for condition, choice in zip(reversed(condlist), reversed(kinds), strict=True):
        found = elementwise.where(condition, choice, found)
    return found


def vectorize(pyfunc: Any, *, excluded: Any = None, signature: Any = None) -> Any:
    """A function of numbers as a function of arrays."""
    return np.vectorize(pyfunc, excluded=excluded, signature=signature)
