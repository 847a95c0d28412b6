"""Texts and bytes as numbered rows of a width."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.workbench.contents import lines

TEXTS: list[tuple[Any, int, list[tuple[str, str]]]] = [
    ("", 10, [("1", "")]),
    ("a\nb", 10, [("1", "a"), ("2", "b")]),
    ("a\n\nb\n", 10, [("1", "a"), ("2", ""), ("3", "b")]),
    ("a\r\nb", 10, [("1", "a"), ("2", "b")]),
    ("0123456789abc\nd", 10, [("1", "0123456789"), ("", "abc"), ("2", "d")]),
    ("0123456789\nd", 10, [("1", "0123456789"), ("2", "d")]),
    ("é" * 12, 10, [("1", "é" * 10), ("", "éé")]),
    ("漢" * 6, 10, [("1", "漢" * 5), ("", "漢")]),
    ("a\tb\x1b[0m\u202e\ud800", 30, [("1", "a\tb\\x1b[0m\\u202e\\ud800")]),
    (12345, 10, [("1", "12345")]),
    (None, 10, [("1", "None")]),
    (
        b"\x00\x01Az" + b"~\x7f",
        20,
        [("0", "00 01 41 7a  ..Az"), ("4", "7e 7f        ~.")],
    ),
    (b"", 20, [("0", "             ")]),
    (bytearray(b"AB"), 80, [("0", "41 42" + " " * 43 + " AB")]),
]


@pytest.mark.parametrize(("value", "width", "rows"), TEXTS)
def test_rows_are_the_same_in_any_page(value: Any, width: int, rows: list[tuple[str, str]]) -> None:
    found = lines.page(value, 0, 100, width)
    assert found == (rows, len(rows)) and lines.is_text(value)
    for at, row in enumerate(rows):
        assert lines.page(value, at, at + 1, width) == ([row], len(rows))
    assert lines.page(value, len(rows), len(rows) + 5, width).rows == []


@pytest.mark.parametrize("value", [[], {}, object(), len])
def test_what_is_no_text(value: Any) -> None:
    assert not lines.is_text(value)


def test_a_class_made_of_a_text_is_read_as_a_text() -> None:
    class Shouting(str):
        def __str__(self) -> str:
            raise AssertionError

        __getitem__ = __len__ = __iter__ = __str__  # type: ignore[assignment]

    assert lines.page(Shouting("a\nb"), 0, 9, 10).rows == [("1", "a"), ("2", "b")]
