"""A step that carries states along sequences, for clients of the engine: states and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.engine.control_flow.body import Body, Emit, Track, captures
from kbench.engine.control_flow.loop_op import loop
from kbench.engine.control_flow.tracing import BodyFunction, trace
from kbench.engine.graph.apply import results
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Variable


def scan(
    step: BodyFunction,
    sequences: Sequence[Tensor],
    first: Sequence[Tensor],
    backwards: bool = False,
    name: str = "scan",
) -> tuple[list[Tensor], list[Tensor]]:
    """`step` for every entry of the first axis, one after the other.

    Arguments:
        step: `step(entries, states)` gives the outputs of a step and the states after it; it is
            called once, on symbols. States keep shape and dtype.
        sequences: at least one, of one length.
        first: the states before the first step.
        backwards: from the last entry to the first; outputs lie where their entries do.
        name: of the results.
    Returns:
        The states after all steps, and each output of all steps stacked along its first axis.
    Raises:
        ShapeError, DtypeError: a state that changes its shape or dtype, or sequences that differ
            in length.
    Gradient: to sequences, states and everything that `step` uses.
    """
    found = trace(step, sequences, 0, first)
    outputs, after = tuple(found.outputs), tuple(found.after)
    bound = (*found.entries, *found.states)
    roots = (*after, *outputs)
    body = Body(
        tuple(found.entries), tuple(found.states), captures(roots, bound, found.since), after
    )
    reads = [Track(0, backwards)] * len(sequences)
    emits = [Emit(output, 0, backwards) for output in outputs]
    node = loop(body, reads, emits, [*sequences, *found.first], f"{name}/loop")
    every = results(node, *(name,) * len(roots))
    return every[: len(after)], every[len(after) :]


def read_outside(roots: Sequence[Tensor], symbols: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that the graph from `symbols` to `roots` is to be fed with, besides them.

    Variables and constants are not among them. `symbols` are older than what was made of them.
    """
    found = captures(roots, symbols, symbols[0].serial)
    return [node for node in found if not isinstance(node, (Constant, Variable))]
