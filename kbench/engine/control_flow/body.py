"""The step of a loop as a small graph: what it is fed, what it gives, and its rule of shapes.

Captured tensors, which the step reads from the graph outside, stand for themselves inside; the
plan that runs the step is fed with them, as with the symbols of entries and states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from kbench.engine.core.errors import KbenchError, ShapeError, op_symbol
from kbench.engine.core.spec import Spec, Specs, several
from kbench.engine.core.types import Dim, Shape
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder, Variable


class Track(NamedTuple):
    """How a loop walks along an axis of a sequence: forwards, or from its end."""

    axis: int
    backwards: bool


class Emit(NamedTuple):
    """A tensor of the step whose values are stacked along `axis`, in the order of `backwards`."""

    tensor: Tensor
    axis: int
    backwards: bool


class Body(Struct, frozen=True, eq=False):
    """One step: what stands for entries and states in its graph, and the states after it."""

    sequences: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    captured: tuple[Tensor, ...]
    after: tuple[Tensor, ...]
    # Those of the plan layer, by what is emitted.
    plans: dict[object, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<step of {len(self.sequences)} sequences, {len(self.states)} states>"

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copies: plans are made anew."""
        return Body, (self.sequences, self.states, self.captured, self.after)

    @property
    def step_tensors(self) -> tuple[Tensor, ...]:
        """Everything that it is made of, for who walks through what a node holds."""
        return (*self.feeds, *self.after)

    @property
    def feeds(self) -> tuple[Tensor, ...]:
        """Everything that the step's graph is given, in the order of the loop's inputs."""
        return (*self.sequences, *self.states, *self.captured)


# ------------------------------------------------------------------ the rule of shapes


def without(shape: Shape, axis: int) -> Shape:
    """The shape of one entry along an axis."""
    return (*shape[:axis], *shape[axis + 1 :])


def stacked(shape: Shape, axis: int, length: Dim) -> Shape:
    """The shape of entries stacked along an axis."""
    return (*shape[:axis], length, *shape[axis:])


def common_length(specs: Sequence[Spec], reads: Sequence[Track]) -> Dim:
    """The number of steps; ShapeError when the sequences differ in length."""
    length: Dim = None
    for spec, read in zip(specs, reads, strict=True):
        size = spec.shape[read.axis]
        if None not in (size, length) and size != length:
            given = ", ".join(str(operand) for operand in specs)
            raise ShapeError(f"the sequences are {given}, which differ in length")
        length = size if length is None else length
    return length


def infer_step(body: Body, roots: Sequence[Tensor], given: Sequence[Spec]) -> list[Spec]:
    """The Specs of tensors of the step, for Specs of what it is fed."""
    specs = {id(node): spec for node, spec in zip(body.feeds, given, strict=True)}
    for node in walk(roots, specs.keys()):
        if id(node) in specs:
            continue
        if isinstance(node, (Constant, Placeholder, Variable)):
            specs[id(node)] = node.spec
            continue
        try:
            inputs = [specs[id(operand)] for operand in node.inputs]
            specs[id(node)] = node.op.infer(*inputs, **node.attrs)
        except KbenchError as error:
            inner = node.called or op_symbol(node.op.name)
            where = f" at {node.place}" if node.place is not None else ""
            error.reason = f"in its step, {inner}{where}: {error.reason}"
            raise
    return [specs[id(node)] for node in roots]


def infer_loop(
    *specs: Spec, body: Body, reads: tuple[Track, ...], emits: tuple[Emit, ...]
) -> Specs:
    count, states = len(reads), len(body.states)
    length = common_length(specs[:count], reads)
    entries = [
        Spec(without(spec.shape, read.axis), spec.dtype)
        for spec, read in zip(specs[:count], reads, strict=True)
    ]
    first = specs[count : count + states]
    roots = [*body.after, *(emit.tensor for emit in emits)]
    found = infer_step(body, roots, [*entries, *first, *specs[count + states :]])
    after = [
        Spec(widest(spec.shape, last.shape), last.dtype)
        for spec, last in zip(first, found, strict=False)
    ]
    values = [
        Spec(stacked(spec.shape, emit.axis, length), spec.dtype)
        for spec, emit in zip(found[states:], emits, strict=True)
    ]
    return several([*after, *values])


def widest(first: Shape, last: Shape) -> Shape:
    """What is known of a state after any number of steps, none included."""
    return tuple(a if a == b else None for a, b in zip(first, last, strict=True))


# ------------------------------------------------------------------ tracing


def symbol(spec: Spec, name: str) -> Placeholder:
    """What stands for a value within a step."""
    return Placeholder(Spec(spec.shape, spec.dtype), name)


def captures(roots: Sequence[Tensor], symbols: Sequence[Tensor], since: int) -> tuple[Tensor, ...]:
    """The tensors outside a step that its graph reads; they are computed once, before the loop.

    Inside stay what depends on a symbol, constants and what draws random numbers or prints when
    made since the number `since`, and small integers that the rules follow, such as shapes.
    """
    bound = {id(feed) for feed in symbols}
    inside: set[int] = set(bound)
    free: set[int] = set()
    order = walk(roots, bound)
    for node in order:
        if id(node) in bound:
            continue
        if isinstance(node, Constant):
            if node.serial >= since or node.spec.value is not None:
                free.add(id(node))
        elif not node.inputs and isinstance(node, (Placeholder, Variable)):
            continue
        elif not node.op.pure:
            (inside if node.serial >= since else set()).add(id(node))
        elif any(id(operand) in inside for operand in node.inputs) or node.spec.value is not None:
            inside.add(id(node))
        elif all(id(operand) in free for operand in node.inputs):
            free.add(id(node))
    inside |= free
    outside: dict[int, Tensor] = {}
    for node in walk(roots, bound | {id(other) for other in order if id(other) not in inside}):
        if id(node) not in inside:
            outside[id(node)] = node
    return tuple(outside.values())
