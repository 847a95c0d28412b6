"""`apply` makes the nodes of a graph: an operation on tensors, its rule asked for the Spec."""

from __future__ import annotations

from typing import Any

from kbench.engine.core.errors import DtypeError
from kbench.engine.core.spec import MAX_AXES, check_rank
from kbench.engine.graph import scope
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor


def apply(op: Op, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Tensor:
    """A node of `op`; its rule sees only Specs and raises at the user's line."""
    specs = [one.spec for one in inputs]
    if not op.sparse:
        for spec in specs:
            if spec.sparse:
                _refuse_sparse(inputs)
    spec = op.infer(*specs, **attrs)
    if len(spec.shape) > MAX_AXES:
        check_rank(spec.shape)
    return Tensor(op, inputs, attrs, spec, name)


def _refuse_sparse(inputs: tuple[Tensor, ...]) -> None:
    for one in inputs:
        if one.spec.sparse:
            raise DtypeError(
                f"{one.name.split(':')[0]!r} is {one.spec}, where only dense tensors can be",
                suggestion="K.to_dense(...)",
            )


def controlled_by(controls: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Set the tensors that nodes made from now on wait for; returns those before."""
    before: tuple[Tensor, ...] = scope._local.controls
    scope._local.controls = controls
    return before
