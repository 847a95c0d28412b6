"""Convolution as three ops, channels last, over one to three spatial axes.

`convolve`, `convolve_to_input` and `convolve_to_kernel` are the three ways to sum the same triple
product, so the gradient of each is made of the other two. Borders are kept by name ("valid",
"same", "causal") and counted from the sizes at hand, which may be known only at evaluation.
Depthwise convolution makes its three ops of the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Unpack

import numpy as np

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec, known_size, show
from kbench.engine.core.types import Dim, Ints, Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.op import Gradient, Op, register
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.jit.launch import Preparable
from kbench.engine.ops.conv import convolve_numpy
from kbench.engine.ops.conv.convolve_kernels import (
    FindKernel,
    IsProfitable,
    NumpyForm,
    kernel_selectors,
)
from kbench.engine.ops.conv.windows import WindowAttrs, pads_of, window_counts
from kbench.engine.ops.layout.shape import shape

ConvFunction = Callable[..., None]  # (out, first, second, strides, starts, dilation)


class Kind(NamedTuple):
    """What sets a family of three ops apart from the other."""

    name: str
    tier: str
    filters: Callable[[Spec], Dim]  # channels of the result, by the kernel
    summed: Callable[[Spec], Dim]  # channels that one element of the result sums over
    forward: ConvFunction
    to_input: ConvFunction
    to_kernel: ConvFunction
    find_kernel: FindKernel  # of compiled kernels, in that order
    is_profitable: IsProfitable  # whether these are worth while


# ------------------------------------------------------------------ rules


def check_channels(x: Spec, kernel: Spec, axis: int) -> None:
    """The channels of `x` are those that the kernel reads."""
    ours, theirs = x.shape[axis], kernel.shape[-2]
    if None not in (ours, theirs) and ours != theirs:
        place = "last axis" if axis in (-1, x.ndim - 1) else f"axis {axis}"
        raise ShapeError(
            f"x is {x}, so its {place} has {ours} channels, but kernel is {kernel}, "
            f"which reads {theirs}",
            axes={"x": axis % x.ndim, "kernel": kernel.ndim - 2},
        )


def check_taps(kernel: Spec) -> None:
    """A window holds at least one cell."""
    if 0 in kernel.shape[:-2]:
        raise ShapeError(f"kernel is {kernel}, an empty window")


def entries(sizes: Spec, count: int) -> Shape:
    """The sizes that a shape operand is known to hold; a batch of -1 counts as unknown."""
    if sizes.shape not in ((count,), (None,)):
        raise ShapeError(f"output_shape must hold {count} sizes, got {sizes}")
    value = sizes.value or (None,) * count
    if any(size is not None and size < 0 for size in value[1:]) or (value[0] or 0) < -1:
        raise ShapeError(f"output_shape {show(value)} holds a negative size")
    return (None if value[0] == -1 else value[0], *value[1:])


def same_size(ours: Dim, theirs: Dim) -> bool:
    """False when two sizes are known to differ."""
    return None in (ours, theirs) or ours == theirs


def _forward_infer(kind: Kind) -> Callable[..., Spec]:
    def infer(x: Spec, kernel: Spec, *, strides: Ints, padding: str, dilation: Ints) -> Spec:
        check_channels(x, kernel, -1)
        check_taps(kernel)
        space = window_counts(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation)
        return Spec((x.shape[0], *space, kind.filters(kernel)), x.dtype)

    return infer


def _to_input_infer(kind: Kind) -> Callable[..., Spec]:
    def infer(
        g: Spec, kernel: Spec, sizes: Spec, *, strides: Ints, padding: str, dilation: Ints
    ) -> Spec:
        check_taps(kernel)
        wanted = entries(sizes, g.ndim)
        if not same_size(g.shape[-1], kind.filters(kernel)):
            raise ShapeError(
                f"x is {g} with {g.shape[-1]} channels, but kernel is {kernel}, which reads "
                f"{kind.filters(kernel)}"
            )
        for axis, own, name in ((0, g.shape[0], "images"), (-1, kernel.shape[-2], "channels")):
            if not same_size(wanted[axis], own):
                raise ShapeError(
                    f"output_shape {show(wanted)} asks for {wanted[axis]} {name}, but there are "
                    f"{own}"
                )
        counts = window_counts(wanted[1:-1], kernel.shape[:-2], strides, padding, dilation)
        if not all(map(same_size, counts, g.shape[1:-1])):
            raise ShapeError(
                f"output_shape {show(wanted)} needs x of spatial sizes {show(counts)}, but x is "
                f"{g}, which has {show(g.shape[1:-1])}"
            )
        return Spec((g.shape[0], *wanted[1:-1], kernel.shape[-2]), g.dtype)

    return infer


def _to_kernel_infer(
    x: Spec, g: Spec, sizes: Spec, *, strides: Ints, padding: str, dilation: Ints
) -> Spec:
    return Spec(entries(sizes, x.ndim), x.dtype)


# ------------------------------------------------------------------ NumPy forms


def starts_of(sizes: Ints, window: Ints, strides: Ints, padding: str, dilation: Ints) -> Ints:
    """Where the first window starts along each axis: within the border, or at 0."""
    pads = pads_of(sizes, window, strides, padding, dilation)
    return tuple(-before for before, _ in pads)


def _forward_numpy(kind: Kind) -> NumpyForm:
    def run(
        out: np.ndarray | None, x: np.ndarray, kernel: np.ndarray, **attrs: Unpack[WindowAttrs]
    ) -> np.ndarray:
        if out is None:
            space = window_counts(x.shape[1:-1], kernel.shape[:-2], **attrs)
            filters = kind.filters(Spec(kernel.shape, x.dtype.name))
            out = np.empty((x.shape[0], *space, filters), x.dtype)
        starts = starts_of(x.shape[1:-1], kernel.shape[:-2], **attrs)
        kind.forward(out, x, kernel, attrs["strides"], starts, attrs["dilation"])
        return out

    return run


def _to_input_numpy(kind: Kind) -> NumpyForm:
    def run(
        out: np.ndarray | None,
        g: np.ndarray,
        kernel: np.ndarray,
        sizes: np.ndarray,
        **attrs: Unpack[WindowAttrs],
    ) -> np.ndarray:
        if out is None:
            space = tuple(sizes[1:-1].tolist())
            out = np.empty((g.shape[0], *space, kernel.shape[-2]), g.dtype)
        starts = starts_of(out.shape[1:-1], kernel.shape[:-2], **attrs)
        kind.to_input(out, g, kernel, attrs["strides"], starts, attrs["dilation"])
        return out

    return run


def _to_kernel_numpy(kind: Kind) -> NumpyForm:
    def run(
        out: np.ndarray | None,
        x: np.ndarray,
        g: np.ndarray,
        sizes: np.ndarray,
        **attrs: Unpack[WindowAttrs],
    ) -> np.ndarray:
        if out is None:
            out = np.empty(tuple(sizes.tolist()), x.dtype)
        starts = starts_of(x.shape[1:-1], out.shape[:-2], **attrs)
        kind.to_kernel(out, g, x, attrs["strides"], starts, attrs["dilation"])
        return out

    return run


# ------------------------------------------------------------------ three ops


class Family(NamedTuple):
    """The three ops of a kind."""

    forward: Op
    to_input: Op
    to_kernel: Op


def family(kind: Kind) -> Family:
    """Declare the three ops of a kind, each the gradient of the others."""

    def forward_gradient(
        g: Tensor, y: Tensor, x: Tensor, kernel: Tensor, **attrs: Unpack[WindowAttrs]
    ) -> tuple[Tensor | None, ...]:
        return (
            apply(made.to_input, g, kernel, shape(x), **attrs),
            apply(made.to_kernel, x, g, shape(kernel), **attrs),
        )

    def to_input_gradient(
        h: Tensor, y: Tensor, g: Tensor, kernel: Tensor, sizes: Tensor, **attrs: Unpack[WindowAttrs]
    ) -> tuple[Tensor | None, ...]:
        return (
            apply(made.forward, h, kernel, **attrs),
            apply(made.to_kernel, h, g, shape(kernel), **attrs),
            None,
        )

    def to_kernel_gradient(
        k: Tensor, y: Tensor, x: Tensor, g: Tensor, sizes: Tensor, **attrs: Unpack[WindowAttrs]
    ) -> tuple[Tensor | None, ...]:
        return (
            apply(made.to_input, g, k, shape(x), **attrs),
            apply(made.forward, x, k, **attrs),
            None,
        )

    forms = [_forward_numpy(kind), _to_input_numpy(kind), _to_kernel_numpy(kind)]
    selectors = kernel_selectors(kind.find_kernel, forms, kind.is_profitable)

    def declared(
        position: int, infer: Callable[..., Spec], gradient: Gradient, work: Callable[..., int]
    ) -> Op:
        name = kind.name + ("", "_to_input", "_to_kernel")[position]
        form, select = forms[position], selectors[position]
        return register(
            Op(
                name,
                "structured",
                infer,
                form,
                gradient,
                tier=kind.tier,
                work=work,
                kernel=select,
                role=Role.CHANNELS_LAST if position < 2 else None,
            )
        )

    made = Family(
        declared(0, _forward_infer(kind), forward_gradient, _forward_work(kind)),
        declared(1, _to_input_infer(kind), to_input_gradient, _to_input_work),
        declared(2, _to_kernel_infer, to_kernel_gradient, _to_kernel_work),
    )
    return made


# ------------------------------------------------------------------ FLOP of each element


def _forward_work(kind: Kind) -> Callable[..., int]:
    return lambda x, kernel, **_attrs: 2 * _taps(kernel) * (kind.summed(kernel) or 1)


def _taps(kernel: Spec) -> int:
    return known_size(kernel.shape[:-2]) or 1


def _to_input_work(g: Spec, kernel: Spec, sizes: Spec, *, strides: Ints, **_attrs: object) -> int:
    return max(1, 2 * _taps(kernel) * (kernel.shape[-1] or 1) // math.prod(strides))


def _to_kernel_work(x: Spec, g: Spec, sizes: Spec, **_attrs: object) -> int:
    return 2 * (known_size(g.shape[:-1]) or 1)


# ------------------------------------------------------------------ of all channels


def _find_kernel(product: str, dtype: str, rank: int) -> Preparable | None:
    from kbench.engine.kernels.conv import api as conv  # on first need: it brings much along

    return conv.find_kernel(product, dtype, rank)


def _is_profitable(product: str, kernel: Ints, places: int) -> bool:
    from kbench.engine.kernels.conv import api as conv

    return conv.is_profitable(product, kernel, places)


CONVOLVE = family(
    Kind(
        "convolve",
        "blas",
        lambda kernel: kernel.shape[-1],
        lambda kernel: kernel.shape[-2],
        convolve_numpy.correlate,
        convolve_numpy.correlate_to_input,
        convolve_numpy.correlate_to_kernel,
        _find_kernel,
        _is_profitable,
    )
)
