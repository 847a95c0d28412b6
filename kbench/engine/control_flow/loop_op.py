"""The loop: one node that runs a step over the entries of sequences.

Its inputs are the sequences, the initial states and the captured tensors; its results the states
after the last step, then, for each `Emit`, its values of all steps stacked.
`execute/steps/loop_step.py` runs it, `compiler/loop_dce.py` drops what nobody reads and joins loops
over the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbench.engine.control_flow.body import Body, Emit, Track, infer_loop
from kbench.engine.control_flow.loop_vjp import loop_gradient
from kbench.engine.graph.apply import apply
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Tensor


def _no_form(out: object, *_arrays: object, **_attrs: object) -> Any:
    raise RuntimeError("a loop is run by its plan")


LOOP = register(
    Op("loop", "several", infer_loop, _no_form, loop_gradient, allocates=True, sparse=True)
)


def loop(
    body: Body,
    reads: Sequence[Track],
    emits: Sequence[Emit],
    values: Sequence[Tensor],
    name: str,
) -> Tensor:
    """The node of a loop; `values` are its sequences and initial states."""
    given = (*values, *body.captured)
    return apply(LOOP, *given, name=name, body=body, reads=tuple(reads), emits=tuple(emits))
