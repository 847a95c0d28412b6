"""From the session's events to the transcript, the status line and the banner, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.content import Content

from kbench.tui import status
from kbench.tui.blocks import Block, ErrorPart, ResultPart
from kbench.tui.geometry import LABEL
from kbench.tui.glyphs import human_seconds
from kbench.tui.palette import MUTED
from kbench.tui.screens import overlays
from kbench.tui.widgets.bars import Banner, HintLine, Line, StatusLine
from kbench.tui.widgets.prompt import Prompt
from kbench.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.timer import Timer

    from kbench.tui.screens.main import MainScreen

TICK = 0.1
DEFAULT_HINT = "Enter run  Tab complete  ctrl+R search  F1 help"


class Conductor:
    """Knows what the session is doing; draws nothing itself but tells the widgets."""

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen
        self.state = "starting"  # starting, idle, busy, dead, failed
        self.settings: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}
        self.ready_seconds: float | None = None
        self.memory = 0  # bytes of the kernel process, when last asked
        self.death: Any = None
        self._since = time.monotonic()
        self._last_seconds: float | None = None
        self._early: list[Block] = []
        self._stuck = False
        self._beat = 0
        self._timer: Timer | None = None
        self._hint = ""
        self._numbers = 0
        self._clearing: set[int] = set()
        self._first_block = 0  # the first cell of the present kernel

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
        return next((one for one in self.transcript.blocks if one.state == "running"), None)

    # ------------------------------------------------------------------ cells

    def run(self, code: str) -> None:
        """Run a piece of code, now or when its turn comes."""
        session = self.screen.bench.link.session
        self._numbers += 1
        block = Block(f"early-{self._numbers}", code)
        if session is None:
            self._early.append(block)
        else:
            block.ident = str(session.execute(code))
        self.transcript.add(block)
        history = self.screen.bench.link.history
        if history is not None:
            history.add(code)
        self.show_status()
        self.show_number()

    def link_ready(self) -> None:
        """The session is there: hand over what was typed before."""
        link = self.screen.bench.link
        early, self._early = self._early, []
        for block in early:
            if link.session is not None:
                self.transcript.rename(block, str(link.session.execute(block.code)))
            if link.history is not None:
                link.history.add(block.code)
        if link.history is not None and link.history.problem:
            self.screen.notify(link.history.problem, severity="warning", markup=False)
        self._tick_while_needed()

    def link_failed(self, reason: str) -> None:
        """No session: the banner says why, everything typed stays."""
        self.state = "failed"
        self._banner(f"no kernel: {reason}", [("F12 details", "screen.diagnostics")])
        self.show_status()

    def restart(self, replay: bool) -> None:
        """Begin with a new kernel."""
        session = self.screen.bench.link.session
        if session is not None:
            session.restart(replay)

    def interrupt(self) -> None:
        """The Ctrl+C ladder: copy, interrupt, offer a restart, clear the input."""
        screen, prompt = self.screen, self.screen.query_one(Prompt)
        selected = screen.get_selected_text() or prompt.selected_text
        session = screen.bench.link.session
        if selected:
            screen.app.copy_to_clipboard(selected)
            screen.clear_selection()
            prompt.move_cursor(prompt.cursor_location)
            screen.notify("copied", timeout=2, markup=False)
        elif self._stuck:
            overlays.ask_restart(screen)
        elif self.running() is not None and session is not None:
            session.interrupt()
            self.show_hint("interrupting")
        elif prompt.text:
            screen.assist.close()
            prompt.put("")
        else:
            self.show_hint("nothing runs; ctrl+Q quits")

    # ------------------------------------------------------------------ events

    def take(self, event: Any) -> None:
        """Dispatch on the event's class; an event of a newer session is ignored."""
        handler: Callable[[Any], None] | None = getattr(self, f"_on_{type(event).__name__}", None)
        if handler is not None:
            handler(event)

    def _block(self, cell: int | None) -> Block | None:
        return None if cell is None else self.transcript.find(str(cell))

    def _on_Started(self, event: Any) -> None:
        self.hello, self.ready_seconds = event.hello, event.seconds
        self.state = "idle"
        self.death = None
        self.take_settings(event.hello.get("config") or {})
        self._clear_banner()
        self.screen.panes.kernel_started()
        self.show_status()
        self.show_hint()

    def _on_CellStarted(self, event: Any) -> None:
        block = self._block(event.cell)
        if block is None:
            block = self.transcript.add(Block(str(event.cell), event.code))
            self.show_number()
        block.state = "running"
        self._since = time.monotonic()
        self.transcript.changed(block)

    def _on_Stream(self, event: Any) -> None:
        block = self._block(event.cell)
        if block is not None:
            self._cleared(block, event.cell)
            block.stream(event.name, event.text)
            self.transcript.refit()

    def _on_ClearOutput(self, event: Any) -> None:
        block = self._block(event.cell)
        if block is not None:
            self._clearing.add(event.cell)
            if not event.wait:
                self._cleared(block, event.cell)
                self.transcript.refit()

    def _cleared(self, block: Block, cell: int) -> None:
        if cell in self._clearing:
            self._clearing.discard(cell)
            block.parts.clear()
            block.touch()

    def _on_Result(self, event: Any) -> None:
        block = self._block(event.cell)
        if block is not None:
            self._cleared(block, event.cell)
            if event.count is not None:
                block.count = event.count
            block.add(ResultPart(event.text, labelled=event.count is not None))
            self.transcript.refit()

    def _on_Error(self, event: Any) -> None:
        block = self._block(event.cell)
        if block is not None:
            traceback, detail = list(event.traceback), event.detail or {}
            block.add(ErrorPart(event.name, event.value, traceback, detail, block.ident))
            self.transcript.refit()

    def _on_CellDone(self, event: Any) -> None:
        block = self._block(event.cell)
        self._stuck = False
        self._last_seconds = event.seconds
        if block is not None:
            block.state = {"ok": "ok", "lost": "lost"}.get(event.status, "failed")
            if event.status == "withdrawn":
                block.state = "lost"
            block.count = event.count if event.count is not None else block.count
            block.seconds = event.seconds
            self.transcript.changed(block)
        if self.state != "dead":
            self._clear_banner()
        self.screen.panes.cell_done()
        self.show_number()
        self.show_hint()

    def _on_Busy(self, event: Any) -> None:
        self.state = "busy"
        self._since = time.monotonic()
        self._tick_while_needed()
        self.show_status()

    def _on_Idle(self, event: Any) -> None:
        if self.state == "busy":
            self.state = "idle"
            self.screen.background(self._measure, "memory", exclusive=True)
        self.show_status()

    def _on_Changed(self, event: Any) -> None:
        self.take_settings(event.config)
        self.screen.panes.changed(list(event.names))
        for name, reason in (event.refused or {}).items():
            self.screen.panes.refused(f"{name}: {reason}")

    def _on_InputRequested(self, event: Any) -> None:
        overlays.ask_input(self.screen, event.prompt, event.password)

    def _on_ExitAsked(self, event: Any) -> None:
        self.screen.app.exit(0)

    def _on_Stuck(self, event: Any) -> None:
        self._stuck = True
        words = "still inside a call that does not stop; ctrl+C again to restart (variables lost)"
        self._banner(words, [("restart", "screen.restart")])

    def _on_Died(self, event: Any) -> None:
        self.state = "dead"
        self.death = event
        self._stuck = False
        block = self._block(event.cell)
        how = status.exit_words(event.code)
        where = f" while it ran {block.label.strip(': ')}" if block is not None else ""
        self._banner(
            f"the kernel died ({how}){where}; nothing shown or typed is lost",
            [("alt+R restart", "screen.restart"), ("F12 log", "screen.diagnostics")],
        )
        self.screen.panes.kernel_lost()
        self.show_status()

    def _on_Restarted(self, event: Any) -> None:
        self.state = "starting"
        self._since = time.monotonic()
        self._clear_banner()
        again = f", {event.replayed} cells run again" if event.replayed else ""
        self._first_block = len(self.transcript.blocks)
        self.transcript.note(f"new kernel{again}")
        self.screen.panes.kernel_lost()
        self._tick_while_needed()
        self.show_status()

    async def _measure(self) -> None:
        """Ask the system how much memory the kernel takes."""
        link = self.screen.bench.link
        pid = getattr(link.session, "pid", None)
        self.memory = await link.call(status.memory_of, pid) if pid else 0
        self.show_status()

    # ------------------------------------------------------------------ banner and lines

    def _banner(self, text: str, choices: list[tuple[str, str]]) -> None:
        for banner in self.screen.query(Banner):
            banner.set_choices(text, choices)
        words = len(text) + sum(len(one) + 3 for one, _ in choices) + 3
        self.screen.choices.banner = 1 + words // max(self.screen.size.width, 1)
        self.screen.relayout()

    def _clear_banner(self) -> None:
        if self.screen.choices.banner:
            self.screen.choices.banner = 0
            self.screen.relayout()

    def take_settings(self, settings: dict[str, Any]) -> None:
        """The kernel's settings, shown at once."""
        if settings:
            self.settings = dict(settings)
            self.screen.panes.show_settings(self.settings)
            self.show_status()

    def show_hint(self, text: str = "") -> None:
        """Words below the prompt; '' for those that fit the moment."""
        self._hint = text
        if not text and self.state == "starting":
            queued = f", {self.waiting} waiting for it" if self.waiting else ""
            text = f"type ahead: the kernel is starting{queued}"
        for line in self.screen.query(HintLine):
            line.set_text(text or DEFAULT_HINT, MUTED if not self._hint else "$text")

    def show_number(self) -> None:
        """The number that the next input will have, in the frame or before the prompt."""
        blocks = self.transcript.blocks[self._first_block :]
        ahead = sum(block.state in ("queued", "running") for block in blocks)
        counts = [block.count for block in blocks if block.count is not None]
        words = f"In [{max(counts, default=0) + 1 + ahead}]"
        self.screen.query_one(Prompt).border_title = Content(words)
        line = Content.assemble((f" {words}: "[:LABEL].ljust(LABEL), "$text-success"))
        self.screen.query_one("#label", Line).show(line)
        seconds = sum(block.seconds or 0.0 for block in self.transcript.blocks)
        cells = sum(block.state != "note" for block in self.transcript.blocks)
        title = f"Session: {cells} cells, {human_seconds(seconds)}" if cells else "Session"
        self.transcript.border_title = Content(title)

    def _tick_while_needed(self) -> None:
        """Run the spinner only while something is under way; nothing ticks otherwise."""
        if self._timer is None:
            self._timer = self.screen.set_interval(TICK, self._tick)
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
        )
        pieces = status.tiny(now, self.screen.bench.glyphs, screen.size.width) if tiny else (
            status.pieces(now, self.screen.bench.glyphs)
        )
        for line in screen.query(StatusLine):
            line.set_pieces(pieces, screen.bench.glyphs.pipe)
