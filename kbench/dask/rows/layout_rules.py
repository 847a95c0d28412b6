"""Rules for operations that move entries, and for the sizes by which they do; see `rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kbench.dask.rows.rules import Rule, along, only_rows
from kbench.dask.rows.states import (
    BY_COUNT,
    BY_PLACE,
    FREE,
    OVER_ROWS,
    Free,
    Mixes,
    Rows,
    Several,
    Sizes,
    State,
    alike,
    mismatch,
    sized,
)
from kbench.engine.core.spec import Spec, known_size
from kbench.engine.core.types import Dim, Shape
from kbench.engine.graph.tensor import Tensor

REGROUPED = "joins rows, or takes them apart in a way that is not known"

# ------------------------------------------------------------------ sizes and shapes


class Entry(NamedTuple):
    """One entry of a shape: its value where that is known, and what of it is due to the rows."""

    value: Dim
    rows: int | None  # as the counts of `Sizes`


def entries_of(spec: Spec, state: State) -> list[Entry]:
    """A vector of sizes that an operation is given."""
    length = spec.shape[0] if spec.ndim else 1
    if length is None or spec.ndim > 1 or not isinstance(state, (Sizes, Free)):
        raise Mixes(BY_COUNT)
    values = spec.value or (None,) * length
    counts: Sequence[int | None] = (0,) * length
    if isinstance(state, Sizes):
        counts = state.counts if len(state.counts) == length else (None,) * length
    return [Entry(*pair) for pair in zip(values, counts, strict=True)]


def shape_of(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    (state,), (spec,) = states, specs
    if not isinstance(state, Rows):
        return FREE  # of sizes themselves
    return sized([state.per if axis == state.axis else 0 for axis in range(spec.ndim)])


def size_of(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    (state,), (spec,) = states, specs
    if not isinstance(state, Rows):
        return FREE
    others = known_size((*spec.shape[: state.axis], *spec.shape[state.axis + 1 :]))
    return sized([None if others is None else others * state.per])


def filled(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """One number everywhere, in a shape that is computed."""
    return _row_axis(entries_of(specs[0], states[0]))


def _row_axis(entries: Sequence[Entry]) -> Rows:
    """The one entry of a shape that is a number of rows."""
    places = [axis for axis, entry in enumerate(entries) if entry.rows != 0]
    count = entries[places[0]].rows
    if len(places) > 1 or count is None:
        raise Mixes(BY_COUNT)
    return Rows(places[0], count)


def tiled(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    x, spec = states[0], specs[0]
    counts = [Entry(value, 0) for value in node.attrs.get("n") or ()]
    if len(specs) > 1:
        counts = entries_of(specs[1], states[1])
    if isinstance(x, Rows):
        if any(entry.rows != 0 for entry in counts):
            raise Mixes(BY_COUNT)
        if counts[x.axis].value != 1:
            raise Mixes("repeats the whole batch")
        return x
    if x != FREE:
        raise Mixes(BY_COUNT)
    rows = _row_axis(counts)
    if spec.shape[rows.axis] != 1:
        raise Mixes(BY_PLACE)
    return rows


def repeated(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    rows = alike(states)
    return (
        Rows(rows.axis, rows.per * node.attrs["rep"]) if rows.axis == node.attrs["axis"] else rows
    )


# ------------------------------------------------------------------ reshaping


def reshaped(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    state, spec = states[0], specs[0]
    if isinstance(state, Sizes):
        return Sizes(state.counts)
    if len(specs) > 1:
        entries = entries_of(specs[1], states[1])
    else:
        entries = [Entry(size, 0) for size in node.attrs["shape"]]
    if not isinstance(state, Rows):
        raise Mixes(BY_COUNT)
    return _regrouped(spec.shape, state, entries)


def _regrouped(shape: Shape, rows: Rows, entries: Sequence[Entry]) -> Rows:
    """Where the rows are in another shape; elements go in row-major order, so what is in front of
    the batch axis must stay as large, and what is behind it be cut into whole entries."""
    outer, inner = known_size(shape[: rows.axis]), known_size(shape[rows.axis + 1 :])
    if any(entry.rows != 0 for entry in entries):
        found = _row_axis(entries)
        if outer is None or outer != _product(entries[: found.axis]):
            raise Mixes(REGROUPED)
        return found
    sizes = [entry.value for entry in entries]
    total = shape[rows.axis]
    for axis, size in enumerate(sizes):
        before, behind = _product(entries[:axis]), _product(entries[axis + 1 :])
        if outer is None or before != outer or inner is None:
            continue
        if size == -1 and behind and rows.per * inner and rows.per * inner % behind == 0:
            return Rows(axis, rows.per * inner // behind)
        if size is not None and size == total and behind == inner and size != -1:
            return Rows(axis, rows.per)
    raise Mixes(REGROUPED)


def _product(entries: Sequence[Entry]) -> int | None:
    """Of sizes that are known; None where one is not, or stands for the rest."""
    return known_size(tuple(None if entry.value == -1 else entry.value for entry in entries))


def reshaped_like(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    g, x = only_rows(states)
    if not isinstance(g, Rows) or not isinstance(x, Rows):
        raise Mixes(mismatch(states))
    fronts = [known_size(spec.shape[: s.axis]) for spec, s in zip(specs, (g, x), strict=True)]
    if fronts[0] is None or fronts[0] != fronts[1]:
        raise Mixes(REGROUPED)
    return x


def expanded(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    (state,) = states
    if isinstance(state, Sizes):
        return state if not specs[0].ndim else Sizes((None,))
    rows = alike(states)
    return Rows(rows.axis + (node.attrs["axis"] <= rows.axis), rows.per)


def squeezed(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    return states[0] if isinstance(states[0], Sizes) else along(removed=True)(node, specs, states)


def permuted(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    rows = alike(states)
    return Rows(node.attrs["pattern"].index(rows.axis), rows.per)


# ------------------------------------------------------------------ parts and joins


def _taken_axis(items: Sequence[tuple[object, ...]], axis: int) -> int:
    """Where an axis is in the result of an index that must take all of it."""
    place = -1
    result = 0
    for item in items:
        if item[0] != "new":
            place += 1
            if place == axis:
                whole = item in (("block", 0, -1),) or (
                    item[0] == "slice"
                    and item[1] in (None, 0)
                    and item[2] is None
                    and item[3] in (None, 1)
                )
                if not whole:
                    raise Mixes("takes some of the rows")
                return result
        result += item[0] != "int"
    raise Mixes(REGROUPED)  # an index names every axis


def indexed(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    x, items = states[0], node.attrs["items"]
    if any(state != FREE for state in states[1:]):
        raise Mixes(BY_COUNT)
    if isinstance(x, Sizes):
        return _indexed_sizes(x, items)
    assert isinstance(x, Rows)
    return Rows(_taken_axis(items, x.axis), x.per)


def _indexed_sizes(x: Sizes, items: Sequence[tuple[object, ...]]) -> State:
    """Some entries of a shape, by numbers that are known."""
    if len(items) != 1 or set(x.counts) == {None}:
        return Sizes((None,))
    if any(isinstance(bound, tuple) for bound in items[0]):
        return Sizes((None,))
    word, *bounds = items[0]
    numbers = [None if bound is None else int(bound) for bound in bounds]  # type: ignore[call-overload]
    if word == "int":
        assert numbers[0] is not None
        return sized([x.counts[numbers[0]]])
    if word == "slice":
        return sized(x.counts[slice(*numbers)])
    if word == "block":
        start, count = (number or 0 for number in numbers)
        return sized(x.counts[start : None if count == -1 else start + count])
    return Sizes((None,))


def placed(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """The way back of an index: `g` where it took, zeros elsewhere, in the shape of `x`."""
    g, x, *indices = states
    if any(state != FREE for state in indices):
        raise Mixes(BY_COUNT)
    if not isinstance(x, Rows) or g != Rows(_taken_axis(node.attrs["items"], x.axis), x.per):
        raise Mixes(mismatch([g, x]))
    return x


def joined(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    if any(isinstance(state, Sizes) for state in states):
        if node.ndim != 1:
            raise Mixes(BY_COUNT)
        pairs = zip(specs, states, strict=True)
        return sized([entry.rows for spec, state in pairs for entry in entries_of(spec, state)])
    return along()(node, specs, states)


def stacked(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    if any(isinstance(state, Sizes) for state in states):
        if any(spec.ndim for spec in specs):
            raise Mixes(BY_COUNT)
        pairs = zip(specs, states, strict=True)
        return sized([entry.rows for spec, state in pairs for entry in entries_of(spec, state)])
    return expanded(node, specs, [alike(states)])


def gathered(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """Rows of a table by number: the table is the same for all rows, or the numbers are."""
    table, numbers = only_rows(states)
    if table == FREE:
        return numbers
    assert isinstance(table, Rows)
    if numbers != FREE or table.axis == 0:
        raise Mixes("picks rows of the batch by number")
    return Rows(table.axis - 1 + specs[1].ndim, table.per)


def padded(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    rows = alike(states)
    if any(node.attrs["pads"][rows.axis]):
        raise Mixes("adds rows to the batch")
    return rows


# ------------------------------------------------------------------ what gradients are made of


def spread(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """`g`, reduced over axes of `x`, repeated along them; of `x` only the shape is read."""
    g, x = only_rows(states)
    if not isinstance(x, Rows):
        raise Mixes(mismatch(states))
    axes = node.attrs["axis"]
    if x.axis in axes:
        if g != FREE:
            raise Mixes(BY_COUNT)
        return x
    kept = specs[0].ndim == specs[1].ndim
    place = x.axis if kept else x.axis - sum(axis < x.axis for axis in axes)
    if g != Rows(place, x.per):
        raise Mixes(mismatch(states))
    return x


def reduced_like(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """`g` summed over the axes along which `x` had been repeated."""
    g, x = only_rows(states)
    if isinstance(g, Rows) and x == FREE:
        raise Mixes(OVER_ROWS)
    if not isinstance(x, Rows) or g != Rows(x.axis + specs[0].ndim - specs[1].ndim, x.per):
        raise Mixes(mismatch(states))
    return x


def same(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """The first operand; others are only looked at."""
    return states[0]


def same_rows(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """Something for each entry of the operand, which may have further axes behind its own."""
    return alike(states)


def filled_like(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """One number in the shape of the operand."""
    return FREE if isinstance(states[0], Sizes) else alike(states)


def result(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    (whole,) = states
    assert isinstance(whole, Several)
    return whole.parts[node.attrs["index"]]


RULES: dict[str, Rule] = {
    "cast_sparse": same_rows,
    "concatenate": joined,
    "concatenate_part": along(),
    "concatenate_sparse": joined,
    "expand_dims": expanded,
    "fitting_bias": same,
    "full": filled,
    "full_like": filled_like,
    "gather": gathered,
    "getitem": indexed,
    "identity": same,
    "one_hot": same_rows,
    "pad": padded,
    "permute": permuted,
    "place": placed,
    "print_tensor": same,
    "reduce_like": reduced_like,
    "repeat_elements": repeated,
    "reshape": reshaped,
    "reshape_like": reshaped_like,
    "result": result,
    "reverse": along(name="axes"),
    "shape": shape_of,
    "size": size_of,
    "sized": along(),
    "spread": spread,
    "squeeze": squeezed,
    "stack": stacked,
    "take_one": along(removed=True),
    "tile": tiled,
    "to_dense": same_rows,
}
