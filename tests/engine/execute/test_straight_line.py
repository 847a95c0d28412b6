"""Small plans as one function: the very values of their steps, whatever they are made of."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import kbench as K
from kbench.engine.core.errors import KbenchError
from kbench.engine.execute.executable import RUNS_BEFORE_STRAIGHT, Executable
from kbench.engine.execute.function import Function
from kbench.engine.graph.apply import apply
from kbench.engine.graph.declare import BARE
from kbench.engine.graph.expr.numpy_form import BLOCK
from kbench.engine.graph.op import REGISTRY, Op

RNG = np.random.default_rng(5)
CALLS = RUNS_BEFORE_STRAIGHT + 4
"""Calls of a function, of which the last two are made by one function."""
ELEMENTWISE = sorted((op for op in REGISTRY.values() if op.numpy in BARE), key=lambda op: op.name)


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (3 * RNG.normal(size=shape)).astype(dtype)


def executable_of(function: Function) -> Executable:
    assert function._steady is not None
    return function._steady.executable


def checked(function: Function, feeds: Callable[[], list[np.ndarray]]) -> bool:
    """Calls it, each time beside one that knows of no call before; whether the last was straight.

    Results are compared to the bit, and belong to nobody else.
    """
    earlier: list[np.ndarray] = []
    for _ in range(CALLS):
        given = feeds()
        results = function(given)
        fresh = Function(function.inputs, function.outputs)
        for got, want in zip(results, fresh(given), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert got.tobytes() == want.tobytes()
        assert not any(np.may_share_memory(a, b) for a in results for b in earlier + given)
        earlier = results
    return executable_of(function)._straight is not None


def applied(op: Op, dtype: str) -> tuple[list[K.Tensor], K.Tensor] | None:
    """Operands of an operation and its result; None where NumPy does not give it for this dtype,
    which the public function has then converted."""
    inputs = [K.placeholder((2, 5), dtype=dtype) for _ in op.names]
    try:
        result = apply(op, *inputs)
        Function(inputs, [result])([drawn(2, 5, dtype=dtype) for _ in op.names])
    except (KbenchError, TypeError):
        return None
    return inputs, result


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_elementwise_operation(op: Op) -> None:
    made = [(dtype, applied(op, dtype)) for dtype in ("float32", "float64", "int32", "bool")]
    found = [(dtype, *one) for dtype, one in made if one is not None]
    straight = []
    for dtype, inputs, result in found:
        function = K.function(inputs, [result])
        feeds = lambda dtype=dtype: [drawn(2, 5, dtype=dtype) for _ in op.names]  # noqa: E731
        straight.append(checked(function, feeds))
    assert found and all(straight)


def _ten() -> tuple[list[K.Tensor], list[K.Tensor]]:
    x = K.placeholder((10,))
    y = K.tanh(x * 2.0 + 1.0) - x
    y = K.exp(-(K.square(y) / 3.0)) + x
    return [x], [K.sqrt(K.square(y) + 1.0)]


def _several() -> tuple[list[K.Tensor], list[K.Tensor]]:
    """Results that others are made of, broadcast operands, results of several dtypes."""
    x, row = K.placeholder((4, 3)), K.placeholder((3,))
    y = x * row
    z = K.exp(y) - 1.0
    return [x, row], [z, y, K.greater(z, y), K.switch(K.greater(z, y), z, y) + row]


def _unneeded() -> tuple[list[K.Tensor], list[K.Tensor]]:
    x, y, z = (K.placeholder((6,)) for _ in range(3))
    return [x, y, z], [y * 2.0 - 1.0]


def _scalars() -> tuple[list[K.Tensor], list[K.Tensor]]:
    x, y = K.placeholder(()), K.placeholder(())
    return [x, y], [x * y + 1.0, K.maximum(x, y)]


@pytest.mark.parametrize("build", [_ten, _several, _unneeded, _scalars])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compositions(build: Callable[..., tuple[list, list]], dtype: str) -> None:
    before = K.floatx()
    K.set_floatx(dtype)
    try:
        inputs, outputs = build()
        shapes = [K.int_shape(node) for node in inputs]
        feeds = lambda: [np.asarray(drawn(*shape, dtype=dtype)) for shape in shapes]  # noqa: E731
        assert checked(K.function(inputs, outputs), feeds)
    finally:
        K.set_floatx(before)


def test_operands_in_other_orders_and_with_infinities() -> None:
    inputs, outputs = _several()
    function = K.function(inputs, outputs)
    wild = drawn(4, 3)
    wild[0] = np.inf, -np.inf, np.nan
    orders = [np.asfortranarray(wild), wild[::-1], np.repeat(wild, 2, 0)[::2], wild]
    place = iter(range(10**6))
    with np.errstate(all="raise"):  # what a plan keeps off
        assert checked(function, lambda: [orders[next(place) % 4], drawn(6)[::2]])


def test_variables_are_those_of_now() -> None:
    x, w, b = K.placeholder((4,)), K.variable(np.zeros(4)), K.variable(1.0)
    function = K.function([x], [x * w + b, w - b])
    for number in range(CALLS):
        K.set_value(w, np.full(4, number))
        K.set_value(b, number / 2)
        given = drawn(4)
        found = function([given])
        np.testing.assert_array_equal(found[0], given * np.float32(number) + np.float32(number / 2))
        np.testing.assert_array_equal(found[1], np.full(4, number / 2, "float32"))
    assert executable_of(function)._straight is not None


def test_other_shapes_have_a_line_of_their_own() -> None:
    x = K.placeholder((None, 3))
    function = K.function([x], [K.exp(x) * 2.0])
    for rows in (2, 5, 2, 1, 5):
        assert checked(function, lambda rows=rows: [drawn(rows, 3)])


NOT_STRAIGHT = {
    "a sum": lambda x: K.sum(x * 2.0),
    "a product": lambda x: K.dot(x, x) + 1.0,
    "a view": lambda x: K.reshape(x, (-1,)) + 1.0,
    "a long array": lambda x: K.tile(x, (BLOCK, 1)) + 1.0,
    "float16": lambda x: K.cast(x, "float16") * 2.0,
    "random numbers": lambda x: x + K.random_uniform((3, 3)),
}


@pytest.mark.parametrize("what", NOT_STRAIGHT)
def test_what_is_more_than_small_steps_stays_as_it_is(what: str) -> None:
    x = K.placeholder((3, 3))
    function = K.function([x], [NOT_STRAIGHT[what](x)])
    for _ in range(CALLS):
        (result,) = function([drawn(3, 3)])
        assert np.isfinite(result).all()
    steady = function._steady
    assert steady is None or steady.executable._straight is None


def test_recordings_tell_of_each_step() -> None:
    inputs, outputs = _ten()
    function = K.function(inputs, outputs)
    for _ in range(CALLS):
        function([drawn(10)])
    with K.record() as runs:
        function([drawn(10)])
    assert len(runs[0].steps) == len(executable_of(function).steps) >= 10


def test_threads_do_not_mix_their_values() -> None:
    inputs, outputs = _ten()
    function = K.function(inputs, outputs)
    fed = [drawn(10) for _ in range(4)]
    wanted = [function([array])[0] for array in fed]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            if not np.array_equal(function([fed[number]])[0], wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
