"""Dead loops: those over one body are joined into one, and what nobody reads is left out.

A gradient extends a forward loop by what it needs of it; together with the loop that the user made
that is two nodes, which must run as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec import Struct, field

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.control_flow.body import Body, Emit
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.core.spec import Spec, Specs, several
from kbench.engine.graph.apply import RESULT
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk


class _Use(Struct):
    """What is read of all loops over one body and the same inputs."""

    states: set[int] = field(default_factory=set)
    emits: dict[Emit, Spec] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)  # the states of the loop that is left
    node: Tensor | None = None


def _key(node: Tensor) -> Hashable:
    return (node.attrs["body"], node.attrs["reads"], tuple(id(operand) for operand in node.inputs))


def _result_read(reader: Tensor) -> int | Emit:
    """The state, by number, or the emitted tensor that a reader reads."""
    node, index = reader.inputs[0], int(reader.attrs["index"])
    count = len(node.attrs["body"].states)
    emits: tuple[Emit, ...] = node.attrs["emits"]
    return emits[index - count] if index >= count else index


def eliminate_dead_loops(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Loops over one body are one loop that computes what is read."""
    uses: dict[Hashable, _Use] = {}
    for reader in walk(roots, stop):
        if id(reader) in stop or reader.op is not RESULT or reader.inputs[0].op is not LOOP:
            continue
        use = uses.setdefault(_key(reader.inputs[0]), _Use())
        what = _result_read(reader)
        if isinstance(what, Emit):
            use.emits[what] = reader.spec
        else:
            use.states.add(what)
    if not uses:
        return list(roots)

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if node.op is LOOP:
            use = uses[_key(node)]
            if use.node is None:
                use.node = _needed_part(node, inputs, use)
            return use.node
        if node.op is RESULT and node.inputs[0].op is LOOP:
            index = _position(_result_read(node), uses[_key(node.inputs[0])])
            return Tensor.derived(RESULT, inputs, {"index": index}, node.spec, node)
        return with_inputs(node, inputs)

    return rebuild(roots, stop, visit)


def _position(what: int | Emit, use: _Use) -> int:
    """The number of a result of the loop that is left."""
    if isinstance(what, Emit):
        return len(use.kept) + list(use.emits).index(what)
    return use.kept.index(what)


def _needed_part(node: Tensor, inputs: tuple[Tensor, ...], use: _Use) -> Tensor:
    body: Body = node.attrs["body"]
    emits = tuple(use.emits)
    use.kept, needed = _needed(body, emits, use.states)
    kept = use.kept
    sequences = [i for i, feed in enumerate(body.sequences) if id(feed) in needed] or [0]
    captured = [i for i, feed in enumerate(body.captured) if id(feed) in needed]
    first, last = len(body.sequences), len(body.sequences) + len(body.states)
    chosen = (
        *(inputs[i] for i in sequences),
        *(inputs[first + i] for i in kept),
        *(inputs[last + i] for i in captured),
    )
    smaller = Body(
        tuple(body.sequences[i] for i in sequences),
        tuple(body.states[i] for i in kept),
        tuple(body.captured[i] for i in captured),
        tuple(body.after[i] for i in kept),
    )
    assert isinstance(node.spec, Specs)
    spec = several([*(node.spec.parts[i] for i in kept), *use.emits.values()])
    attrs = {
        "body": smaller,
        "reads": tuple(node.attrs["reads"][i] for i in sequences),
        "emits": emits,
    }
    return Tensor.derived(LOOP, chosen, attrs, spec, node)


def _needed(body: Body, emits: Sequence[Emit], read: set[int]) -> tuple[list[int], set[int]]:
    """The states that what is read depends on, and the ids of every node on the way."""
    fed = {id(feed) for feed in body.feeds}
    alive: set[int] = set(read)
    while True:
        roots = [*(body.after[i] for i in sorted(alive)), *(emit.tensor for emit in emits)]
        needed = {id(node) for node in walk(roots, fed)}
        more = {i for i, node in enumerate(body.states) if id(node) in needed} | alive
        if more == alive:
            return sorted(alive), needed
        alive = more
