"""CTC: cost and decoding against the sum over every path, gradients, tiers, values that are odd."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.kernels import ctc as kernels
from kbench.engine.ops import ctc_lattice

EPSILON = 1e-7

# ------------------------------------------------------------------ every path


def shares(y_pred: np.ndarray) -> np.ndarray:
    """The probabilities that Keras' cost works with: y_pred + epsilon, summing to 1."""
    raised = y_pred.astype(np.float64) + EPSILON
    return raised / raised.sum(axis=-1, keepdims=True)


def spelled(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Repeats merged, then blanks dropped."""
    return tuple(one for one, _ in itertools.groupby(path) if one != blank)


def every_spelling(probability: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of labels, summed over all classes ** steps paths."""
    steps, classes = probability.shape
    totals: dict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(classes), repeat=steps):
        chance = np.prod([probability[t, k] for t, k in enumerate(path)])
        totals[spelled(path, classes - 1)] += float(chance)
    return totals


def predictions(seed: int, *shape: int, sharp: float = 1.5) -> np.ndarray:
    """Probabilities in float64, the sharper the farther from equal."""
    x = np.exp(np.random.default_rng(seed).normal(0, sharp, shape))
    return np.asarray(x / x.sum(axis=-1, keepdims=True))


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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("steps", "classes"), [(1, 3), (4, 2), (5, 3), (4, 4)])
def test_a_wide_beam_finds_the_likeliest_spellings(steps: int, classes: int, seed: int) -> None:
    """With a beam that drops nothing, order and probabilities are those of all paths."""
    y_pred = predictions(seed, steps, classes)[None]
    wanted = sorted(every_spelling(shares(y_pred[0])).items(), key=lambda one: -one[1])
    paths = len(wanted)
    labels, score = K.ctc_decode(y_pred, [steps], greedy=False, beam_width=999, top_paths=paths)
    values = K.function([], [*labels, score])([])
    found = [tuple(one for one in row[0].tolist() if one >= 0) for row in values[:-1]]
    assert found == [one for one, _ in wanted]
    assert np.allclose(np.exp(values[-1][0]), [chance for _, chance in wanted], 1e-12)


def narrow(probability: np.ndarray, width: int) -> list[tuple[int, ...]]:
    """Prefix beam search by a dictionary of beginnings: another way to write the same rule."""
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    blank = probability.shape[1] - 1
    for step in probability:
        grown: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for one, (ends_blank, ends_label) in beam.items():
            grown[one][0] += (ends_blank + ends_label) * step[blank]
            for k in range(blank):
                if one and one[-1] == k:
                    grown[one][1] += ends_label * step[k]
                    grown[(*one, k)][1] += ends_blank * step[k]
                else:
                    grown[(*one, k)][1] += (ends_blank + ends_label) * step[k]
        best = sorted(grown.items(), key=lambda item: -sum(item[1]))[:width]
        beam = {one: (a, b) for one, (a, b) in best}
    return sorted(beam, key=lambda one: -sum(beam[one]))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_beam_keeps_the_best_beginnings(width: int, seed: int) -> None:
    y_pred = predictions(seed, 14, 4, sharp=1.0)
    paths = min(width, 3)
    labels, _ = K.ctc_decode(y_pred[None], [14], False, width, paths)
    found = [tuple(K.eval(one)[0].tolist()) for one in labels]
    assert found == narrow(shares(y_pred), width)[:paths]


# ------------------------------------------------------------------ decoding


def test_greedy_merges_repeats_and_drops_blanks() -> None:
    path = [[0, 0, 3, 0, 1, 1, 2, 3], [3, 3, 3, 3, 3, 3, 3, 3], [2, 1, 1, 3, 1, 0, 0, 0]]
    y_pred = np.eye(4)[path] * 0.9 + 0.02
    labels, score = K.ctc_decode(y_pred, [8, 8, 6])
    assert len(labels) == 1
    assert K.int_shape(labels[0]) == (3, None)
    assert K.int_shape(score) == (3, 1)
    value, scores = K.function([], [labels[0], score])([])
    assert value.tolist() == [[0, 0, 1, 2], [-1] * 4, [2, 1, 1, 0]]
    assert value.dtype == np.int64
    assert np.allclose(scores[:, 0], -np.log(0.92 + EPSILON) * np.array([8, 8, 6]))


def test_merge_repeated_merges_what_a_blank_parted() -> None:
    y_pred = np.eye(3)[[[0, 2, 0, 1]]] * 0.9 + 0.02
    for merge, wanted in ((False, [[0, 0, 1]]), (True, [[0, 1]])):
        labels, _ = K.ctc_decode(y_pred, [4], greedy=False, merge_repeated=merge)
        assert K.eval(labels[0]).tolist() == wanted


def test_the_batch_is_decoded_once_for_all_results() -> None:
    y_pred, steps = K.placeholder((None, None, 4)), K.placeholder((None,), dtype="int32")
    labels, score = K.ctc_decode(y_pred, steps, False, 5, 3)
    run = K.function([y_pred, steps], [*labels, score])
    with K.record() as runs:
        values = run([predictions(1, 2, 6, 4), np.array([6, 4])])
    assert [one.shape[0] for one in values] == [2, 2, 2, 2]
    assert [step.label for step in runs[-1].steps].count("ctc_beam") == 1


def test_rows_without_steps_or_labels() -> None:
    labels, score = K.ctc_decode(np.zeros((2, 0, 3)), [0, 0])
    assert K.eval(labels[0]).shape == (2, 0)
    assert K.eval(score).tolist() == [[0.0], [0.0]]
    labels, score = K.ctc_decode(np.full((1, 5, 3), 1 / 3), [0], greedy=False)
    assert K.eval(labels[0]).shape == (1, 0)
    assert K.eval(score).tolist() == [[0.0]]
    labels, score = K.ctc_decode(np.zeros((0, 4, 3)), np.zeros((0,), int), False, top_paths=2)
    assert [K.eval(one).shape for one in (*labels, score)] == [(0, 0), (0, 0), (0, 2)]
    cost = K.ctc_batch_cost(np.zeros((2, 0)), np.full((2, 3, 2), 0.5), [0, 3], [0, 0])
    assert np.allclose(K.eval(cost), [[0], [3 * np.log(2)]])
    empty = K.ctc_batch_cost(np.zeros((0, 2)), np.zeros((0, 3, 2)), [], [])
    assert K.eval(empty).shape == (0, 1)


@pytest.mark.parametrize("greedy", [True, False])
def test_a_row_with_nan_is_not_read(greedy: bool) -> None:
    y_pred = predictions(0, 2, 5, 3)
    y_pred[0, 3, 1] = np.nan
    labels, score = K.ctc_decode(y_pred, [5, 5], greedy)
    value, scores = K.function([], [labels[0], score])([])
    assert (value[0] == -1).all()
    assert (value[1] >= 0).any()
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()
    again, _ = K.ctc_decode(y_pred, [3, 5], greedy)  # the NaN is behind the end now
    assert (K.eval(again[0])[0] >= 0).any()


# ------------------------------------------------------------------ the cost


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


def test_decoding_has_no_gradient() -> None:
    x = K.placeholder((1, 4, 3))
    _, score = K.ctc_decode(x, [4])
    assert K.gradients(K.sum(score), x) == [None]


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("group", [1, 1 << 23])
def test_compiled_equals_numpy(dtype: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs and gradients of rows of every kind, with the rows at once and one by one."""
    monkeypatch.setattr(kernels, "GROUP", group)
    monkeypatch.setattr(ctc_lattice, "GROUP", group)
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
        assert forms["ctc_cost"] == forms["ctc_slope"] == wanted
    assert np.isinf(results["off"][0]).any()
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    for one, other in zip(results["off"], results["wait"], strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance)


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
    states, skips = ctc_lattice.states_of(numbers, np.array([2, 1]), 3)
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
    from kbench.engine import memory

    monkeypatch.setenv("KBENCH_JIT", mode)
    monkeypatch.setattr(memory, "ASK_FROM", 1 << 16)
    monkeypatch.setattr(memory, "available", lambda: 1 << 21)
    x = K.variable(np.full((2, 2000, 3), 0.3))
    cost = K.ctc_batch_cost(np.zeros((2, 100)), x, [2000, 2000], [1, 1])
    with pytest.raises(K.OutOfMemory, match="2000 steps and 100 labels"):
        K.eval(K.gradients(cost, x)[0])
