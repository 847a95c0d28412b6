"""Functions over the entries of the first axis: `map_fn`, `foldl`, `foldr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbench.engine.control_flow import tree
from kbench.engine.control_flow.body import Body, Emit, Track, captures
from kbench.engine.control_flow.loop_op import loop
from kbench.engine.control_flow.tracing import Results, checked_tensor, trace
from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import checked_function, dtype_name
from kbench.engine.graph.apply import results
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.tensor import Tensor


def map_fn(
    fn: Callable[..., object], elems: object, name: str | None = None, dtype: object = None
) -> Any:
    """`fn` of every entry along the first axis, stacked.

    Arguments:
        fn: function of one entry; it is called once, on symbols. It may return nested lists,
            tuples and dicts of tensors.
        elems: tensor [n, ...], or nested lists, tuples and dicts of such, of one length; `fn` gets
            the entries in the same form. n may be unknown, or zero.
        name: name of the result.
        dtype: what the results are cast to, in the form of the result; None keeps theirs.
    Returns:
        Tensor [n, *shape of fn's result], or such tensors in the form of fn's result.
    Raises:
        ShapeError: a scalar, or elems that differ in length.
    Gradient: to `elems` and to everything that `fn` uses.
    Source: Keras 2.3 `backend.map_fn`.

    >>> K.eval(K.map_fn(lambda row: K.sum(row), K.constant([[1.0, 2.0], [3.0, 4.0]])))
    array([3., 7.], dtype=float32)
    """
    checked_function(fn, "fn")
    elems = _structure(elems)
    sequences = _sequences(elems)
    form: list[Any] = []

    def step(entries: Sequence[Tensor], states: Sequence[Tensor]) -> Results:
        returned = fn(tree.rebuild(elems, entries))
        form.append(returned)
        outputs = [checked_tensor(leaf, "the result of fn") for leaf in tree.flatten(returned)]
        return _cast(outputs, returned, dtype), []

    found = trace(step, sequences, 0, [])
    outputs = tuple(found.outputs)
    body = Body(tuple(found.entries), (), captures(outputs, found.entries, found.since), ())
    emits = [Emit(output, 0, False) for output in outputs]
    node = loop(body, [Track(0, False)] * len(sequences), emits, sequences, "map_fn/loop")
    return tree.rebuild(
        form[-1], results(node, *("map_fn" if name is None else name,) * len(outputs))
    )


def _cast(outputs: list[Tensor], form: object, dtype: object) -> list[Tensor]:
    if dtype is None:
        return outputs
    wanted = tree.flatten(dtype)
    if len(wanted) == 1:
        wanted *= len(outputs)
    if len(wanted) != len(outputs):
        raise ArgumentError(f"dtype is {shown(dtype)}, which does not have the form of fn's result")
    return [
        converted(output, dtype_name(name)) for output, name in zip(outputs, wanted, strict=True)
    ]


def foldl(
    fn: Callable[..., object], elems: object, initializer: object = None, name: str | None = None
) -> Any:
    """Fold the entries along the first axis from the left: `acc = fn(acc, entry)`.

    Arguments:
        fn: function of the accumulator and one entry; it is called once, on symbols.
        elems: tensor [n, ...], or nested lists, tuples and dicts of such, of one length.
        initializer: the first accumulator, in the form that `fn` returns; None takes the first
            entry, and starts at the second.
        name: name of the result.
    Returns:
        The last accumulator, in the form of the first.
    Raises:
        ShapeError: a scalar, elems that differ in length, no entries and no initializer, or an
            accumulator that changes its rank. DtypeError: it changes its dtype.
    Gradient: to `elems`, to `initializer` and to everything that `fn` uses.
    Source: Keras 2.3 `backend.foldl`.

    >>> K.eval(K.foldl(lambda acc, x: acc * 10 + x, K.constant([1.0, 2.0, 3.0])))
    array(123., dtype=float32)
    """
    return _fold(fn, elems, initializer, name, backwards=False)


def foldr(
    fn: Callable[..., object], elems: object, initializer: object = None, name: str | None = None
) -> Any:
    """Fold the entries along the first axis from the right: `acc = fn(acc, entry)`.

    As `foldl`, from the last entry to the first.

    Arguments:
        fn: takes the accumulator and an entry, and returns the next accumulator.
        elems: tensor with at least one axis, or a nest of them of equal length.
        initializer: the first accumulator; None takes the last entry.
        name: of the result.
    Returns:
        The last accumulator.
    Raises:
        ShapeError, DtypeError: as `foldl`.
    Gradient: to `elems`, `initializer` and what `fn` uses.
    Source: Keras 2.3 `backend.foldr`.

    >>> K.eval(K.foldr(lambda acc, x: acc * 10 + x, K.constant([1.0, 2.0, 3.0])))
    array(321., dtype=float32)
    """
    return _fold(fn, elems, initializer, name, backwards=True)


def _fold(
    fn: Callable[..., object], elems: object, initializer: object, name: str | None, backwards: bool
) -> Any:
    checked_function(fn, "fn")
    elems = _structure(elems)
    sequences = _sequences(elems)
    if initializer is None:
        end, rest = (-1, slice(None, -1)) if backwards else (0, slice(1, None))
        first = [sequence[end] for sequence in sequences]
        sequences = [sequence[rest] for sequence in sequences]
        form = elems
    else:
        dtype = sequences[0].spec.dtype
        first = [as_tensor(leaf, like=dtype) for leaf in tree.flatten(initializer)]
        form = initializer

    def step(entries: Sequence[Tensor], states: Sequence[Tensor]) -> Results:
        returned = fn(tree.rebuild(form, states), tree.rebuild(elems, entries))
        leaves = tree.flatten(returned)
        if len(leaves) != len(states):
            raise ArgumentError(
                f"fn returned {len(leaves)} tensors, but its accumulator has {len(states)}"
            )
        return [], [
            checked_tensor(leaf, "the result of fn", like=state.spec.dtype)
            for leaf, state in zip(leaves, states, strict=True)
        ]

    found = trace(step, sequences, 0, first)
    roots = tuple(found.after)
    bound = (*found.entries, *found.states)
    body = Body(
        tuple(found.entries),
        tuple(found.states),
        captures(roots, bound, found.since),
        roots,
    )
    reads = [Track(0, backwards)] * len(sequences)
    if name is None:
        name = "foldr" if backwards else "foldl"
    if not isinstance(name, str):
        raise ArgumentError(f"name must be a string, got {shown(name)}")
    node = loop(body, reads, [], [*sequences, *found.first], f"{name}/loop")
    return tree.rebuild(form, results(node, *(name,) * len(first)))


def _structure(elems: object) -> object:
    """The structure that `fn` sees: a list of plain numbers is one array, not many scalars."""
    leaves = tree.flatten(elems)
    nests = any(isinstance(leaf, Tensor) or hasattr(leaf, "shape") for leaf in leaves)
    return elems if nests or isinstance(elems, dict) else as_tensor(elems)  # type: ignore[arg-type]


def _sequences(elems: object) -> list[Tensor]:
    found = [as_tensor(leaf) for leaf in tree.flatten(elems)]
    if not found:
        raise ArgumentError("elems hold no tensor")
    for sequence in found:
        if sequence.ndim == 0:
            raise ShapeError(f"elems are {sequence.spec}, which has no axis to go over")
    return found
