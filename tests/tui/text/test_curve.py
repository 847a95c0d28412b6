"""Curves of characters: where dots are, gaps, one place and very many, and rows of bars."""

from __future__ import annotations

import pytest

from kbench.tui.text import curve
from kbench.tui.text.glyphs import ASCII, UNICODE, Glyphs

NAN, INF = float("nan"), float("inf")
# (values, columns, rows, characters, lines)
CURVES: list[tuple[list[float | None], int, int, Glyphs, list[str]]] = [
    ([0, 1, 2, 3], 4, 4, ASCII, ["   *", "  * ", " *  ", "*   "]),
    ([0, 3], 4, 4, ASCII, ["   *", "  * ", " *  ", "*   "]),
    ([3, 0, 3], 3, 3, ASCII, ["* *", " * ", " * "]),
    ([0, None, 2], 3, 3, ASCII, ["  *", "   ", "*  "]),
    ([0, NAN, INF, 1], 4, 2, ASCII, ["   *", "*   "]),
    ([5, 5], 3, 3, ASCII, ["   ", "***", "   "]),
    ([5], 3, 1, ASCII, ["*  "]),
    ([None, None], 3, 2, ASCII, ["   ", "   "]),
    ([], 3, 2, ASCII, ["   ", "   "]),
    ([1e308, -1e308], 2, 2, ASCII, ["* ", " *"]),
    ([0, 1, 2, 3], 2, 1, UNICODE, ["\u2860\u280a"]),
    ([0, 9, 0, 9, 0, 9, 0, 9], 2, 2, ASCII, ["**", "**"]),
]


@pytest.mark.parametrize(("values", "columns", "height", "glyphs", "lines"), CURVES)
def test_a_curve(
    values: list[float | None], columns: int, height: int, glyphs: Glyphs, lines: list[str]
) -> None:
    assert curve.rows(curve.stretches(values), columns, height, glyphs) == lines


def test_of_many_places_the_greatest_and_the_least_are_drawn() -> None:
    values: list[float | None] = [0.0] * 10_000
    values[5_000], values[5_001] = 8.0, -8.0
    lines = curve.rows(curve.stretches(values), 10, 5, ASCII)
    assert [line[5] for line in lines] == ["*"] * 5
    assert lines[2] == "**********" and lines[0].count("*") == 1


def test_without_room_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 columns and 3 rows"):
        curve.rows([], 0, 3, ASCII)


SPARKS: list[tuple[list[float | None], int, str]] = [
    ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
    ([9, 9, 0, 7], 2, "▁█"),
    ([1, None, NAN, 2], 9, "▁  █"),
    ([4, 4, 4], 9, "▅▅▅"),
    ([None], 9, ""),
    ([1, 2], 0, ""),
    ([], 9, ""),
]


@pytest.mark.parametrize(("values", "width", "bars"), SPARKS)
def test_a_row_of_bars(values: list[float | None], width: int, bars: str) -> None:
    assert curve.spark(values, UNICODE, width) == bars
