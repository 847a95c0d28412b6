"""From the session's events to the transcript, the status line and the banner, and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kbench.tui.dialogs import overlays
from kbench.tui.messages import SettingRefused
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session import status
from kbench.tui.session.status_lines import StatusController
from kbench.tui.signal import (
    CellEnded,
    KernelLost,
    KernelRestarted,
    KernelStarted,
    Pushed,
    Signal,
    StateChanged,
    UnseenFailed,
    VariablesChanged,
)
from kbench.tui.text.glyphs import counted
from kbench.tui.transcript.cells import Block, ErrorPart, ResultPart
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen
    from kbench.workbench.session import events


class SessionController(StatusController):
    """Knows what the session is doing; draws nothing itself but tells the widgets."""

    def __init__(self, screen: MainScreen, signal: Signal) -> None:
        super().__init__(screen, signal)
        self.hello: JsonObject = {}
        self.ready_seconds: float | None = None
        self.death: events.Died | None = None
        self._early: list[Block] = []
        self._stuck = False
        self._numbers = 0
        self._clearing: set[int] = set()
        self._unseen: set[int] = set()  # cells that the transcript does not show
        self._unseen_runs = False

    # ------------------------------------------------------------------ cells

    def run(self, code: str, replay_of: int | None = None) -> Block:
        """Run a piece of code, now or when its turn comes."""
        session = self.screen.bench.link.session
        self._numbers += 1
        block = Block(f"early-{self._numbers}", code)
        if session is None:
            self._early.append(block)
        else:
            block.ident = str(session.execute(code, replay_of))
        self.transcript.add(block)
        history = self.screen.bench.link.history
        if history is not None:
            history.add(code)
        self.show_status()
        self.show_number()
        return block

    def run_unseen(self, code: str, how: str) -> int | None:
        """Run a cell that is no cell of the user's; None where there is no session."""
        session = self.screen.bench.link.session
        if session is None:
            return None
        cell = session.execute(code, unseen=how)
        self._unseen.add(cell)
        return cell

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
        self._banner(f"no kernel: {reason}", self._choices(diagnostics="details"))
        self.show_status()

    def _choices(self, **words: str) -> list[tuple[str, str]]:
        """What a banner offers: actions of the screen by their ids, told with their keys."""
        key = self.screen.bench.key_word
        return [(f"{key(action)} {word}", f"screen.{action}") for action, word in words.items()]

    def restart(self, replay: bool) -> None:
        """Begin with a new kernel."""
        session = self.screen.bench.link.session
        if session is not None:
            session.restart(replay)

    def interrupt(self) -> None:
        """The Ctrl+C ladder: copy, interrupt, offer a restart, clear the input."""
        screen, prompt = self.screen, self.screen.query_one(Prompt)
        own = "" if prompt.as_given else prompt.selected_text  # a lesson selects its blank
        selected = screen.get_selected_text() or own
        session = screen.bench.link.session
        if selected:
            screen.app.copy_to_clipboard(selected)
            screen.clear_selection()
            prompt.move_cursor(prompt.cursor_location)
            screen.notify("copied", timeout=2, markup=False)
        elif self._stuck:
            overlays.ask_restart(screen)
        elif (block := self.running()) is not None and session is not None:
            if block.origin:
                overlays.ask_interrupt_others(screen)
                return
            session.interrupt()
            self.show_hint("interrupting")
        elif self._unseen_runs and session is not None:
            session.interrupt()
        elif prompt.text:
            screen.assist.close()
            prompt.put("")
        else:
            self.show_hint(f"nothing runs; {screen.bench.key_word('quit')} quits")

    # ------------------------------------------------------------------ events

    def take(self, event: events.Event) -> None:
        """What each event changes here; then those are told who have subscribed to it."""
        from kbench.workbench.session import events

        match event:
            case events.Stream():
                self._stream(event)
            case events.Result():
                self._result(event)
            case events.Error():
                self._error(event)
            case events.ClearOutput():
                self._clear_output(event)
            case events.CellStarted():
                self._cell_started(event)
            case events.CellDone():
                self._cell_done(event)
            case events.Busy():
                self._busy()
            case events.Idle():
                self._idle()
            case events.Changed():
                self._changed(event)
            case events.Told():
                self._told(event)
            case events.InputRequested():
                overlays.ask_input(self.screen, event.prompt, event.password)
            case events.Stuck():
                self._became_stuck()
            case _:
                self._kernel_changed(event)

    def _kernel_changed(
        self,
        event: events.Started | events.Attached | events.Died | events.Restarted | events.ExitAsked,
    ) -> None:
        from kbench.workbench.session import events

        match event:
            case events.Started():
                self._started(event)
            case events.Attached():
                self._attached(event)
            case events.Died():
                self._died(event)
            case events.Restarted():
                self._restarted(event)
            case events.ExitAsked():
                self.screen.app.exit(0)

    def _block(self, cell: int | None) -> Block | None:
        return None if cell is None else self.transcript.find(str(cell))

    def _started(self, event: events.Started) -> None:
        self.hello, self.ready_seconds = event.hello, event.seconds
        self.state = "idle"
        self.death = None
        self.take_settings(event.hello.get("config") or {})
        self._clear_banner()
        if event.problem:
            self.transcript.note(f"! {event.problem}")
        self.signal.emit(KernelStarted())
        self.show_status()
        self.show_hint()

    def _cell_started(self, event: events.CellStarted) -> None:
        if event.cell in self._unseen or event.replay_of in self._unseen:
            self._unseen.add(event.cell)
            self._unseen_runs = True
            return
        block = self._block(event.cell)
        if block is None:
            block = self.transcript.add(Block(str(event.cell), event.code, origin=event.origin))
            self.show_number()
        block.state = "running"
        self.pace = {}
        self._since = time.monotonic()
        self.transcript.changed(block)

    def _stream(self, event: events.Stream) -> None:
        block = self._block(event.cell)
        if block is not None:
            self._cleared(block, event.cell)
            block.stream(event.name, event.text)
            self.transcript.refit()

    def _clear_output(self, event: events.ClearOutput) -> None:
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

    def _result(self, event: events.Result) -> None:
        block = self._block(event.cell)
        if block is not None:
            self._cleared(block, event.cell)
            if event.count is not None:
                block.count = event.count
            block.add(ResultPart(event.text, labelled=event.count is not None))
            self.transcript.refit()

    def _error(self, event: events.Error) -> None:
        if event.cell in self._unseen:
            self.signal.emit(UnseenFailed(event))
        block = self._block(event.cell)
        if block is not None:
            traceback, detail = list(event.traceback), event.detail or {}
            block.add(ErrorPart(event.name, event.value, traceback, detail, block.ident))
            self.transcript.refit()

    def _cell_done(self, event: events.CellDone) -> None:
        block = self._block(event.cell)
        self._stuck = self._unseen_runs = False
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
        self.signal.emit(CellEnded(event, block))
        self.show_number()
        self.show_hint()

    def _attached(self, event: events.Attached) -> None:
        self._ran_before = event.count
        before = f" ({counted(event.count, 'cell')} so far)" if event.count else ""
        words = f"attached to kernel {event.kernel}{before}; it keeps running when you quit"
        self.transcript.note(words)
        prompt = self.screen.query_one(Prompt)
        for code in event.inputs:  # behind what other sessions have typed
            prompt.remember(code)
        self.show_number()

    def _busy(self) -> None:
        self.state = "busy"
        self.pace = {}
        self._since = time.monotonic()
        self._tick_while_needed()
        self.signal.emit(StateChanged())
        self.show_status()

    def _idle(self) -> None:
        if self.state == "busy":
            self.state = "idle"
            self.screen.background(self._measure, "memory", exclusive=True)
        self.signal.emit(StateChanged())
        self.show_status()

    def _told(self, event: events.Told) -> None:
        if event.kind == "pace":
            self.pace = event.data
        self.signal.emit(Pushed(event.kind, event.data))

    def _changed(self, event: events.Changed) -> None:
        self.take_settings(event.config)
        self.signal.emit(VariablesChanged(event.names, event.many))
        for name, reason in (event.refused or {}).items():
            self.signal.emit(SettingRefused(f"{name}: {reason}"))

    def _became_stuck(self) -> None:
        self._stuck = True
        key = self.screen.bench.key_word("interrupt")
        what = f"{key} again restarts the kernel and loses the variables"
        words = f"still running, not responding to interrupt; {what}"
        self._banner(words, [("restart", "screen.restart")])

    def _died(self, event: events.Died) -> None:
        self.state = "dead"
        self.death = event
        self._stuck = False
        block = self._block(event.cell)
        how = status.exit_words(event.code)
        if self.attached:
            words = "the kernel has ended or is being restarted; nothing shown or typed is lost"
            self._banner(f"{words}, and this goes on when it is back", [])
            self.signal.emit(KernelLost())
            self.show_status()
            return
        where = f" while it ran {block.label.strip(': ')}" if block is not None else ""
        self._banner(
            f"the kernel died ({how}){where}; nothing shown or typed is lost",
            self._choices(restart="restart", diagnostics="log"),
        )
        self.signal.emit(KernelLost())
        self.show_status()

    def _restarted(self, event: events.Restarted) -> None:
        self.state = "starting"
        self._since = time.monotonic()
        self._clear_banner()
        again = f", {counted(event.replayed, 'cell')} run again" if event.replayed else ""
        again = ", restarted elsewhere: its namespace is empty" if self.attached else again
        self._ran_before = 0
        self._first_block = len(self.transcript.blocks)
        self.transcript.note(f"new kernel{again}")
        self.signal.emit(KernelLost())
        self.signal.emit(KernelRestarted(bool(event.replayed)))
        self._tick_while_needed()
        self.show_status()

    async def _measure(self) -> None:
        """Ask the system how much memory the kernel takes."""
        link = self.screen.bench.link
        pid = getattr(link.session, "pid", None)
        self.memory = await link.call(status.memory_of, pid) if pid else 0
        self.show_status()
