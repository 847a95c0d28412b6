"""The words around a value: statistics, histogram, slices."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kbench.tui.panes.rows import NameRow, Statistics
from kbench.tui.panes.value import slices
from kbench.tui.panes.value import words as value_words
from kbench.tui.panes.value.slices import Target
from kbench.tui.panes.variables.view import range_words
from kbench.tui.text.glyphs import ASCII, UNICODE

STATS = Statistics(-1.0, 2.0, 0.5, 0.25, 100, 41, 3, 1, (0, 1, 4, 2), True)


def test_statistics_say_everything_and_never_by_colour_alone() -> None:
    words = value_words.statistics(STATS, ASCII, with_range=True).plain
    for part in (
        "~mean .5",
        "sd .25",
        "zeros 41%",
        "NaN 3+",
        "Inf 1+",
        "!",
        "[-1 ",
        " 2]",
        "x exact",
    ):
        assert part in words
    sample = Statistics(0.0, 1.0, 0.1, 0.1, 10, 9, sampled=True)
    assert "zeros 90%  sample finite" in value_words.statistics(sample, ASCII, False).plain
    assert range_words(replace(sample, zeros=10), ASCII).plain == "~all zero"
    assert (
        "NaN 0  Inf 0"
        in value_words.statistics(replace(STATS, sampled=False, nan=0, inf=0), ASCII, False).plain
    )
    assert "!" not in value_words.statistics(Statistics(count=4), ASCII, False).plain
    refused = Statistics(refused="no statistics for dtype object")
    assert value_words.statistics(refused, ASCII, True).plain.strip() == refused.refused


@pytest.mark.parametrize("glyphs", [ASCII, UNICODE])
@pytest.mark.parametrize("width", [12, 30, 80])
def test_the_histogram_fits_its_line(glyphs: Any, width: int) -> None:
    line = value_words.histogram_rows(STATS, glyphs, width).plain
    assert len(line) <= max(width, 9) and line.startswith(" [-1 ") and line.endswith(" 2]")
    assert value_words.histogram_rows(None, glyphs, width).plain == ""
    *upper, last = value_words.histogram_rows(STATS, glyphs, width, 3).plain.split("\n")
    assert len(upper) == 2 and last.startswith(" [-1 ") and last.endswith(" 2]")
    assert len(last) == len(line) and all(len(row) <= len(last) - 3 for row in upper)


STEPS = [
    ((0, 0, 5, 0), [0, 1], 1, (0, 1, 5, 0)),
    ((0, 2, 5, 0), [0, 1], 1, (1, 0, 5, 0)),
    ((1, 2, 5, 0), [0, 1], 1, None),
    ((1, 1, 5, 0), [0, 1], 100, (1, 2, 5, 0)),
    ((1, 1, 5, 0), [0, 1], -100, (0, 0, 5, 0)),
    ((0, 0, 5, 0), [0, 1], -1, None),
    ((0, 0, 5, 0), [], 1, None),
]


@pytest.mark.parametrize(("index", "axes", "step", "wanted"), STEPS)
def test_steps_between_slices(index: Any, axes: Any, step: int, wanted: Any) -> None:
    assert slices.stepped(index, (2, 3, 6, 7), axes, step) == wanted


def test_the_words_of_a_slice_name_the_cell_first() -> None:
    row = NameRow("h", "array", (2, 3, 4), "float32")
    words = value_words.place(row, Target((1, 0, 0), 1, 2, (2, 3)), 80)
    assert words.startswith("[1, :, :]  at (1, 2, 3)  rows 1 cols 2")


@pytest.mark.parametrize(
    ("width", "end"),
    [
        (80, "rows 1 cols 2  [ ] slice  a axes"),
        (49, "rows 1 cols 2  [ ] slice"),
        (40, "(1, 2, 3)  [ ] slice"),
        (24, "at (1, 2, 3)"),
        (3, "at (1, 2, 3)"),
    ],
)
def test_words_of_a_slice_that_do_not_fit_are_left_out_whole(width: int, end: str) -> None:
    row = NameRow("h", "array", (2, 3, 4), "float32")
    words = value_words.place(row, Target((1, 0, 0), 1, 2, (2, 3)), width)
    assert words.startswith("[1, :, :]") and words.endswith(end)
    assert len(words) <= max(width, 23)
