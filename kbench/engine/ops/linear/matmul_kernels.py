"""The compiled kernels of matrix products, chosen by the sizes of a call.

Also how the operands of a contraction are seen as matrices, which the NumPy form does likewise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from kbench.engine.core.spec import Spec, broadcast
from kbench.engine.core.types import Axes
from kbench.engine.graph.op import KernelFactory
from kbench.engine.jit.launch import Preparable, Prepared
from kbench.engine.kernels.gemm import tiling as gemm_plan
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

UNREACHABLE_FLOPS = 1 << 62
"""More work than any call has: a kernel is taken only where every size gets one."""


Triple = tuple[np.ndarray, np.ndarray, np.ndarray]
Matrices = Callable[[np.ndarray, np.ndarray, np.ndarray], Triple]
"""Result and operands of a contraction, seen as stacked matrices."""


@functools.lru_cache(maxsize=1024)
def kept(ndim: int, batch: int, axes: Axes) -> Axes:
    """The axes of an operand that stay in the result, behind the batch axes."""
    return tuple(i for i in range(batch, ndim) if i not in axes)


def arranged(x: np.ndarray, batch: int, order: Axes, split: int) -> np.ndarray:
    """`x` with its axes in `order` and those behind the batch merged into two, at `split`."""
    if order != tuple(range(x.ndim)):
        x = x.transpose(order)
    if x.ndim == batch + 2 and split == batch + 1:
        return x
    sizes = x.shape
    rows, columns = math.prod(sizes[batch:split]), math.prod(sizes[split:])
    return x.reshape(*sizes[:batch], rows, columns)


def contract_kernel(
    x: Spec, y: Spec, *, batch: int, axes: tuple[Axes, Axes]
) -> KernelFactory | None:
    """The kernel of a contraction, whose operands are seen as stacked matrices."""
    first, second = axes
    lead = tuple(range(batch))
    x_kept, y_kept = kept(x.ndim, batch, first), kept(y.ndim, batch, second)
    left = (batch, (*lead, *x_kept, *first), batch + len(x_kept))
    right = (batch, (*lead, *second, *y_kept), batch + len(second))
    stacks, rows, columns, depth = (
        math.prod(spec.shape[i] or 0 for i in some)
        for spec, some in ((x, lead), (x, x_kept), (y, y_kept), (x, first))
    )
    plain = not batch and left == (0, (0, 1), 1) and right == (0, (0, 1), 1)

    def matrices(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> Triple:
        x, y = arranged(x, *left), arranged(y, *right)
        return out.reshape(*x.shape[:-1], y.shape[-1]), x, y

    return _product_kernel(x.dtype, stacks, rows, columns, depth, None if plain else matrices)


def matmul_kernel(x: Spec, y: Spec) -> KernelFactory | None:
    """The kernel of `x @ y`, whose leading axes broadcast."""
    stacks = math.prod(size or 0 for size in broadcast(x.shape[:-2], y.shape[:-2]))
    rows, columns, depth = x.shape[-2] or 0, y.shape[-1] or 0, x.shape[-1] or 0
    return _product_kernel(x.dtype, stacks, rows, columns, depth, None)


def _product_kernel(
    dtype: str, stacks: int, rows: int, columns: int, depth: int, matrices: Matrices | None
) -> KernelFactory | None:
    """float16 multiplies in float32 and is rounded once."""
    computed = "float32" if dtype == "float16" else dtype
    worth = gemm_plan.is_profitable(computed, stacks, rows, columns, depth)
    work = 2 * stacks * rows * columns * depth
    if computed not in gemm_plan.FLOATS or work < max(
        config.min_elements(0 if worth else UNREACHABLE_FLOPS), 1
    ):
        return None

    def factory() -> Preparable | None:
        from kbench.engine.kernels.gemm import api as gemm  # on first need: it brings much along

        multiply = gemm.find("product", dtype)
        return (
            multiply if multiply is None or matrices is None else _Contraction(multiply, matrices)
        )

    return factory


class _Contraction(Preparable):
    """A product of operands that are first seen as matrices."""

    def __init__(self, multiply: Preparable, matrices: Matrices) -> None:
        self._multiply, self._matrices = multiply, matrices

    def prepare(
        self, out: np.ndarray, x: np.ndarray, y: np.ndarray, workspace: Workspace, **rest: object
    ) -> Prepared:
        """The call of the product, which lasts where no operand is copied for it."""
        given = self._matrices(out, x, y)
        prepared = self._multiply.prepare(*given, workspace, **rest)
        if all(map(np.may_share_memory, given, (out, x, y))):
            return prepared
        return prepared._replace(is_lasting=False)
