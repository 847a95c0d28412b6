"""Errors as rows: the way to the expression, the operands below it, whatever the width."""

from __future__ import annotations

from typing import Any

import pytest
from fake_session import DETAIL
from rich.cells import cell_len

from kbench.tui.text.glyphs import ASCII, UNICODE
from kbench.tui.transcript.cells import ErrorPart
from kbench.tui.transcript.error_rows import chain_rows, error_rows, expression_rows

CHAIN = [
    {"place": "In [9]", "function": "<module>", "source": "loss = train(x)", "marks": [[7, 15]]},
    {"place": "In [8] line 3", "function": "g", "source": "    h = net(a)", "marks": [[12, 13]]},
]
DEEP: dict[str, Any] = {**DETAIL, "chain": CHAIN, "skipped": 0, "place": "In [8] line 7"}


def plain(rows: list[Any]) -> list[str]:
    return [row.plain for row in rows]


def test_the_way_is_one_row_a_call_and_the_last_is_drawn() -> None:
    rows = plain(error_rows(ErrorPart("ShapeError", "", [], DEEP), 80, UNICODE))
    at = rows.index("  In [9]         loss = train(x)")
    assert rows[at + 1] == "  In [8] line 3  h = net(a)"
    assert rows[at + 2] == "  In [8] line 7:" and rows[at + 3] == "  K.dot(w, x)"
    assert rows[at + 4].index("└") == rows[at + 3].index("x)")


def test_explained_each_call_has_its_mark() -> None:
    rows = plain(chain_rows(DEEP, 80, ASCII, full=True))
    assert rows[1] == " " * rows[0].index("train") + "^" * 8
    assert rows[3].index("^") == rows[2].index("a)")
    assert rows[3].count("^") == 1


def test_calls_left_out_are_counted() -> None:
    rows = plain(chain_rows({**DEEP, "chain": [*CHAIN, *CHAIN], "skipped": 40}, 60, ASCII))
    assert rows[2].strip() == f"{ASCII.ellipsis} 40 more calls" and len(rows) == 6


def test_what_stands_far_right_is_moved_into_view() -> None:
    source = "loss = K.mean(K.categorical_crossentropy(targets, K.softmax(K.dot(w, x))))"
    operands = [
        {**one, "start": source.index(text), "end": source.index(text) + 1}
        for one, text in zip(DETAIL["operands"], ("w, x", "x)))"), strict=True)  # type: ignore[arg-type]
    ]
    rows = plain(expression_rows([source], {"operands": operands}, 60, UNICODE))
    assert rows[0].strip().startswith("…") and "K.dot(w, x)" in rows[0]
    assert rows[1].index("└") == rows[0].index("x)") and rows[2].index("└") == rows[0].index("w,")


def test_wide_characters_keep_the_lines_straight() -> None:
    operands = [{**DETAIL["operands"][1], "start": 10, "end": 11}]  # type: ignore[index]
    rows = plain(expression_rows(["K.dot(日本, x)"], {"operands": operands}, 80, UNICODE))
    assert cell_len(rows[1][: rows[1].index("└")]) == cell_len(rows[0][: rows[0].index("x)")])


def test_an_expression_without_operands_is_marked() -> None:
    detail = {"operands": [], "span": [0, 4, 14], "layer": "layer 'd' (Dense)"}
    rows = plain(expression_rows(["y = K.zeros(3)"], detail, 80, ASCII))
    assert rows == ["  y = K.zeros(3)", "      ^^^^^^^^^^", "    in layer 'd' (Dense)"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_no_row_is_wider_than_the_pane(width: int, glyphs: Any) -> None:
    long = "x" * 150 + "日本" * 40
    chain = [{**CHAIN[0], "source": f"f({long})", "marks": [[2, 190]]}] * 3
    detail = {**DEEP, "chain": chain, "skipped": 5, "place": long, "layer": long}
    for one in (detail, {**detail, "operands": [], "source": [long], "span": [0, 100, 200]}):
        rows = error_rows(ErrorPart("ShapeError", long, [], one), width, glyphs)
        rows += chain_rows(one, width, glyphs, full=True)
        assert max(cell_len(row.plain) for row in rows) <= width
