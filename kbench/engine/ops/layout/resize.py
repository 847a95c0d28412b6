"""Larger images and volumes: cells repeated, or interpolated between their centres."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import Spec, is_float
from kbench.engine.core.types import Ints
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory, KernelSelector, Op
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.roles import window_permuted
from kbench.engine.kernels.pool import api as pooling
from kbench.engine.kernels.pool import resize
from kbench.engine.ops.conv.windows import check_rank, layout_of, whole_number
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.pool.pool_numpy import Line
from kbench.engine.runtime import config

BLOCK_ELEMENTS = 1 << 18
"""Elements computed between two looks at the cancel flag."""

# ------------------------------------------------------------------ repetition


def _upsample_infer(x: Spec, *, first: int, factors: Ints) -> Spec:
    sizes = list(x.shape)
    for axis, factor in enumerate(factors, first):
        size = sizes[axis]
        sizes[axis] = None if size is None else size * factor
    return Spec(tuple(sizes), x.dtype)


def _block_sum_infer(g: Spec, *, first: int, factors: Ints) -> Spec:
    sizes = list(g.shape)
    for axis, factor in enumerate(factors, first):
        size = sizes[axis]
        sizes[axis] = None if size is None else size // factor
    return Spec(tuple(sizes), g.dtype)


def _apart(shape: Ints, first: int, factors: Ints) -> tuple[list[int], list[int]]:
    """Sizes with an axis of the factor's size behind each enlarged axis; and with 1 there."""
    whole, single = [math.prod(shape[:first])], [math.prod(shape[:first])]
    for size, factor in zip(shape[first:], factors, strict=False):
        whole += [size, factor]
        single += [size, 1]
    inner = math.prod(shape[first + len(factors) :])
    return [*whole, inner], [*single, inner]


def _upsample_numpy(
    out: np.ndarray | None, x: np.ndarray, *, first: int, factors: Ints
) -> np.ndarray:
    if out is None:
        shape = _upsample_infer(Spec(x.shape, x.dtype.name), first=first, factors=factors).shape
        out = np.empty(shape, x.dtype)  # type: ignore[arg-type]
    if not out.size:
        return out
    whole, single = _apart(x.shape, first, factors)
    target, source = out.reshape(whole), x.reshape(single)
    step = max(1, BLOCK_ELEMENTS * len(target) // max(1, out.size))
    for start in range(0, len(target), step):
        np.copyto(target[start : start + step], source[start : start + step])
        cancel.check()
    return out


def _upsample_by_copies(
    copy: Copy, out: np.ndarray, x: np.ndarray, *, first: int, factors: Ints
) -> None:
    stop = first + len(factors)
    pairs = [
        part
        for size, factor in zip(x.shape[first:], factors, strict=False)
        for part in (size, factor)
    ]
    apart = out.reshape(*x.shape[:first], *pairs, *x.shape[stop:])
    copy(apart, np.expand_dims(x, tuple(range(first + 1, first + 2 * len(factors), 2))))


def _folded(x: np.ndarray, axis: int) -> np.ndarray:
    """The sum over an axis of few entries, kept with size 1; slice by slice, which is faster."""
    parts = np.moveaxis(x, axis, 0)
    total: np.ndarray = np.add(parts[0], parts[1]) if len(parts) > 1 else parts[0]
    for part in parts[2:]:
        total += part
    return np.expand_dims(total, axis)


def _block_sum_numpy(
    out: np.ndarray | None, g: np.ndarray, *, first: int, factors: Ints
) -> np.ndarray:
    shape = _block_sum_infer(Spec(g.shape, g.dtype.name), first=first, factors=factors).shape
    if out is None:
        out = np.empty(shape, g.dtype)  # type: ignore[arg-type]
    if not out.size:
        return out
    whole, single = _apart(shape, first, factors)  # type: ignore[arg-type]
    source = g.reshape(whole)
    target = out.reshape(single)
    wide = np.float32 if g.dtype == np.float16 else g.dtype
    step = max(1, BLOCK_ELEMENTS * len(target) // max(1, g.size))
    for start in range(0, len(target), step):
        part = source[start : start + step].astype(wide, copy=False)
        for axis in range(2 * len(factors), 0, -2):
            part = _folded(part, axis)
        with np.errstate(over="ignore"):
            target[start : start + step] = part
        cancel.check()
    return out


def _block_sum_kernel(x: Spec, *, first: int, factors: Ints) -> KernelFactory | None:
    """The kernel of pooling that does the same: its windows are the cells that were one."""
    shape, stop = x.shape, first + len(factors)
    lines = []
    for size, factor in zip(shape[first:stop], factors, strict=True):
        steps = (size or 0) // factor
        lines.append(Line(0, 0, steps * factor, steps, factor, factor, 0))
    outer, inner = math.prod(shape[:first]), math.prod(shape[stop:])  # type: ignore[arg-type]
    return pooling.kernel_factory("sum", x.dtype, outer, lines, inner)


UPSAMPLE = structured(
    "upsample",
    _upsample_infer,
    _upsample_numpy,
    lambda g, y, x, **attrs: (apply(BLOCK_SUM, g, **attrs),),
    kernel=copy_kernel(_upsample_infer, _upsample_by_copies),
    permuted=window_permuted("factors"),
)
BLOCK_SUM: Op = structured(
    "block_sum",
    _block_sum_infer,
    _block_sum_numpy,
    lambda g, y, x, **attrs: (apply(UPSAMPLE, g, **attrs),),
    kernel=_block_sum_kernel,
    permuted=window_permuted("factors"),
)

# ------------------------------------------------------------------ interpolation


def _phases(factor: int) -> Iterator[tuple[int, float]]:
    """How far the centre of each of the `factor` new cells lies from that of the old one."""
    for phase in range(factor):
        yield phase, (phase + 0.5) / factor - 0.5


def _stretch(out: np.ndarray, x: np.ndarray) -> None:
    """Fill out[outer, n, factor, inner] from x[outer, n, inner]; edges repeat the last cell."""
    for phase, shift in _phases(out.shape[2]):
        target, weight = out[:, :, phase], abs(shift)
        if not weight:
            target[...] = x
            continue
        np.multiply(x, 1 - weight, out=target)
        if shift < 0:
            target[:, 1:] += x[:, :-1] * weight
            target[:, :1] = x[:, :1]
        else:
            target[:, :-1] += x[:, 1:] * weight
            target[:, -1:] = x[:, -1:]


def _shrink(out: np.ndarray, g: np.ndarray) -> None:
    """The transpose of `_stretch`: each new cell's `g` goes back to the old ones it came from."""
    out.fill(0)
    for phase, shift in _phases(g.shape[2]):
        part, weight = g[:, :, phase], abs(shift)
        if not weight:
            out += part
            continue
        shared = part * weight
        if shift < 0:
            out[:, :1] += part[:, :1]
            out[:, 1:] += part[:, 1:] * (1 - weight)
            out[:, :-1] += shared[:, 1:]
        else:
            out[:, -1:] += part[:, -1:]
            out[:, :-1] += part[:, :-1] * (1 - weight)
            out[:, 1:] += shared[:, :-1]


def _in_blocks(
    run: Callable[[np.ndarray, np.ndarray], None], out: np.ndarray, x: np.ndarray, size: int
) -> None:
    """`run(out, x)` in parts over the outer and the inner axis; float16 computes in float32."""
    outer, inner = out.shape[0], out.shape[-1]
    columns = max(1, min(inner, BLOCK_ELEMENTS // max(1, size)))
    rows = max(1, BLOCK_ELEMENTS // max(1, size * columns))
    narrow = out.dtype == np.float16
    for i in range(0, outer, rows):
        for j in range(0, inner, columns):
            place = (slice(i, i + rows), ..., slice(j, j + columns))
            target, source = out[place], x[place]
            with np.errstate(all="ignore"):
                if narrow:
                    wide = np.empty(target.shape, np.float32)
                    run(wide, source.astype(np.float32))
                    target[...] = wide
                else:
                    run(target, source)
            cancel.check()


def _sides(shape: Ints, axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _interpolate_numpy(
    out: np.ndarray | None, x: np.ndarray, *, axis: int, factor: int
) -> np.ndarray:
    outer, size, inner = _sides(x.shape, axis)
    if out is None:
        out = np.empty((*x.shape[:axis], size * factor, *x.shape[axis + 1 :]), x.dtype)
    if not out.size:
        return out
    target = out.reshape(outer, size, factor, inner)
    _in_blocks(_stretch, target, x.reshape(outer, size, inner), size * factor)
    return out


def _collect_numpy(out: np.ndarray | None, g: np.ndarray, *, axis: int, factor: int) -> np.ndarray:
    outer, longer, inner = _sides(g.shape, axis)
    size = longer // factor
    if out is None:
        out = np.empty((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    if not out.size:
        return out
    source = g.reshape(outer, size, factor, inner)
    _in_blocks(_shrink, out.reshape(outer, size, inner), source, longer)
    return out


def _line_kernel(name: str) -> KernelSelector:
    """The kernel of interpolation along one axis."""

    def select(x: Spec, *, axis: int, factor: int) -> KernelFactory | None:
        outer, size, inner = _sides(x.shape, axis)  # type: ignore[arg-type]
        size = size if name == "stretch" else size // factor
        return resize.kernel_factory(name, x.dtype, outer, size, factor, inner)

    return select


INTERPOLATE = structured(
    "interpolate",
    lambda x, *, axis, factor: _upsample_infer(x, first=axis, factors=(factor,)),
    _interpolate_numpy,
    lambda g, y, x, **attrs: (apply(COLLECT, g, **attrs),),
    kernel=_line_kernel("stretch"),
)
COLLECT: Op = structured(
    "interpolate_back",
    lambda g, *, axis, factor: _block_sum_infer(g, first=axis, factors=(factor,)),
    _collect_numpy,
    lambda g, y, x, **attrs: (apply(INTERPOLATE, g, **attrs),),
    kernel=_line_kernel("shrink"),
)

# ------------------------------------------------------------------ public functions


def _factor(value: object, name: str) -> int:
    number = whole_number(value)
    if number is None:
        raise ArgumentError(f"{name} must be an integer, got {shown(value)}")
    if number < 1:
        raise ArgumentError(f"{name} must be at least 1, got {shown(value)}")
    return number


def _checked(x: Operand, rank: int, data_format: str | None) -> tuple[Tensor, int]:
    """The tensor and its first spatial axis."""
    layout = layout_of(data_format)
    tensor = as_tensor(x)
    check_rank(tensor.spec, rank, layout)
    return tensor, 1 if layout == "channels_last" else 2


def _repeated(x: Tensor, first: int, factors: Ints) -> Tensor:
    return x if set(factors) == {1} else apply(UPSAMPLE, x, first=first, factors=factors)


def resize_images(
    x: Operand,
    height_factor: int,
    width_factor: int,
    data_format: str | None,
    interpolation: str = "nearest",
) -> Tensor:
    """Images with `height_factor` times the rows and `width_factor` times the columns.

    Arguments:
        x: [batch, rows, cols, channels] of any dtype, or with "channels_first" the channels
            second.
        height_factor, width_factor: integers of at least 1.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
        interpolation: "nearest" repeats every cell; "bilinear" interpolates between the centres
            of the cells, and repeats the outermost ones beyond them.
    Returns:
        Tensor in the layout of `x` and of its dtype; integers interpolate to `floatx()`.
    Raises:
        ShapeError: `x` has not four axes. ArgumentError: a factor is no positive integer, or
            layout or interpolation are unknown.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.resize_images`; centres as in TensorFlow 2, where Keras 2.3 itself
        interpolated from the upper left corners.

    >>> x = K.reshape(K.constant([0.0, 4.0]), (1, 1, 2, 1))
    >>> K.eval(K.resize_images(x, 1, 2, "channels_last", "bilinear")).ravel()
    array([0., 1., 3., 4.], dtype=float32)
    """
    tensor, first = _checked(x, 2, data_format)
    factors = (_factor(height_factor, "height_factor"), _factor(width_factor, "width_factor"))
    if not isinstance(interpolation, str) or interpolation not in ("nearest", "bilinear"):
        given = shown(interpolation)
        raise ArgumentError(f"interpolation must be 'nearest' or 'bilinear', got {given}")
    if interpolation == "nearest":
        return _repeated(tensor, first, factors)
    if not is_float(tensor.spec.dtype):
        tensor = converted(tensor, config.floatx())
    for axis, factor in enumerate(factors, first):
        if factor > 1:
            tensor = apply(INTERPOLATE, tensor, axis=axis, factor=factor)
    return tensor


def resize_volumes(
    x: Operand, depth_factor: int, height_factor: int, width_factor: int, data_format: str | None
) -> Tensor:
    """Volumes whose every cell is repeated along depth, rows and columns.

    Arguments:
        x: [batch, depth, rows, cols, channels] of any dtype, or with "channels_first" the
            channels second.
        depth_factor, height_factor, width_factor: integers of at least 1.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor in the layout and dtype of `x`.
    Raises:
        ShapeError: `x` has not five axes. ArgumentError: a factor is no positive integer, or the
            layout is unknown.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.resize_volumes`.

    >>> K.int_shape(K.resize_volumes(K.zeros((1, 2, 2, 2, 3)), 1, 2, 3, "channels_last"))
    (1, 2, 4, 6, 3)
    """
    tensor, first = _checked(x, 3, data_format)
    factors = (
        _factor(depth_factor, "depth_factor"),
        _factor(height_factor, "height_factor"),
        _factor(width_factor, "width_factor"),
    )
    return _repeated(tensor, first, factors)
