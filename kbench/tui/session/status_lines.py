"""What the screen says of the session: status line, hint, banner, number and title of the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.layout import LABEL_CELLS
from kbench.tui.messages import HintChanged
from kbench.tui.session import status
from kbench.tui.session.bars import Banner, HintLine, Line, StatusLine
from kbench.tui.signal import SettingsChanged, WidthsChanged
from kbench.tui.text.glyphs import counted, human_seconds
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED

if TYPE_CHECKING:
    from textual.timer import Timer

    from kbench.tui.screen_bench import ScreenBench

TICK_SECONDS = 0.1
"""Seconds between two pictures of the spinner."""
SLOW_TICK_SECONDS = 1.0
"""The same where little shall move: once a second."""


class StatusLines:
    """Writes the lines anew when it is told to, and while something is under way."""

    def __init__(self, bench: ScreenBench) -> None:
        self.bench = bench
        self._now = bench.session
        self._beat = 0
        self._timer: Timer | None = None
        self._hint = ""
        bench.on(SettingsChanged, lambda _: self.show_status())
        bench.on(HintChanged, lambda event: self.show_hint(event.text))
        bench.on(WidthsChanged, lambda _: self.show_all())

    @property
    def waiting(self) -> int:
        """Cells that have been typed but not started."""
        return sum(block.state == "queued" for block in self.bench.transcript.blocks)

    def show_all(self) -> None:
        """Each at its present width."""
        self.show_status()
        self.show_hint()
        self.show_number()

    # ------------------------------------------------------------------ banner and lines

    def show_banner(self, text: str, choices: list[tuple[str, str]]) -> None:
        """A red line over the transcript; `choices` are words and the actions behind them."""
        for banner in self.bench.views(Banner):
            banner.set_choices(text, choices)
        words = len(text) + sum(len(word) + 3 for word, _ in choices) + 3
        self.bench.arrangement.choices.banner = 1 + words // max(self.bench.size.width, 1)
        self.bench.arrangement.relayout()

    def clear_banner(self) -> None:
        """Take it away."""
        if self.bench.arrangement.choices.banner:
            self.bench.arrangement.choices.banner = 0
            self.bench.arrangement.relayout()

    def show_hint(self, text: str = "") -> None:
        """Words below the prompt; '' for those that fit the moment."""
        self._hint = text
        if not text and self._now.state == "starting":
            queued = f", {self.waiting} waiting for it" if self.waiting else ""
            text = f"type ahead: the kernel is starting{queued}"
            if self.bench.link.attached:
                text = f"type ahead: the kernel answers when its cell has ended{queued}"
        for line in self.bench.views(HintLine):
            typing = self.bench.arrangement.focused_pane() == "prompt"
            mark = self.bench.prompt.mark if typing else ""
            room = line.size.width - len(mark)
            words = f"{mark}  {text or self._keys(room)}" if mark else text or self._keys(room)
            line.set_text(words, "$text" if self._hint else MUTED)

    def _keys(self, width: int) -> str:
        """The keys of the focused pane, as many as fit, and that of the help with all of them."""
        bench, arrangement = self.bench, self.bench.arrangement
        pane = arrangement.focused_pane()
        if self._now.asks and pane == "prompt":
            interrupt, end = bench.key_word("interrupt"), bench.key_word("end_input")
            return f"Enter answers  {interrupt} interrupts the cell  {end} ends the input"
        ending = f"{bench.key_word('help')} help"
        parts = ["Enter run"] if pane == "prompt" else []
        if pane == "prompt" and arrangement.choices.lesson:
            down, up, fold = map(bench.key_word, ("turn_down", "turn_up", "lesson_fold"))
            parts += [f"{down} {up} read the lesson", f"{fold} fold it"]
        for key, word in keys.hints(arrangement.key_taker(pane)):
            if not bench.key_word(key.id) or not self._has_use(key.id):
                continue
            piece = f"{bench.key_word(key.id)} {word}"
            if len("  ".join([" ", *parts, piece, ending])) <= width:
                parts.append(piece)
        return "  ".join([*parts, ending])

    def _has_use(self, ident: str) -> bool:
        """Whether a key shall be told now: that of pictures where there is one."""
        return ident != "cell_picture" or self.bench.transcript.has_picture

    def show_number(self) -> None:
        """The number that the next input will have, in the frame or before the prompt."""
        transcript = self.bench.transcript
        blocks = transcript.blocks[self._now.first_block :]
        ahead = sum(block.state in ("queued", "running") for block in blocks)
        counts = [block.count for block in blocks if block.count is not None and not block.past]
        known = self._now
        words = f"In [{max(counts, default=known.ran_before) + 1 + ahead}]"
        label = " answer: " if known.asks else f" {words}: "
        words = f"Answer: {safe(known.asks)}" if known.asks else words
        self.bench.prompt.border_title = Content(words)
        line = Content.assemble((label[:LABEL_CELLS].ljust(LABEL_CELLS), "$text-success"))
        if (before := self.bench.view(Line, "label")) is not None:
            before.show(line)
        ours = [block for block in transcript.blocks if block.state != "note" and not block.past]
        seconds, cells = sum(block.seconds or 0.0 for block in ours), len(ours)
        words = f": {counted(cells, 'cell')}, {human_seconds(seconds)}" if cells else ""
        title = f"Session{words}"
        transcript.border_title = Content(title)

    def tick_while_needed(self) -> None:
        """Run the spinner only while something is under way; nothing ticks otherwise."""
        if self._timer is None:
            pause = TICK_SECONDS if self.bench.app.motion else SLOW_TICK_SECONDS
            self._timer = self.bench.every(pause, self._tick)
        self._timer.resume()

    def _tick(self) -> None:
        self._beat += 1
        if self._now.state not in ("starting", "busy") and self._timer is not None:
            self._timer.pause()
        if not self._hint and self._now.state == "starting":
            self.show_hint()
        self.show_status()

    def show_status(self) -> None:
        """The status line from what is known."""
        bench, known = self.bench, self._now
        layout = bench.arrangement.layout_now
        now = status.Status(
            known.state,
            bench.clock() - known.since,
            known.last_seconds,
            self.waiting,
            known.settings,
            getattr(bench.link.session, "pid", None),
            known.memory,
            self._beat,
            bench.link.attached,
            known.pace,
        )
        write = status.tiny if layout is not None and layout.kind == "tiny" else status.pieces
        pieces = write(now, bench.app.glyphs, bench.size.width)
        for line in bench.views(StatusLine):
            line.set_pieces(pieces, bench.app.glyphs.pipe)
