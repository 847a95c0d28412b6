"""A step that carries states along sequences, for clients of the engine: states and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbench.engine.autodiff import sweep
from kbench.engine.control_flow.body import Body, Emit, Track, captures, symbol
from kbench.engine.control_flow.loop_op import LOOP, loop
from kbench.engine.control_flow.tracing import BodyFunction, trace
from kbench.engine.core.spec import Spec
from kbench.engine.graph.apply import apply, results
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
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

    Variables come last, constants are not among them. `symbols` are older than what was made of
    them.
    """
    found = captures(roots, symbols, symbols[0].serial)
    computed = [node for node in found if not isinstance(node, (Constant, Variable))]
    within = {id(symbol) for symbol in (*symbols, *computed)}
    return [*computed, *(node for node in walk(roots, within) if isinstance(node, Variable))]


def repeated_gradient(
    g: Mapping[int, Tensor],
    symbols: Sequence[Tensor],
    after: Sequence[Tensor],
    rounds: Tensor,
    given: Sequence[Tensor],
    outside: Sequence[Tensor],
) -> list[Tensor | None]:
    """The gradients through a step that was repeated a number of times, known when it ran.

    Arguments:
        g: the gradients that arrived at the states behind the last round, by their number.
        symbols, after: the states before and after a round, in the graph of the step.
        rounds: has an entry for each round that was run.
        given: the values of the first states and of `outside`.
        outside: what the step reads besides its states (`read_outside`).
    Returns:
        An entry for each of `given`. The step is run again by a loop, which keeps what the
        gradient reads.
    """
    number = symbol(Spec((), rounds.spec.dtype), "round")
    body = Body((number,), tuple(symbols), tuple(outside), tuple(after))
    reads = (Track(0, False),)
    node = apply(LOOP, rounds, *given, name="repeat", body=body, reads=reads, emits=())
    last = results(node)
    seeds = [(last[place], entry) for place, entry in g.items() if place < len(symbols)]
    found = sweep(seeds, given, {id(value) for value in given})
    first = {id(value): place for place, value in reversed(list(enumerate(given)))}
    return [
        entry if first[id(value)] == place else None  # what is given twice gets it once
        for place, (value, entry) in enumerate(zip(given, found, strict=True))
    ]
