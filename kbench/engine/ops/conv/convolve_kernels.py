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
from msgspec import Struct

from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Ints, Shape
from kbench.engine.graph.op import KernelFactory, KernelSelector
from kbench.engine.jit.array_memory import unowned_view
from kbench.engine.jit.launch import HostStep, Preparable, Prepared
from kbench.engine.ops.conv.convolve_numpy import is_finite, useful_taps
from kbench.engine.ops.conv.windows import WindowAttrs, pads_of, window_counts
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

FindKernel = Callable[[str, str, int], Preparable | None]
"""By product, dtype and number of spatial axes."""
IsProfitable = Callable[[str, Ints, int], bool]  # by product, kernel and number of places
NumpyForm = Callable[..., np.ndarray]  # (out, *arrays, **attrs)
OperandShapes = Callable[..., tuple[Shape, Shape]]  # the shapes of x and of the kernel

PRODUCTS = ("forward", "to_input", "to_kernel")
UNREACHABLE_PRODUCTS = 1 << 62
"""More products than any call has: a kernel is taken only where every size gets one."""
MAX_STRIDE_CELLS = 64
"""Cells of a stride, above which most are seen by no window."""


def kernel_selectors(
    find_kernel: FindKernel,
    forms: Sequence[NumpyForm],
    is_profitable: IsProfitable,
) -> list[KernelSelector]:
    """The `kernel=` of the three ops, beside their NumPy forms, in that order.

    `is_profitable` says where a compiled kernel is as fast as NumPy at least.
    """
    shapes: tuple[OperandShapes, ...] = (_forward_shapes, _to_input_shapes, _to_kernel_shapes)
    return [
        _selector(product, find_kernel, operand_shapes, form, is_profitable)
        for product, operand_shapes, form in zip(PRODUCTS, shapes, forms, strict=True)
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
    def select(*specs: Spec, **attrs: Unpack[WindowAttrs]) -> KernelFactory | None:
        x, kernel = (_known(sizes) for sizes in operand_shapes(*specs))
        if not _pays(name, x, kernel, is_profitable, **attrs):
            return None
        before = tuple(first for first, _ in pads_of(x[1:-1], kernel[:-2], **attrs))
        geometry = (attrs["strides"], before, attrs["dilation"])
        bordered = name == "to_input" or attrs["padding"] != "valid"

        def factory() -> _WindowKernel | None:
            call = find(name, specs[0].dtype, len(before))
            if call is None:
                return None
            numpy_form = partial(form, **attrs)
            return _WindowKernel(call.prepare, geometry, name == "to_kernel", bordered, numpy_form)

        return factory

    return select


class _WindowKernel(Preparable, Struct, frozen=True):
    """A convolution, and the NumPy form for what it leaves to that."""

    call: Callable[..., Prepared]
    geometry: tuple[Ints, Ints, Ints]
    to_kernel: bool
    bordered: bool
    form: NumpyForm

    def prepare(self, out: np.ndarray, *arrays: np.ndarray, workspace: Workspace) -> Prepared:
        """The call; where there are borders, weights have to be finite."""
        first, second = arrays[1::-1] if self.to_kernel else arrays[:2]
        prepared = self.call(out, first, second, *self.geometry, workspace)
        if not self.bordered:
            return prepared
        asked = out if self.to_kernel else second
        if workspace.is_lasting:  # a variable's memory is not held
            asked = unowned_view(asked)
        numpy_form = HostStep(lambda _check: self.form(out, *arrays))
        return prepared.requiring(partial(is_finite, asked), numpy_form)


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
