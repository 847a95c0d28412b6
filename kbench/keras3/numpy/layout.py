"""Elements in other places: shapes, order, parts, and what joins arrays."""

from __future__ import annotations

import builtins
import functools
import operator
from typing import Any

import numpy as np
from keras.src.backend.common.dtypes import result_type

from kbench import backend as K
from kbench.keras3.calls.host import BY_PARTS, common_dtype, host, operand
from kbench.keras3.complex_numbers.parts import by_parts, moved
from kbench.keras3.complex_numbers.refusal import whole_only
from kbench.keras3.numpy import elementwise
from kbench.keras3.numpy.elementwise import array_in
from kbench.keras3.tensor import Traced, any_traced, converted, is_traced, own, place_of, plain


def known(x: Any) -> Any:
    """An operand, of which all sizes are known."""
    x = operand(x)
    return x if hasattr(x, "shape") else np.asarray(x, result_type(type(x)))


def _sizes(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (tuple, list)) or np.ndim(shape):
        return tuple([int(size) for size in shape])
    return (int(shape),)


def reshape(x: Any, newshape: Any) -> Any:
    """The same elements in another shape."""
    x = known(x)
    if not is_traced(x):
        return own(x.reshape(_sizes(newshape)))
    return moved(lambda node: K.reshape(node, _sizes(newshape)), x)


def ravel(x: Any) -> Any:
    """All elements in one axis."""
    return reshape(x, (-1,))


def transpose(x: Any, axes: Any = None) -> Any:
    """The axes in another order; reversed without one."""
    x = known(x)
    if not is_traced(x):
        return own(x.transpose(axes))
    rank = x.ndim
    order = tuple(range(rank))[::-1] if axes is None else tuple(place_of(i, rank) for i in axes)
    return moved(lambda node: K.permute_dimensions(node, order), x)


def expand_dims(x: Any, axis: Any) -> Any:
    """Axes of size 1 put in."""
    x = known(x)
    places = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = len(x.shape) + len(places)
    places = tuple(sorted(np.lib.array_utils.normalize_axis_tuple(places, rank)))
    sizes = list(x.shape)
    for place in places:
        sizes.insert(place, 1)
    return reshape(x, tuple(sizes))


def squeeze(x: Any, axis: Any = None) -> Any:
    """Axes of size 1 left out: those that are named, or all."""
    x = known(x)
    rank = len(x.shape)
    if axis is None:
        places = tuple(i for i, size in enumerate(x.shape) if size == 1)
    else:
        places = np.lib.array_utils.normalize_axis_tuple(axis, rank)
        for place in places:
            if x.shape[place] != 1:
                raise ValueError(f"squeeze: axis {place} of shape {tuple(x.shape)} is not 1")
    return reshape(x, tuple(size for i, size in enumerate(x.shape) if i not in places))


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    x = known(x)
    order = list(range(len(x.shape)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order)


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places."""
    x = known(x)
    return transpose(x, _moved_order(len(x.shape), source, destination))


def _moved_order(rank: int, source: Any, destination: Any) -> list[int]:
    normalized = np.lib.array_utils.normalize_axis_tuple
    first, last = normalized(source, rank), normalized(destination, rank)
    order = [i for i in range(rank) if i not in first]
    for place, axis in sorted(zip(last, first, strict=True)):
        order.insert(place, axis)
    return order


def broadcast_to(x: Any, shape: Any) -> Any:
    """The elements repeated to a shape."""
    x = known(x)
    shape = _sizes(shape)
    if not is_traced(x):
        return np.broadcast_to(x, shape).copy()
    if np.broadcast_shapes(tuple(size or 0 for size in x.shape), shape) != shape:
        raise ValueError(f"broadcast_to: x is {x!r}, which has no shape {shape}")
    return _broadcast(x, shape)


_broadcast = host(1, moves=True)(lambda x, shape: np.broadcast_to(x, shape))


@host(1, moves=True, dtype="same")
def flip(x: Any, axis: Any = None) -> Any:
    """The elements in reverse order along axes."""
    return np.flip(x, axis)


@host(1, moves=True, dtype="same")
def fliplr(x: Any) -> Any:
    """The elements in reverse order along the second axis."""
    return np.fliplr(x)


@host(1, moves=True, dtype="same")
def flipud(x: Any) -> Any:
    """The elements in reverse order along the first axis."""
    return np.flipud(x)


@host(1, moves=True, dtype="same")
def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """A plane of two axes turned by 90 degrees, `k` times."""
    if array.ndim < 2:
        raise ValueError(
            "Invalid shape: input array must have at least 2 dimensions. "
            f"Received: array.ndim={array.ndim}"
        )
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    return np.rot90(array, k, axes)


def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """The elements moved along axes; what leaves one end comes back at the other."""
    shifts = [*shift] if isinstance(shift, (tuple, list)) else [shift]
    if not any_traced(*shifts):
        return _roll(x, shift, axis)
    x = known(x)
    if axis is None:
        return reshape(_rolled(ravel(x), shifts, [0]), x.shape)
    return _rolled(x, shifts, [axis] if isinstance(axis, int) else [*axis])


@host(1, moves=True, dtype="same", name="roll")
def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    return np.roll(x, shift, axis)


def _rolled(x: Any, shifts: list[Any], axes: list[Any]) -> Any:
    """The elements moved by numbers that a step computes: one for each axis, or one for all."""
    from kbench.keras3.numpy.index import take

    if len(shifts) == 1 and len(known(shifts[0]).shape):
        shifts = [shifts[0][i] for i in range(shifts[0].shape[0])]
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    for by, axis in zip(shifts, axes, strict=True):
        whole_only("roll", shift=by)
        count = x.shape[place_of(axis, len(x.shape))]
        places = elementwise.subtract(np.arange(count), elementwise.cast(known(by), "int64"))
        x = take(x, elementwise.mod(places, count), axis) if count else x
    return x


@host(1, moves=True, dtype="same")
def repeat(x: Any, repeats: Any, axis: Any = None) -> Any:
    """Every element several times."""
    counts = repeats if isinstance(repeats, int) else np.asarray(repeats)
    return np.repeat(x, counts, axis)


@host(1, moves=True, dtype="same")
def tile(x: Any, repeats: Any) -> Any:
    """The whole array several times along each axis."""
    return np.tile(x, repeats)


@host(1, moves=True, dtype="same")
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of the plane of two axes."""
    return np.diagonal(x, offset, axis1, axis2)


@host(1, lambda g, y, x, k=0: (_diag_back(g, x, k),), dtype="same", of_complex=BY_PARTS)
def diag(x: Any, k: int = 0) -> Any:
    """A matrix of a diagonal, or the diagonal of a matrix."""
    return np.diag(x, k)


def _diag_back(g: Any, x: Any, k: int) -> Any:
    if x.ndim == 1:
        return diagonal(Traced(g), k).node
    square = diag(Traced(g), k)
    rows, columns = x.spec.shape
    side = square.shape[0]
    padded = pad(square, ((0, builtins.max(rows - side, 0)), (0, builtins.max(columns - side, 0))))
    return padded.node[:rows, :columns]


def diagflat(x: Any, k: int = 0) -> Any:
    """A matrix that has all elements on its diagonal."""
    return diag(ravel(x), k)


MAX_MASKS, MAX_MASK_ELEMENTS = 64, 1 << 12
"""Masks that are kept, of so many elements at most: to make one takes longer than to use it."""


def _kept_part(name: str, form: Any) -> Any:
    @functools.lru_cache(MAX_MASKS)
    def is_kept(rows: int, columns: int, k: int) -> np.ndarray:
        return np.asarray(form(np.ones((rows, columns), bool), k))

    def triangle(x: Any, k: int = 0) -> Any:
        if x.ndim < 2 or x.shape[-1] * x.shape[-2] > MAX_MASK_ELEMENTS or type(k) is not int:
            return form(x, k)
        return np.where(is_kept(*x.shape[-2:], k), x, x.dtype.type(0))

    triangle.__name__ = name

    def passed(g: Any, y: Any, x: Any, k: int = 0) -> Any:
        mask = form(np.ones(x.spec.shape[-2:], g.spec.dtype), k)
        return (g * K.constant(mask, dtype=g.spec.dtype),)

    return host(1, passed, dtype="same", of_complex=BY_PARTS)(triangle)


tril = _kept_part("tril", np.tril)
triu = _kept_part("triu", np.triu)


def copy(x: Any) -> Any:
    """The same elements, in memory of their own."""
    x = known(x)
    return x if is_traced(x) else np.array(x)


def _joined_operands(xs: Any) -> tuple[list[Any], str]:
    parts = [known(x) for x in plain(xs)]
    return parts, common_dtype(*parts)


def _are_in(parts: list[Any], dtype: str) -> bool:
    """Whether all are arrays of the dtype of the result, which NumPy joins as they are."""
    first = parts[0].dtype if parts else None
    alike = builtins.all(type(x) is np.ndarray and x.dtype is first for x in parts)
    return alike and first is not None and first.name == dtype


def concatenate(xs: Any, axis: Any = 0) -> Any:
    """Arrays one behind the other along an axis; without one, all elements in one axis."""
    parts, dtype = _joined_operands(xs)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if _are_in(parts, dtype):
        return np.concatenate(parts, axis)
    if not builtins.any(map(is_traced, parts)):
        return np.concatenate([array_in(x, dtype) for x in parts], axis).astype(dtype)
    along = operator.index(axis)

    def build(*nodes: Any) -> Any:
        return K.concatenate(list(nodes), along) if len(nodes) > 1 else nodes[0]

    return by_parts(build, parts, dtype)


def stack(x: Any, axis: int = 0) -> Any:
    """Arrays of one shape side by side along a new axis."""
    parts, dtype = _joined_operands(x)
    if _are_in(parts, dtype):
        return np.stack(parts, axis)
    if not builtins.any(map(is_traced, parts)):
        return np.stack([array_in(one, dtype) for one in parts], axis).astype(dtype)
    along = operator.index(axis)
    return by_parts(lambda *nodes: K.stack(list(nodes), along), parts, dtype)


def _at_least(x: Any, rank: int) -> Any:
    x = known(x)
    if len(x.shape) >= rank:
        return x
    sizes = {1: (1,), 2: (1, *x.shape), 3: (1, *x.shape, 1)}[rank]
    if rank == 2 and not x.shape:
        sizes = (1, 1)
    if rank == 3:
        sizes = {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[len(x.shape)]
    return reshape(x, sizes)


def hstack(xs: Any) -> Any:
    """Arrays side by side along the second axis; vectors along their only one."""
    parts = [_at_least(x, 1) for x in plain(xs)]
    return concatenate(parts, 0 if len(parts[0].shape) == 1 else 1)


def vstack(xs: Any) -> Any:
    """Arrays below each other; a vector is a row."""
    return concatenate([_at_least(x, 2) for x in plain(xs)], 0)


def dstack(xs: Any) -> Any:
    """Arrays behind each other along the third axis."""
    return concatenate([_at_least(x, 3) for x in plain(xs)], 2)


def append(x1: Any, x2: Any, axis: Any = None) -> Any:
    """The second array behind the first."""
    return concatenate([x1, x2], axis)


def _bounds(size: int, sections: Any, equal: bool) -> list[tuple[int, int]]:
    if np.ndim(sections) == 0:
        count = int(sections)
        if equal and size % count:
            raise ValueError(f"split: {size} entries do not make {count} equal parts")
        lengths = [size // count + (i < size % count) for i in range(count)]
        stops = np.cumsum(lengths).tolist()
        return list(zip([0, *stops[:-1]], stops, strict=True))
    cuts = [int(cut) for cut in sections]
    return list(zip([0, *cuts], [*cuts, size], strict=True))


def _parts(x: Any, sections: Any, axis: int, equal: bool) -> list[Any]:
    x = known(x)
    lead = (slice(None),) * place_of(axis, len(x.shape))
    found = []
    for start, stop in _bounds(x.shape[axis], sections, equal):
        part = x[(*lead, slice(start, stop))]
        found.append(part if is_traced(part) else own(part))
    return found


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: so many equal ones, or cut at indices."""
    return _parts(x, indices_or_sections, axis, True)


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, of which the first may be longer by one."""
    return _parts(x, indices_or_sections, axis, False)


def hsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis; of a vector along its only one."""
    return split(x, indices_or_sections, 1 if len(known(x).shape) > 1 else 0)


def vsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis."""
    return split(x, indices_or_sections, 0)


def dsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis."""
    return split(x, indices_or_sections, 2)


def meshgrid(*x: Any, indexing: str = "xy") -> list[Any]:
    """The coordinates of a grid whose lines are at the elements of vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    parts = [ravel(one) for one in x]
    sizes = [part.shape[0] for part in parts]
    found = []
    for place, part in enumerate(parts):
        own = [1] * len(parts)
        own[place] = -1
        full = broadcast_to(reshape(part, own), sizes)
        found.append(swapaxes(full, 0, 1) if indexing == "xy" and len(parts) > 1 else full)
    return found


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    """Borders around an array: of a constant, or of its own elements."""
    x = known(x)
    if not x.shape:
        return x
    pairs = np.broadcast_to(np.asarray(pad_width, int), (len(x.shape), 2))
    widths = tuple((int(a), int(b)) for a, b in pairs)
    if mode != "constant":
        if constant_values is not None:
            raise ValueError(
                "Argument `constant_values` can only be provided when "
                f"`mode == 'constant'`. Received: mode={mode}"
            )
        return _padded(x, widths, mode)
    value = 0 if constant_values is None else constant_values
    if not is_traced(x):
        array = np.pad(x, widths, constant_values=converted(np.asarray(value), x.dtype))
        return array.astype(x.dtype)
    there = np.pad(np.arange(1, np.prod(x.shape, dtype=int) + 1).reshape(x.shape), widths)
    return with_border(x, there, value)


def with_border(x: Traced, there: np.ndarray, value: Any) -> Traced:
    """The elements where they are now, counted from 1, and a value at the places of 0."""

    def build(node: Any, border: Any) -> Any:
        whole = K.concatenate([K.reshape(border, (1,)), K.reshape(node, (-1,))], 0)
        return K.gather(whole, K.constant(there.astype(np.int64), dtype="int64"))

    return by_parts(build, [x, elementwise.cast(value, str(x.dtype))], str(x.dtype))


_padded = host(1, moves=True, dtype="same")(lambda x, widths, mode: np.pad(x, widths, mode))
