"""What the screen says of the session: status line, hint, banner, number and title of the cells."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.layout import LABEL_CELLS
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session import status
from kbench.tui.session.bars import Banner, HintLine, Line, StatusLine
from kbench.tui.signal import SettingsChanged, Signal
from kbench.tui.text.glyphs import counted, human_seconds
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import Block
from kbench.tui.transcript.transcript import Transcript
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from textual.timer import Timer

    from kbench.tui.main_screen import MainScreen

TICK_SECONDS = 0.1
"""Seconds between two pictures of the spinner."""
SLOW_TICK_SECONDS = 1.0
"""The same where little shall move: once a second."""


class StatusController:
    """What is known of the session, and the lines that tell it; a subclass keeps it current."""

    def __init__(self, screen: MainScreen, signal: Signal) -> None:
        self.screen = screen
        self.signal = signal
        self.state = "starting"  # starting, idle, busy, dead, failed
        self.settings: JsonObject = {}
        self.memory = 0  # bytes of the kernel process, when last asked
        self.pace: JsonObject = {}  # of the running cell's loop, as the kernel tells it
        self._since = time.monotonic()
        self._last_seconds: float | None = None
        self._beat = 0
        self._timer: Timer | None = None
        self._hint = ""
        self._first_block = 0  # the first cell of the present kernel
        self._ran_before = 0  # cells that an attached kernel has run without us

    # ------------------------------------------------------------------ widgets

    @property
    def transcript(self) -> Transcript:
        """The transcript."""
        return self.screen.query_one(Transcript)

    @property
    def waiting(self) -> int:
        """Cells that have been typed but not started."""
        return sum(block.state == "queued" for block in self.transcript.blocks)

    def running(self) -> Block | None:
        """The cell that runs."""
        return next((block for block in self.transcript.blocks if block.state == "running"), None)

    @property
    def attached(self) -> str:
        """The name of the kernel when it is somebody else's."""
        return str(getattr(self.screen.bench.link.session, "attached", ""))

    # ------------------------------------------------------------------ banner and lines

    def _banner(self, text: str, choices: list[tuple[str, str]]) -> None:
        for banner in self.screen.query(Banner):
            banner.set_choices(text, choices)
        words = len(text) + sum(len(word) + 3 for word, _ in choices) + 3
        self.screen.choices.banner = 1 + words // max(self.screen.size.width, 1)
        self.screen.relayout()

    def _clear_banner(self) -> None:
        if self.screen.choices.banner:
            self.screen.choices.banner = 0
            self.screen.relayout()

    def take_settings(self, settings: JsonObject) -> None:
        """The kernel's settings, shown at once."""
        if settings:
            self.settings = dict(settings)
            self.signal.emit(SettingsChanged(self.settings))
            self.show_status()

    def show_hint(self, text: str = "") -> None:
        """Words below the prompt; '' for those that fit the moment."""
        self._hint = text
        if not text and self.state == "starting":
            queued = f", {self.waiting} waiting for it" if self.waiting else ""
            text = f"type ahead: the kernel is starting{queued}"
            if self.attached:
                text = f"type ahead: the kernel answers when its cell has ended{queued}"
        for line in self.screen.query(HintLine):
            line.set_text(text or self._keys(line.size.width), "$text" if self._hint else MUTED)

    def _keys(self, width: int) -> str:
        """The keys of the focused pane, as many as fit, and that of the help with all of them."""
        screen, bench = self.screen, self.screen.bench
        pane = screen.focused_pane()
        ending = f"{bench.key_word('help')} help"
        parts = ["Enter run"] if pane == "prompt" else []
        if pane == "prompt" and screen.lesson_controller.open:
            down, up, fold = map(bench.key_word, ("turn_down", "turn_up", "lesson_fold"))
            parts += [f"{down} {up} read the lesson", f"{fold} fold it"]
        for key, word in keys.hints(screen.key_taker(pane)):
            if not bench.key_word(key.id):
                continue
            piece = f"{bench.key_word(key.id)} {word}"
            if len("  ".join([" ", *parts, piece, ending])) <= width:
                parts.append(piece)
        return "  ".join([*parts, ending])

    def show_number(self) -> None:
        """The number that the next input will have, in the frame or before the prompt."""
        blocks = self.transcript.blocks[self._first_block :]
        ahead = sum(block.state in ("queued", "running") for block in blocks)
        counts = [block.count for block in blocks if block.count is not None and not block.past]
        words = f"In [{max(counts, default=self._ran_before) + 1 + ahead}]"
        self.screen.query_one(Prompt).border_title = Content(words)
        line = Content.assemble((f" {words}: "[:LABEL_CELLS].ljust(LABEL_CELLS), "$text-success"))
        self.screen.query_one("#label", Line).show(line)
        ours = [
            block for block in self.transcript.blocks if block.state != "note" and not block.past
        ]
        seconds, cells = sum(block.seconds or 0.0 for block in ours), len(ours)
        words = f": {counted(cells, 'cell')}, {human_seconds(seconds)}" if cells else ""
        title = f"Session{words}"
        self.transcript.border_title = Content(title)

    def _tick_while_needed(self) -> None:
        """Run the spinner only while something is under way; nothing ticks otherwise."""
        if self._timer is None:
            self._timer = self.screen.set_interval(
                TICK_SECONDS if self.screen.bench.motion else SLOW_TICK_SECONDS, self._tick
            )
        self._timer.resume()

    def _tick(self) -> None:
        self._beat += 1
        if self.state not in ("starting", "busy") and self._timer is not None:
            self._timer.pause()
        if not self._hint and self.state == "starting":
            self.show_hint()
        self.show_status()

    def show_status(self) -> None:
        """The status line from what is known."""
        screen = self.screen
        tiny = screen.layout_now is not None and screen.layout_now.kind == "tiny"
        now = status.Status(
            self.state,
            self.screen.bench.clock() - self._since,
            self._last_seconds,
            self.waiting,
            self.settings,
            getattr(screen.bench.link.session, "pid", None),
            self.memory,
            self._beat,
            self.attached,
            self.pace,
        )
        pieces = (
            status.tiny(now, self.screen.bench.glyphs, screen.size.width)
            if tiny
            else status.pieces(now, self.screen.bench.glyphs, screen.size.width)
        )
        for line in screen.query(StatusLine):
            line.set_pieces(pieces, screen.bench.glyphs.pipe)
