"""Random numbers: the generator's known answers, distributions, sequences, and dropout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import every

import kbench as K
from kbench.engine.intrinsics import philox

ALL = 0xFFFFFFFF
DRAWS = 200_000
Draw = Callable[..., Any]

# ------------------------------------------------------------------ the generator


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ALL,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter: tuple[int, ...], key: int, words: tuple[int, ...]) -> None:
    """The published test vectors of Philox4x32-10."""
    drawn = philox.blocks([np.array([one], np.uint64) for one in counter], key)
    assert tuple(int(one) for one in drawn[:, 0]) == words


def test_words_do_not_depend_on_the_cut() -> None:
    """Any piece of a sequence is the same, wherever the drawing starts."""
    whole = np.concatenate(list(philox.words(7, 2, 0, 40)))
    parts = [np.concatenate(list(philox.words(7, 2, i, 5))) for i in range(0, 40, 5)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(whole[:5], np.concatenate(list(philox.words(7, 3, 0, 5))))


# ------------------------------------------------------------------ distributions

Law = tuple[str, tuple[float, ...]]  # its name in `scipy.stats`, and its parameters
CONTINUOUS: list[tuple[str, Draw, Law]] = [
    ("random_uniform", K.random_uniform, ("uniform", ())),
    ("uniform -3..2", lambda *a, **k: K.random_uniform(*a, -3.0, 2.0, **k), ("uniform", (-3, 5))),
    ("random_normal", K.random_normal, ("norm", ())),
    ("normal 2, 0.5", lambda *a, **k: K.random_normal(*a, 2.0, 0.5, **k), ("norm", (2, 0.5))),
    ("truncated_normal", K.truncated_normal, ("truncnorm", (-2, 2))),
    (
        "truncated -1, 3",
        lambda *a, **k: K.truncated_normal(*a, -1.0, 3.0, **k),
        ("truncnorm", (-2, 2, -1, 3)),
    ),
]


# The same numbers on every tier: see tests/engine/kernels/random/test_fill.py.
on_tiers = pytest.mark.parametrize("tier", every(2, ["off", "wait"]))


@pytest.fixture
def on_tier(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)


@on_tiers
@pytest.mark.usefixtures("on_tier")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "draw", "of"), CONTINUOUS, ids=[row[0] for row in CONTINUOUS])
def test_law(name: str, draw: Draw, of: Law, dtype: str, stats: Any) -> None:
    """Kolmogorov and Smirnov's test, the first two moments, and neighbours that are independent."""
    law = getattr(stats, of[0])(*of[1])
    x = K.eval(draw((DRAWS,), dtype=dtype, seed=11))
    assert x.dtype == dtype
    assert x.shape == (DRAWS,)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    assert abs(x.mean(dtype=float) - law.mean()) < 5 * law.std() / DRAWS**0.5
    spread = x.var(dtype=float) / law.var() - 1
    assert abs(spread) < 5 * ((law.stats("k") + 2) / DRAWS) ** 0.5
    for lag in (1, 2, 3, 4, 256, 512, 1024):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / DRAWS**0.5
    # Box and Muller make pairs: their lengths must not follow each other either.
    for lag in (256, 512):
        y = np.abs(x - x.mean())
        assert abs(np.corrcoef(y[:-lag], y[lag:])[0, 1]) < 5 / DRAWS**0.5


@on_tiers
@pytest.mark.usefixtures("on_tier")
@pytest.mark.parametrize(
    ("minval", "maxval", "dtype"),
    [(0, 6, "int32"), (-3, 4, "int8"), (250, 256, "uint8"), (10, 11, "int64")],
)
def test_integers(minval: int, maxval: int, dtype: str, stats: Any) -> None:
    """Every whole number of the interval is equally likely."""
    x = K.eval(K.random_uniform((DRAWS,), minval, maxval, dtype=dtype, seed=3))
    assert x.dtype == dtype
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(minval, maxval))
    if len(counts) > 1:
        assert stats.chisquare(counts).pvalue > 1e-3


@on_tiers
@pytest.mark.usefixtures("on_tier")
@pytest.mark.parametrize(
    ("minval", "maxval", "dtype"),
    [(-(2**63), 2**63, "int64"), (0, 3 * 2**62, "uint64"), (-5, 2**40, "int64")],
)
def test_wide_integers(minval: int, maxval: int, dtype: str, stats: Any) -> None:
    """Intervals beyond 32 bits are covered evenly, without favourites."""
    x = K.eval(K.random_uniform((DRAWS,), minval, maxval, dtype=dtype, seed=3))
    share = (x.astype(float) - minval) / (float(maxval) - minval)
    assert stats.kstest(share, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_binomial(p: float) -> None:
    x = K.eval(K.random_binomial((DRAWS,), p, seed=5))
    assert x.dtype == "float32"
    assert set(x.tolist()) <= {0.0, 1.0}
    assert abs(x.mean(dtype=float) - p) <= 5 * (p * (1 - p) / DRAWS) ** 0.5


def test_bounds_hold_after_rounding() -> None:
    """The upper bound is never reached, nor are two deviations passed."""
    for dtype in ("float16", "float32", "float64"):
        x = K.eval(K.random_uniform((DRAWS,), 1024.0, 1025.0, dtype=dtype, seed=1))
        assert x.min() >= 1024
        assert x.max() < 1025
    x = K.eval(K.truncated_normal((DRAWS,), dtype="float16", seed=1))
    assert np.abs(x).max() <= 2


def test_nearby_seeds_are_unrelated() -> None:
    rows = np.stack([K.eval(K.random_normal((20_000,), seed=seed)) for seed in range(12)])
    off = np.corrcoef(rows)[np.triu_indices(12, 1)]
    assert np.abs(off).max() < 5 / 20_000**0.5
    same_seed = [K.random_uniform((1000,), seed=1), K.random_normal((1000,), seed=1)]
    first, second = K.function([], same_seed)([])
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / 1000**0.5


# ------------------------------------------------------------------ sequences


def _coins(shape: Any, seed: int) -> Any:
    return K.random_binomial(shape, 0.5, seed=seed)


@pytest.mark.parametrize("draw", [K.random_uniform, K.random_normal, K.truncated_normal, _coins])
def test_a_seed_gives_a_sequence(draw: Draw) -> None:
    """Fresh numbers at each evaluation, the same sequence for the same seed."""
    first, second, other = draw((50,), seed=9), draw((50,), seed=9), draw((50,), seed=10)
    sequence = [K.eval(first) for _ in range(3)]
    assert not np.array_equal(sequence[0], sequence[1])
    assert all(np.array_equal(one, K.eval(second)) for one in sequence)
    assert not np.array_equal(sequence[0], K.eval(other))


FIXED = {
    "float32": [
        "0x1.10f56c0000000p-3",
        "0x1.4536540000000p-1",
        "0x1.46e1820000000p-1",
        "0x1.7281d80000000p-3",
    ],
    "float64": [
        "-0x1.a8eace2f2a086p-5",
        "0x1.7c912d8bed8e4p-1",
        "0x1.2da378a1c3e4fp+0",
        "-0x1.18395ca3d2148p-3",
    ],
}


def test_fixed_values() -> None:
    """The numbers of a seed stay what they are from version to version."""
    x = K.eval(K.random_uniform((4,), seed=0))
    assert x[0] == np.float32((0x6627E8D5 >> 8) * 2.0**-24)
    for dtype, wanted in FIXED.items():
        x = K.eval(K.random_normal((600,), dtype=dtype, seed=0))[[0, 1, 300, 512]]
        assert [float(one).hex() for one in x] == wanted
    prefix = K.eval(K.random_normal((7,), seed=123))
    assert np.array_equal(prefix, K.eval(K.random_normal((5000,), seed=123))[:7])


def test_no_seed_follows_numpy() -> None:
    """`numpy.random.seed` makes a program repeatable, as with Keras."""
    np.random.seed(4)
    first = K.eval(K.random_normal((5,)))
    np.random.seed(4)
    again, other = K.eval(K.random_normal((5,))), K.eval(K.random_normal((5,)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_one_value_within_a_call() -> None:
    x = K.random_normal((100,))
    first, twice, difference = K.function([], [x, x * 2, x - x])([])
    assert np.array_equal(first * 2, twice)
    assert not difference.any()
    one, two = K.function([], [K.random_normal((9,)), K.random_normal((9,))])([])
    assert not np.array_equal(one, two)


def test_threads_share_a_sequence_without_repeats() -> None:
    run = K.function([], [K.random_uniform((1024,), dtype="float64", seed=2)])
    seen: list[bytes] = []
    workers = [
        threading.Thread(target=lambda: seen.extend(run([])[0].tobytes() for _ in range(20)))
        for _ in range(4)
    ]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(set(seen)) == 80


# ------------------------------------------------------------------ shapes and parameters


def test_shape_may_be_computed() -> None:
    x = K.placeholder((None, 3))
    y = K.random_uniform(K.shape(x))
    assert K.int_shape(y) == (None, 3)
    assert K.function([x], [y])([np.zeros((5, 3))])[0].shape == (5, 3)
    assert K.eval(K.random_normal(())).shape == ()
    assert K.eval(K.random_normal((0, 2))).shape == (0, 2)


def test_parameters_may_be_tensors() -> None:
    mean, spread = K.variable([0.0, 100.0]), K.variable([1.0, 2.0])
    x = K.random_normal((20_000, 2), mean, spread, seed=1)
    assert np.allclose(K.eval(x).mean(0), [0, 100], atol=0.1)
    assert np.allclose(K.eval(x).std(0), [1, 2], atol=0.1)
    to_mean = K.eval(K.gradients(K.sum(x), mean)[0])
    assert to_mean.tolist() == [20_000, 20_000]
    y = K.eval(K.random_uniform((20_000, 2), mean, mean + 1, seed=1))
    assert (y >= [0, 100]).all()
    assert (y < [1, 101]).all()
    z = K.eval(K.random_binomial((20_000, 2), K.constant([0.0, 0.3])))
    assert np.allclose(z.mean(0), [0, 0.3], atol=0.02)


def test_random_variables() -> None:
    x = K.random_uniform_variable((3, 4), -1, 1, dtype="float64", name="u", seed=1)
    assert K.is_variable(x)
    assert K.dtype(x) == "float64"
    assert x.name.startswith("u")
    again = K.random_uniform_variable((3, 4), -1, 1, dtype="float64", seed=1)
    assert np.array_equal(K.get_value(x), K.get_value(again))
    assert abs(K.get_value(K.random_normal_variable((1000,), 5.0, 0.1)).mean() - 5) < 0.1


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: K.random_uniform((2,), 1.0, 0.0), "minval <= maxval"),
    (lambda: K.random_uniform((2,), 0, float("nan")), "maxval must be finite"),
    (lambda: K.random_uniform((2,), 3, 3, dtype="int32"), "minval < maxval"),
    (lambda: K.random_uniform((2,), 0, 300, dtype="uint8"), "within uint8"),
    (lambda: K.random_uniform((2,), 0.5, 3, dtype="int32"), "whole numbers"),
    (lambda: K.random_uniform((2,), dtype="bool"), "dtype must be"),
    (lambda: K.random_uniform((2,), -1e38, 1e39), "within float32"),
    (lambda: K.random_uniform((-1,)), "negative"),
    (lambda: K.random_uniform("ab"), "shape"),
    (lambda: K.random_normal((2,), stddev=-1), "negative"),
    (lambda: K.random_normal((2,), dtype="int32"), "dtype must be"),
    (lambda: K.random_normal((2,), seed=1.5), "seed"),
    (lambda: K.random_normal((2,), mean="x"), "mean"),
    (lambda: K.random_normal((2,), K.zeros((3, 2))), "do not fit"),
    (lambda: K.random_binomial((2,), 1.1), "between 0 and 1"),
    (lambda: K.random_binomial((2,), float("nan")), "finite"),
    (lambda: K.dropout(K.zeros((2,)), 1.0), "level"),
    (lambda: K.dropout(K.zeros((2,)), -0.1), "level"),
    (lambda: K.dropout(K.zeros((2,)), float("nan")), "level"),
    (lambda: K.dropout(K.zeros((2, 1)), 0.5, noise_shape=(2, 3)), "does not broadcast"),
    (lambda: K.dropout(K.zeros((2, 3)), 0.5, noise_shape=(None, 3, 1)), "noise_shape"),
]


@pytest.mark.parametrize(("call", "text"), BAD)
def test_bad_arguments(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


# ------------------------------------------------------------------ dropout


def test_dropout_keeps_its_share_and_its_mean() -> None:
    x = K.ones((DRAWS,))
    y = K.eval(K.dropout(x, 0.3, seed=1))
    kept = y != 0
    assert np.allclose(y[kept], 1 / 0.7)
    assert abs(kept.mean() - 0.7) < 5 * (0.21 / DRAWS) ** 0.5


def test_dropout_gradient_has_the_mask_of_the_value() -> None:
    x = K.variable(np.arange(1.0, 1001.0))
    y = K.dropout(x, 0.5)
    run = K.function([], [y, K.gradients(K.sum(y), x)[0]])
    masks = []
    for _ in range(3):
        value, gradient = run([])
        assert np.array_equal(value != 0, gradient != 0)
        assert set(gradient.tolist()) == {0.0, 2.0}
        masks.append(gradient.tobytes())
    assert len(set(masks)) == 3


def test_dropout_of_values_that_are_not_finite() -> None:
    y = K.eval(K.dropout(K.constant([np.inf] * 50), 0.5, seed=1))
    assert set(y.tolist()) == {0.0, np.inf}


@pytest.mark.parametrize("noise_shape", [(None, 1, 40), (5, 1, 40), (1, 40)])
def test_dropout_noise_shape(noise_shape: Any) -> None:
    x = K.placeholder((None, 3, 40))
    y = K.dropout(x, 0.5, noise_shape=noise_shape, seed=1)
    value = K.function([x], [y])([np.ones((5, 3, 40))])[0]
    assert value.shape == (5, 3, 40)
    assert (value == value[:, :1]).all()
    assert 0 < (value == 0).mean() < 1


def test_dropout_noise_shape_may_be_a_tensor() -> None:
    x = K.placeholder((None, 6))
    sizes = K.shape(x)
    y = K.dropout(x, 0.5, noise_shape=(sizes[0], 1), seed=1)
    value = K.function([x], [y])([np.ones((40, 6))])[0]
    assert (value == value[:, :1]).all()
    assert 0 < (value == 0).mean() < 1
