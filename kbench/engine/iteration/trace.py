"""Calling a user's step once, on symbols, and what is known of the graph that it builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.engine.errors import ArgumentError, DtypeError, ShapeError
from kbench.engine.iteration.body import symbol
from kbench.engine.op import apply
from kbench.engine.operands import as_tensor
from kbench.engine.ops.create import FULL, FULL_LIKE, zeros_like
from kbench.engine.ops.reduce import sum as reduce_sum
from kbench.engine.spec import Shape, Spec
from kbench.engine.tensor import Tensor
from kbench.engine.walk import walk

Results = tuple[list[Tensor], list[Tensor]]  # outputs, states after the step
Step = Callable[[Sequence[Tensor], Sequence[Tensor]], Results]


@dataclass(frozen=True)
class Trace:
    """A step on symbols: the graph from `entries` and `states` to `outputs` and `after`."""

    entries: Sequence[Tensor]
    states: Sequence[Tensor]
    outputs: list[Tensor]
    after: list[Tensor]
    growing: list[frozenset[int]]
    since: int  # tensors made by the step have at least this number


def trace(step: Step, entries: Sequence[Spec], states: Sequence[Spec]) -> Trace:
    """Call `step` on symbols; again only when it makes an axis of one grow by broadcasting."""
    growing: list[frozenset[int]] = [frozenset()] * len(states)
    while True:
        given = [symbol(one, "entry") for one in entries]
        kept = [
            symbol(Spec(_grown(one.shape, axes), one.dtype), "state")
            for one, axes in zip(states, growing, strict=True)
        ]
        since = (given or kept)[0].serial
        outputs, after = step(given, kept)
        if len(after) != len(states):
            raise ArgumentError(
                f"the step returned {len(after)} states, but there are {len(states)} initial states"
            )
        found = [
            axes | _growth(i, before, now)
            for i, (axes, before, now) in enumerate(zip(growing, kept, after, strict=True))
        ]
        if found == growing:
            return Trace(given, kept, outputs, after, growing, since)
        growing = found


def _grown(shape: Shape, axes: frozenset[int]) -> Shape:
    return tuple(None if i in axes else size for i, size in enumerate(shape))


def _growth(index: int, before: Tensor, after: Tensor) -> frozenset[int]:
    """The axes of one that the step widens; an error when the state changes otherwise."""
    change = f"state {index} is {before.spec} before a step and {after.spec} after it"
    if before.spec.dtype != after.spec.dtype:
        raise DtypeError(f"{change}, but must keep its dtype")
    if before.ndim != after.ndim:
        raise ShapeError(f"{change}, but must keep its rank")
    axes = set()
    for i, (old, new) in enumerate(zip(before.spec.shape, after.spec.shape, strict=True)):
        if old == 1 and new != 1:
            axes.add(i)
        elif None not in (old, new) and old != new:
            raise ShapeError(f"{change}, but must keep its shape")
    return frozenset(axes)


def checked_tensor(value: Any, what: str, like: str | None = None) -> Tensor:
    """A value that a user's function returned, as a tensor."""
    if value is None or callable(value) and not isinstance(value, Tensor):
        raise ArgumentError(f"{what} must be a tensor, got {value!r}")
    return as_tensor(value, like=like)


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


def entry_of(sequence: Tensor, axis: int) -> Tensor:
    """Zeros in the shape of one entry of a sequence, which may have none."""
    total = reduce_sum(sequence, axis)
    return apply(FULL_LIKE, total, value=0, dtype=sequence.spec.dtype)


def _substituted(root: Tensor, given: dict[int, Tensor]) -> Tensor:
    new = dict(given)
    for node in walk([root], given.keys()):
        if id(node) in new:
            continue
        inputs = tuple(new[id(one)] for one in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[id(node)] = node if same else apply(node.op, *inputs, **node.attrs)
    return new[id(root)]
