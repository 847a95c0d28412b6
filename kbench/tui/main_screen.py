"""The workbench's one main screen: which panes there are, and who answers what they ask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult

from kbench.tui.dialogs import diagnostics, overlays
from kbench.tui.keys import keys
from kbench.tui.lesson.lesson_screen import LessonScreen
from kbench.tui.messages import (
    CompareWanted,
    CopyText,
    HintChanged,
    InsertText,
    LinkFailed,
    LinkReady,
    PaneMessage,
    SessionEvent,
    Submitted,
    TraceNan,
)
from kbench.tui.panes.panes import Panes
from kbench.tui.panes.registry import LESSON, SIDE_PANES, new_view
from kbench.tui.panes.variables.view import SNIPPETS
from kbench.tui.prompt.assist import Assist
from kbench.tui.prompt.completion import CompletionList
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.screen_bench import ScreenBench
from kbench.tui.session.bars import Banner, HintLine, KeyLine, Line, StatusLine, TabLine
from kbench.tui.session.compare_controller import CompareController
from kbench.tui.session.nan_controller import NanController
from kbench.tui.session.resume import ResumeController
from kbench.tui.session.session_controller import SessionController
from kbench.tui.session.unsent_input import UnsentInput
from kbench.tui.signal import PanesMoved
from kbench.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import Block

MOUNTED_AT_ONCE = 4
"""Panes that come between two keys, after the first frame."""


class MainScreen(LessonScreen):
    """Widgets post messages; this screen hands them to controllers, panes and dialogs."""

    BINDINGS = keys.bindings("main")
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__()
        self.session_controller = SessionController(self, self.signal)
        self.panes = Panes(ScreenBench(self, self.signal))
        self.assist = Assist(self)
        self.resume_controller = ResumeController(self, self.signal)
        self.unsent_input = UnsentInput(self)
        self.nan_controller = NanController(self, self.signal)
        self.compare_controller = CompareController(self, self.signal)

    def compose(self) -> ComposeResult:
        """What the first frame needs; the other panes follow it."""
        yield StatusLine("status")
        yield new_view("transcript")
        yield Line("label")
        yield new_view("prompt")
        yield HintLine("hint")
        yield KeyLine("keybar")

    def on_mount(self) -> None:
        """The first frame goes out before anything else is loaded."""
        self.relayout()
        self.session_controller.show_status()
        self.session_controller.show_hint()
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        """Everything that can wait until a prompt is on the screen."""
        self.bench.begin()
        views = [new_view(pane) for pane in SIDE_PANES if pane != LESSON]
        late = [TabLine("tabs"), *views, CompletionList(), Banner("banner")]
        for at in range(0, len(late), MOUNTED_AT_ONCE):
            await self.mount_all(late[at : at + MOUNTED_AT_ONCE])
        self.panes.mounted()
        self.relayout()
        prompt = self.query_one(Prompt)
        prompt.colour()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: prompt.recolour())
        await self.lesson_controller.begin(self.bench.lesson)

    def on_descendant_focus(self) -> None:
        """The line below the prompt tells the keys of the pane that has the focus."""
        self.session_controller.show_hint()

    def rearranged(self) -> None:
        """Panes that have come to the screen catch up."""
        self.signal.emit(PanesMoved())

    def redrawn(self) -> None:
        """Lines that are cut to their width are written again at the new one."""
        self.session_controller.show_status()
        self.session_controller.show_hint()
        self.session_controller.show_number()

    # ------------------------------------------------------------------ what widgets ask for

    def on_submitted(self, event: Submitted) -> None:
        """Run the prompt's text."""
        self.assist.close()
        if self.lesson_controller.consumes(event.code):
            return
        prompt = self.query_one(Prompt)
        prompt.put("")
        prompt.remember(event.code)
        self.lesson_controller.run(event.code, event.now)

    def on_insert_text(self, event: InsertText) -> None:
        """Text from a pane goes to the prompt."""
        prompt = self.query_one(Prompt)
        if event.replace:
            self.bring(event.text)
        else:
            prompt.insert(event.text)
        self.action_pane("prompt")

    def bring(self, text: str) -> None:
        """Put other code into the prompt; what stood there is kept among the inputs."""
        prompt = self.query_one(Prompt)
        if prompt.keep():
            key = self.bench.key_word("undo")
            self.notify(f"{key} brings back what stood in the prompt", timeout=4, markup=False)
        prompt.put(text)

    def action_snippet(self, index: int) -> None:
        """A clicked example goes to the prompt."""
        self.on_insert_text(InsertText(SNIPPETS[index], replace=True))

    def on_copy_text(self, event: CopyText) -> None:
        """To the clipboard, by OSC 52."""
        self.app.copy_to_clipboard(event.text)
        self.notify(f"copied {event.what}", timeout=2, markup=False)

    @on(PaneMessage)
    def _answer(self, event: PaneMessage) -> None:
        """To the controllers of panes."""
        self.signal.emit(event)

    def on_hint_changed(self, event: HintChanged) -> None:
        """Words below the prompt."""
        self.session_controller.show_hint(event.text)

    def on_session_event(self, event: SessionEvent) -> None:
        """The kernel reports."""
        with self.while_it_stands():
            self.session_controller.take(event.event)

    def on_link_ready(self, event: LinkReady) -> None:
        """The session can take cells."""
        self.query_one(Prompt).take_history(event.older)
        self.bench.apply_user_files(event.folder)
        self.lesson_controller.link_ready()
        self.session_controller.link_ready()
        if event.folder is not None:
            self.background(
                self.resume_controller.offer if self.bench.resume else self.resume_controller.remind
            )
            self.unsent_input.restore(event.folder)

    def on_link_failed(self, event: LinkFailed) -> None:
        """There will be no kernel: say why."""
        self.session_controller.link_failed(event.reason)

    def on_trace_nan(self, event: TraceNan) -> None:
        """t on a variable, on a cell, in the plan."""
        self.nan_controller.trace(**event.wanted)

    def on_compare_wanted(self, event: CompareWanted) -> None:
        """c on a variable."""
        self.compare_controller.compare(event.expression)

    def on_transcript_explain(self, event: Transcript.Explain) -> None:
        """e on a cell."""
        overlays.explain(self, event.block)

    def on_prompt_typed(self) -> None:
        """Completion and signatures follow the cursor; what is typed is not lost."""
        self.unsent_input.typed()
        self.lesson_controller.typed()
        self.assist.typed()

    def on_prompt_asked(self, event: Prompt.Asked) -> None:
        """Keys of the prompt that need more than the prompt."""
        if event.what == "complete":
            self.assist.complete()
        elif event.what == "search":
            overlays.show_history(self)
        elif event.what == "signature":
            self.background(partial(overlays.show_documentation, self), opens=True)
        elif event.what == "leave" and not self.assist.close():
            self.action_pane("transcript")
        elif event.what == "quit":
            self.action_quit()
        elif event.what == "go_on":
            self.lesson_controller.go_on()
        else:
            self.turn(event.what)

    def on_prompt_list_key(self, event: Prompt.ListKey) -> None:
        """Keys that go to the list of completions while it is open."""
        self.assist.list_key(event.key)

    def on_resize(self, event: events.Resize) -> None:
        """The list of completions goes: it stands where the cursor was at the other size."""
        self.assist.close()

    # ------------------------------------------------------------------ keys

    def action_interrupt(self) -> None:
        """Copy, interrupt or clear, in this order; never quits."""
        self.session_controller.interrupt()

    def action_help(self) -> None:
        """What can be done here."""
        overlays.show_help(self)

    def action_history(self) -> None:
        """Inputs of all sessions."""
        overlays.show_history(self)

    def action_diagnostics(self) -> None:
        """Versions, keys, timings."""
        diagnostics.show(self)

    def action_palette(self) -> None:
        """All commands by name."""
        self.app.action_command_palette()

    def action_examples(self) -> None:
        """Inputs to begin with."""
        overlays.show_examples(self)

    def action_jump(self) -> None:
        """A letter per pane."""
        overlays.show_jump(self)

    def action_explain(self, cell: str = "") -> None:
        """Explain the error of a cell, of the marked one, or the newest."""
        transcript = self.query_one(Transcript)
        block = transcript.find(cell) if cell else self._marked()
        if block is None or block.error is None:
            block = transcript.newest_error()
        if block is None:
            self.notify("no error in this session", timeout=2, markup=False)
        else:
            overlays.explain(self, block)

    def action_trace_newest(self) -> None:
        """What made the NaN or infinity that the marked cell shows, or the newest of all."""
        block = self._marked()
        if block is not None and block.code:
            self.nan_controller.trace(code=block.code)
        else:
            self.nan_controller.trace_newest()

    def _marked(self) -> Block | None:
        """The cell that the mark in the transcript stands at, while the focus is there."""
        transcript = self.query_one(Transcript)
        return transcript.current if transcript.has_focus else None

    def action_compare(self) -> None:
        """Compare what stands in the prompt."""
        self.compare_controller.compare(self.query_one(Prompt).text)

    def action_save(self) -> None:
        """Write the session to a file."""
        overlays.ask_save(self)

    def action_resume(self) -> None:
        """Bring back the cells of an earlier session."""
        self.background(self.resume_controller.offer, opens=True)

    def action_restart(self) -> None:
        """Ask how to restart."""
        overlays.ask_restart(self)

    def action_quit(self) -> None:
        """Leave, asking first while something runs."""
        overlays.ask_quit(self)
