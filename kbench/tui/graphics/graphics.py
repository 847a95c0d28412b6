"""Which graphics a terminal has, the pictures that it draws, and how rows of them are written."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content

from kbench.engine.runtime.environment import env
from kbench.tui.graphics import kitty, placeholders
from kbench.tui.graphics.answers import COLOUR_QUESTION, QUESTIONS, SIXEL_FEATURE, Answers
from kbench.tui.graphics.placeholders import MARK, MAX_CELLS, RUN, Piece, pieces
from kbench.tui.graphics.tmux import Client, Viewers

if TYPE_CHECKING:
    from kbench.tui.graphics.sixel import SixelPicture

SLOTS = range(16, 256)
"""Numbers of pictures: kitty takes them for colours, of which the first 16 have names of their own
that tmux would write."""
MAX_WAIT_SECONDS = 0.5
"""The first picture, and those beside it, wait so long for the terminal's answer; when it comes
later, what is shown by then is drawn again."""
FALLBACK_CELL = 10, 20
"""Pixels of a cell, where sixels are asked for and nobody says: those of a VT340."""
SIXEL_COLOURS = 256
"""Where the terminal does not say."""


class PictureRow(Content):
    """A row of a picture: blanks for who copies it, and its placeholders."""

    __slots__ = ("cells",)

    def __init__(self, cells: str, columns: int) -> None:
        super().__init__(" " * columns, cell_length=columns)
        self.cells = Content(cells, cell_length=columns)


class SharpPicture(Struct, eq=False):
    """A picture that the terminal draws: `file` is a PNG."""

    slot: int
    file: bytes
    size: tuple[int, int] = (0, 0)  # columns and rows of cells
    sent: bool = False
    placed: tuple[int, int] = (0, 0)
    sixels: SixelPicture | None = None

    def rows(self, columns: int, rows: int) -> list[Content]:
        """Laid out in so many cells, 256 each way at most."""
        columns, rows = min(columns, MAX_CELLS), min(rows, MAX_CELLS)
        self.size = columns, rows
        texts = (placeholders.row_text(self.slot, row, columns) for row in range(rows))
        return [PictureRow(text, columns) for text in texts]


class Graphics:
    """Those of one terminal: `kind` is `kitty`, `sixel`, or '' for half blocks.

    `wish` is one of the words of `--pictures`.
    """

    def __init__(self, wish: str = "auto") -> None:
        self.wish = wish
        self.kind = ""
        self.answers = Answers()
        self._write: Callable[[str], None] | None = None
        self._fileno = -1
        self._search: asyncio.Task[None] | None = None
        self._waits_until = 0.0  # by the clock of the event loop
        self._is_late = False  # pictures are shown that have not waited for the answer
        self.redraw: Callable[[], None] = self.send_again  # where a terminal has lost pictures
        self._viewers: Viewers | None = None  # of the pane of tmux that this runs in
        self._pictures: dict[int, SharpPicture] = {}
        self._slots = itertools.cycle(SLOTS)

    def use(self, write: Callable[[str], None], fileno: int) -> None:
        """There is a terminal: `write` writes to it, `fileno` tells its size."""
        self._write, self._fileno = write, fileno

    # ------------------------------------------------------------------ what there is

    async def found(self) -> str:
        """The kind of graphics; the first call asks the terminal."""
        if self._write is None or self.wish == "blocks":
            return ""
        clock = asyncio.get_running_loop().time
        if self._search is None:
            self._search = asyncio.create_task(self._find())
            self._waits_until = clock() + MAX_WAIT_SECONDS
        if not self._search.done():
            left = max(self._waits_until - clock(), 0.0)
            await asyncio.wait({self._search}, timeout=left)
            self._is_late = not self._search.done()
        return self.kind

    async def _find(self) -> None:
        if env("TERM") == "linux" or env("TERM_PROGRAM") == "Apple_Terminal":
            self.kind = "" if self.wish == "auto" else self.wish
            return  # which draw what they do not understand
        await self._ask(QUESTIONS)
        name, features = self.answers.name, self.answers.features
        wish = self.wish
        if name.startswith("tmux"):
            # tmux keeps a sixel only until something is written over a part of it.
            self._viewers = Viewers(self._came)
            wish = self._behind_tmux(await self._viewers.begin())
        elif wish == "auto":
            sixels = SIXEL_FEATURE in features and all(self._cell())
            wish = "kitty" if kitty.has_placeholders(name) else "sixel" if sixels else ""
        if wish == "sixel" and features:
            await self._ask(COLOUR_QUESTION)
        self.kind = wish
        if self._is_late and self.kind:
            self.redraw()

    def _behind_tmux(self, clients: frozenset[Client]) -> str:
        """What all of the terminals draw that show the pane of tmux."""
        if self.wish != "auto":
            return self.wish
        draw = clients and all(kitty.has_placeholders(client.name) for client in clients)
        return "kitty" if draw else ""

    def _came(self, clients: frozenset[Client]) -> None:
        """Another terminal shows the pane of tmux."""
        self.kind = self._behind_tmux(clients)
        self.redraw()

    def look(self) -> None:
        """The user is there: find out whether in another terminal."""
        if self._viewers is not None:
            self._viewers.look()

    async def _ask(self, questions: str) -> None:
        assert self._write is not None
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def answered() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(done.set)

        self.answers.expect(answered)
        self._write(questions)
        if self.wish == "auto":
            await done.wait()
        else:  # what is forced is drawn without an answer, too
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), MAX_WAIT_SECONDS / 2)

    def _cell(self) -> tuple[int, int]:
        """Width and height of a cell in pixels, zeros if nobody says."""
        with contextlib.suppress(OSError, ValueError, ImportError):
            import fcntl
            import struct
            import termios

            packed = fcntl.ioctl(self._fileno, termios.TIOCGWINSZ, bytes(8))
            rows, columns, width, height = struct.unpack("HHHH", packed)
            if rows and columns and width >= columns and height >= rows:
                return width // columns, height // rows
        return self.answers.cell

    # ------------------------------------------------------------------ pictures

    def add(self, file: bytes) -> SharpPicture:
        """A picture to be drawn, in the place of the one that was added 240 pictures ago."""
        slot = next(self._slots)
        self.forget(self._pictures.get(slot))
        picture = self._pictures[slot] = SharpPicture(slot, file)
        return picture

    def forget(self, picture: SharpPicture | None) -> None:
        """A picture is no longer shown."""
        if picture is None or self._pictures.get(picture.slot) is not picture:
            return
        del self._pictures[picture.slot]
        if picture.sent and self._write is not None:
            self._write(self._handed_on([kitty.deleted(picture.slot)]))

    def leave(self) -> None:
        """The program stops or pauses: the terminal keeps nothing. What is drawn is sent again."""
        for picture in self._pictures.values():
            if picture.sent and self._write is not None:
                self._write(self._handed_on([kitty.deleted(picture.slot)]))
        self.send_again()

    def send_again(self) -> None:
        """The terminal may have lost its pictures: send those that are drawn from now on."""
        for picture in self._pictures.values():
            picture.sent, picture.placed = False, (0, 0)

    def stop(self) -> None:
        """Wait for no answer any more."""
        if self._search is not None:
            self._search.cancel()
        if self._viewers is not None:
            self._viewers.stop()

    # ------------------------------------------------------------------ what is written

    def written(self, data: str) -> str:
        """What goes to the terminal for text with placeholders in it."""
        if MARK not in data or not self.kind:
            return data
        runs = [(run.span(), pieces(run.group())) for run in RUN.finditer(data)]
        known = [
            (span, found)
            for span, found in runs
            if found and all(piece.slot in self._pictures for piece in found)
        ]
        sequences = self._kitty(known) if self.kind == "kitty" else self._sixel(known)
        parts, at = [], 0
        for ((start, end), _), sequence in zip(known, sequences, strict=True):
            parts += [data[at:start], sequence]
            at = end
        return "".join([*parts, data[at:]])

    def _kitty(self, runs: list[tuple[tuple[int, int], list[Piece]]]) -> list[str]:
        found, sent = [], False
        for _, run in runs:
            text = ""
            for piece in run:
                picture = self._pictures[piece.slot]
                sent = sent or not picture.sent
                messages = [] if picture.sent else kitty.sent(piece.slot, picture.file)
                if picture.placed != picture.size:
                    messages.append(kitty.placed(piece.slot, *picture.size))
                picture.sent, picture.placed = True, picture.size
                text += self._handed_on(messages) + kitty.cells(piece)
            found.append(text)
        if sent:
            self.look()  # it may be that nobody does, and nothing has arrived
        return found

    def _handed_on(self, messages: list[str]) -> str:
        return "".join(map(kitty.through_tmux, messages) if self._viewers is not None else messages)

    def _sixel(self, runs: list[tuple[tuple[int, int], list[Piece]]]) -> list[str]:
        """A block of rows is drawn with its first; those below only go past it."""
        heights: dict[tuple[int, int, int], list[int]] = {}  # rows from which on, how many
        firsts: dict[Piece, list[int]] = {}
        for _, run in runs:
            for piece in run:
                key = piece.slot, piece.start, piece.stop
                last = heights.get(key)
                if last is None or last[0] + last[1] != piece.row:
                    last = heights[key] = firsts[piece] = [piece.row, 0]
                last[1] += 1
        found = []
        for _, run in runs:
            text = ""
            for piece in run:
                if (first := firsts.pop(piece, None)) is not None:
                    text += self._block(piece, first[1])
                text += f"\x1b[{piece.stop - piece.start}C"
            found.append(text)
        return found

    def _block(self, piece: Piece, rows: int) -> str:
        """Clears cells and draws on them, with the cursor left where it was."""
        wide, high = self._drawn_cell()
        picture = self._pictures[piece.slot]
        sixels = self._sixels(picture, *picture.size)
        clear = f"\x1b[{piece.stop - piece.start}X\x1b[B" * rows
        top, bottom = piece.row * high, (piece.row + rows) * high
        drawn = sixels.part(piece.start * wide, top, piece.stop * wide, bottom)
        return f"\x1b7{clear}\x1b8{drawn}\x1b8"

    def prepare(self, picture: SharpPicture, columns: int, rows: int) -> None:
        """Do beside the event loop, before it is shown, what takes some 0.1 s of a picture."""
        if self.kind == "sixel":
            sixels = self._sixels(picture, columns, rows)
            sixels.part(0, 0, *sixels.size)

    def _sixels(self, picture: SharpPicture, columns: int, rows: int) -> SixelPicture:
        wide, high = self._drawn_cell()
        size = columns * wide, rows * high
        if picture.sixels is None or picture.sixels.size != size:
            import io

            from PIL import Image

            from kbench.tui.graphics.sixel import SixelPicture

            with Image.open(io.BytesIO(picture.file)) as image:
                colours = self.answers.colours or SIXEL_COLOURS
                picture.sixels = SixelPicture(image.convert("RGB"), size, colours)
        return picture.sixels

    def _drawn_cell(self) -> tuple[int, int]:
        cell = self._cell()
        return cell if all(cell) else FALLBACK_CELL
