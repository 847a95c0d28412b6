"""Texts to read in a dialog: docstrings, errors, whole values."""

from __future__ import annotations

import pytest
from bench_screen import bench, settle
from textual.content import Content

from kbench.tui.dialogs.dialogs import Pager

DOC = """Adds.

Arguments:
    x: an array of any shape, of which every element is taken, however many of them there are in it.
        float16 is computed in float32, and what comes out of it is rounded again, once at the end.
    - y: another

>>> for row in K.eval(K.add(x, y)):
...     print(row)"""


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_wrapped_lines_keep_their_indentation(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        pager = Pager("Documentation", [Content(line) for line in DOC.split("\n")])
        app.push_screen(pager)
        await settle(pilot)
        rows = [row.plain for row in pager._lines._rows]
        words = " ".join(row.strip() for row in rows if row.strip()).split()
        assert words == DOC.split()  # nothing is lost, and no word is cut
        indents = [len(row) - len(row.lstrip()) for row in rows]
        at = next(place for place, row in enumerate(rows) if row.startswith("    x: an"))
        end = next(place for place, row in enumerate(rows) if row.startswith("    - y"))
        assert end > at + 2 or size[0] == 120
        assert set(indents[at:end]) == {4, 8} and sorted(indents[at:end]) == indents[at:end]
        assert rows[-1] == "...     print(row)"
