"""Softmax and logsumexp over other axes than the last, as folds and elementwise work.

Along the last axis they have kernels that sweep a row in the cache. Over other axes loops that go
down the columns do as well, and are fused with what is around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.core.spec import known_size
from kbench.engine.graph.convert import Constant, as_tensor
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.activation import SOFTMAX
from kbench.engine.ops.elementwise.arithmetic import add, divide, maximum, minimum, subtract
from kbench.engine.ops.elementwise.elementary import exp, log
from kbench.engine.ops.reduce.moments import LOGSUMEXP
from kbench.engine.ops.reduce.reduction import max as largest
from kbench.engine.ops.reduce.reduction import sum as total

MIN_ELEMENTS = 10_000
"""Elements below which one call of NumPy is cheaper than several steps: some 10 us at 1 ns each."""


def decompose_softmax(node: Tensor) -> Tensor | None:
    """softmax(x) = exp(x - top) / sum(...), logsumexp(x) = log(sum(exp(x - top))) + top"""
    if node.op not in (SOFTMAX, LOGSUMEXP) or node.spec.dtype not in ("float32", "float64"):
        return None
    x, axis = node.inputs[0], node.attrs["axis"]
    axes = axis if isinstance(axis, tuple) else (axis,)
    size = known_size(x.spec.shape)
    if x.ndim - 1 in axes or not axes or (size is not None and size < MIN_ELEMENTS):
        return None
    if not all(x.spec.shape[reduced] for reduced in axes):  # of no elements there is no largest
        return None
    build = _NodeBuilder(node)
    top = build(largest, x, axis=axes, keepdims=True)
    if node.op is SOFTMAX:
        share = build(exp, build(subtract, x, top))
        return build(divide, share, build(total, share, axis=axes, keepdims=True))
    most = build.number(np.finfo(node.spec.dtype).max)
    top = build(maximum, build(minimum, top, most), build.number(-most.value))  # no inf - inf
    share = build(exp, build(subtract, x, top))
    result = build(add, build(log, build(total, share, axis=axes, keepdims=True)), top)
    if node.attrs["keepdims"]:
        return result
    return build(total, result, axis=axes, keepdims=False)  # of one element each


class _NodeBuilder:
    """Makes nodes that answer for another one in reports."""

    def __init__(self, node: Tensor) -> None:
        self.node = node

    def __call__(self, function: Any, *inputs: Tensor, **attrs: object) -> Tensor:
        spec = function.op.infer(*(operand.spec for operand in inputs), **attrs)
        return Tensor.derived(function.op, inputs, attrs, spec, self.node)

    def number(self, value: Operand) -> Constant:
        constant = as_tensor(value, like=self.node.spec.dtype)
        assert isinstance(constant, Constant)
        return constant
