"""Floods of output: long lines, redrawn lines, many cells; nothing grows without bound."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of, until
from textual.geometry import Region

from kbench.tui.session.status import pace_words
from kbench.tui.text.glyphs import ASCII, UNICODE, Glyphs
from kbench.tui.transcript import cells, transcript
from kbench.tui.transcript.cells import Block, ErrorPart, ResultPart, StreamPart
from kbench.tui.transcript.fit_curve import FitCurve
from kbench.workbench.output import terminal_lines

BEYOND = " ... (2,500,000 more characters)"


@pytest.mark.parametrize("pieces", [1, 3, 251])
def test_of_a_long_line_the_beginning_is_kept(pieces: int) -> None:
    part = StreamPart("stdout")
    text = "y" * (cells.MAX_LINE_CHARACTERS + 2_500_000)
    step = -(-len(text) // pieces)
    for at in range(0, len(text), step):
        part.append(text[at : at + step])
        assert len(part._open) <= cells.MAX_LINE_CHARACTERS
    assert _printed(part) == _without_blanks("y" * cells.MAX_LINE_CHARACTERS + BEYOND)
    part.append("z\nnext")
    words = BEYOND.replace("500,000", "500,001")
    shown = "y" * cells.MAX_LINE_CHARACTERS + words + "next"
    assert _printed(part) == _without_blanks(shown)


def _printed(part: StreamPart) -> str:
    """What is drawn, but for the blanks, at which rows are cut."""
    return _without_blanks("".join(row.plain for row in part.rows(80)))


def _without_blanks(text: str) -> str:
    return text.replace(" ", "")


def test_a_long_line_that_is_redrawn_begins_again() -> None:
    part = StreamPart("stdout")
    part.append("y" * (cells.MAX_LINE_CHARACTERS + 5))
    part.append("more\rab")
    assert part.plain().startswith("aby") and len(part.plain()) == cells.MAX_LINE_CHARACTERS
    part.append("\n")
    assert len(part._done) == 1 and not part._beyond


def test_lines_end_where_they_did_with_both_characters() -> None:
    part = StreamPart("stdout")
    part.append("y" * (cells.MAX_LINE_CHARACTERS + 5))
    part.append("y\r\nnext\r\n")
    assert [line.plain[-5:] for line in part._done] == ["ters)", "next"]


def test_errors_keep_their_style_and_are_folded_once() -> None:
    part = StreamPart("stderr")
    part.append("a\n" * 50)
    first = list(part.rows(40))
    part.append("b\n")
    second = part.rows(40)
    assert second[:50] == first and second[0] is first[0] and second[50].spans


@pytest.mark.parametrize(
    "line", ["10%\r20%\r30%", "abcdef\rXY", "a\r\rbc", "\r", "x\r", "ab\rabcd\rz", "日本\rx"]
)
def test_plain_redrawings_look_as_with_colours(line: str) -> None:
    slow = terminal_lines._draw("\x1b[0m" + line)
    assert terminal_lines._draw(line)[:2] == slow[:2]


def test_a_released_cell_keeps_its_end_and_says_what_is_gone() -> None:
    block = Block("1", "flood", "ok")
    block.stream("stdout", "".join(f"{n}\n" for n in range(500)))
    block.add(ResultPart("\n".join(map(str, range(300)))))
    block.add(ErrorPart("ValueError", "x", []))
    block.release()
    text = block.output_text()
    assert "(480 earlier lines not shown)" in text and "499" in text and "ValueError" in text
    assert len(block.rows(80, ASCII)) < 60


@pytest.mark.parametrize(
    ("begin", "late", "waiting", "answered"),
    [
        ("", "> cell.py(5)\n", "> cell.py(5)\nipdb>", "> cell.py(5)\nipdb> p x\n42"),
        ("a\nb: ", "", "a\nb: ipdb>", "a\nb: ipdb> p x\n42"),
        ("a: ", "b\n", "a: b\nipdb>", "a: b\nipdb> p x\n42"),
    ],
)
def test_a_question_stands_below_what_is_printed_before_and_comes_after(
    begin: str, late: str, waiting: str, answered: str
) -> None:
    block = Block("1", "breakpoint()", "running")
    block.stream("stdout", begin)
    block.ask("ipdb> ")
    block.stream("stdout", late)
    assert block.output_text() == waiting
    block.answer("p x\n")
    block.stream("stdout", "42")
    assert block.output_text() == answered
    asking = Block("2", "input()", "running")
    asking.ask("1 one\n2 two\n? ")
    asking.stream("stderr", "late\n")
    asking.answer("2\n")
    assert asking.output_text() == "late\n1 one\n2 two\n? 2"
    long = Block("3", "input()", "running")
    long.ask("y" * 10**7 + "\n" * 10**5 + "\rn? ")
    assert len(long.output_text()) < 10**5 and long.output_text().endswith("n?")


async def test_all_cells_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_ROWS", 1000)
    async with bench((120, 40)) as (app, pilot, _):
        view = app.query_one("#transcript")
        for number in range(10):
            block = view.add(Block(f"b{number}", "flood", "ok"))  # type: ignore[attr-defined]
            block.stream("stdout", "".join(f"{number}:{n}\n" for n in range(400)))
            view.changed(block)  # type: ignore[attr-defined]
        assert view.row_count() < 1600  # type: ignore[attr-defined]
        await settle(pilot)
        assert "9:399" in text_of(app)
        assert "earlier lines not shown" in view.blocks[0].output_text()  # type: ignore[attr-defined]


LOOPS = [["epoch", 12_365, 100_000], ["batch", 0, 8]]


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (60, "epoch 12,366 of 100,000, 782 calls/s, 14:56 left"),
        (48, "epoch 12,366 of 100,000, 782 calls/s, 14:56 left"),
        (47, "epoch 12,366 of 100,000, 14:56 left"),
        (30, "epoch 12,366 of 100,000"),
        (5, "epoch 12,366 of 100,000"),
    ],
)
def test_a_pace_that_does_not_fit_leaves_out_its_inner_loops_first(room: int, words: str) -> None:
    pace = {"calls": 9, "rate": 782.0, "loops": LOOPS, "left": 896.0}
    assert pace_words(pace, room) == words
    whole = pace_words({**pace, "loops": [["epoch", 3, 10], LOOPS[1]]}, room)
    assert ("batch 1 of 8, 782 calls/s, 14:56 left" in whole) == (room == 60)


async def test_the_pace_of_a_loop_is_in_the_status_line() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        session.inspector._pace.close()  # which would tell of the loops of this test itself
        await submit(pilot, "forever")
        data = {"calls": 9, "rate": 42.0, "loops": [["epoch", 2, 10]], "left": 80.0}
        session._published({"push": "pace", "data": data})
        words = "epoch 3 of 10, 42 calls/s, 1:20 left"  # at the next tick of the clock beside it
        assert words in (await until(app, pilot, words)).split("\n")[0]
        session.interrupt()
        await settle(pilot)
        assert "epoch" not in text_of(app).split("\n")[0]


async def test_of_a_redrawn_line_only_that_line_is_painted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench((120, 40)) as (app, pilot, _):
        view = app.query_one(transcript.Transcript)
        block = view.add(Block("b", "flood", "running"))
        block.stream("stdout", "one\ntwo\n10%")
        view.refit()
        await settle(pilot)
        painted: list[list[Region]] = []
        monkeypatch.setattr(view, "refresh", lambda *regions, **_: painted.append(list(regions)))
        block.stream("stdout", "\r20%")
        view.refit()
        width, height = view.size
        assert painted.pop() == [Region(0, 3, width, height - 3)]
        view.refit()
        assert painted.pop()[0].y == 5
        block.state, block.count = "ok", 1
        view.changed(block)
        assert painted.pop() == []
        monkeypatch.undo()
        block.stream("stdout", "\r30%")
        view.refit()
        await settle(pilot)
        assert "30%" in text_of(app) and "10%" not in text_of(app)


FIT = {
    "unit": "epoch",
    "count": 4,
    "series": [["loss", [2.0, 1.0, None, 0.25]], ["val_acc", [0.1, 0.2, 0.3, 0.4]]],
    "done": False,
}


@at_each_size
async def test_a_fit_has_its_curve_below_its_cell(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        await submit(pilot, "forever")
        session._published({"push": "fit", "data": {**FIT, "count": 3}})
        await until(app, pilot, "over 3 epochs")
        session._published({"push": "fit", "data": FIT})
        shown = await until(app, pilot, "loss 2 -> .25 over 4 epochs")
        (block,) = app.query_one(transcript.Transcript).blocks
        rows = [row.plain for row in block.rows(60, app.glyphs)]
        assert "val_acc .1 -> .4 ▁▃▆█" in shown and len(rows) == 8
        assert rows[2].startswith("   2 │") and rows[6].startswith(" .25 │")
        assert block.output_text() == "loss 2 -> .25 over 4 epochs\nval_acc .1 -> .4"
        session.interrupt()
        await settle(pilot)
        assert "over 4 epochs" in text_of(app)


@pytest.mark.parametrize("width", [1, 2, 7, 12, 20, 33, 80, 200])
@pytest.mark.parametrize("glyphs", [ASCII, UNICODE])
def test_a_curve_fits_every_width(width: int, glyphs: Glyphs) -> None:
    found = FitCurve.of(FIT)
    assert found is not None
    assert all(row.cell_length <= width for row in found.rows(width, glyphs))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (FIT, "loss 2 -> .25 over 4 epochs"),
        ({**FIT, "unit": "batch", "source": "fit"}, "over 4 batches"),
        ({**FIT, "unit": "call", "source": "train"}, "over 4 calls of train"),
        ({**FIT, "unit": "call"}, "over 4 calls"),
        ({**FIT, "unit": "later"}, "over 4 values"),
    ],
)
def test_a_curve_says_over_what_it_goes(data: dict[str, Any], words: str) -> None:
    found = FitCurve.of(data)
    assert found is not None and found.rows(80, None)[0].plain.endswith(words)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {**FIT, "series": []},
        {**FIT, "series": [["loss"]]},
        {**FIT, "series": [["loss", ["x"]]]},
        {**FIT, "series": 3},
        {**FIT, "count": "many"},
    ],
)
def test_a_fit_of_another_version_is_no_curve(data: dict[str, Any]) -> None:
    assert FitCurve.of(data) is None
