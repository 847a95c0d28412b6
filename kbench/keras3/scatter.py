"""Parts of arrays: taken out, put in, added up by index."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import Spec, numpy_call
from kbench.keras3.calls.host import node_call
from kbench.keras3.complex_numbers.parts import by_parts, moved
from kbench.keras3.complex_numbers.refusal import real_only, spec_of, whole_only
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.tensor import (
    PARTS,
    Traced,
    any_traced,
    in_dtype,
    is_traced,
    place_of,
    plain,
    to_wide,
)

_UFUNCS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply,
}  # fmt: skip


def _places(indices: np.ndarray, shape: Any) -> np.ndarray:
    """The places of index vectors in the flat array, -1 for those that lie outside."""
    depth = indices.shape[-1]
    sizes = np.array(shape[:depth])
    wrapped = np.where(indices < 0, indices + sizes, indices)
    inside = ((wrapped >= 0) & (wrapped < sizes)).all(-1)
    steps = np.array([int(np.prod(shape[i + 1 : depth])) for i in range(depth)])
    found: np.ndarray = np.where(inside, (wrapped * steps).sum(-1), -1)
    return found


def _stored(base: Any, indices: Any, values: Any, reduction: Any) -> np.ndarray:
    """The array with values put in, or added, at index vectors."""
    depth = indices.shape[-1]
    shape = base.shape
    rows = base.reshape(int(np.prod(shape[:depth])), *shape[depth:]).copy()
    places = _places(np.asarray(indices), shape).reshape(-1)
    flat = np.broadcast_to(values, (*indices.shape[:-1], *shape[depth:]))
    flat = flat.reshape(len(places), *shape[depth:])
    there = places >= 0
    if reduction is None:
        rows[places[there]] = flat[there]
    else:
        _UFUNCS[reduction].at(rows, places[there], flat[there])
    stored: np.ndarray = rows.reshape(shape)
    return stored


def _gather_rows(g: Any, indices: Any, values: Any) -> Any:
    """Of a gradient what stands at index vectors."""

    def back(slope: np.ndarray, where: np.ndarray) -> np.ndarray:
        depth = where.shape[-1]
        rows = slope.reshape(int(np.prod(slope.shape[:depth])), *slope.shape[depth:])
        places = _places(where, slope.shape)
        taken = rows[np.maximum(places, 0)]
        gone = (places < 0).reshape(*places.shape, *(1,) * (taken.ndim - places.ndim))
        return np.where(gone, 0, taken).astype(slope.dtype)

    indices = in_dtype(indices, "int64") if not hasattr(indices, "spec") else indices
    shape = (*indices.spec.shape[:-1], *g.spec.shape[indices.spec.shape[-1] :])
    return numpy_call(back, [g, indices], Spec(shape, g.spec.dtype))


def scatter(indices: Any, values: Any, shape: Any) -> Any:
    """Zeros of a shape, to which values are added at index vectors."""
    values = layout.known(plain(values))
    zeros = np.zeros(tuple(int(size) for size in shape), str(values.dtype))
    return scatter_update(zeros, indices, values, "add")


def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: Any = None) -> Any:
    """An array with values put in at index vectors, or joined with what is there."""
    inputs, indices = layout.known(plain(inputs)), layout.known(plain(indices))
    whole_only("scatter_update", indices=indices)
    updates = elementwise.cast(layout.known(plain(updates)), str(inputs.dtype))
    if reduction not in (None, *_UFUNCS):
        raise ValueError(f"scatter_update: reduction must be one of {[None, *_UFUNCS]}")
    if reduction in ("max", "min"):
        real_only("scatter_update", inputs=inputs)
    _check_fit(inputs, indices, updates)
    if not any_traced(inputs, indices, updates):
        found = _stored(to_wide(inputs), indices, to_wide(updates), reduction)
        return found.astype(inputs.dtype)

    def rule(g: Any, y: Any, base: Any, where: Any, values: Any, *_options: Any) -> Any:
        taken = _gather_rows(g, where, values)
        if reduction == "add":
            return g, None, taken
        if reduction is not None:
            raise NotImplementedError(
                f"scatter_update: no gradient of reduction={reduction!r} on the kbench backend"
            )
        cleared = scatter_update(Traced(g), Traced(where), Traced(taken * 0))
        return cleared.node, None, taken

    dtype = str(inputs.dtype)
    if dtype in PARTS:
        return _by_parts(inputs, indices, updates, reduction)
    given = (inputs, elementwise.cast(indices, "int64"), updates)
    spec = [(tuple(inputs.shape), dtype)]
    return node_call("scatter", _stored, given, (reduction,), {}, rule, spec, None)


def _check_fit(inputs: Any, indices: Any, updates: Any) -> None:
    """ValueError unless there is a value, or a row, for each index vector."""
    depth = indices.shape[-1] if len(indices.shape) else 0
    wanted = (*indices.shape[:-1], *inputs.shape[depth:])
    try:
        fits = 0 < depth <= len(inputs.shape) and (
            np.broadcast_shapes(tuple(updates.shape), wanted) == wanted
        )
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"scatter_update: indices are {spec_of(indices)}, whose last axis names places in "
            f"{spec_of(inputs)}, and updates are {spec_of(updates)}; a value is needed for each"
        )


def _by_parts(inputs: Any, indices: Any, updates: Any, reduction: Any) -> Any:
    """The same with complex numbers, whose parts are put in or added one by one."""
    if reduction == "mul":
        raise NotImplementedError(
            "scatter_update: reduction='mul' of complex numbers is not available in a traced step"
        )

    def build(node: Any, values: Any) -> Any:
        return scatter_update(Traced(node), indices, Traced(values), reduction).node

    return by_parts(build, [inputs, updates], str(inputs.dtype))


def slice(inputs: Any, start_indices: Any, shape: Any) -> Any:
    """The block of a shape from a place on; -1 is as much as there is.

    A negative start counts from the end, and a block that leaves the array is moved into it.
    """
    inputs, starts = layout.known(plain(inputs)), _starts("slice", start_indices)
    sizes = [int(size) for size in shape]
    if -1 in sizes and len(sizes) == len(starts) == len(inputs.shape):
        ends = zip(starts, inputs.shape, sizes, strict=True)
        sizes = [n - _first(int(i), n, 0) if size == -1 else size for i, n, size in ends]
    first = _block("slice", inputs, starts, sizes)
    if any_traced(inputs, first):
        places = [one.node if is_traced(one) else one for one in first]
        return moved(lambda node: K.slice(node, places, sizes), inputs)
    found = tuple(builtins.slice(i, i + size) for i, size in zip(first, sizes, strict=True))
    return inputs[found]


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    """An array with a block put in from a place on, which is counted as for `slice`."""
    inputs, starts = layout.known(plain(inputs)), _starts("slice_update", start_indices)
    updates = elementwise.cast(layout.known(plain(updates)), str(inputs.dtype))
    first = _block("slice_update", inputs, starts, updates.shape)
    if not any_traced(inputs, first, updates):
        found = np.array(inputs)
        sizes = zip(first, updates.shape, strict=True)
        found[tuple(builtins.slice(i, i + size) for i, size in sizes)] = updates
        return found
    grid = np.moveaxis(np.indices(updates.shape), 0, -1)
    place = layout.stack(first, 0) if any_traced(first) else np.array(first, np.int64)
    return scatter_update(inputs, elementwise.add(grid.astype(np.int64), place), updates)


def _starts(name: str, start_indices: Any) -> list[Any]:
    start_indices = plain(start_indices)
    if is_traced(start_indices):
        found = [start_indices[i] for i in range(start_indices.shape[0])]
    else:
        found = [plain(one) for one in start_indices]
    for one in found:
        whole_only(name, start_indices=one)
    return found


def _block(name: str, inputs: Any, starts: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Where a block of these sizes begins; ValueError for one that the array is too small for."""
    fits = len(starts) == len(sizes) == len(inputs.shape)
    if not fits or any(not 0 <= size <= n for size, n in zip(sizes, inputs.shape, strict=True)):
        raise ValueError(
            f"{name}: inputs is {spec_of(inputs)}, which has no block of "
            f"{list(sizes)} from {len(starts)} start indices on"
        )
    return [_first(*one) for one in zip(starts, inputs.shape, sizes, strict=True)]


def _first(start: Any, count: int, size: int) -> Any:
    """Where along an axis of `count` entries a block of `size` begins: an integer, or a symbol."""
    if not is_traced(start):
        first = int(start)
        return min(max(first + count if first < 0 else first, 0), count - size)
    first = elementwise.cast(layout.known(start), "int64")
    first = elementwise.where(elementwise.less(first, 0), elementwise.add(first, count), first)
    return elementwise.minimum(elementwise.maximum(first, 0), count - size)


def unstack(x: Any, num: Any = None, axis: int = 0) -> list[Any]:
    """The entries of an axis, each an array."""
    x = layout.known(plain(x))
    lead = (builtins.slice(None),) * place_of(axis, len(x.shape))
    return [x[(*lead, i)] for i in range(x.shape[axis])]
