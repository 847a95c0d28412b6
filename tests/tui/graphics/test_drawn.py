"""Pictures as they are written: read back pixel by pixel, cut, covered, sent once and deleted."""

from __future__ import annotations

import asyncio
import base64
import io

import pytest
from bench_screen import bench, settle, submit
from fake_session import FakeSession
from graphics_helpers import ANSWERS, Terminal, kitty_messages, kitty_picture, sixel_picture
from PIL import Image
from rich.segment import Segment
from textual.strip import Strip

from kbench.tui.graphics import graphics as graphics_module
from kbench.tui.graphics import placeholders
from kbench.tui.graphics.graphics import Graphics, PictureRow, SharpPicture
from kbench.tui.graphics.placeholders import MARK, Piece, pieces, row_text
from kbench.tui.graphics.sixel import SixelPicture
from kbench.tui.transcript.transcript import Transcript
from kbench.workbench.output import picture
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

CELL = 8, 17


def striped(size: tuple[int, int]) -> Image.Image:
    """Columns and rows that all differ, in few colours."""
    image = Image.new("RGB", size)
    for x in range(size[0]):
        for y in range(size[1]):
            image.putpixel((x, y), (x // 4 % 2 * 255, y // 5 % 2 * 255, (x + y) // 16 % 2 * 255))
    return image


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def drawing(kind: str) -> Graphics:
    """Graphics whose terminal is known."""
    graphics = Graphics()
    graphics.kind, graphics.answers.cell = kind, CELL
    return graphics


def lines(shown: SharpPicture, columns: int, rows: int) -> list[str]:
    found = shown.rows(columns, rows)
    assert all(isinstance(row, PictureRow) and row.plain == " " * columns for row in found)
    return [row.cells.plain for row in found if isinstance(row, PictureRow)]


def test_cells_are_one_cell_wide_and_are_known_wherever_textual_cuts() -> None:
    strip = Strip([Segment("ab" + row_text(7, 3, 20))])
    assert strip.cell_length == 22
    parts = strip.divide([2, 9, 22])
    assert [pieces(part.text) for part in parts[1:]] == [[Piece(7, 3, 0, 7)], [Piece(7, 3, 7, 20)]]
    assert pieces(strip.crop(5, 9).text) == [Piece(7, 3, 3, 7)]
    assert pieces(row_text(1, 0, 2) + row_text(2, 1, 1)) == [Piece(1, 0, 0, 2), Piece(2, 1, 0, 1)]
    assert pieces(MARK + "abc") is None and len(set(placeholders.NUMBERS)) == 297


def test_kitty_gets_a_picture_once_a_place_per_size_and_its_end() -> None:
    graphics, image = drawing("kitty"), striped((90, 60))
    said: list[str] = []
    graphics.use(said.append, -1)
    shown = graphics.add(png(image))
    first, second = lines(shown, 10, 2)
    sent = graphics.written(f"x{first}y\n{second}z")
    messages = kitty_messages(sent)
    assert kitty_picture(sent).convert("RGB").tobytes() == image.tobytes()
    placed = [keys for keys, _ in messages if keys.get("a") == "p"]
    (place,) = placed
    assert (place["c"], place["r"], place["U"]) == ("10", "2", "1")
    assert all(keys["q"] == "2" for keys, _ in messages)  # no answers among the keys
    number = int(messages[0][0]["i"])
    assert number & 0xFF_FFFF == shown.slot and f"\x1b[38;5;{shown.slot}m{MARK}" in sent
    assert sent[sent.index(MARK) + 3] == placeholders.NUMBERS[number >> 24]
    assert sent.startswith("x") and "\x1b[39my\n" in sent and sent.endswith("\x1b[39mz")
    assert "\x1b_G" not in graphics.written(first)
    again = kitty_messages(graphics.written(lines(shown, 12, 3)[0]))
    assert [keys["a"] for keys, _ in again] == ["p"] and again[0][0]["c"] == "12"
    graphics.forget(shown)
    assert kitty_messages(said[-1])[0][0] == {"a": "d", "d": "I", "i": str(number), "q": "2"}
    assert graphics.written(first) == first  # nobody's cells are left alone


def test_the_chunks_are_as_long_as_the_protocol_says() -> None:
    graphics = drawing("kitty")
    shown = graphics.add(bytes(range(256)) * 60)
    messages = kitty_messages(graphics.written(lines(shown, 2, 1)[0]))[:-1]
    assert len(messages) == 5 and all(len(payload) <= 4096 for _, payload in messages)
    assert [keys["m"] for keys, _ in messages] == ["1", "1", "1", "1", "0"]
    assert base64.b64decode("".join(payload for _, payload in messages)) == shown.file


def test_who_pauses_sends_pictures_again() -> None:
    graphics = drawing("kitty")
    said: list[str] = []
    graphics.use(said.append, -1)
    (row,) = lines(graphics.add(b"file"), 4, 1)
    first = graphics.written(row)
    graphics.leave()
    assert kitty_messages(said[-1])[0][0]["a"] == "d" and graphics.written(row) == first


def test_the_241st_picture_takes_the_place_of_the_first() -> None:
    graphics = drawing("kitty")
    shown = [graphics.add(b"file") for _ in range(241)]
    assert shown[0].slot == shown[-1].slot and graphics.written(lines(shown[1], 1, 1)[0]) != ""
    assert len(graphics._pictures) == 240


@pytest.mark.parametrize("size", [(40, 24), (41, 17), (7, 3)])
def test_sixels_are_the_pixels(size: tuple[int, int]) -> None:
    image = striped(size)
    drawn = SixelPicture(image, size, 256)
    whole = sixel_picture(drawn.part(0, 0, *size))
    assert whole.convert("RGB").tobytes() == image.tobytes()
    assert min(whole.getchannel("A").tobytes()) == 255
    box = 2, 1, size[0] - 3, size[1] - 1
    assert sixel_picture(drawn.part(*box)).convert("RGB").tobytes() == image.crop(box).tobytes()


def test_a_terminal_of_few_colours_gets_few() -> None:
    noise = Image.effect_noise((60, 60), 90).convert("RGB")
    text = SixelPicture(noise, noise.size, 16).part(0, 0, 60, 60)
    assert text.count(";2;") == 16 and "#16" not in text


def test_a_block_of_rows_is_one_sixel_and_rows_below_go_past_it() -> None:
    graphics = drawing("sixel")
    size = 5 * CELL[0], 3 * CELL[1]
    image = striped(size)
    rows = lines(graphics.add(png(image)), 5, 3)
    sent = graphics.written("\r\n".join(f"[{row}]" for row in rows))
    assert sent.count("\x1bP") == 1 and MARK not in sent
    head, *below = sent.split("\r\n")
    assert head.startswith("[\x1b7" + "\x1b[5X\x1b[B" * 3 + "\x1b8\x1bP")
    assert head.endswith("\x1b\\\x1b8\x1b[5C]") and below == ["[\x1b[5C]"] * 2
    assert sixel_picture(sent).convert("RGB").tobytes() == image.tobytes()
    last = graphics.written(rows[2])  # scrolled, so that only the last row is on the screen
    box = 0, 2 * CELL[1], *size
    assert sixel_picture(last).convert("RGB").tobytes() == image.crop(box).tobytes()


def test_what_a_dialog_covers_is_not_drawn() -> None:
    graphics = drawing("sixel")
    image = striped((6 * CELL[0], 2 * CELL[1]))
    rows = lines(graphics.add(png(image)), 6, 2)
    covered = [Strip([Segment(row)]).divide([2, 4, 6]) for row in rows]
    sent = graphics.written("\n".join(f"{left.text}##{right.text}" for left, _, right in covered))
    left, right = sent.split("\n")[0].split("##")
    wide, high = CELL
    for text, start in ((left, 0), (right, 4)):
        box = start * wide, 0, (start + 2) * wide, 2 * high
        assert sixel_picture(text).convert("RGB").tobytes() == image.crop(box).tobytes()
    assert sent.split("\n")[1] == "\x1b[2C##\x1b[2C"


def test_a_small_picture_keeps_its_pixels_as_squares() -> None:
    small = striped((28, 20))
    data = {"image/png": base64.b64encode(png(small)).decode()}
    found = picture.decoded(data, sharp=True)
    assert found is not None and (found.width, found.height) == (28, 20)
    sharp = Image.open(io.BytesIO(found.sharp)).convert("RGB")
    times = sharp.width // small.width
    assert times > 3
    assert sharp.resize(small.size, Image.Resampling.NEAREST).tobytes() == small.tobytes()
    plain = picture.decoded(data)
    assert plain is not None and plain.sharp == b""


@pytest.mark.parametrize("kind", ["kitty", "sixel"])
async def test_the_transcript_draws_cells_and_copies_blanks(kind: str) -> None:
    session, image = FakeSession(), striped((320, 240))
    caption = "<Figure size 320x240 with 1 Axes>"

    def shows(session: FakeSession, cell: Cell) -> None:
        data = {"text/plain": caption, "image/png": base64.b64encode(png(image)).decode()}
        session._emit(events.Result(cell.ident, caption, data, None))
        session.finish(cell)

    session.script["plot"] = shows
    async with bench((120, 40), session) as (app, pilot, _):
        app.graphics.kind = kind
        app.graphics.found = _at_once  # type: ignore[method-assign]
        await submit(pilot, "plot")
        await settle(pilot)
        view = app.query_one(Transcript)
        texts = [view.render_line(y).text for y in range(view.size.height)]
        drawn = [text for text in texts if MARK in text]
        (found,) = (one for text in drawn[:1] for one in pieces(text[1:].rstrip()) or ())
        columns, rows = found.stop, len(drawn)
        assert found.row == 0 and abs(columns / (2 * rows) - 320 / 240) < 0.1
        assert all(MARK not in view.row(y).plain for y in range(view.row_count()))
        (shown,) = app.graphics._pictures.values()
        assert shown.size == (columns, rows)
        if kind == "sixel":  # made before it is shown, and not for each row
            assert shown.sixels is not None and shown.sixels.size == (10 * columns, 20 * rows)
            made = dict(shown.sixels._bands)
            app.graphics.written("\n".join(drawn))
            assert shown.sixels._bands == made
        block = view.blocks[0]
        block.folded = True
        view.changed(block)
        assert MARK not in "".join(view.render_line(y).text for y in range(view.size.height))


async def test_a_display_that_is_updated_keeps_one_picture_in_the_terminal() -> None:
    session, images = FakeSession(), [striped((320, 240)), striped((320, 120))]

    def shows(session: FakeSession, cell: Cell) -> None:
        for number in range(12):
            image = base64.b64encode(png(images[number % 2])).decode()
            data = {"text/plain": f"figure {number}", "image/png": image}
            session._emit(
                events.Result(cell.ident, f"figure {number}", data, None, "x", number > 0)
            )
        session.finish(cell)

    session.script["plot"] = shows
    async with bench((120, 40), session) as (app, pilot, _):
        app.graphics.kind = "kitty"
        app.graphics.found = _at_once  # type: ignore[method-assign]
        for _ in range(2):  # the second cell's display has the same id: both show the last
            await submit(pilot, "plot")
            await settle(pilot)
        view = app.query_one(Transcript)
        parts = [part for block in view.blocks for part in block.parts]
        assert [part.text for part in parts] == ["figure 11", "figure 11"]
        assert len(app.graphics._pictures) == 2
        for part in parts:
            assert part.sharp in app.graphics._pictures.values()
            shown = Image.open(io.BytesIO(part.sharp.file))
            assert shown.width / shown.height == 320 / 120


async def test_a_late_answer_has_what_is_shown_drawn_by_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow line: half blocks until the terminal has said what it draws."""
    monkeypatch.setattr(graphics_module, "MAX_WAIT_SECONDS", 0.0)
    session, data = FakeSession(), base64.b64encode(png(striped((320, 240)))).decode()

    def shows(session: FakeSession, cell: Cell) -> None:
        for number in range(2):
            bundle = {"text/plain": f"figure {number}", "image/png": data}
            session._emit(events.Result(cell.ident, f"figure {number}", bundle, None))
        session.finish(cell)

    session.script["plot"] = shows
    async with bench((200, 50), session) as (app, pilot, _):
        terminal = Terminal(app.graphics, "")
        await submit(pilot, "plot")
        view = app.query_one(Transcript)

        def sharp() -> list[bool]:
            return [part.sharp is not None for part in view.blocks[0].parts]

        assert sharp() == [False, False] and not app.graphics._pictures
        terminal.types(ANSWERS["kitty"])
        for _ in range(500):
            await settle(pilot)
            if all(sharp()):
                break
            await asyncio.sleep(0.01)
        await settle(pilot)
        texts = [view.render_line(y).text for y in range(view.size.height)]
        assert any(MARK in text for text in texts) and sharp() == [True, True]
        assert len(app.graphics._pictures) == 2
        await pilot.press("ctrl+l")  # which makes none again
        await settle(pilot)
        assert len(app.graphics._pictures) == 2


async def _at_once() -> str:
    return "kitty"
