"""Random numbers by the million: what only large samples show, with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kbench as K

SEEDS = range(30)
SIZE = 2_000_000
LAWS: list[tuple[Callable[..., Any], tuple[str, tuple[float, ...]]]] = [
    (K.random_uniform, ("uniform", ())),
    (K.random_normal, ("norm", ())),
    (K.truncated_normal, ("truncnorm", (-2, 2))),
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("draw", "of"), LAWS, ids=lambda one: getattr(one, "__name__", ""))
def test_deviations_over_many_seeds_are_themselves_normal(
    draw: Callable[..., Any], of: tuple[str, tuple[float, ...]], dtype: str, stats: Any
) -> None:
    """Means, variances, and what Kolmogorov and Smirnov's test says, of thirty large samples."""
    law = getattr(stats, of[0])(*of[1])
    means, spreads, chances = [], [], []
    noise = ((law.stats("k") + 2) / SIZE) ** 0.5
    for seed in SEEDS:
        x = K.eval(draw((SIZE,), dtype=dtype, seed=seed)).astype(float)
        means.append((x.mean() - law.mean()) / law.std() * SIZE**0.5)
        spreads.append((x.var() / law.var() - 1) / noise)
        chances.append(stats.kstest(x[:: SIZE // 100_000], law.cdf).pvalue)
    for scores in (means, spreads):
        assert stats.kstest(scores, "norm").pvalue > 1e-3
        assert np.abs(scores).max() < 4.5
    assert stats.kstest(chances, "uniform").pvalue > 1e-3


def test_neighbours_fill_the_square_and_the_cube(stats: Any) -> None:
    """Pairs and triples of consecutive numbers, and pairs a row of words apart."""
    x = K.eval(K.random_uniform((6_000_000,), seed=5))
    for lag in (1, 256, 512, 768, 1024):
        cells = (x[:-lag] * 64).astype(int) * 64 + (x[lag:] * 64).astype(int)
        assert stats.chisquare(np.bincount(cells[:: lag + 1], minlength=4096)).pvalue > 1e-4
    first, second, third = ((one * 16).astype(int) for one in x.reshape(-1, 3).T)
    cells = (first * 16 + second) * 16 + third
    assert stats.chisquare(np.bincount(cells, minlength=4096)).pvalue > 1e-4


def test_tails_of_normal_numbers(stats: Any) -> None:
    """Beyond three and four deviations, where float64 numbers reach farther than float32 ones."""
    for dtype in ("float32", "float64"):
        x = np.abs(K.eval(K.random_normal((20_000_000,), dtype=dtype, seed=8)))
        for limit in (3.0, 4.0, 5.0):
            wanted = 2 * stats.norm.sf(limit) * x.size
            assert abs((x > limit).sum() - wanted) < 5 * wanted**0.5 + 1


def test_streams_and_seeds_have_nothing_in_common(stats: Any) -> None:
    """Every pair of kinds of one seed, of seeds that differ in one bit, and of steps in time."""
    rows = []
    for seed in (0, 1, 2, 2**31, 2**32, 2**63, -1):
        x = K.random_uniform((500_000,), seed=seed)
        rows += [K.eval(x), K.eval(x)]
        rows.append(K.eval(K.random_normal((500_000,), seed=seed)))
        rows.append(K.eval(K.truncated_normal((500_000,), seed=seed)))
        rows.append(K.eval(K.random_binomial((500_000,), 0.5, seed=seed)))
        rows.append(K.eval(K.dropout(K.ones((500_000,)), 0.5, seed=seed)))
    found = np.corrcoef(np.stack(rows))[np.triu_indices(len(rows), 1)] * 500_000**0.5
    assert np.abs(found).max() < 5
    assert stats.kstest(found, "norm").pvalue > 1e-3
