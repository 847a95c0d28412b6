"""Products of matrices and running products: pieces, exactness, interrupts, advice on errors."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.engine.core import cancel
from kbench.engine.ops.linear import matmul

RNG = np.random.default_rng(5)

# ------------------------------------------------------------------ x @ y


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, 4), (4, 2)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (5, 4, 2)),
        ((3, 4), (5, 4, 2)),
        ((1, 3, 4), (6, 4, 1)),
        ((0, 3, 4), (0, 4, 2)),
        ((2, 3, 0), (2, 0, 2)),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_matmul(x: tuple[int, ...], y: tuple[int, ...], known: bool) -> None:
    """`@` is NumPy's, with its gradient, whether shapes are known or not."""
    arrays = [RNG.normal(size=x), RNG.normal(size=y)]
    inputs = [
        K.placeholder(one.shape if known else (None,) * one.ndim, dtype="float64") for one in arrays
    ]
    product = inputs[0] @ inputs[1]
    wanted = np.matmul(*arrays)
    outputs = [product, *K.gradients(K.sum(K.square(product)), inputs)]
    value, to_x, to_y = K.function(inputs, outputs)(arrays)
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    step = [1e-6 * RNG.normal(size=one.shape) for one in arrays]
    ahead = (np.matmul(arrays[0] + step[0], arrays[1] + step[1]) ** 2).sum()
    behind = (np.matmul(arrays[0] - step[0], arrays[1] - step[1]) ** 2).sum()
    slope = (to_x * step[0]).sum() + (to_y * step[1]).sum()
    np.testing.assert_allclose(2 * slope, ahead - behind, rtol=1e-6, atol=1e-14)


# ------------------------------------------------------------------ exactness


@pytest.mark.parametrize("shape", [(300, 20, 10), (10, 20, 300), (9, 3000, 8), (65, 64, 63)])
def test_pieces_make_the_whole(shape: tuple[int, int, int], monkeypatch: Any) -> None:
    """A product cut along any axis is the product."""
    monkeypatch.setattr(matmul, "MULTIPLY_ADDS_PER_CANCEL_CHECK", {"f": 4000, "i": 4000})
    rows, inner, columns = shape
    x, y = RNG.normal(size=(rows, inner)), RNG.normal(size=(inner, columns))
    np.testing.assert_allclose(K.eval(K.dot(x, y)), x @ y, rtol=1e-10, atol=1e-12)
    batch = RNG.normal(size=(3, rows, inner)), RNG.normal(size=(3, inner, columns))
    np.testing.assert_allclose(K.eval(K.batch_dot(*batch)), batch[0] @ batch[1], atol=1e-10)
    once = K.eval(K.constant(x[None], dtype="float64") @ K.constant(batch[1], dtype="float64"))
    np.testing.assert_allclose(once, x[None] @ batch[1], atol=1e-10)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("int32", 100), ("int32", 2**30), ("int64", 2**62), ("uint8", 255), ("int8", 127)],
)
def test_integer_products(dtype: str, largest: int) -> None:
    """Integers are exact, and wrap around as NumPy's do."""
    low = 0 if dtype == "uint8" else -largest
    x = RNG.integers(low, largest, (70, 80)).astype(dtype)
    y = RNG.integers(low, largest, (80, 90)).astype(dtype)
    got = K.eval(K.dot(K.constant(x, dtype=dtype), K.constant(y, dtype=dtype)))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x @ y)


def test_half_precision_is_rounded_once() -> None:
    """float16 sums in float32: the error is that of the last rounding."""
    x, y = RNG.uniform(size=(4, 2000)), RNG.uniform(size=(2000, 3))
    first, second = x.astype("float16"), y.astype("float16")
    got = K.eval(K.dot(K.constant(first, dtype="float16"), K.constant(second, dtype="float16")))
    wanted = first.astype(float) @ second.astype(float)
    assert got.dtype == "float16"
    np.testing.assert_allclose(got, wanted, rtol=2.0**-10)


# ------------------------------------------------------------------ what a user sees


def test_an_interrupt_stops_a_large_product() -> None:
    x = K.placeholder((4096, 4096))
    run = K.function([x], [K.dot(K.dot(K.dot(x, x), x), x)])
    value = np.zeros((4096, 4096), np.float32)
    asked: list[float] = []

    def ask() -> None:
        time.sleep(0.2)
        asked.append(time.perf_counter())
        cancel.request()

    thread = threading.Thread(target=ask)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run([value])
    waited = time.perf_counter() - asked[0]
    thread.join()
    assert waited < 0.5  # 50 ms on a quiet machine


@pytest.mark.parametrize(
    ("x", "y", "advice"),
    [
        ((784, 10), (32, 784), "K.dot(y, x) -> (32, 10)"),
        ((3, 4), (5, 4), "K.dot(x, K.transpose(y)) -> (3, 5)"),
        ((3, 4), (3, 5), "K.dot(K.transpose(x), y) -> (4, 5)"),
        ((None, 4), (5, 4), "K.dot(x, K.transpose(y)) -> (?, 5)"),
        ((3, 4), (5, 6), None),
        ((2, 3, 4), (5, 6), None),
    ],
)
def test_advice(x: Any, y: Any, advice: str | None) -> None:
    """A product that does not fit says what would, and where the sizes differ."""
    for product in (K.dot, lambda a, b: a @ b):
        with pytest.raises(K.ShapeError) as caught:
            product(K.placeholder(x, name="a"), K.placeholder(y, name="b"))
        error = caught.value
        assert error.suggestion == advice
        assert [(one.role, one.axis) for one in error.operands] == [("x", -1), ("y", -2)]


# ------------------------------------------------------------------ running products


@pytest.mark.parametrize("zeros", [(), (2,), (0,), (1, 3), (0, 5), (0, 1, 2, 3, 4, 5)])
@pytest.mark.parametrize("lanes", [1, 7])
def test_cumprod_gradients_at_zeros(zeros: tuple[int, ...], lanes: int) -> None:
    """First and second derivatives of a running product are sums of products, zeros or not."""
    x = RNG.uniform(0.5, 2, size=(6, lanes))
    x[list(zeros)] = 0
    weights = RNG.normal(size=(6, lanes))
    node = K.variable(x, dtype="float64")
    loss = K.sum(K.cumprod(node) * K.constant(weights, dtype="float64"))
    (first,) = K.gradients(loss, node)
    direction = RNG.normal(size=(6, lanes))
    (second,) = K.gradients(K.sum(first * K.constant(direction, dtype="float64")), node)

    def without(omitted: set[int], lane: int) -> float:
        kept = np.array([1.0 if i in omitted else x[i, lane] for i in range(6)])
        last = max(omitted)
        return float((np.cumprod(kept) * weights[:, lane])[last:].sum())

    slopes = [[without({i}, lane) for lane in range(lanes)] for i in range(6)]
    bends = [
        [
            sum(direction[j, lane] * without({i, j}, lane) for j in range(6) if j != i)
            for lane in range(lanes)
        ]
        for i in range(6)
    ]
    np.testing.assert_allclose(K.eval(first), slopes, atol=1e-10)
    np.testing.assert_allclose(K.eval(second), bends, atol=1e-10)
