"""The walk through a graph that says of each output how it has the rows of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbench.dask.rows import layout_rules, rules
from kbench.dask.rows.states import (
    BY_COUNT,
    BY_PLACE,
    FREE,
    NOT_IN_LINE,
    OVER_ROWS,
    UNKNOWN,
    Mixed,
    Mixes,
    Rows,
    Several,
    Sizes,
    State,
)
from kbench.engine.compiler.values import called, infer_at
from kbench.engine.control_flow.body import Body, Emit, Track, without
from kbench.engine.core.spec import Spec, known_size
from kbench.engine.core.types import Shape
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traverse import walk

RULES: dict[str, rules.Rule] = {**rules.RULES, **layout_rules.RULES}


class Known(NamedTuple):
    """Of a value: what shape it has, None standing for sizes that vary, and how it has rows."""

    spec: Spec
    state: State


def analyse(
    roots: Sequence[Tensor], given: Mapping[int, Known], flags: Mapping[int, bool]
) -> list[Known]:
    """What is known of `roots`.

    Arguments:
        given: of tensors by their id, which are not computed: the inputs of a function.
        flags: scalars by their id that decide branches, and are known.
    Raises:
        ShapeError, DtypeError: the inputs do not fit the graph; told of the node that refuses.
    """
    found = dict(given)
    for node in walk(roots, given):
        if id(node) not in found:
            found[id(node)] = _known(node, [found[id(one)] for one in node.inputs], flags)
    return [found[id(root)] for root in roots]


def needed(roots: Sequence[Tensor], given: Mapping[int, object] | set[int],
           flags: Mapping[int, bool]) -> list[Tensor]:  # fmt: skip
    """The nodes that are computed, steps of loops and all, without sides that no flag takes."""
    order: list[Tensor] = []
    todo, seen = list(roots), set(given)
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        order.append(node)
        flag = _flag(node.inputs[0], flags) if node.op.role is Role.BRANCH else None
        todo += node.inputs if flag is None else [node.inputs[1 if flag else 2]]
        body = node.attrs.get("body")
        if isinstance(body, Body):
            todo += [*body.after, *(emit.tensor for emit in node.attrs["emits"])]
            seen.update(id(feed) for feed in (*body.sequences, *body.states))
    return order


def told(node: Tensor) -> str:
    """A node as a sentence about it begins: the function that the user called, and where."""
    name = called(node, node.op)
    return f"{name} at {node.place}" if node.place is not None else name


# ------------------------------------------------------------------ one node


def _known(node: Tensor, inputs: Sequence[Known], flags: Mapping[int, bool]) -> Known:
    if not inputs:
        return Known(node.spec, FREE)
    if node.op.role is Role.BRANCH:
        flag = _flag(node.inputs[0], flags)
        if flag is not None:
            return inputs[1 if flag else 2]
    found = Known(_inferred(node, [one.spec for one in inputs]), _state(node, inputs, flags))
    return _counted(found, inputs[0]) if node.op.role is Role.RESHAPE else found


def _counted(found: Known, source: Known) -> Known:
    """A reshaped value with the one size that follows from how many elements a row has."""
    spec, state = found.spec, found.state
    if not isinstance(state, Rows) or not isinstance(source.state, Rows):
        return found
    sizes = [*spec.shape[: state.axis], *spec.shape[state.axis + 1 :]]
    own = known_size(_others(source.spec, source.state.axis))
    known = known_size(tuple(size for size in sizes if size is not None))
    if own is None or not known or sizes.count(None) != 1:
        return found
    missing = own * source.state.per // (known * state.per)
    shape = [
        missing if size is None and axis != state.axis else size
        for axis, size in enumerate(spec.shape)
    ]
    return Known(Spec(tuple(shape), spec.dtype), state)


def _others(spec: Spec, axis: int) -> Shape:
    return (*spec.shape[:axis], *spec.shape[axis + 1 :])


def _flag(condition: Tensor, flags: Mapping[int, bool]) -> bool | None:
    """The value of a condition, if it is a flag that is known, or a copy of one."""
    while condition.op.name in ("cast", "identity") and id(condition) not in flags:
        (condition,) = condition.inputs
    return flags.get(id(condition))


def _inferred(node: Tensor, specs: Sequence[Spec]) -> Spec:
    """The rule's answer for other specs than the node was made with."""
    if all(spec == one.spec for spec, one in zip(specs, node.inputs, strict=True)):
        return node.spec
    return infer_at(node, node.op, specs, node.attrs)


def _state(node: Tensor, inputs: Sequence[Known], flags: Mapping[int, bool]) -> State:
    states = [_read(one, place in node.op.shapes) for place, one in enumerate(inputs)]
    mixed = next((state for state in states if isinstance(state, Mixed)), None)
    if mixed is not None:
        return mixed
    if all(state == FREE for state in states):
        return FREE if node.op.kind != "several" else Several((FREE,) * _results(node))
    if any(isinstance(state, Several) for state in states) and node.op.name != "result":
        return Mixed(node, UNKNOWN)
    try:
        if node.op.role is Role.BRANCH:
            return _branch(states)
        if isinstance(node.attrs.get("body"), Body):
            return _loop(node, inputs, flags)
        rule = _rule(node)
        if rule is None:
            return Mixed(node, UNKNOWN)
        return rule(node, [one.spec for one in inputs], states)
    except Mixes as reason:
        return Mixed(node, str(reason))


def _read(one: Known, shape_alone: bool) -> State:
    """How an operand has rows: a shape that is known has nothing to do with them."""
    if shape_alone and isinstance(one.state, Mixed) and known_size(one.spec.shape) is not None:
        return FREE
    return one.state


def _results(node: Tensor) -> int:
    return len(getattr(node.spec, "parts", ()))


def _rule(node: Tensor) -> rules.Rule | None:
    if node.op.kind == "elementwise":
        return rules.elementwise
    if node.op.role is Role.FOLD:
        return rules.fold
    return RULES.get(node.op.name)


def _branch(states: Sequence[State]) -> State:
    condition, first, second = states
    if condition != FREE:
        raise Mixes(BY_COUNT)
    if first != second:
        raise Mixes("gives one of two values that have the batch in different ways")
    return first


# ------------------------------------------------------------------ loops


def _loop(node: Tensor, inputs: Sequence[Known], flags: Mapping[int, bool]) -> State:
    """A loop over time, which takes all rows along, or over the rows themselves."""
    body: Body = node.attrs["body"]
    reads: Sequence[Track] = node.attrs["reads"]
    emits: Sequence[Emit] = node.attrs["emits"]
    states = [one.state for one in inputs]
    if any(isinstance(state, Sizes) for state in states):
        raise Mixes(BY_COUNT)
    own = [
        isinstance(state, Rows) and state.axis == read.axis
        for state, read in zip(states, reads, strict=False)
    ]
    if any(own):
        return _over_rows(node, inputs, flags, all(own))
    entries = [
        Known(_entry(one.spec, read), _shifted(one.state, read))
        for one, read in zip(inputs, reads, strict=False)
    ]
    fed = [*entries, *inputs[len(reads) :]]
    roots = [*body.after, *(emit.tensor for emit in emits)]
    given = {id(feed): one for feed, one in zip(body.feeds, fed, strict=True)}
    found = [one.state for one in analyse(roots, given, flags)]
    before = states[len(reads) : len(reads) + len(body.states)]
    for first, last in zip(before, found, strict=False):
        if isinstance(last, Mixed):
            return last
        if first != last:
            raise Mixes("has a state that is not of each row from the start")
    after, values = found[: len(before)], found[len(before) :]
    return Several((*after, *map(_stacked, values, emits)))


def _entry(spec: Spec, read: Track) -> Spec:
    return Spec(without(spec.shape, read.axis), spec.dtype)


def _shifted(state: State, read: Track) -> State:
    if not isinstance(state, Rows):
        return state
    return Rows(state.axis - (read.axis < state.axis), state.per)


def _stacked(state: State, emit: Emit) -> State:
    if isinstance(state, (Sizes, Several)):
        raise Mixes(BY_COUNT)
    if not isinstance(state, Rows):
        return state
    return Rows(state.axis + (emit.axis <= state.axis), state.per)


def _over_rows(
    node: Tensor, inputs: Sequence[Known], flags: Mapping[int, bool], every: bool
) -> State:
    """A loop that goes from row to row: without a state it is one step for each."""
    body: Body = node.attrs["body"]
    reads: Sequence[Track] = node.attrs["reads"]
    emits: Sequence[Emit] = node.attrs["emits"]
    if body.states:
        raise Mixes("goes from one row to the next with a state")
    if not every:
        raise Mixes(BY_PLACE)
    rows = [one.state for one in inputs[: len(reads)]]
    if any(one.state != FREE for one in inputs[len(reads) :]):
        raise Mixes(NOT_IN_LINE)
    if any(state.per != 1 for state in rows if isinstance(state, Rows)):
        raise Mixes(OVER_ROWS)
    turns = {read.backwards for read in reads} | {emit.backwards for emit in emits}
    if len(turns) > 1:
        raise Mixes("turns the batch axis around")
    entries = [
        Known(_entry(one.spec, read), FREE) for one, read in zip(inputs, reads, strict=False)
    ]
    fed = [*entries, *inputs[len(reads) :]]
    given = {id(feed): one for feed, one in zip(body.feeds, fed, strict=True)}
    for one in analyse([emit.tensor for emit in emits], given, flags):
        if one.state != FREE:
            raise Mixes(UNKNOWN)
    return Several(tuple(Rows(emit.axis) for emit in emits))
