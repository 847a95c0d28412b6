"""Calling a user's step once, on symbols, and what is known of the graph that it builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kbench.engine.control_flow.body import symbol, without
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import Spec
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.ops.elementwise.arithmetic import add
from kbench.engine.ops.layout.create import FULL, FULL_LIKE, zeros_like
from kbench.engine.ops.reduce.reduction import sum as reduce_sum

Results = tuple[list[Tensor], list[Tensor]]  # outputs, states after the step
BodyFunction = Callable[[Sequence[Tensor], Sequence[Tensor]], Results]


class Trace(Struct, frozen=True):
    """A step on symbols: the graph from `entries` and `states` to `outputs` and `after`."""

    entries: Sequence[Tensor]
    states: Sequence[Tensor]
    outputs: list[Tensor]
    after: list[Tensor]
    first: list[Tensor]  # the states before the first step
    since: int  # tensors made by the step have at least this number
    given: dict[int, Tensor]  # what stands for the symbols outside of the loop


def trace(
    step: BodyFunction, sequences: Sequence[Tensor], axis: int, first: Sequence[Tensor]
) -> Trace:
    """Call `step` on symbols.

    When a step widens states by broadcasting, the first states are broadcast, and it is called
    once more.
    """
    shapes = [Spec(without(source.spec.shape, axis), source.spec.dtype) for source in sequences]
    for tensor in (*sequences, *first):
        if tensor.spec.sparse:
            name = tensor.name.split(":")[0]
            raise DtypeError(f"{name!r} is {tensor.spec}, which no loop can run over")
    before = list(first)
    while True:
        entries = [symbol(spec, "entry") for spec in shapes]
        states = [symbol(state.spec, "state") for state in before]
        outputs, after = step(entries, states)
        if len(after) != len(states):
            raise ArgumentError(
                f"the step returned {len(after)} states, but there are {len(states)} initial states"
            )
        given = {id(state): value for state, value in zip(states, before, strict=True)}
        for entry, sequence in zip(entries, sequences, strict=True):
            given[id(entry)] = _entry_of(sequence, axis)
        wider = [
            add(value, zeros_of(now, given)) if _is_widened(i, state, now) else value
            for i, (value, state, now) in enumerate(zip(before, states, after, strict=True))
        ]
        if all(a is b for a, b in zip(wider, before, strict=True)):
            return Trace(entries, states, outputs, after, before, entries[0].serial, given)
        before = wider


def _is_widened(index: int, before: Tensor, after: Tensor) -> bool:
    """True when a step widens axes of one; an error when it changes the state otherwise."""
    change = f"state {index} is {before.spec} before a step and {after.spec} after it"
    if before.spec.dtype != after.spec.dtype:
        raise DtypeError(f"{change}, but must keep its dtype")
    if before.ndim != after.ndim:
        raise ShapeError(f"{change}, but must keep its rank")
    pairs = list(zip(before.spec.shape, after.spec.shape, strict=True))
    if any(None not in pair and pair[0] not in (1, pair[1]) for pair in pairs):
        raise ShapeError(f"{change}, but must keep its shape")
    return any(old == 1 and new != 1 for old, new in pairs)


def checked_tensor(value: object, what: str, like: str | None = None) -> Tensor:
    """A value that a user's function returned, as a tensor."""
    if value is None or callable(value) and not isinstance(value, Tensor):
        raise ArgumentError(f"{what} must be a tensor, got {shown(value)}")
    result = as_tensor(value, like=like)  # type: ignore[arg-type]  # says what is no tensor
    if result.spec.sparse:
        raise DtypeError(
            f"{what} is {result.spec}, but the results of a loop are dense",
            suggestion="K.to_dense(...)",
        )
    return result


# ------------------------------------------------------------------ zeros in an output's shape


def zeros_of(output: Tensor, given: dict[int, Tensor]) -> Tensor:
    """Zeros in the shape that `output` of a step has, `given` standing for the step's symbols.

    Sizes are found by the rules of shapes; nothing of the step is computed unless a size depends
    on values.
    """
    spec = output.spec
    if None not in spec.shape:
        return apply(FULL, value=0, dtype=spec.dtype, shape=spec.shape)
    return zeros_like(_substituted(output, given))


def _entry_of(sequence: Tensor, axis: int) -> Tensor:
    """Zeros in the shape of one entry of a sequence, which may have none."""
    total = reduce_sum(sequence, axis)
    return apply(FULL_LIKE, total, value=0, dtype=sequence.spec.dtype)


def _substituted(root: Tensor, given: dict[int, Tensor]) -> Tensor:
    new = dict(given)
    for node in walk([root], given.keys()):
        if id(node) in new:
            continue
        inputs = tuple(new[id(operand)] for operand in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[id(node)] = node if same else apply(node.op, *inputs, **node.attrs)
    return new[id(root)]
