"""Pictures in the transcript: half blocks that fit, characters without colours, text to copy."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession
from PIL import Image
from textual.color import Color

from kbench.tui.text import half_blocks
from kbench.tui.transcript import pictures
from kbench.tui.transcript.cells import ResultPart
from kbench.tui.transcript.transcript import Transcript
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

RED, BLUE, GREEN = (255, 0, 0), (0, 0, 255), (0, 255, 0)
CAPTION = "<Figure size 640x480 with 1 Axes>"


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that has them."""
    monkeypatch.setenv("TERM", "xterm-256color")


def png(size: tuple[int, int] = (640, 480)) -> str:
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (0, size[1] // 2, *size))
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def shows(data: str, count: int | None = None) -> Any:
    """A cell that displays a picture."""

    def act(session: FakeSession, cell: Cell) -> None:
        bundle = {"text/plain": CAPTION, "image/png": data}
        session._emit(events.Result(cell.ident, CAPTION, bundle, count))
        session.finish(cell)

    return act


def picture_rows(app: Any) -> list[str]:
    view = app.query_one(Transcript)
    rows = [view.row(y).plain[1:] for y in range(view.row_count())]
    return [row for row in rows if row and set(row) <= {half_blocks.HALF}]


@at_each_size
async def test_a_figure_fits_and_follows_the_width(size: tuple[int, int]) -> None:
    session = FakeSession()
    session.script["plot"] = shows(png())
    async with bench(size, session) as (app, pilot, _):
        await submit(pilot, "plot")
        view = app.query_one(Transcript)
        for other in (size, (size[0] + 30, size[1])):
            await pilot.resize_terminal(*other)
            await settle(pilot)
            rows = picture_rows(app)
            width, height = len(rows[0]), 2 * len(rows)
            assert width <= view.columns and abs(width / height - 640 / 480) < 0.1
            high = max(view.size.height - 2, half_blocks.MIN_ROWS)
            assert width == view.columns or len(rows) == high
        assert half_blocks.HALF in text_of(app)


async def test_a_later_display_takes_the_place_of_the_first() -> None:
    """In the cell that shows it, while another runs; a picture goes when its text has none."""
    session = FakeSession()

    def displays(text: str, data: str = "", updates: bool = True) -> Any:
        def act(session: FakeSession, cell: Cell) -> None:
            bundle = {"text/plain": text} | ({"image/png": data} if data else {})
            session._emit(events.Result(cell.ident, text, bundle, None, "x", updates))
            session.finish(cell)

        return act

    session.script["plot"] = displays("first", png(), updates=False)
    session.script["wider"] = displays("second", png((640, 240)))
    session.script["words"] = displays("third")
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "plot")
        high = len(picture_rows(app))
        await submit(pilot, "wider")
        assert "second" in text_of(app) and "first" not in text_of(app)
        assert 0 < len(picture_rows(app)) < high
        await submit(pilot, "words")
        assert "third" in text_of(app) and "second" not in text_of(app)
        assert picture_rows(app) == []


async def test_copying_gives_the_text_and_folding_hides_the_picture() -> None:
    session = FakeSession()
    session.script["plot"] = shows(png(), 1)
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "plot")
        block = app.query_one(Transcript).blocks[0]
        assert picture_rows(app) and block.output_text() == f"Out[1]: {CAPTION}"
        block.folded = True
        app.query_one(Transcript).changed(block)
        assert not picture_rows(app)


@pytest.mark.parametrize(
    ("options", "environment"), [({"ascii": True}, {}), ({}, {"NO_COLOR": "1"})]
)
async def test_without_colours_there_are_shades_of_characters(
    options: dict[str, Any], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    session = FakeSession()
    session.script["plot"] = shows(png((40, 20)))
    async with bench((120, 40), session, **options) as (app, pilot, _):
        await submit(pilot, "plot")
        shown = text_of(app)
        assert half_blocks.HALF not in shown
        bright, dark = (2 * half_blocks.shade(colour, 255) for colour in (RED, BLUE))
        assert bright * 20 in shown and dark * 20 in shown


async def test_what_cannot_be_decoded_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession()
    session.script["broken"] = shows("AAAA")
    session.script["plot"] = shows(png())
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "broken")
        monkeypatch.setitem(sys.modules, "PIL", None)
        await submit(pilot, "plot")
        assert text_of(app).count(CAPTION) == 2 and not picture_rows(app)


async def test_the_oldest_pictures_go_and_cleared_ones_do_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "MAX_PICTURES", 2)
    session = FakeSession()
    session.script["plot"] = shows(png((20, 16)))

    def clears(session: FakeSession, cell: Cell) -> None:
        shown = {"text/plain": CAPTION, "image/png": png((20, 16))}
        session._emit(events.Result(cell.ident, CAPTION, shown, None))
        session._emit(events.ClearOutput(cell.ident, False))
        session.finish(cell)

    session.script["clears"] = clears
    async with bench((120, 40), session) as (app, pilot, _):
        for code in ("plot", "plot", "plot", "clears"):
            await submit(pilot, code)
        parts = [part for one in app.query_one(Transcript).blocks for part in one.parts]
        kept = [part.picture is not None for part in parts if isinstance(part, ResultPart)]
        assert kept == [False, True, True]


def test_two_lines_of_pixels_are_one_row() -> None:
    row, last = half_blocks.drawn([[RED, RED, BLUE], [GREEN, GREEN, RED], [BLUE] * 3], True)
    assert row.plain == last.plain == half_blocks.HALF * 3
    first, second = row.spans
    assert (first.start, first.end, second.end) == (0, 2, 3)
    assert first.style.foreground == Color(*RED) and first.style.background == Color(*GREEN)
    assert last.spans[0].style.background is None


@pytest.mark.parametrize("level", [0, 255])
def test_black_and_white_are_drawn_as_they_are(level: int) -> None:
    (row,) = half_blocks.drawn([[(level, level, level)]], True)
    assert row.spans[0].style.foreground == Color(level, level, level)
