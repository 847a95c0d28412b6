"""From the session's events to the transcript, the status line and the banner, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.tui.dialogs import overlays
from kbench.tui.messages import SettingRefused
from kbench.tui.session import status
from kbench.tui.session.status_lines import StatusLines
from kbench.tui.signal import (
    CellEnded,
    InputWanted,
    KernelLost,
    KernelRestarted,
    KernelStarted,
    Pushed,
    StateChanged,
    UnseenFailed,
    VariablesChanged,
)
from kbench.tui.text.glyphs import counted
from kbench.tui.transcript.cells import Block, ErrorPart, ResultPart
from kbench.tui.transcript.fit_curve import FitCurve
from kbench.tui.transcript.pictures import Pictures

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.transcript.transcript import Transcript
    from kbench.workbench.session import events


class SessionController:
    """Knows what the session is doing; draws nothing itself but tells the widgets."""

    def __init__(self, bench: ScreenBench) -> None:
        self.bench = bench
        self.lines = StatusLines(bench)
        self.pictures = Pictures(bench)
        self._now = bench.session
        self._early: list[Block] = []
        self._stuck = False
        self._numbers = 0
        self._clearing: set[int] = set()
        self._displays: dict[str, dict[str, None]] = {}  # the cells that show what has an id
        self._unseen: set[int] = set()  # cells that the transcript does not show
        self._unseen_runs = False

    @property
    def state(self) -> str:
        """The kernel's: starting, idle, busy, dead, failed."""
        return self._now.state

    @property
    def transcript(self) -> Transcript:
        """The cells."""
        return self.bench.transcript

    def running(self) -> Block | None:
        """The cell that runs."""
        return next((block for block in self.transcript.blocks if block.state == "running"), None)

    # ------------------------------------------------------------------ cells

    def run(self, code: str, replay_of: int | None = None) -> Block:
        """Run a piece of code, now or when its turn comes."""
        session = self.bench.link.session
        self._numbers += 1
        block = Block(f"early-{self._numbers}", code)
        if session is None:
            self._early.append(block)
        else:
            block.ident = str(session.execute(code, replay_of))
        self.transcript.add(block)
        history = self.bench.link.history
        if history is not None:
            history.add(code)
        self.lines.show_status()
        self.lines.show_number()
        return block

    def run_unseen(self, code: str, how: str) -> int | None:
        """Run a cell that is no cell of the user's; None where there is no session."""
        session = self.bench.link.session
        if session is None:
            return None
        cell = session.execute(code, unseen=how)
        self._unseen.add(cell)
        return cell

    def link_ready(self) -> None:
        """The session is there: hand over what was typed before."""
        link = self.bench.link
        self.fit_output()
        early, self._early = self._early, []
        for block in early:
            if link.session is not None:
                self.transcript.rename(block, str(link.session.execute(block.code)))
            if link.history is not None:
                link.history.add(block.code)
        if link.history is not None and link.history.problem:
            self.bench.notify(link.history.problem, warning=True)
        self.lines.tick_while_needed()

    def fit_output(self) -> None:
        """Tell the session how wide the transcript is."""
        session = self.bench.link.session
        if session is not None:
            session.columns = self.transcript.columns

    def link_failed(self, reason: str) -> None:
        """No session: the banner says why, everything typed stays."""
        self._now.state = "failed"
        self.lines.show_banner(f"no kernel: {reason}", self._choices(diagnostics="details"))
        self.lines.show_status()

    def _choices(self, **words: str) -> list[tuple[str, str]]:
        """What a banner offers: actions of the screen by their ids, told with their keys."""
        key = self.bench.key_word
        return [(f"{key(action)} {word}", f"screen.{action}") for action, word in words.items()]

    def restart(self, replay: bool) -> None:
        """Begin with a new kernel."""
        session = self.bench.link.session
        if session is not None:
            session.restart(replay)

    def interrupt(self) -> bool:
        """Interrupt what runs; offer a restart where that did not help. False if nothing runs."""
        session = self.bench.link.session
        if self._stuck:
            self.ask_restart()
        elif (block := self.running()) is not None and session is not None:
            if block.origin:
                overlays.ask_interrupt_others(self.bench)
            else:
                session.interrupt()
                self.lines.show_hint("interrupting")
        elif self._unseen_runs and session is not None:
            session.interrupt()
        else:
            return False
        return True

    def ask_restart(self) -> None:
        """Ask how to restart."""
        overlays.ask_restart(self.bench, self.restart)

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
                self.bench.tell(InputWanted(event.cell, event.prompt, event.password))
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
                self.bench.exit()

    def _block(self, cell: int | None) -> Block | None:
        return None if cell is None else self.transcript.find(str(cell))

    def _started(self, event: events.Started) -> None:
        self._now.hello, self._now.ready_seconds = event.hello, event.seconds
        self._now.state = "idle"
        self._now.death = None
        self.bench.take_settings(event.hello.get("config") or {})
        self.lines.clear_banner()
        if event.problem:
            self.transcript.note(f"! {event.problem}")
        self.bench.tell(KernelStarted())
        self.lines.show_status()
        self.lines.show_hint()

    def _cell_started(self, event: events.CellStarted) -> None:
        if event.cell in self._unseen or event.replay_of in self._unseen:
            self._unseen.add(event.cell)
            self._unseen_runs = True
            return
        block = self._block(event.cell)
        if block is None:
            block = self.transcript.add(Block(str(event.cell), event.code, origin=event.origin))
            self.lines.show_number()
        block.state = "running"
        self._now.pace = {}
        self._now.since = time.monotonic()
        self.transcript.changed(block)

    def _stream(self, event: events.Stream) -> None:
        self.add_output(event.cell, lambda block: block.stream(event.name, event.text))

    def add_output(self, cell: int, add: Callable[[Block], None]) -> None:
        """Add to what a cell has printed or asked."""
        block = self._block(cell)
        if block is not None:
            self._cleared(block, cell)
            add(block)
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
        if event.updates:
            self._update(event)
            return
        block = self._block(event.cell)
        if block is not None:
            self._cleared(block, event.cell)
            if event.count is not None:
                block.count = event.count
            part = ResultPart(event.text, event.count is not None, event.display_id)
            block.add(part)
            if event.display_id:
                self._displays.setdefault(event.display_id, {})[block.ident] = None
            self.pictures.add(block, part, event)
            self.transcript.refit()

    def _update(self, event: events.Result) -> None:
        """Show something in the place of what was displayed under its id, in whatever cells."""
        for ident in self._displays.get(event.display_id, ()):
            block = self.transcript.find(ident)
            if block is not None:
                for old, new in block.update(event.display_id, event.text):
                    self.pictures.update(block, old, new, event)
        self.transcript.refit()

    def _error(self, event: events.Error) -> None:
        if event.cell in self._unseen:
            self.bench.tell(UnseenFailed(event))
        block = self._block(event.cell)
        if block is not None:
            traceback, detail = list(event.traceback), event.detail or {}
            block.add(ErrorPart(event.name, event.value, traceback, detail, block.ident))
            self.transcript.refit()

    def _cell_done(self, event: events.CellDone) -> None:
        block = self._block(event.cell)
        self._stuck = self._unseen_runs = False
        self._now.last_seconds = event.seconds
        if block is not None:
            block.state = {"ok": "ok", "lost": "lost"}.get(event.status, "failed")
            if event.status == "withdrawn":
                block.state = "lost"
            block.count = event.count if event.count is not None else block.count
            block.seconds = event.seconds
            self.transcript.changed(block)
        if self.state != "dead":
            self.lines.clear_banner()
        self.bench.tell(CellEnded(event, block))
        self.lines.show_number()
        self.lines.show_hint()

    def _attached(self, event: events.Attached) -> None:
        self._now.ran_before = event.count
        before = f" ({counted(event.count, 'cell')} so far)" if event.count else ""
        words = f"attached to kernel {event.kernel}{before}; it keeps running when you quit"
        self.transcript.note(words)
        prompt = self.bench.prompt
        for code in event.inputs:  # behind what other sessions have typed
            prompt.remember(code)
        self.lines.show_number()

    def _busy(self) -> None:
        self._now.state = "busy"
        self._now.pace = {}
        self._now.since = time.monotonic()
        self.lines.tick_while_needed()
        self.bench.tell(StateChanged())
        self.lines.show_status()

    def _idle(self) -> None:
        if self.state == "busy":
            self._now.state = "idle"
            self.bench.run(self._measure, group="memory", exclusive=True)
        self.bench.tell(StateChanged())
        self.lines.show_status()

    def _told(self, event: events.Told) -> None:
        if event.kind == "pace":
            self._now.pace = event.data
        elif event.kind == "fit" and (block := self.running()) is not None:
            block.fit = FitCurve.of(event.data)
            self.transcript.changed(block)
        self.bench.tell(Pushed(event.kind, event.data))

    def _changed(self, event: events.Changed) -> None:
        self.bench.take_settings(event.config)
        self.bench.tell(VariablesChanged(event.names, event.many))
        for name, reason in (event.refused or {}).items():
            self.bench.tell(SettingRefused(f"{name}: {reason}"))

    def _became_stuck(self) -> None:
        self._stuck = True
        key = self.bench.key_word("interrupt")
        what = f"{key} again restarts the kernel and loses the variables"
        words = f"still running, not responding to interrupt; {what}"
        self.lines.show_banner(words, [("restart", "screen.restart")])

    def _died(self, event: events.Died) -> None:
        self._now.state = "dead"
        self._now.death = event
        self._stuck = False
        block = self._block(event.cell)
        how = status.exit_words(event.code)
        if self.bench.link.attached:
            words = "the kernel has ended or is being restarted; nothing shown or typed is lost"
            self.lines.show_banner(f"{words}, and this goes on when it is back", [])
            self.bench.tell(KernelLost())
            self.lines.show_status()
            return
        where = f" while it ran {block.label.strip(': ')}" if block is not None else ""
        self.lines.show_banner(
            f"the kernel died ({how}){where}; nothing shown or typed is lost",
            self._choices(restart="restart", diagnostics="log"),
        )
        self.bench.tell(KernelLost())
        self.lines.show_status()

    def _restarted(self, event: events.Restarted) -> None:
        self._now.state = "starting"
        self._now.since = time.monotonic()
        self.lines.clear_banner()
        again = f", {counted(event.replayed, 'cell')} run again" if event.replayed else ""
        again = (
            ", restarted elsewhere: its namespace is empty" if self.bench.link.attached else again
        )
        self._now.ran_before = 0
        self._now.first_block = len(self.transcript.blocks)
        self.transcript.note(f"new kernel{again}")
        self.bench.tell(KernelLost())
        self.bench.tell(KernelRestarted(bool(event.replayed)))
        self.lines.tick_while_needed()
        self.lines.show_status()

    async def _measure(self) -> None:
        """Ask the system how much memory the kernel takes."""
        link = self.bench.link
        pid = getattr(link.session, "pid", None)
        self._now.memory = await link.call(status.memory_of, pid) if pid else 0
        self.lines.show_status()
