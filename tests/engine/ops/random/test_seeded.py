"""Random numbers that follow from a seed which is an operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.api.operations import seeded_array, seeded_draw
from kbench.backend import ArgumentError, ShapeError

DRAWS = 100_000
KINDS: list[tuple[str, str, dict[str, Any], tuple[str, tuple[float, ...]]]] = [
    ("uniform", "float32", {"low": 0.0, "high": 1.0}, ("uniform", ())),
    ("uniform", "float64", {"low": -3.0, "high": 2.0}, ("uniform", (-3, 5))),
    ("normal", "float32", {"mean": 2.0, "stddev": 0.5}, ("norm", (2, 0.5))),
    ("normal", "float64", {"mean": 0.0, "stddev": 1.0}, ("norm", ())),
    ("truncated", "float32", {"mean": 0.0, "stddev": 1.0}, ("truncnorm", (-2, 2))),
    ("integers", "int32", {"low": -3, "high": 4}, ("randint", (-3, 4))),
    ("below", "bool", {"p": 0.3}, ("bernoulli", (0.3,))),
]
IDS = [f"{row[0]}_{row[1]}" for row in KINDS]
of_every_kind = pytest.mark.parametrize(("kind", "dtype", "numbers", "of"), KINDS, ids=IDS)


def _seed(first: int, second: int) -> np.ndarray:
    return np.array([first, second], np.uint32)


@of_every_kind
def test_the_law(
    kind: str, dtype: str, numbers: dict[str, Any], of: tuple[Any, Any], stats: Any
) -> None:
    law = getattr(stats, of[0])(*of[1])
    x = seeded_array(_seed(5, 9), kind, dtype, (DRAWS,), **numbers)
    assert x.dtype == dtype
    if kind in ("integers", "below"):
        values, counts = np.unique(x, return_counts=True)
        assert stats.chisquare(counts, DRAWS * law.pmf(values.astype(int))).pvalue > 1e-3
    else:
        assert stats.kstest(x, law.cdf).pvalue > 1e-3


@of_every_kind
@pytest.mark.parametrize("shape", [(), (7, 3), (40, 300)])
def test_one_seed_gives_the_same_numbers_on_every_tier(
    kind: str,
    dtype: str,
    numbers: dict[str, Any],
    of: object,
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = K.placeholder((2,), dtype="uint32")
    found = []
    for tier in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", tier)
        run = K.function([seed], [seeded_draw(seed, kind, dtype, shape, **numbers)])
        found += [run([_seed(5, 9)])[0] for _ in range(2)]
        found.append(seeded_array(_seed(5, 9), kind, dtype, shape, **numbers))
    assert found[0].shape == shape
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    if found[0].size > 1:
        assert not np.array_equal(found[0], run([_seed(5, 10)])[0])
        assert not np.array_equal(found[0], run([_seed(6, 9)])[0])


def test_both_words_are_the_key() -> None:
    draws = {
        seeded_array(_seed(*words), "integers", "int64", (), low=0, high=1 << 62).item()
        for words in [(0, 0), (0, 1), (1, 0), (1, 1), (1 << 31, 0), (0, 1 << 31)]
    }
    assert len(draws) == 6


def test_no_gradient_flows() -> None:
    seed = K.placeholder((2,), dtype="int32")
    x = K.variable(np.ones(3))
    drawn = seeded_draw(seed, "uniform", "float32", (3,), low=0.0, high=1.0)
    (slope,) = K.gradients(K.sum(x * drawn), [x])
    found, values = K.function([seed], [slope, drawn])([np.array([1, 2], np.int32)])
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    ("seed", "dtype", "error", "words"),
    [
        (np.zeros(3, np.uint32), "float32", ShapeError, "must be 2 integers"),
        (np.zeros(2, np.float32), "float32", ShapeError, "must be 2 integers"),
        (np.zeros(2, np.uint32), "float16", ArgumentError, "float16"),
    ],
)
def test_wrong_calls(seed: np.ndarray, dtype: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        seeded_array(seed, "uniform", dtype, (2,), low=0.0, high=1.0)
    node = K.placeholder(seed.shape, dtype=seed.dtype.name)
    with pytest.raises(error, match=words):
        seeded_draw(node, "uniform", dtype, (2,), low=0.0, high=1.0)
