"""Lines of arrays as curves: short and long, with gaps, of every dtype; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import curve_view

NAN, INF = np.nan, np.inf
GRID = np.arange(12.0).reshape(3, 4)
# (values, stretches, index, axis, low, high, bad)
CURVES: list[tuple[Any, ...]] = [
    ([1.5, 2, 3], 8, None, -1, [1.5, 2, 3], [1.5, 2, 3], []),
    (range(6), 3, None, -1, [0, 2, 4], [1, 3, 5], []),
    (range(7), 3, None, 0, [0, 2, 4], [1, 3, 6], []),
    ([1, NAN, INF, -INF, 2], 8, None, -1, [1, None, None, None, 2], [1, None, None, None, 2],
     [1, 2, 3]),
    ([1, NAN, NAN, NAN, 5, 2], 3, None, -1, [1, None, 2], [1, None, 5], [0, 1]),
    ([NAN, NAN], 1, None, -1, [None], [None], [0]),
    (GRID, 9, [1, 0], 1, [4, 5, 6, 7], [4, 5, 6, 7], []),
    (GRID, 9, [0, -1], 0, [3, 7, 11], [3, 7, 11], []),
    ([True, False], 4, None, -1, [1, 0], [1, 0], []),
    (np.array([1, 65504], np.float16), 4, None, -1, [1, 65504], [1, 65504], []),
    (np.array([-(2**63), 2**62]), 1, None, -1, [-9.22337e18], [4.61169e18], []),
    (np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), 3, None, -1, [1, None, 3], [1, None, 3], [1]),
    (np.zeros(0), 5, None, -1, [], [], []),
]  # fmt: skip


@pytest.mark.parametrize(("values", "stretches", "index", "axis", "low", "high", "bad"), CURVES)
def test_a_curve(
    values: Any, stretches: int, index: Any, axis: int, low: Any, high: Any, bad: Any
) -> None:
    array = values if isinstance(values, np.ndarray) else np.array(values)
    found = curve_view.curve(array, stretches, index, axis)
    assert (found["low"], found["high"], found["bad"]) == (low, high, bad)
    assert found["size"] == array.shape[axis] and not found["sampled"]


def test_a_long_line_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=10_007)
    values[5_000] = NAN
    whole = curve_view.curve(values, 100)
    monkeypatch.setattr(curve_view, "_CHUNK_ELEMENTS", 300)
    assert curve_view.curve(values, 100) == whole and len(whole["bad"]) == 1
    assert min(whole["low"]) == pytest.approx(np.nanmin(values), rel=1e-5)
    assert max(whole["high"]) == pytest.approx(np.nanmax(values), rel=1e-5)
    monkeypatch.setattr(curve_view, "MAX_READ_ELEMENTS", 1_000)
    sampled = curve_view.curve(values, 100)
    assert sampled["sampled"] and sampled["size"] == 10_007 and len(sampled["low"]) == 100


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (np.array(["a"]), {"stretches": 3}, "cannot be shown as a curve"),
    (np.array([1j]), {"stretches": 3}, "complex128"),
    (np.array(1.0), {"stretches": 3}, "axis -1 is out of range for an array of rank 0"),
    (np.zeros(3), {"stretches": 0}, "1 to 1024 stretches, not 0"),
    (np.zeros(3), {"stretches": 1025}, "not 1025"),
    (GRID, {"stretches": 3, "axis": 2}, "axis 2 is out of range"),
    (GRID, {"stretches": 3, "index": [3, 0], "axis": 1}, "index 3 is out of range for axis 0"),
    (GRID, {"stretches": 3, "index": [1]}, "needs 2 entries"),
]


@pytest.mark.parametrize(("values", "options", "words"), WRONG)
def test_what_is_no_curve(values: np.ndarray, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        curve_view.curve(values, **options)
