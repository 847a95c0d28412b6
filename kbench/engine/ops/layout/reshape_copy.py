"""A reshape of what lies in another order: a copy, so that its result has a place in the plan."""

from __future__ import annotations

import math

import numpy as np

from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Ints
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.kernels.data import strided_copy
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.reshape import PERMUTE, RESHAPE, RESHAPE_LIKE
from kbench.engine.runtime import config


def _infer(x: Spec, *, shape: Ints) -> Spec:
    return Spec(shape, x.dtype)


def _numpy(out: np.ndarray | None, x: np.ndarray, *, shape: Ints) -> np.ndarray:
    if out is None:
        return np.array(x, order="C").reshape(shape)  # never a view of what it reads
    np.copyto(out.reshape(x.shape), x)
    return out


def _by_copies(copy: Copy, out: np.ndarray, x: np.ndarray, *, shape: Ints) -> None:
    copy(out.reshape(x.shape), x)


def reshape_of_permuted(node: Tensor) -> Tensor | None:
    """reshape(permute(x, p), shape) = reshape_copy(permute(x, p), shape), where no view would do"""
    if node.op not in (RESHAPE, RESHAPE_LIKE):
        return None
    permuted = node.inputs[0]
    sizes = tuple(size for size in permuted.spec.shape if size is not None)
    shape = tuple(size for size in node.spec.shape if size is not None)
    if permuted.op is not PERMUTE or len(sizes) < permuted.ndim or len(shape) < node.ndim:
        return None
    nbytes = math.prod(shape) * np.dtype(node.spec.dtype).itemsize
    if nbytes < max(1, config.min_elements(strided_copy.MIN_KERNEL_BYTES)):
        return None
    if _is_view(sizes, permuted.attrs["pattern"], shape):
        return None
    return Tensor.derived(RESHAPE_COPY, (permuted,), {"shape": shape}, node.spec, node)


def _is_view(sizes: Ints, pattern: Ints, wanted: Ints) -> bool:
    """Whether an array of `sizes`, the axes of a contiguous one in another order, can be seen in
    the shape `wanted`: axes that become one were neighbours, in this order."""
    axes = [(size, axis) for size, axis in zip(sizes, pattern, strict=True) if size != 1]
    left = [size for size in wanted if size != 1]
    skipped = {axis for size, axis in zip(sizes, pattern, strict=True) if size == 1}
    while axes and left:
        size, last = axes.pop()
        target = left.pop()
        while size != target:
            if size > target:
                target *= left.pop()
                continue
            more, axis = axes.pop()
            if not all(between in skipped for between in range(axis + 1, last)) or axis >= last:
                return False
            size, last = size * more, axis
    return True


RESHAPE_COPY: Op = structured(
    "reshape_copy",
    _infer,
    _numpy,
    None,
    kernel=copy_kernel(_infer, _by_copies),
    stands_for=reshape_of_permuted,
)
"""Plans have it in place of a reshape that copies: the copy is a kernel's, in memory that is kept
between runs."""
