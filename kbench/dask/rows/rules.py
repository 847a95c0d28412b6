"""Rules for operations that compute: what their result is, by what their operands are.

A rule gets the node, the Specs of its operands and their states, of which at least one is not free
and none is mixed. It gives a state, or raises Mixes. An operation without a rule is mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.dask.rows.states import (
    BY_COUNT,
    BY_PLACE,
    FREE,
    NOT_IN_LINE,
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
from kbench.engine.graph.tensor import Tensor

Rule = Callable[[Tensor, Sequence[Spec], Sequence[State]], State]


def only_rows(states: Sequence[State]) -> list[Rows | Free]:
    """The states, none of which tells sizes; Mixes otherwise."""
    found = [state for state in states if isinstance(state, (Rows, Free))]
    if len(found) < len(states):
        raise Mixes(BY_COUNT)
    return found


# ------------------------------------------------------------------ element by element


def in_line(specs: Sequence[Spec], states: Sequence[State]) -> tuple[int, int]:
    """Where the batch axis of operands that broadcast lies, counted from the end, and its `per`."""
    lines = {
        (spec.ndim - state.axis, state.per)
        for spec, state in zip(specs, only_rows(states), strict=True)
        if isinstance(state, Rows)
    }
    if len(lines) > 1:
        raise Mixes(NOT_IN_LINE)
    ((behind, per),) = lines
    for spec, state in zip(specs, states, strict=True):
        if state == FREE and spec.ndim >= behind and spec.shape[spec.ndim - behind] != 1:
            raise Mixes(BY_PLACE)
    return behind, per


def elementwise(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    if any(isinstance(state, Sizes) for state in states):
        return _arithmetic(node, specs, states)
    behind, per = in_line(specs, states)
    return Rows(max(spec.ndim for spec in specs) - behind, per)


def _arithmetic(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """Of sizes: a cast leaves them, a product with a known number scales them."""
    if any(isinstance(state, Rows) for state in states):
        raise Mixes(BY_COUNT)
    (counts, place), *others = [
        (state.counts, place) for place, state in enumerate(states) if isinstance(state, Sizes)
    ]
    if node.op.name == "cast":
        return Sizes(counts)
    if node.op.name == "multiply" and not others:
        factor = specs[1 - place]
        if factor.known and factor.ndim == 0 and factor.value is not None:
            by = factor.value[0] or 0
            return sized([None if count is None else count * by for count in counts])
    return Sizes((None,) * (known_size(node.spec.shape) or 1))


# ------------------------------------------------------------------ along axes


def fold(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    (state,) = states
    if isinstance(state, Sizes):
        return Sizes((None,))
    (rows,) = only_rows(states)
    assert isinstance(rows, Rows)
    axes = node.attrs["axis"]
    if rows.axis in axes:
        raise Mixes(OVER_ROWS)
    if node.attrs["keepdims"]:
        return rows
    return Rows(rows.axis - sum(axis < rows.axis for axis in axes), rows.per)


def along(*, removed: bool = False, name: str = "axis") -> Rule:
    """For operations that go along one axis or several, and keep all others apart."""

    def rule(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
        rows = alike(states)
        given = node.attrs[name]
        axes = given if isinstance(given, tuple) else (given,)
        if rows.axis in axes:
            raise Mixes(OVER_ROWS)
        before = sum(axis < rows.axis for axis in axes) if removed else 0
        return Rows(rows.axis - before, rows.per)

    return rule


def windowed(count: str) -> Rule:
    """For operations on windows over axes from `first` on, as many as the attribute has entries."""

    def rule(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
        rows = alike(states)
        first = node.attrs["first"]
        if first <= rows.axis < first + len(node.attrs[count]):
            raise Mixes(OVER_ROWS)
        return rows

    return rule


def pick(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """One entry of each row: `indices` have the axes of `x` but one."""
    x, indices = only_rows(states)
    return alike([_without(x, node.attrs["axis"]), indices])


def put(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """The way back, to the shape of the third operand."""
    g, indices, x = only_rows(states)
    alike([_without(x, node.attrs["axis"]), g, indices])
    return x


def _without(state: State, axis: int) -> State:
    """What rows are once an axis is gone."""
    if not isinstance(state, Rows):
        return state
    if state.axis == axis:
        raise Mixes(OVER_ROWS)
    return Rows(state.axis - (axis < state.axis), state.per)


# ------------------------------------------------------------------ products


def contraction(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """`dot` and `batch_dot`: leading axes in common, then what is left of either operand."""
    batch, axes = node.attrs["batch"], node.attrs["axes"]
    given = only_rows(states)
    left = [
        [axis for axis in range(batch, spec.ndim) if axis not in gone]
        for spec, gone in zip(specs, axes, strict=True)
    ]
    for state, gone in zip(given, axes, strict=True):
        if isinstance(state, Rows) and state.axis in gone:
            raise Mixes(OVER_ROWS)
    x, y = given
    if any(isinstance(state, Rows) and state.axis < batch for state in given):
        return alike(given)
    if isinstance(x, Rows) and isinstance(y, Rows):
        raise Mixes("multiplies each row with every other")
    if isinstance(x, Rows):
        return Rows(batch + left[0].index(x.axis), x.per)
    assert isinstance(y, Rows)
    return Rows(batch + len(left[0]) + left[1].index(y.axis), y.per)


def matrix_product(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """`x @ y`: leading axes broadcast, the last of `x` meets the second-to-last of `y`."""
    given = only_rows(states)
    ndim = max(spec.ndim for spec in specs)
    own = {0: (2, 1), 1: (1, 2)}  # of each operand: the axis that stays, the one summed over
    for place, (spec, state) in enumerate(zip(specs, given, strict=True)):
        if not isinstance(state, Rows):
            continue
        behind = spec.ndim - state.axis
        stays, gone = own[place]
        if behind == gone:
            raise Mixes(OVER_ROWS)
        if behind == stays:
            if given[1 - place] != FREE:
                raise Mixes("multiplies each row with every other")
            return Rows(ndim - behind, state.per)
    behind, per = in_line(specs, states)
    return Rows(ndim - behind, per)


def sparse_product(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """A sparse matrix, transposed perhaps, times a dense one."""
    x, y = only_rows(states)
    stays = 1 if node.attrs["transposed"] else 0
    if isinstance(x, Rows):
        if y != FREE or x.axis != stays:
            raise Mixes(OVER_ROWS)
        return Rows(0, x.per)
    assert isinstance(y, Rows)
    if y.axis == 0:
        raise Mixes(OVER_ROWS)
    return y


def images(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """A convolution: rows are images, and the kernel is the same for all of them."""
    x, kernel, *sizes = states
    if kernel != FREE:
        raise Mixes("would need a kernel for each row")
    if not isinstance(x, Rows) or x.axis != 0:
        raise Mixes(OVER_ROWS)
    for spec, state in zip(specs[2:], sizes, strict=True):
        wanted = spec.value[0] if spec.value else None
        told = state.counts[0] if isinstance(state, Sizes) else 0
        known = wanted is not None and wanted in (-1, specs[0].shape[0])
        if told != x.per and not known:
            raise Mixes(BY_COUNT)
    return x


def first_axes(results: int = 0) -> Rule:
    """For operations whose operands, and `results` results, all begin with the batch axis."""

    def rule(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
        rows = alike(states)
        if rows != Rows(0):
            raise Mixes(OVER_ROWS)
        return Several((rows,) * results) if results else rows

    return rule


def patches(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    """[places, n, patch] of images [n, ...]."""
    if states[0] != Rows(0):
        raise Mixes(OVER_ROWS)
    return Rows(1)


def patches_back(node: Tensor, specs: Sequence[Spec], states: Sequence[State]) -> State:
    if list(states) != [Rows(1), Rows(0)]:
        raise Mixes(mismatch(states))
    return Rows(0)


RULES: dict[str, Rule] = {
    "argmax": along(removed=True),
    "argmin": along(removed=True),
    "batch_dot": contraction,
    "block_sum": windowed("factors"),
    "convolve": images,
    "convolve_to_input": images,
    "ctc_cost": first_axes(),
    "ctc_cost_and_slope": first_axes(2),
    "ctc_label_dense_to_sparse": first_axes(),
    "ctc_slope": first_axes(),
    "cumprod": along(),
    "cumsum": along(),
    "depthwise": images,
    "depthwise_to_input": images,
    "dot": contraction,
    "dot_sparse": sparse_product,
    "interpolate": along(),
    "interpolate_back": along(),
    "local_products": images,
    "matmul": matrix_product,
    "patches": patches,
    "patches_to_input": patches_back,
    "pick": pick,
    "pool_average": windowed("window"),
    "pool_max": windowed("window"),
    "pool_max_gradient": windowed("window"),
    "pool_spread": windowed("window"),
    "pool_winners": windowed("window"),
    "put": put,
    "recurrence": along(),
    "shift": along(),
    "softmax": along(),
    "upsample": windowed("factors"),
}
