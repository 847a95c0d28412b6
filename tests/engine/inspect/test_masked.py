"""Masked arrays: no statistic counts a masked entry, and every window writes it as such."""

from __future__ import annotations

import numpy as np
import pytest

from kbench.engine.inspect import describe, slice_view, statistics
from kbench.workbench.inspector import summary


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_statistics_are_of_what_is_not_masked(dtype: str, share: float) -> None:
    draw = np.random.default_rng(0)
    values = draw.integers(0, 2 if dtype == "bool" else 100, (40, 30)).astype(dtype)
    masked = np.ma.array(values, mask=draw.random(values.shape) < share)
    row = describe.array(masked)
    kept = masked.compressed()
    plain = statistics.statistics(kept)
    for field in ("min", "max", "mean", "std", "finite", "zeros", "count", "histogram"):
        assert row[field] == plain[field], field
    assert row["size"] == 1200 and row["masked"] == 1200 - kept.size
    assert row["shape"] == [40, 30]


def test_the_first_nan_is_where_it_stands_in_the_whole() -> None:
    values = np.array([[np.nan, 1.0], [np.inf, np.nan]])
    row = describe.array(np.ma.array(values, mask=[[1, 0], [0, 0]]))
    assert row["first_nan"] == [1, 1] and row["first_inf"] == [1, 0]
    assert row["nan"] == 1 and row["inf"] == 1


def test_a_sample_of_a_large_one_leaves_them_out() -> None:
    values = np.zeros((2500, 2000), np.float32)
    values[::2] = 7.0
    row = describe.array(np.ma.array(values, mask=values == 7.0))
    assert row["sampled"] and row["max"] == 0 and row["masked"] == values.size // 2


@pytest.mark.parametrize(
    "array, cells",
    [
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), [["1", "--", "3"]]),
        (np.ma.array([1, 2], mask=True), [["--", "--"]]),
        (np.ma.array([[1, 2], [3, 4]], mask=[[1, 0], [0, 0]]), [["--", "2"], ["3", "4"]]),
        (np.ma.array(["a", "b"], mask=[0, 1]), [["a", "--"]]),
        (np.ma.array([5.0]), [["5"]]),
        (np.ma.array([(1, 2.0), (3, 4.0)], mask=[(1, 1), (0, 1)], dtype=[("a", int), ("b", float)]),
         [["--", "(3, --)"]]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("exact", [False, True])
def test_windows_write_them(array: np.ndarray, cells: list[list[str]], exact: bool) -> None:
    found = slice_view.window(array, exact=exact)["cells"]
    assert [[text.removesuffix(".0") for text in line] for line in found] == cells
    if not exact:
        assert "--" not in str(slice_view.window(np.ma.getdata(array))["cells"][0])


def test_heat_leaves_them_out() -> None:
    window = slice_view.window(np.ma.array([0.0, 1.0, 9.0], mask=[0, 0, 1]))
    assert window["heat"] == [[0, 9, None]]


def test_their_line_says_how_many() -> None:
    line = summary.line(np.ma.array(np.arange(20.0), mask=np.arange(20) > 17))
    assert "masked 2" in line and " 17] " in line
    assert summary.line(np.ma.array([1, 2], mask=[0, 1])) == "int64[2] 16 B  [1, --]  masked 1"


@pytest.mark.parametrize(
    "value, text",
    [
        ("it's", '"it\'s"'), (None, "None"), (b"x", "b'x'"), (np.timedelta64(3, "h"), "3 hours"),
        (np.datetime64("2020-01-02"), "2020-01-02"), ({}, "<dict>"), (1 - 2j, "1-2j"),
        (np.array([(1, "a")], [("n", int), ("s", "U1")])[0], "(1, a)"), (np.str_("a"), "a"),
    ],
)  # fmt: skip
def test_elements_of_any_kind_are_written(value: object, text: str) -> None:
    assert describe.cell(value) == text
