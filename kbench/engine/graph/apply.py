"""`apply` makes the nodes of a graph: an operation on tensors, its rule asked for the Spec.

An op of kind "several" has several results: it infers `several(parts)`, its NumPy form returns a
tuple, and `results(node)` gives a reader for each. Its gradient rule gets, in place of `g`, a
`Partial`: the gradients that arrived, by the result's number.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import DtypeError
from kbench.engine.core.spec import MAX_AXES, Spec, Specs, check_rank
from kbench.engine.graph import scope
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Tensor


def apply(op: Op, *inputs: Tensor, name: str | None = None, **attrs: object) -> Tensor:
    """A node of `op`; its rule sees only Specs and raises at the user's line."""
    specs = [tensor.spec for tensor in inputs]
    if not op.sparse:
        for spec in specs:
            if spec.sparse:
                _refuse_sparse(inputs)
    spec = op.infer(*specs, **attrs)
    if len(spec.shape) > MAX_AXES:
        check_rank(spec.shape)
    return Tensor(op, inputs, attrs, spec, name)


def make_node(op: Op, origin: Tensor, *inputs: Tensor, **attrs: object) -> Tensor:
    """A node that a plan makes; it answers for `origin` in every report."""
    spec = op.infer(*[operand.spec for operand in inputs], **attrs)
    return Tensor.derived(op, inputs, attrs, spec, origin)


def _refuse_sparse(inputs: tuple[Tensor, ...]) -> None:
    for tensor in inputs:
        if tensor.spec.sparse:
            raise DtypeError(
                f"{tensor.name.split(':')[0]!r} is {tensor.spec}, but only dense tensors are "
                "allowed here",
                suggestion="K.to_dense(...)",
            )


def controlled_by(controls: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Set the tensors that nodes made from now on wait for; returns those before."""
    before: tuple[Tensor, ...] = scope._local.controls
    scope._local.controls = controls
    return before


# ------------------------------------------------------------------ nodes with several results


class Partial(dict[int, Tensor]):
    """Gradients to some results of one node, by number; they add up as tensors do."""

    def __add__(self, other: Partial) -> Partial:
        total = Partial(self)
        for index, gradient in other.items():
            known = total.get(index)
            total[index] = gradient if known is None else known + gradient
        return total


def _result_infer(whole: Spec, *, index: int) -> Spec:
    assert isinstance(whole, Specs)
    return whole.parts[index]


def _result_numpy(out: object, whole: tuple[np.ndarray, ...], *, index: int) -> np.ndarray:
    return whole[index]


def _result_gradient(g: Tensor, y: Tensor, whole: Tensor, *, index: int) -> tuple[Partial]:
    return (Partial({index: g}),)


RESULT = register(
    Op("result", "view", _result_infer, _result_numpy, _result_gradient, allocates=True)
)


def result(whole: Tensor, index: int, name: str | None = None) -> Tensor:
    """One result of a node that has several."""
    return apply(RESULT, whole, name=name, index=index)


def results(whole: Tensor, *names: str | None) -> list[Tensor]:
    """Every result of a node that has several, by these names as far as they reach."""
    assert isinstance(whole.spec, Specs)
    count = len(whole.spec.parts)
    known = (*names, *(None,) * count)
    return [result(whole, index, known[index]) for index in range(count)]
