"""The cost of CTC: against the sum over every path, gradients, tiers, values that are odd."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from ctc_paths import every_spelling, predictions, shares
from sampling import every

from kbench import backend as K
from kbench.engine.kernels.ctc import api as kernels
from kbench.engine.ops.ctc import lattice
from kbench.engine.ops.ctc.cost import ctc_cost


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("steps", "classes"), [(1, 2), (4, 2), (5, 3), (4, 4), (3, 1)])
def test_cost_is_the_sum_over_every_path(steps: int, classes: int, seed: int) -> None:
    """Of every sequence of up to 4 labels, those that cannot be spelled included."""
    y_pred = predictions(seed, steps, classes)
    wanted = every_spelling(shares(y_pred))
    labels = [
        one
        for length in range(min(4, steps + 1) + 1)
        for one in itertools.product(range(classes - 1), repeat=length)
    ]
    padded = np.full((len(labels), 4), -1)
    for row, one in enumerate(labels):
        padded[row, : len(one)] = one
    lengths = [[len(one)] for one in labels]
    cost = K.ctc_batch_cost(
        padded, np.stack([y_pred] * len(labels)), [[steps]] * len(labels), lengths
    )
    value = K.eval(cost)
    assert value.shape == (len(labels), 1)
    assert np.allclose(np.exp(-value[:, 0]), [wanted.get(one, 0.0) for one in labels], 1e-12)
    assert np.isclose(sum(wanted.values()), 1)


def test_rows_without_steps_or_labels() -> None:
    cost = K.ctc_batch_cost(np.zeros((2, 0)), np.full((2, 3, 2), 0.5), [0, 3], [0, 0])
    assert np.allclose(K.eval(cost), [[0], [3 * np.log(2)]])
    empty = K.ctc_batch_cost(np.zeros((0, 2)), np.zeros((0, 3, 2)), [], [])
    assert K.eval(empty).shape == (0, 1)


# ------------------------------------------------------------------ gradients and values


def operands(seed: int, rows: int, steps: int, classes: int, labels: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, labels + 1, rows)
    return [
        random.integers(0, classes - 1, (rows, labels)),
        predictions(seed, rows, steps, classes),
        random.integers(2 * labels, steps + 1, (rows, 1)),
        lengths[:, None],
    ]


@pytest.mark.parametrize("known", [True, False])
def test_gradient_and_second_derivative(known: bool) -> None:
    """Against central differences of the cost, and of the gradient along a direction."""
    y_true, y_pred, steps, lengths = operands(3, 3, 7, 4, 3)
    lengths[0], lengths[1] = 0, 3
    x = K.placeholder(y_pred.shape if known else (None,) * 3, dtype="float64")
    cost = K.ctc_batch_cost(y_true, x, steps, lengths)
    weights = np.array([[1.0], [-0.5], [2.0]])
    loss = K.sum(cost * K.constant(weights, dtype="float64"))
    (gradient,) = K.gradients(loss, x)
    direction = np.random.default_rng(1).normal(size=y_pred.shape)
    (bend,) = K.gradients(K.sum(gradient * K.constant(direction, dtype="float64")), x)
    run = K.function([x], [loss, gradient, bend])
    step, first, second = 1e-6, np.zeros_like(y_pred), np.zeros_like(y_pred)
    for index in np.ndindex(*y_pred.shape):
        sides = []
        for sign in (1, -1):
            moved = y_pred.copy()
            moved[index] += sign * step
            sides.append(run([moved]))
        first[index] = (sides[0][0] - sides[1][0]) / (2 * step)
        second[index] = ((sides[0][1] - sides[1][1]) * direction).sum() / (2 * step)
    _, got, bent = run([y_pred])
    np.testing.assert_allclose(got, first, 1e-6, 1e-7)
    np.testing.assert_allclose(bent, second, 1e-5, 1e-6)
    after = np.arange(7) >= steps
    assert not got[after].any()
    assert not bent[after].any()


def test_the_third_derivative_is_refused() -> None:
    x = K.placeholder((1, 4, 3))
    cost = K.sum(K.ctc_batch_cost([[0]], x, [4], [1]))
    (first,) = K.gradients(cost, x)
    (second,) = K.gradients(K.sum(first * first), x)
    with pytest.raises(K.GradientError, match="ctc_bend"):
        K.gradients(K.sum(second), x)


def test_rows_that_cannot_be_spelled_cost_infinity_and_have_no_slope() -> None:
    x = K.variable(predictions(0, 3, 3, 3))
    cost = K.ctc_batch_cost([[0, 1, 0, 1], [0, 0, -1, -1], [0, 1, 0, -1]], x, [3, 2, 3], [4, 2, 3])
    value, gradient = K.function([], [cost, K.gradients(K.sum(cost), x)[0]])([])
    assert np.isinf(value[:2]).all()
    assert np.isfinite(value[2])
    assert not gradient[:2].any()
    assert gradient[2].any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_and_forms_of_the_lengths(dtype: str) -> None:
    y_true, y_pred, steps, lengths = operands(5, 4, 9, 5, 3)
    wanted = K.eval(K.ctc_batch_cost(y_true, y_pred, steps, lengths))
    x = K.variable(y_pred, dtype=dtype)
    for kind in (lambda one: one, lambda one: one[:, 0], lambda one: one.astype("float32")):
        cost = K.ctc_batch_cost(y_true.astype("float32"), x, kind(steps), kind(lengths))
        assert K.dtype(cost) == dtype
        value, gradient = K.function([], [cost, K.gradients(K.sum(cost), x)[0]])([])
        assert value.dtype == gradient.dtype == dtype
        tolerance = {"float16": 5e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(value, wanted, tolerance, tolerance)
    _, score = K.ctc_decode(x, steps)
    assert K.dtype(score) == K.eval(score).dtype == dtype


@pytest.mark.slow
def test_long_rows_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 equal steps: the number of paths is known, and far beyond what a float can hold."""
    from scipy.special import gammaln

    time, classes, count = 20_000, 3, 50
    y_true = np.tile([0, 1], count // 2)[None]
    y_pred = np.full((1, time, classes), 1 / 3)
    n, k = time + count, 2 * count  # ways to lay out labels that all differ from their neighbours
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    for mode in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", mode)
        x = K.variable(y_pred, dtype="float64")
        cost = K.ctc_batch_cost(y_true, x, [time], [count])
        value, gradient = K.function([], [cost, K.gradients(cost, x)[0]])([])
        assert value[0, 0] == pytest.approx(time * np.log(classes) - ways, rel=1e-12)
        assert abs(gradient.sum(axis=2)).max() < 1e-8


def test_nan_stays_in_its_row() -> None:
    y_true, y_pred, steps, lengths = operands(2, 3, 8, 4, 2)
    y_pred[1, 0, 0] = np.nan
    x = K.variable(y_pred, dtype="float64")
    cost = K.ctc_batch_cost(y_true, x, steps, lengths)
    value, gradient = K.function([], [cost, K.gradients(K.sum(cost), x)[0]])([])
    assert np.isnan(value[:, 0]).tolist() == [False, True, False]
    assert np.isnan(gradient[1]).any()
    assert np.isfinite(gradient[[0, 2]]).all()


# ------------------------------------------------------------------ tiers


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
@pytest.mark.parametrize(("group", "tile"), [(1, 1e-5), (1 << 23, 1e-9), (1 << 23, 1.0)])
def test_compiled_equals_numpy(
    dtype: str, group: int, tile: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs and gradients of rows of every kind: at once, one by one, and cut in time."""
    monkeypatch.setattr(kernels, "TILE_SECONDS", tile)
    monkeypatch.setattr(kernels, "MAX_SCRATCH_NUMBERS", group)
    monkeypatch.setattr(lattice, "MAX_KEPT_CELLS", group)
    y_true, y_pred, steps, lengths = operands(7, 9, 60, 20, 12)
    y_pred = y_pred.astype(dtype)
    steps[0], lengths[1], y_pred[2, 5] = 3, 0, np.nan
    y_true[3:5] = 1
    y_pred[6] = np.roll(np.eye(20), 1, axis=0)[np.arange(60) % 20]  # hard zeros and ones
    results = {}
    for mode in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", mode)
        x = K.placeholder(y_pred.shape, dtype=dtype)
        cost = K.ctc_batch_cost(y_true, x, steps, lengths)
        run = K.function([x], [cost, K.gradients(K.sum(cost), x)[0]])
        with K.record() as runs:
            results[mode] = run([y_pred])
        forms = {step.label: step.form for step in runs[-1].steps}
        wanted = "library" if mode == "wait" else "numpy"
        assert forms["ctc_cost_and_slope"] == wanted
    assert np.isinf(results["off"][0]).any()
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    for one, other in zip(results["off"], results["wait"], strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance)


def test_the_blank_is_a_label_on_every_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cost and gradient are those of a class that is like the blank in every step."""
    y_true, y_pred, steps, lengths = operands(3, 5, 60, 20, 12)
    logits = np.log(y_pred + 1e-3)
    y_true[:, 2:5] = y_true[:2, 6] = 19
    twice = np.concatenate([logits, logits[:, :, -1:]], axis=2)
    share = np.exp(logits[:, :, -1]) / np.exp(logits).sum(axis=2)
    running = np.arange(60) < np.ravel(steps)[:, None]
    whole = [K.constant(one, dtype="float64") for one in (twice, y_true, steps, lengths)]
    wanted = K.eval(ctc_cost(*whole))[:, 0]
    wanted = wanted - (np.log1p(share) * running).sum(axis=1)  # the classes of `twice` sum to more
    results = {}
    for mode in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", mode)
        x = K.placeholder(logits.shape, dtype="float64")
        cost = ctc_cost(x, *map(K.constant, (y_true, steps, lengths)))
        results[mode] = K.function([x], [cost, K.gradients(K.sum(cost), x)[0]])([logits])
        np.testing.assert_allclose(results[mode][0][:, 0], wanted, 1e-9)
    np.testing.assert_allclose(results["off"][1], results["wait"][1], 1e-9, 1e-12)


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_wrong_values_are_refused_on_every_tier(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any kernel sees them: an index outside would read foreign memory."""
    monkeypatch.setenv("KBENCH_JIT", mode)
    good = operands(1, 4, 40, 20, 5)
    inputs = [K.placeholder(ndim=one.ndim, dtype=one.dtype.name) for one in good]
    run = K.function(inputs, [K.ctc_batch_cost(*inputs)])
    run(good)
    for position, value, text in (
        (0, 19, "row 2: label 19 at position 0"),
        (0, -1, "row 2: label -1"),
        (0, 2**40, "out of range"),
        (2, 41, "row 2: input_length is 41"),
        (2, -1, "row 2: input_length is -1"),
        (3, 6, "row 2: label_length is 6"),
    ):
        wrong = [one.copy() for one in good]
        wrong[3][2] = max(1, wrong[3][2, 0])
        wrong[position][2, 0] = value
        with pytest.raises(K.ArgumentError, match=text):
            run(wrong)


def test_kernels_check_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    kernel = kernels.find("cost", "float32")
    assert kernel is not None
    x, out = np.zeros((2, 4, 3), "float32"), np.zeros(2, "float32")
    numbers = np.array([[0, 1], [1, 1]])
    states, skips = lattice.states_of(numbers, np.array([2, 1]), 3)
    good: list[Any] = [out, x, np.array([4, 4]), np.array([4, 2]), states, skips]
    kernel(*good, None)
    for position, wrong in (
        (0, np.zeros(3, "float32")),
        (1, x.astype("float64")),
        (2, np.array([5, 4])),
        (3, np.array([4, 5])),
        (4, states + 3),
        (5, skips[:, :-1]),
    ):
        with pytest.raises(ValueError, match="expected|fit|outside"):
            kernel(*[wrong if i == position else one for i, one in enumerate(good)], None)


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_a_row_beyond_memory_is_refused(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbench.engine.core import memory_limit

    monkeypatch.setenv("KBENCH_JIT", mode)
    monkeypatch.setattr(memory_limit, "MIN_CHECKED_BYTES", 1 << 16)
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 1 << 21)
    x = K.variable(np.full((2, 2000, 3), 0.3))
    cost = K.ctc_batch_cost(np.zeros((2, 100)), x, [2000, 2000], [1, 1])
    with pytest.raises(K.OutOfMemory, match="2000 steps and 100 labels"):
        K.eval(K.gradients(cost, x)[0])


@pytest.mark.parametrize("name", ["cost", "slope"])
def test_a_long_row_can_be_stopped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel flag is looked at within a row, some hundred times a second."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    kernel = kernels.find(name, "float32")
    assert kernel is not None
    steps = 400_000
    x = np.zeros((1, steps, 3), "float32")
    states, skips = lattice.states_of(np.zeros((1, 30), int), np.array([30]), 3)
    out = np.empty(1 if name == "cost" else x.shape, "float32")
    looked: list[None] = []
    arguments = (out, x, np.array([steps]), np.array([60]), states, skips)
    kernel(*arguments, lambda: looked.append(None))
    assert len(looked) > 2

    def stop() -> None:
        if len(looked) > 1:
            raise KeyboardInterrupt
        looked.append(None)

    looked.clear()
    with pytest.raises(KeyboardInterrupt):
        kernel(*arguments, stop)


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_a_cost_and_its_gradient_share_their_sweep(
    jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    monkeypatch.setenv("KBENCH_LEAST", "1")
    labels, y_pred, steps, lengths = operands(3, 5, 12, 6, 4)
    steps[1], lengths[1], labels[1] = 2, 4, 1  # which no path spells
    x = K.variable(y_pred)
    cost = K.ctc_batch_cost(labels, x, steps, lengths)
    alone = [K.function([], [one])([])[0] for one in (cost, *K.gradients(cost[2:], [x]))]
    with K.record() as runs:
        joined = K.function([], [cost, *K.gradients(cost[2:], [x])])([])
    steps_taken = [step.label for step in runs[-1].steps]
    assert "ctc_cost_and_slope" in steps_taken and "ctc_cost" not in steps_taken
    assert np.isinf(alone[0][1])
    for one, other in zip(alone, joined, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
