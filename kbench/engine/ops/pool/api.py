"""Pooling: the largest or the mean value in windows that slide over the spatial axes.

Five operations over any number of spatial axes, which begin at axis `first` of the array, so that
both data formats are pooled where they lie. Each is linear in what it differentiates, and its
gradient is another of them: derivatives of any order come from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack, cast

from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import Spec, is_float
from kbench.engine.core.types import Attrs, Ints, Sizes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory, KernelSelector, Lowered, Op
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.roles import window_permuted
from kbench.engine.kernels.pool import api as pooling
from kbench.engine.ops.conv.windows import (
    check_rank,
    checked_ints,
    checked_padding,
    layout_of,
    window_counts,
)
from kbench.engine.ops.pool import pool_numpy
from kbench.engine.ops.pool.pool_numpy import Line, PoolAttrs, WindowGeometry
from kbench.engine.runtime import config

# ------------------------------------------------------------------ rules


def _pool_infer(x: Spec, *, first: int, window: Ints, strides: Ints, padding: str) -> Spec:
    stop = first + len(window)
    counts = window_counts(x.shape[first:stop], window, strides, padding)
    return Spec((*x.shape[:first], *counts, *x.shape[stop:]), x.dtype)


def _work(*_specs: Spec, window: Ints, **_attrs: object) -> int:
    return math.prod(window)


def _kernel(name: str, position: int) -> KernelSelector:
    """Selects the kernel of an op, whose operand at `position` is the input's shape."""

    def select(*specs: Spec, **attrs: Unpack[PoolAttrs]) -> KernelFactory | None:
        return pooling.kernel_factory(name, specs[0].dtype, *_sizes(specs[position], attrs))

    return select


def _sizes(x: Spec, attrs: PoolAttrs) -> tuple[int, Sequence[Line], int]:
    """(outer, windows along each spatial axis, inner) of an input whose sizes are all known."""
    form, shape = WindowGeometry(**attrs), tuple(size or 0 for size in x.shape)
    stop = form.first + len(form.window)
    return math.prod(shape[: form.first]), form.lines(shape), math.prod(shape[stop:])


def _without_largest(specs: Sequence[Spec], attrs: Attrs) -> Lowered | None:
    """The gradient without the largest values, where they are not read: often nobody else needs
    them, and then they are not computed."""
    g, x, _ = specs
    reads = pooling.reads_largest(g.dtype, *_sizes(x, cast(PoolAttrs, attrs)))
    return None if reads else (MAX_GRADIENT, attrs, (0, 1))


MAX = structured(
    "pool_max",
    _pool_infer,
    pool_numpy.pool_max,
    lambda g, y, x, **attrs: (apply(MAX_GRADIENT, g, x, y, **attrs),),
    work=_work,
    permuted=window_permuted("window"),
    kernel=_kernel("max", 0),
)
MAX_GRADIENT: Op = structured(
    "pool_max_gradient",
    lambda g, x, y, **_attrs: Spec(x.shape, g.dtype),
    pool_numpy.pool_max_gradient,
    lambda g, z, h, x, y, **attrs: (apply(WINNERS, g, x, y, **attrs), None, None),
    work=_work,
    permuted=window_permuted("window"),
    kernel=_kernel("max_gradient", 1),
    lower=_without_largest,
)
WINNERS: Op = structured(
    "pool_winners",
    lambda h, x, y, **_attrs: Spec(y.shape, h.dtype),
    pool_numpy.pool_winners,
    lambda g, z, h, x, y, **attrs: (apply(MAX_GRADIENT, g, x, y, **attrs), None, None),
    work=_work,
    permuted=window_permuted("window"),
)
AVERAGE = structured(
    "pool_average",
    _pool_infer,
    pool_numpy.pool_average,
    lambda g, y, x, **attrs: (apply(SPREAD, g, x, **attrs),),
    work=_work,
    permuted=window_permuted("window"),
    kernel=_kernel("average", 0),
)
SPREAD: Op = structured(
    "pool_spread",
    lambda g, x, **_attrs: Spec(x.shape, g.dtype),
    pool_numpy.pool_spread,
    lambda g, z, h, x, **attrs: (apply(AVERAGE, g, **attrs), None),
    work=_work,
    permuted=window_permuted("window"),
    kernel=_kernel("spread", 1),
    shapes=(1,),
)

# ------------------------------------------------------------------ public functions


def _pool(
    x: Operand,
    rank: int,
    size: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None,
    mode: str,
) -> Tensor:
    layout = layout_of(data_format)
    tensor = as_tensor(x)
    check_rank(tensor.spec, rank, layout)
    if not isinstance(mode, str) or mode not in ("max", "avg"):
        raise ArgumentError(f"pool_mode must be 'max' or 'avg', got {shown(mode)}")
    if mode == "avg" and not is_float(tensor.spec.dtype):
        tensor = converted(tensor, config.floatx())
    return apply(
        MAX if mode == "max" else AVERAGE,
        tensor,
        first=1 if layout == "channels_last" else 2,
        window=checked_ints(size, rank, "pool_size"),
        strides=checked_ints(strides, rank, "strides"),
        padding=checked_padding(padding),
    )


def pool2d(
    x: Operand,
    pool_size: Sizes,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """The largest or the mean value in windows that slide over images.

    Arguments:
        x: [batch, rows, cols, channels] of any dtype, or with "channels_first" the channels
            second.
        pool_size: height and width of the window: two integers of at least 1, or one for both.
        strides: cells from one window to the next, likewise.
        padding: "valid", windows that fit as a whole; or "same", ceil(size / stride) windows,
            of which only the cells inside the image count.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
        pool_mode: "max" or "avg".
    Returns:
        Tensor [batch, new_rows, new_cols, channels] in the layout and dtype of `x`; the mean of
        integers is `floatx()`. A window that holds a NaN gives NaN.
    Raises:
        ShapeError: `x` is not rank 4, or a window is larger than the image.
        ArgumentError: unknown mode, padding or layout, or sizes that are no positive integers.
    Gradient: to `x`; of the largest value to the first cell that has it, row by row.
    Source: Keras 2.3 `backend.pool2d`; with "same", an odd border puts the extra cell after.

    >>> x = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
    >>> K.eval(K.pool2d(x, (2, 2), pool_mode="avg")).item()
    2.5
    """
    return _pool(x, 2, pool_size, strides, padding, data_format, pool_mode)


def pool3d(
    x: Operand,
    pool_size: Sizes,
    strides: Sizes = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """The largest or the mean value in windows that slide over volumes.

    Arguments:
        x: [batch, depth, rows, cols, channels] of any dtype, or with "channels_first" the
            channels second.
        pool_size, strides: three integers of at least 1, or one for all.
        padding: "valid", windows that fit as a whole; or "same", ceil(size / stride) windows,
            of which only the cells inside the volume count.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
        pool_mode: "max" or "avg".
    Returns:
        Tensor [batch, new_depth, new_rows, new_cols, channels] in the layout and dtype of `x`;
        the mean of integers is `floatx()`.
    Raises:
        ShapeError: `x` is not rank 5, or a window is larger than the volume.
        ArgumentError: unknown mode, padding or layout, or sizes that are no positive integers.
    Gradient: to `x`; of the largest value to the first cell that has it.
    Source: Keras 2.3 `backend.pool3d`.

    >>> K.int_shape(K.pool3d(K.zeros((1, 4, 6, 6, 2)), (2, 2, 2), (2, 2, 2)))
    (1, 2, 3, 3, 2)
    """
    return _pool(x, 3, pool_size, strides, padding, data_format, pool_mode)
