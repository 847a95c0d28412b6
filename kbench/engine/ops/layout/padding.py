"""Zeros around the time axis or the spatial axes of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec
from kbench.engine.core.type_errors import entries_of
from kbench.engine.core.types import Attrs, Sizes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import structured
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.roles import Pattern
from kbench.engine.kernels.data import strided_copy
from kbench.engine.ops.conv.windows import Pads, check_rank, layout_of, whole_number
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.indexing import GETITEM


def _pad_infer(x: Spec, *, pads: Pads) -> Spec:
    sizes = zip(x.shape, pads, strict=True)
    return Spec(tuple(None if n is None else n + sum(both) for n, both in sizes), x.dtype)


def _pad_numpy(out: np.ndarray | None, x: np.ndarray, *, pads: Pads) -> np.ndarray:
    if out is None:
        sizes = [size + before + after for size, (before, after) in zip(x.shape, pads, strict=True)]
        out = np.empty(sizes, x.dtype)
    _pad_by_copies(partial(strided_copy.in_parts, cancel_check=cancel.check), out, x, pads=pads)
    return out


def _pad_by_copies(copy: Copy, out: np.ndarray, x: np.ndarray, *, pads: Pads) -> None:
    whole = out
    for axis, (before, after) in enumerate(pads):
        lead = (slice(None),) * axis
        whole[(*lead, slice(0, before))] = 0
        whole[(*lead, slice(whole.shape[axis] - after, None))] = 0
        whole = whole[(*lead, slice(before, whole.shape[axis] - after))]
    copy(whole, x)


def _pad_gradient(g: Tensor, y: Tensor, x: Tensor, *, pads: Pads) -> tuple[Tensor]:
    items = tuple(("slice", before or None, -after or None, None) for before, after in pads)
    return (apply(GETITEM, g, items=items),)


def _pad_permuted(attrs: Attrs, pattern: Pattern) -> Attrs:
    pads = attrs["pads"]
    return {**attrs, "pads": tuple(pads[pattern.index(axis)] for axis in range(len(pattern)))}


PAD = structured(
    "pad",
    _pad_infer,
    _pad_numpy,
    _pad_gradient,
    kernel=copy_kernel(_pad_infer, _pad_by_copies),
    permuted=_pad_permuted,
)


def pad(x: Tensor, pads: Pads) -> Tensor:
    """`x` with (before, after) zeros along each axis."""
    return apply(PAD, x, pads=pads) if any(map(any, pads)) else x


# ------------------------------------------------------------------ arguments

Padding = int | Sequence[int | Sequence[int]]
"""(before, after) of each spatial axis, or one integer for both; or one for all."""


def _amount(value: object, given: object) -> int:
    number = whole_number(value)
    if number is None:
        raise ArgumentError(f"padding must hold integers, got {shown(given)}")
    if number < 0:
        raise ArgumentError(f"padding must not be negative, got {shown(given)}")
    return number


def _pair(value: object, given: object) -> tuple[int, int]:
    """(before, after) of one axis; a single integer counts for both sides."""
    if not isinstance(value, (list, tuple)):
        number = _amount(value, given)
        return number, number
    if len(value) != 2:
        raise ArgumentError(f"padding needs (before, after) for each axis, got {shown(given)}")
    return _amount(value[0], given), _amount(value[1], given)


def _pairs(padding: object, rank: int) -> Pads:
    """(before, after) of each spatial axis, from pairs, from one integer each, or from one."""
    entries = entries_of(padding, "padding")
    if not isinstance(entries, (list, tuple)):
        return (_pair(entries, padding),) * rank
    if len(entries) != rank:
        raise ArgumentError(
            f"padding needs {rank} entries, each (before, after) or an integer, "
            f"got {shown(padding)}"
        )
    return tuple(_pair(entry, padding) for entry in entries)


# ------------------------------------------------------------------ public functions


def temporal_padding(x: Operand, padding: Sizes = (1, 1)) -> Tensor:
    """Zeros before and after the middle axis, time.

    Arguments:
        x: [batch, steps, features] of any dtype.
        padding: (before, after), or one integer for both.
    Returns:
        Tensor [batch, before + steps + after, features] of the dtype of `x`.
    Raises:
        ShapeError: `x` has not three axes. ArgumentError: `padding` is no pair of integers of at
            least 0.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.temporal_padding`; the single integer is that of Keras 1.

    >>> K.eval(K.temporal_padding(K.ones((1, 2, 1)), (0, 1))).ravel()
    array([1., 1., 0.], dtype=float32)
    """
    tensor = as_tensor(x)
    if tensor.ndim != 3:
        raise ShapeError(f"x is {tensor.spec}, but rank 3 is needed: [batch, steps, features]")
    given = entries_of(padding, "padding")
    return pad(tensor, ((0, 0), _pair(given, padding), (0, 0)))


def _spatial(x: Operand, padding: Padding, data_format: str | None, rank: int) -> Tensor:
    layout = layout_of(data_format)
    tensor = as_tensor(x)
    check_rank(tensor.spec, rank, layout)
    pairs = _pairs(padding, rank)
    none = (0, 0)
    last = layout == "channels_last"
    return pad(tensor, (none, *pairs, none) if last else (none, none, *pairs))


def spatial_2d_padding(
    x: Operand, padding: Padding = ((1, 1), (1, 1)), data_format: str | None = None
) -> Tensor:
    """Zeros around images.

    Arguments:
        x: [batch, rows, cols, channels] of any dtype, or with "channels_first" the channels
            second.
        padding: ((top, bottom), (left, right)); or (rows, cols), or one integer, for both sides.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor of the dtype and layout of `x` with larger rows and cols.
    Raises:
        ShapeError: `x` has not four axes. ArgumentError: unknown layout, or `padding` is in none
            of these forms, or negative.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.spatial_2d_padding`; (rows, cols) is the form of Keras 1.

    >>> K.int_shape(K.spatial_2d_padding(K.ones((1, 2, 2, 3)), ((0, 1), (2, 0))))
    (1, 3, 4, 3)
    """
    return _spatial(x, padding, data_format, 2)


def spatial_3d_padding(
    x: Operand, padding: Padding = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None
) -> Tensor:
    """Zeros around volumes.

    Arguments:
        x: [batch, depth, rows, cols, channels] of any dtype, or with "channels_first" the
            channels second.
        padding: three pairs (before, after), three integers, or one.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor of the dtype and layout of `x` with larger depth, rows and cols.
    Raises:
        ShapeError: `x` has not five axes. ArgumentError: unknown layout, or `padding` is in none
            of these forms, or negative.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.spatial_3d_padding`; three integers are the form of Keras 1.

    >>> K.int_shape(K.spatial_3d_padding(K.ones((1, 2, 2, 2, 3)), (1, 0, 2)))
    (1, 4, 2, 6, 3)
    """
    return _spatial(x, padding, data_format, 3)
