"""Softmax and logsumexp over other axes than the last, as folds and elementwise work.

Along the last axis they have kernels that sweep a row in the cache. Over other axes loops that go
down the columns do as well, and are fused with what is around them. What they are made of, each
of them says itself (`decomposed` of `Op`).
"""

from __future__ import annotations

from kbench.engine.core.spec import known_size
from kbench.engine.graph.tensor import Tensor

MIN_ELEMENTS = 10_000
"""Elements below which one call of NumPy is cheaper than several steps: some 10 us at 1 ns each."""


def decompose_softmax(node: Tensor) -> Tensor | None:
    """softmax(x) = exp(x - top) / sum(...), logsumexp(x) = log(sum(exp(x - top))) + top"""
    if node.op.decomposed is None or node.spec.dtype not in ("float32", "float64"):
        return None
    x, axis = node.inputs[0], node.attrs["axis"]
    axes = axis if isinstance(axis, tuple) else (axis,)
    size = known_size(x.spec.shape)
    if x.ndim - 1 in axes or not axes or (size is not None and size < MIN_ELEMENTS):
        return None
    if not all(x.spec.shape[reduced] for reduced in axes):  # of no elements there is no largest
        return None
    found: Tensor = node.op.decomposed(node, axes)
    return found
