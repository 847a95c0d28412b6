"""The compiled kernels of convolutions, chosen by the sizes of a call.

A compiled kernel leaves out taps that see only the border, which the NumPy form multiplies by its
zeros. For weights that are not finite that is not the same, so these are left to the NumPy form. A
gradient to the weights is finite only where what was summed is, which is seen when it is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

import numpy as np

from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Ints, KernelArguments, KernelCall, Shape
from kbench.engine.graph.op import KernelFactory, KernelSelector
from kbench.engine.jit import launch
from kbench.engine.jit.array_memory import unowned_view
from kbench.engine.ops.conv.convolve_numpy import is_finite, useful_taps
from kbench.engine.ops.conv.windows import WindowAttrs, pads_of, window_counts
from kbench.engine.runtime import config

FindKernel = Callable[[str, int], KernelCall | None]  # by dtype and number of spatial axes
IsProfitable = Callable[[str, Ints, int], bool]  # by product, kernel and number of places
NumpyForm = Callable[..., np.ndarray]  # (out, *arrays, **attrs)
OperandShapes = Callable[..., tuple[Shape, Shape]]  # the shapes of x and of the kernel

PRODUCTS = ("forward", "to_input", "to_kernel")
UNREACHABLE_PRODUCTS = 1 << 62
"""More products than any call has: a kernel is taken only where every size gets one."""
MAX_STRIDE_CELLS = 64
"""Cells of a stride, above which most are seen by no window."""


def kernel_selectors(
    find_kernels: tuple[FindKernel, FindKernel, FindKernel],
    forms: Sequence[NumpyForm],
    is_profitable: IsProfitable,
) -> list[KernelSelector]:
    """The `kernel=` of the three ops, beside their NumPy forms, in that order.

    `is_profitable` says where a compiled kernel is as fast as NumPy at least.
    """
    shapes: tuple[OperandShapes, ...] = (_forward_shapes, _to_input_shapes, _to_kernel_shapes)
    return [
        _selector(product, find, operand_shapes, form, is_profitable)
        for product, find, operand_shapes, form in zip(
            PRODUCTS, find_kernels, shapes, forms, strict=True
        )
    ]


def _forward_shapes(x: Spec, kernel: Spec) -> tuple[Shape, Shape]:
    return x.shape, kernel.shape


def _to_input_shapes(g: Spec, kernel: Spec, sizes: Spec) -> tuple[Shape, Shape]:
    return (g.shape[0], *(sizes.value or ())[1:]), kernel.shape


def _to_kernel_shapes(x: Spec, g: Spec, sizes: Spec) -> tuple[Shape, Shape]:
    return x.shape, tuple(sizes.value or ())


def _selector(
    name: str,
    find: FindKernel,
    operand_shapes: OperandShapes,
    form: NumpyForm,
    is_profitable: IsProfitable,
) -> KernelSelector:
    to_kernel = name == "to_kernel"

    def select(*specs: Spec, **attrs: Unpack[WindowAttrs]) -> KernelFactory | None:
        x, kernel = (_known(sizes) for sizes in operand_shapes(*specs))
        if not _pays(name, x, kernel, is_profitable, **attrs):
            return None
        before = tuple(first for first, _ in pads_of(x[1:-1], kernel[:-2], **attrs))
        geometry = (attrs["strides"], before, attrs["dilation"])
        bordered = name == "to_input" or attrs["padding"] != "valid"

        def factory() -> KernelCall | None:
            call = find(specs[0].dtype, len(before))
            if call is None:
                return None

            def roles(
                out: np.ndarray, arrays: Sequence[np.ndarray]
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
                """The operands of the call, and what has to be finite."""
                first, second = arrays[1::-1] if to_kernel else arrays[:2]
                return first, second, out if to_kernel else second

            def run(out: np.ndarray, *rest: *KernelArguments) -> None:
                *arrays, cancel_check = rest
                first, second, asked = roles(out, arrays)
                if to_kernel or not bordered or is_finite(asked):
                    call(out, first, second, *geometry, cancel_check)
                if bordered and not is_finite(asked):
                    form(out, *arrays, **attrs)

            def launches(out: np.ndarray, *arrays: np.ndarray) -> list[launch.Launch] | None:
                first, second, asked = roles(out, arrays)
                write = getattr(call, "launches", None)
                written = None if write is None else write(out, first, second, *geometry)
                if written and bordered:
                    written[-1] = written[-1].requiring(partial(is_finite, unowned_view(asked)))
                return written

            run.launches = launches  # type: ignore[attr-defined]  # as kernels have it
            return run

        return factory

    return select


def _known(sizes: Shape) -> Ints:
    return tuple(0 if size is None else size for size in sizes)


def _pays(
    name: str,
    x: Ints,
    kernel: Ints,
    is_profitable: IsProfitable,
    strides: Ints,
    padding: str,
    dilation: Ints,
) -> bool:
    """Whether there is enough to do, by windows and strides of sizes that are not out of hand."""
    space, window = x[1:-1], kernel[:-2]
    counts = _known(window_counts(space, window, strides, padding, dilation))
    places = x[0] * math.prod(counts)
    least = config.min_elements(0 if is_profitable(name, kernel, places) else UNREACHABLE_PRODUCTS)
    if places * math.prod(kernel) < max(least, 1):
        return False
    if name == "to_input" and math.prod(strides) > MAX_STRIDE_CELLS:
        return False
    pads = pads_of(space, window, strides, padding, dilation)
    starts = tuple(-before for before, _ in pads)
    taps, _ = useful_taps(space, counts, window, strides, starts, dilation)
    return taps == tuple(slice(0, width) for width in window)  # none sees only the border
