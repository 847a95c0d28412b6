"""Cells of a picture as text: each says of which picture it is a part, and which row and column.

They are the placeholders of kitty's graphics protocol: a character of private use with combining
marks, one cell wide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MARK = "\U0010eeee"
_MARK_RANGES = (
    "305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 "
    "59c-5a1 5a8-5a9 5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec "
    "730 732-733 735-736 73a 73d 73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 "
    "829-82d 951 953-954 f82-f83 f86-f87 135d-135f 17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 "
    "1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc 1dd1-1de6 1dfe 20d0-20d1 20d4-20d7 "
    "20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d a6f0-a6f1 a8e0-a8f1 aab0 "
    "aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad 1d242-1d244"
)
"""The combining marks that stand for numbers, from 0 on, as kitty's protocol lists them."""


def _marks() -> Iterator[str]:
    for words in _MARK_RANGES.split():
        first, _, last = words.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


NUMBERS = tuple(_marks())
_VALUES = {mark: number for number, mark in enumerate(NUMBERS)}
MAX_CELLS = 256
"""Rows and columns of a picture at most; there are marks for 297."""
RUN = re.compile(f"(?:{MARK}...)+", re.DOTALL)


class Piece(NamedTuple):
    """Cells side by side: columns `start` to `stop` of a row of the picture in a slot."""

    slot: int
    row: int
    start: int
    stop: int


def row_text(slot: int, row: int, columns: int) -> str:
    """One row of a picture."""
    tail = NUMBERS[slot]
    head = MARK + NUMBERS[row]
    return "".join(f"{head}{NUMBERS[column]}{tail}" for column in range(columns))


def pieces(run: str) -> list[Piece] | None:
    """What a run of placeholders stands for; None if it was not made here."""
    found: list[Piece] = []
    for at in range(0, len(run), 4):
        row, column, slot = (_VALUES.get(mark, -1) for mark in run[at + 1 : at + 4])
        if min(row, column, slot) < 0:
            return None
        last = found[-1] if found else None
        if last is not None and last[:2] == (slot, row) and last.stop == column:
            found[-1] = last._replace(stop=column + 1)
        else:
            found.append(Piece(slot, row, column, column + 1))
    return found
