"""Nodes of elementwise operations on floats, as most nodes are, made in as few steps as can be.

Operands are dense tensors of one floating-point dtype, with Python numbers beside them. What a
maker declines, by None, has to be converted or refused: `declare.py` does that. A maker is called
by a public function or an operator, and so finds the user's line two frames up.
"""

from __future__ import annotations

from collections.abc import Callable

from kbench.engine.core.errors import call_site
from kbench.engine.core.spec import FLOATS, Spec, broadcast, dense
from kbench.engine.graph.convert import number
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Operand, Tensor

Maker = Callable[..., "Tensor | None"]


def maker(op: Op, is_bool: bool) -> Maker | None:
    """What makes the nodes of an operation whose result has its operands' dtype, or is bool; None
    for more than two operands, of which some have a dtype of their own."""
    kinds = {1: _unary_maker, 2: _binary_maker}
    kind = kinds.get(len(op.names))
    return None if kind is None else kind(op, is_bool)


def _unary_maker(op: Op, is_bool: bool) -> Maker:
    def make(x: Operand) -> Tensor | None:
        if not isinstance(x, Tensor):
            return None
        spec = x.spec
        if spec.sparse or spec.dtype not in FLOATS:
            return None
        if is_bool:
            spec = dense(spec.shape, "bool")
        return Tensor.unnamed(op, (x,), spec, call_site(2))

    return make


def _binary_maker(op: Op, is_bool: bool) -> Maker:
    def make(x: Operand, y: Operand) -> Tensor | None:
        if isinstance(x, Tensor):
            spec = x.spec
            if spec.sparse or spec.dtype not in FLOATS:
                return None
            if isinstance(y, Tensor):
                if y.spec is not spec:
                    joined = _joined(spec, y.spec)
                    if joined is None:
                        return None
                    spec = joined
                site = call_site(2)
            elif type(y) is float or type(y) is int:
                site = call_site(2)
                y = number(y, spec.dtype, site)
            else:
                return None
        elif isinstance(y, Tensor) and (type(x) is float or type(x) is int):
            spec = y.spec
            if spec.sparse or spec.dtype not in FLOATS:
                return None
            site = call_site(2)
            x = number(x, spec.dtype, site)
        else:
            return None
        if is_bool:
            spec = dense(spec.shape, "bool")
        return Tensor.unnamed(op, (x, y), spec, site)

    return make


def _joined(first: Spec, second: Spec) -> Spec | None:
    """What two dense tensors of one dtype broadcast to; None for others."""
    if second.dtype != first.dtype or second.sparse:
        return None
    shape = first.shape
    if second.shape == shape or not second.shape:
        return first
    return second if not shape else dense(broadcast(shape, second.shape), first.dtype)
