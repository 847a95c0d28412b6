"""Gradients where finite differences say little: ties, zeros, infinities, casts, None, sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K

INF = float("inf")

# (name, function of x, x, derivative of the sum)
ROWS: list[tuple[str, Callable[[Any], Any], list[float], list[float]]] = [
    ("abs at 0", K.abs, [-2, 0, 3], [-1, 0, 1]),
    ("sign", K.sign, [-2, 0, 3], [0, 0, 0]),
    ("relu at 0", K.relu, [-1, 0, 1], [0, 0, 1]),
    ("sqrt at 0", K.sqrt, [4, 0, -1], [0.25, INF, 0]),
    ("clip on the bounds", lambda x: K.clip(x, -1, 1), [-2, -1, 0, 1, 2], [0, 1, 1, 1, 0]),
    ("maximum tie", lambda x: K.maximum(x, 1.0), [0, 1, 2], [0, 1, 1]),
    ("maximum tie, second", lambda x: K.maximum(1.0, x), [0, 1, 2], [0, 0, 1]),
    ("minimum tie", lambda x: K.minimum(x, 1.0), [0, 1, 2], [1, 1, 0]),
    ("max tie", K.max, [3, 1, 3], [0.5, 0, 0.5]),
    ("min tie", K.min, [1, 1, 1, 5], [1 / 3, 1 / 3, 1 / 3, 0]),
    ("prod, one zero", K.prod, [2, 0, 3], [0, 6, 0]),
    ("prod, two zeros", K.prod, [0, 0, 3], [0, 0, 0]),
    ("cumprod, a zero", lambda x: K.cumprod(x, 0), [2, 0, 3], [1, 8, 0]),
    ("x ** 0", lambda x: x**0, [-1, 0, 2], [0, 0, 0]),
    ("x ** 1", lambda x: x**1, [-1, 0, 2], [1, 1, 1]),
    ("x ** 2", lambda x: x**2, [-1, 0, 2], [-2, 0, 4]),
    ("x ** 3 below 0", lambda x: x**3, [-1, 0, 2], [3, 0, 12]),
    ("2 ** x", lambda x: 2**x, [0, 1], [np.log(2), 2 * np.log(2)]),
    ("0 ** x", lambda x: 0**x, [1, 2], [0, 0]),
    ("1 / x", lambda x: 1 / x, [2, -1], [-0.25, -1]),
    ("x % 3", lambda x: x % 3, [1, 4], [1, 1]),
    ("7 % x", lambda x: 7 % x, [2.0, 5.0], [-3, -1]),
    ("x // 2", lambda x: x // 2 + x, [1, 4], [1, 1]),
    ("used twice", lambda x: x * x + x, [1, 2], [3, 5]),
    ("gather repeats", lambda x: K.gather(x, [0, 0, 2]), [1, 2, 3], [2, 0, 1]),
    ("x[::-1] * x", lambda x: x[::-1] * x, [1, 2, 3], [6, 4, 2]),
    ("softplus far out", K.softplus, [-200, 0, 200], [0, 0.5, 1]),
    ("sigmoid far out", K.sigmoid, [-200, 0, 200], [0, 0.25, 0]),
    ("softmax sums to 1", lambda x: K.softmax(x), [1, 2, 3], [0, 0, 0]),
    ("logsumexp of -inf", K.logsumexp, [-INF, 0], [0, 1]),
    ("logsumexp far out", K.logsumexp, [1000, 1000], [0.5, 0.5]),
    ("l2_normalize of 0", lambda x: K.l2_normalize(x, 0), [0, 0], [1e6, 1e6]),
    ("stop_gradient", lambda x: K.stop_gradient(x) * x, [2, 3], [2, 3]),
    ("untaken infinity", lambda x: K.sqrt(K.maximum(x, 0.0)), [-1, 4], [0, 0.25]),
    ("switch keeps NaN out", lambda x: K.switch(x > 0, K.log(x), x), [-1, 2], [1, 0.5]),
    ("float32 inside", lambda x: K.cast(K.cast(x, "float32") * 2, "float64"), [1, 2], [2, 2]),
    ("through integers", lambda x: K.cast(K.cast(x, "int32"), "float64") + x, [1, 2], [1, 1]),
    ("bias of a mask", lambda x: K.cast(x > 1, "float64") * x, [1, 2], [0, 1]),
]


@pytest.mark.parametrize(("name", "function", "at", "wanted"), ROWS, ids=[row[0] for row in ROWS])
def test_row(name: str, function: Any, at: list[float], wanted: list[float]) -> None:
    x = K.variable(np.array(at), dtype="float64")
    (gradient,) = K.gradients(function(x), x)
    np.testing.assert_allclose(K.eval(gradient), wanted, 1e-6, 1e-9)
    y = K.placeholder((None,), dtype="float64")
    (gradient,) = K.gradients(K.sum(function(y)), [y])
    np.testing.assert_allclose(K.function([y], [gradient])([at])[0], wanted, 1e-6, 1e-9)


def test_what_the_loss_does_not_reach_is_none() -> None:
    a, b, c = K.variable(1.0), K.variable(2.0), K.placeholder(())
    found = K.gradients(a * 2, [a, b, c, a])
    assert found[1] is None and found[2] is None
    assert K.eval(found[0]) == K.eval(found[3]) == 2.0
    assert K.gradients(K.cast(a, "int32"), [a]) == [None]
    assert K.gradients(K.stop_gradient(a), [a]) == [None]
    assert K.gradients(K.round(a), [a]) == [None]


def test_the_loss_itself_and_what_lies_between() -> None:
    x = K.variable([1.0, 2.0])
    middle = K.exp(x)
    loss = K.sum(middle * 3)
    of_loss, of_middle, of_x = K.gradients(loss, [loss, middle, x])
    assert K.eval(of_loss) == 1.0
    assert K.eval(of_middle).tolist() == [3.0, 3.0]
    np.testing.assert_allclose(K.eval(of_x), 3 * np.exp([1.0, 2.0]), 1e-6)


def test_a_loss_that_is_no_scalar_is_summed() -> None:
    x = K.variable([[1.0, 2.0], [3.0, 4.0]])
    assert K.eval(K.gradients(x * x, x)[0]).tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_broadcasting_is_undone() -> None:
    x, row, scalar = K.variable(np.ones((4, 3))), K.variable([1.0, 2.0, 3.0]), K.variable(2.0)
    column = K.variable(np.ones((4, 1)))
    found = K.gradients(x * row * column + scalar, [x, row, column, scalar])
    shapes = [(4, 3), (3,), (4, 1), ()]
    for gradient, shape in zip(found, shapes, strict=True):
        assert K.int_shape(gradient) == shape == K.eval(gradient).shape
    assert K.eval(found[1]).tolist() == [4.0, 4.0, 4.0]
    assert K.eval(found[2]).tolist() == [[6.0]] * 4
    assert K.eval(found[3]) == 12.0


def test_dtypes_follow_the_variables() -> None:
    half, single = K.variable([1.0, 2.0], "float16"), K.variable([3.0, 4.0], "float32")
    double = K.variable([5.0, 6.0], "float64")
    found = K.gradients(half * single * double, [half, single, double])
    assert [K.dtype(one) for one in found] == ["float16", "float32", "float64"]
    assert [K.eval(one).dtype.name for one in found] == ["float16", "float32", "float64"]
    assert K.eval(found[2]).tolist() == [3.0, 8.0]


def test_only_the_branch_taken_has_a_gradient() -> None:
    flag, x = K.placeholder((), dtype="bool"), K.variable(3.0)
    (gradient,) = K.gradients(K.switch(flag, x * x, x * 5), x)
    compiled = K.function([flag], [gradient])
    assert (compiled([True])[0], compiled([False])[0]) == (6.0, 5.0)


def test_the_phase_decides_in_the_gradient_too() -> None:
    x = K.variable([2.0])
    (gradient,) = K.gradients(K.in_train_phase(x * x, x), x)
    compiled = K.function([K.learning_phase()], [gradient])
    assert (compiled([1])[0].item(), compiled([0])[0].item()) == (4.0, 1.0)


def test_dropout_uses_one_mask_both_ways() -> None:
    x = K.variable(np.ones(1000))
    kept = K.dropout(x, 0.5, seed=1)
    value, gradient = K.function([], [kept, K.gradients(kept, x)[0]])([])
    np.testing.assert_array_equal(value, gradient)
    assert 0 < np.count_nonzero(value) < 1000


def test_shared_nodes_are_visited_once() -> None:
    x = K.variable(1.0, "float64")
    y = x
    for _ in range(60):
        y = y + y
    assert K.eval(K.gradients(y, x)[0]) == 2.0**60


def test_higher_derivatives() -> None:
    x = K.variable(0.5, "float64")
    y = K.sin(x)
    values = []
    for _ in range(4):
        (y,) = K.gradients(y, x)
        values.append(K.eval(y))
    wanted = [np.cos(0.5), -np.sin(0.5), -np.cos(0.5), np.sin(0.5)]
    np.testing.assert_allclose(values, wanted, 1e-12)


def test_mixed_second_derivatives() -> None:
    a, b = K.variable(2.0, "float64"), K.variable(3.0, "float64")
    by_a = K.gradients(a * a * b * b * b, a)[0]
    assert K.eval(K.gradients(by_a, b)[0]) == pytest.approx(2 * 2 * 3 * 9)


def test_an_update_has_no_gradient() -> None:
    v = K.variable(1.0)
    with pytest.raises(K.GradientError, match="update .* is not differentiable"):
        K.gradients(K.update(v, v * 2) * 1.0, [v])
    assert K.get_value(v) == 1.0


def test_stop_gradient_takes_lists() -> None:
    a, b = K.variable(1.0), K.variable(2.0)
    stopped = K.stop_gradient([a, b])
    assert isinstance(stopped, list)
    assert K.gradients(stopped[0] + stopped[1] * b, [a, b])[0] is None


def _root_or_zero(s: Any) -> Any:
    return K.switch(s > 0, lambda: K.sqrt(s), lambda: s * 0)


def _nested(s: Any) -> Any:
    inner = lambda: K.switch(s > 2, lambda: K.log(s - 2), lambda: s * s)  # noqa: E731
    return K.switch(s > 0, inner, lambda: K.sqrt(-s))


@pytest.mark.parametrize(
    ("build", "slopes"),
    [
        (_root_or_zero, {0.0: (0, 0), 4.0: (0.25, -1 / 32)}),
        (_nested, {1.0: (2, 2), 2.0: (4, 2), 4.0: (0.5, -0.25), -4.0: (-0.25, -1 / 32)}),
        (lambda s: _root_or_zero(s) * s + _nested(s), {0.25: (1.25, 3.5)}),
        (lambda s: K.switch(K.constant(0) > 1, K.log(s), s * s * s), {0.0: (0, 0), 2.0: (12, 12)}),
    ],
)
def test_the_side_of_a_switch_that_is_not_taken_does_no_harm(
    build: Callable[[Any], Any], slopes: dict[float, tuple[float, float]]
) -> None:
    s = K.placeholder((), dtype="float64")
    (first,) = K.gradients(build(s), s)
    (second,) = K.gradients(first, s)
    run = K.function([s], [first, second])
    for at, wanted in slopes.items():
        np.testing.assert_allclose(run([at]), wanted, 1e-12)


def test_a_variable_that_only_the_other_side_reads_has_no_slope() -> None:
    s, w = K.placeholder(()), K.variable(0.0)
    y = K.switch(s > 0, lambda: K.sqrt(w) + s, lambda: s)
    assert K.function([s], K.gradients(y, [w]))([-1.0]) == [0.0]
    inside = w * 1.0
    y = K.switch(s > 0, lambda: K.sqrt(inside), lambda: s)
    assert K.function([s], K.gradients(y, [inside]))([-1.0]) == [0.0]


LONG = 70_000
SHARED = {  # many cells that were made of one: their gradients are summed in float32
    "tile": lambda x: K.tile(x, (LONG, 1)),
    "repeat_elements": lambda x: K.repeat_elements(x, LONG, 0),
    "gather": lambda x: K.gather(x, K.zeros((LONG,), dtype="int32")),
    "broadcast": lambda x: x * K.ones((LONG, 3), dtype="float16"),
    "broadcast on two axes": lambda x: x * K.ones((LONG // 2, 2, 1, 3), dtype="float16"),
    "concatenate": lambda x: K.concatenate([x] * 7) * K.ones((LONG // 7, 1), dtype="float16"),
    "bias_add": lambda x: K.bias_add(K.zeros((LONG, 3), dtype="float16"), x[0]),
}


@pytest.mark.parametrize("mode", ["off", "wait"])
@pytest.mark.parametrize("name", SHARED)
def test_gradients_of_float16_do_not_stall(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    x = K.variable(np.ones((1, 3)), dtype="float16")
    (slope,) = K.gradients(SHARED[name](x) * 0.001, [x])
    wanted = LONG * float(np.float16(0.001))
    np.testing.assert_allclose(K.eval(slope).astype("float64"), [[wanted] * 3], 2e-3)


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("rows", [(5,), (None,), (5, 1), (None, None)])
@pytest.mark.parametrize("jit", ["off", "wait"])
def test_an_ignored_class_has_no_loss_and_no_gradient(
    logits: bool, rows: Any, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number need not be that of a class, its row may hold what has no loss at all."""
    monkeypatch.setenv("KBENCH_JIT", jit)
    classes = np.array([0, 255, 2, 255, 1])
    values = np.random.default_rng(3).uniform(0.1, 0.9, (5, 3)).astype("float32")
    target, output = K.placeholder(rows), K.placeholder((None, 3))
    loss = K.sparse_categorical_crossentropy(target, output, logits, ignore_class=255)
    plain = K.sparse_categorical_crossentropy(target, output, logits)
    both = K.function([target, output], [loss, *K.gradients(K.sum(loss), [output])])
    kept = K.function([target, output], [plain, *K.gradients(K.sum(plain), [output])])
    shaped = classes.reshape(5, 1) if len(rows) == 2 else classes
    broken = values.copy()
    broken[1], broken[3] = np.nan, [np.inf, -np.inf, 0.0]
    wanted = kept([np.where(shaped == 255, 0, shaped), values])
    for found, right in zip(both([shaped, broken]), wanted, strict=True):
        np.testing.assert_allclose(found[[0, 2, 4]], right[[0, 2, 4]], rtol=1e-6)
        assert not found[[1, 3]].any() and np.isfinite(found).all()
