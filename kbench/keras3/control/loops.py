"""Loops of a traced step as one operation, whose body is traced once."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from keras.src import tree

from kbench import backend as K
from kbench.api import operations
from kbench.api.operations import Place, Spec, Tensor
from kbench.keras3.control.stores import stores_apart
from kbench.keras3.tensor import (
    NeedsValues,
    NotTracedError,
    Traced,
    any_traced,
    held,
    held_spec,
    in_dtype,
    plain,
    tracing,
)

MIN_ROUNDS = 8
"""Rounds from which on a loop is one operation; fewer are laid out, and fuse with other work."""


_log = logging.getLogger("kbench.keras3")


class _CannotLoop(Exception):
    """The body has to be laid out: what it carries changes its form, or it stores to variables."""


class _Leaves:
    """The values of a nest as nodes, and nodes in the form of the nest."""

    def __init__(self, values: Any) -> None:
        self.values = values
        leaves = [plain(leaf) for leaf in tree.flatten(values)]
        self.there = [leaf is not None for leaf in leaves]
        found = [leaf for leaf in leaves if leaf is not None]
        if not all(hasattr(leaf, "dtype") for leaf in found):
            kind = next(type(leaf).__name__ for leaf in found if not hasattr(leaf, "dtype"))
            raise _CannotLoop(f"it gives a value of type {kind}, which is not a tensor")
        self.kinds = [str(leaf.dtype) for leaf in found]
        self.shapes = [tuple(leaf.shape) for leaf in found]
        self.nodes = [held(leaf, kind) for leaf, kind in zip(found, self.kinds, strict=True)]

    @property
    def specs(self) -> list[Spec]:
        pairs = zip(self.shapes, self.kinds, strict=True)
        return [held_spec(shape, kind) for shape, kind in pairs]

    def packed(self, nodes: Sequence[Tensor]) -> Any:
        """Nodes as traced values in the form of the nest."""
        left = iter([Traced(node, kind) for node, kind in zip(nodes, self.kinds, strict=True)])
        leaves = [next(left) if there else None for there in self.there]
        return tree.pack_sequence_as(self.values, leaves)

    def check(self, other: _Leaves) -> None:
        """_CannotLoop unless the other nest can be carried on in this one's place."""
        if self.there != other.there:
            raise _CannotLoop("the values after a round are not as many as before it")
        for one, after in zip(self.specs, other.specs, strict=True):
            if one != after:
                raise _CannotLoop(f"a value is {one} before a round and {after} after it")


@contextlib.contextmanager
def _without_stores() -> Iterator[None]:
    """What a body stores to variables, such as states of seeds, belongs to each of its rounds."""
    with stores_apart() as stored:
        yield
    if stored.values or stored.losses:
        raise _CannotLoop("it stores to variables, such as the state of a seed, or adds a loss")


def as_one_loop(
    f: Callable[[Any, Any], Any], carry: Any, xs: Any, count: int, reverse: bool = False
) -> tuple[Any, Any] | None:
    """`f(carry, entry)` for every entry as one operation with a gradient.

    Returns:
        The last carry and the stacked results; None where rounds are to be laid out: for few of
        them, known values, and bodies that Python has to run round by round. For such a body
        the logger "kbench.keras3" has the reason, at level DEBUG.
    """
    if count < MIN_ROUNDS or tracing.known or not any_traced(carry, xs):
        return None
    try:
        with _without_stores():
            return _one_loop(f, carry, xs, count, reverse)
    except (_CannotLoop, NeedsValues) as error:
        _log.debug("%d rounds of %s are laid out one by one: %s", count, _named(f), error)
        return None


def _named(function: Callable[..., Any]) -> str:
    """A function of the user, by name and line."""
    own = inspect.unwrap(function)
    code = getattr(own, "__code__", None)
    name = getattr(own, "__qualname__", type(own).__name__)
    return f"{name} ({Place(code.co_filename, code.co_firstlineno)})" if code else str(name)


def _one_loop(f: Any, carry: Any, xs: Any, count: int, reverse: bool) -> tuple[Any, Any]:
    first, given = _Leaves(carry), _Leaves(xs)
    made: list[_Leaves] = []

    def step(
        entries: Sequence[Tensor], states: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        entry = None if xs is None else given.packed(entries[1:])
        after, result = f(first.packed(states), entry)
        carried, told = _Leaves(after), _Leaves(result)
        first.check(carried)
        made.append(told)
        return told.nodes, carried.nodes

    numbers = K.constant(np.arange(int(count), dtype="int32"), dtype="int32")
    last, outputs = operations.scan(step, [numbers, *given.nodes], first.nodes, reverse)
    results = made[-1].packed(outputs) if any(made[-1].there) else None
    return first.packed(last), results


def until(cond: Any, body: Any, values: Any) -> Any:
    """`values = body(values)` while `cond(values)` holds, however often.

    Raises:
        NotImplementedError: the body changes shapes or dtypes of values, or stores to variables.
    Gradient: through as many rounds as were run, which are run again to keep their values.
    """
    try:
        with _without_stores():
            return _until(cond, body, values)
    except _CannotLoop as error:
        raise NotTracedError(
            "while_loop: in a traced step without maximum_iterations the body must keep shapes and "
            "dtypes of its values, and must not store to variables; maximum_iterations lifts that. "
            f"Of this body: {error}"
        ) from None


def _until(cond: Any, body: Any, values: Any) -> Any:
    first = _Leaves(values)
    symbols = [K.placeholder(spec.shape, dtype=spec.dtype) for spec in first.specs]
    going = K.reshape(in_dtype(plain(cond(first.packed(symbols))), "bool"), ())
    after = _Leaves(body(first.packed(symbols)))
    first.check(after)
    outside = operations.read_outside([going, *after.nodes], symbols)
    goes_on = K.function([*symbols, *outside], [going], name="while_condition")
    round_of = K.function([*symbols, *outside], after.nodes, name="while_round")

    def run(*arrays: np.ndarray) -> Any:
        state, read = list(arrays[: len(symbols)]), list(arrays[len(symbols) :])
        count = 0
        while bool(goes_on([*state, *read])[0]):
            state = round_of([*state, *read])
            count += 1
        return (*[np.array(one) for one in state], np.asarray(count, "int32"))

    run.__name__ = "while_loop"

    def rule(g: Any, y: Tensor, *given: Tensor) -> Any:
        count = operations.results(y)[-1]
        rounds = operations.numpy_call(_numbers, [count], Spec((None,), "int32"))
        return operations.repeated_gradient(g, symbols, after.nodes, rounds, given, outside)

    parts = [*first.specs, Spec((), "int32")]
    found = operations.numpy_calls(run, [*first.nodes, *outside], parts, rule)
    return first.packed(found[:-1])


def _numbers(count: np.ndarray) -> np.ndarray:
    """The numbers of so many rounds."""
    return np.arange(int(count), dtype="int32")
