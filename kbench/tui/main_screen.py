"""The workbench's one main screen: what it is made of, and who answers what its widgets ask.

The parts know the screen only as a `ScreenBench`, and hear of one another by the signal alone. What
Textual calls by name, messages and keys, is handed to the part whose business it is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from kbench.tui.arrangement import Arrangement
from kbench.tui.dialogs import diagnostics, files, overlays
from kbench.tui.keys import keys
from kbench.tui.lesson.lesson_controller import LessonController
from kbench.tui.messages import (
    CompareWanted,
    CopyText,
    HintChanged,
    InsertText,
    LinkFailed,
    LinkReady,
    PaneMessage,
    SessionEvent,
    ShowPane,
    Submitted,
    TitleChanged,
    TraceNan,
)
from kbench.tui.panes.panes import Panes
from kbench.tui.panes.registry import LESSON, SIDE_PANES, new_view
from kbench.tui.panes.value.controller import ValueController
from kbench.tui.panes.variables.view import SNIPPETS
from kbench.tui.prompt.answer import Answers
from kbench.tui.prompt.assist import Assist
from kbench.tui.prompt.completion import CompletionList
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.screen_bench import ScreenBench
from kbench.tui.session.bars import Banner, HintLine, KeyLine, Line, StatusLine, TabLine
from kbench.tui.session.compare_controller import CompareController
from kbench.tui.session.nan_controller import NanController
from kbench.tui.session.notices import Notices
from kbench.tui.session.resume import ResumeController
from kbench.tui.session.session_controller import SessionController
from kbench.tui.session.typed_cells import TypedCells
from kbench.tui.session.unsent_input import UnsentInput
from kbench.tui.signal import QuitWanted, Signal
from kbench.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import Block

MOUNTED_AT_ONCE = 4
"""Panes that come between two keys, after the first frame."""
TYPED_ON = ("transcript", LESSON)  # where no letter is a command


class MainScreen(Screen[None]):
    """Widgets post messages; this screen hands them to controllers, panes and dialogs."""

    BINDINGS = keys.bindings("main")
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__()
        signal = Signal()
        self.arrangement = Arrangement(self, signal)
        self.bench = ScreenBench(self, self.arrangement, signal)
        self.session_controller = SessionController(self.bench)
        self.notices = Notices(self.bench)
        self.typed_cells = TypedCells(self.session_controller)
        self.answers = Answers(self.session_controller, self.typed_cells)
        self.panes = Panes(self.bench)
        self.assist = Assist(self.bench)
        self.unsent_input = UnsentInput(self.bench)
        self.resume_controller = ResumeController(self.bench, self.session_controller)
        self.nan_controller = NanController(self.bench)
        self.compare_controller = CompareController(self.bench, self.session_controller)
        self.lesson_controller = LessonController(self.session_controller, self.typed_cells)
        signal.subscribe(QuitWanted, lambda _: self.action_quit())

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
        self.arrangement.relayout()
        self.session_controller.lines.show_status()
        self.session_controller.lines.show_hint()
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        """Everything that can wait until a prompt is on the screen."""
        self.bench.app.begin()
        views = [new_view(pane) for pane in SIDE_PANES if pane != LESSON]
        late = [TabLine("tabs"), *views, CompletionList(), Banner("banner"), Line("notices")]
        for at in range(0, len(late), MOUNTED_AT_ONCE):
            await self.mount_all(late[at : at + MOUNTED_AT_ONCE])
        self.panes.mounted()
        self.arrangement.relayout()
        prompt = self.bench.prompt
        prompt.colour()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: prompt.recolour())
        await self.lesson_controller.begin(self.bench.app.lesson)

    # ------------------------------------------------------------------ the session

    def on_submitted(self, event: Submitted) -> None:
        """Run the prompt's text."""
        self.assist.close()
        self.typed_cells.submit(event.code, event.now)

    def on_session_event(self, event: SessionEvent) -> None:
        """The kernel reports."""
        with self.bench.while_it_stands():
            self.session_controller.take(event.event)

    def on_link_ready(self, event: LinkReady) -> None:
        """The session can take cells."""
        app, resume = self.bench.app, self.resume_controller
        self.bench.prompt.take_history(event.older)
        app.apply_user_files(event.folder)
        self.lesson_controller.link_ready()
        self.session_controller.link_ready()
        if event.folder is not None:
            self.bench.run(resume.offer if app.resume else resume.remind)
            self.unsent_input.restore(event.folder)

    def on_link_failed(self, event: LinkFailed) -> None:
        """There will be no kernel: say why."""
        self.session_controller.link_failed(event.reason)

    # ------------------------------------------------------------------ what widgets ask for

    @on(PaneMessage)
    @on(HintChanged)
    def _tell(self, event: PaneMessage | HintChanged) -> None:
        """To whoever has subscribed."""
        self.bench.tell(event)

    def on_insert_text(self, event: InsertText) -> None:
        """Text from a pane goes to the prompt."""
        if event.replace:
            self.bench.bring(event.text)
        else:
            self.bench.prompt.insert(event.text)
        self.arrangement.go("prompt")

    def on_copy_text(self, event: CopyText) -> None:
        """To the clipboard, by OSC 52."""
        self.app.copy_to_clipboard(event.text)
        self.bench.notify(f"copied {event.what}", 2)

    def on_trace_nan(self, event: TraceNan) -> None:
        """t on a variable, on a cell, in the plan."""
        self.nan_controller.trace(**event.wanted)

    def on_compare_wanted(self, event: CompareWanted) -> None:
        """c on a variable."""
        self.compare_controller.compare(event.expression)

    def on_transcript_explain(self, event: Transcript.Explain) -> None:
        """e on a cell."""
        overlays.explain(self.bench, event.block)

    def on_transcript_save_picture(self, event: Transcript.SavePicture) -> None:
        """alt+D on a cell."""
        files.ask_picture(self.bench, event.block)

    def refit_transcript(self) -> None:
        """Lay it out for what the terminal draws now."""
        for transcript in self.query(Transcript):
            transcript.refit()
        self.session_controller.pictures.sharpen()

    def action_redraw(self) -> None:
        """Draw everything again."""
        self.bench.app.draw_again()

    def on_transcript_fitted(self) -> None:
        """The kernel has output fit the transcript from the next cell on."""
        self.session_controller.fit_output()

    def on_prompt_typed(self) -> None:
        """Completion and signatures follow the cursor; what is typed is not lost."""
        self.unsent_input.typed()
        if not self.bench.prompt.composing:
            return
        self.lesson_controller.typed()
        self.assist.typed()

    def on_prompt_asked(self, event: Prompt.Asked) -> None:
        """Keys of the prompt that need more than the prompt."""
        if self.bench.prompt.answering and event.what in ("complete", "signature", "go_on"):
            return
        if self.bench.prompt.answering and event.what == "quit":
            self.answers.end_of_input()
        elif event.what == "complete":
            self.assist.complete()
        elif event.what == "search":
            overlays.show_history(self.bench)
        elif event.what == "signature":
            work = partial(overlays.show_documentation, self.bench, self.assist)
            self.bench.run(work, opens=True)
        elif event.what == "close":
            self.assist.close()
        elif event.what == "leave" and not self.assist.close():
            self.arrangement.go("transcript")
        elif event.what == "quit":
            self.action_quit()
        elif event.what == "go_on":
            self.lesson_controller.go_on()
        else:
            self._turn(event.what)

    def _turn(self, way: str) -> None:
        """A page up or down, asked for at the prompt: of the lesson where one is on the screen."""
        if self.arrangement.shows(LESSON):
            self.lesson_controller.display.pane.turn(way)
        elif way == "up":
            self.bench.prompt.action_cursor_page_up()
        else:
            self.bench.prompt.action_cursor_page_down()

    def on_prompt_list_key(self, event: Prompt.ListKey) -> None:
        """Keys that go to the list of completions while it is open."""
        self.assist.list_key(event.key)

    # ------------------------------------------------------------------ arrangement

    def on_resize(self, event: events.Resize) -> None:
        """Another layout; the list of completions goes, as it stands where the cursor was."""
        self.arrangement.relayout()
        self.assist.close()

    def on_prompt_resized(self) -> None:
        """The prompt grows with its text."""
        self.arrangement.relayout()

    def on_title_changed(self, event: TitleChanged) -> None:
        """A pane's words stand in its frame, or beside the tabs."""
        self.arrangement.title(event)

    def on_show_pane(self, event: ShowPane) -> None:
        """A widget asks for another pane."""
        self.arrangement.go(event.pane)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a border between panes."""
        self.arrangement.mouse_down(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        self.arrangement.mouse_move(event)

    def on_mouse_up(self) -> None:
        """Let the border go."""
        self.arrangement.mouse_up()

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """Some pane always has the focus."""
        super().set_focus(self.arrangement.kept_focus(widget), scroll_visible, from_app_focus)

    def on_descendant_focus(self) -> None:
        """The line below the prompt tells the keys of the pane that has the focus."""
        self.session_controller.lines.show_hint()

    def on_key(self, event: events.Key) -> None:
        """What is typed is input: a letter that the focused pane has no use for is not lost.

        In the transcript and in a lesson it goes to the prompt. Elsewhere the number of a tab opens
        it, and for all others the way back is told.
        """
        written = event.is_printable and not event.key.startswith("alt+")
        if not written or event.key in self.active_bindings:
            return
        event.stop()
        if self.arrangement.focused_pane() in TYPED_ON:
            self._to_prompt(events.Key(event.key, event.character))
        elif not self.arrangement.to_number(event.character):
            key = self.bench.key_word("prompt")
            self.post_message(HintChanged(f"{key} or Esc goes to the prompt; F1 tells the keys"))

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is for the prompt, wherever the focus is."""
        if not isinstance(self.focused, (Input, TextArea)):
            event.stop()
            self._to_prompt(events.Paste(event.text))

    def _to_prompt(self, event: events.Event) -> None:
        self.arrangement.go("prompt")
        self.bench.prompt.post_message(event)

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of lessons are free for others while none is open."""
        if action == "learn":
            return self.arrangement.choices.lesson
        return super().check_action(action, parameters)

    def offers(self, action: str) -> bool:
        """Whether the palette should offer an action now."""
        lesson = action.startswith("learn(") or action == f"pane('{LESSON}')"
        return self.arrangement.choices.lesson or not lesson

    def action_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the focus."""
        self.arrangement.go(pane)

    def action_next_pane(self, step: int) -> None:
        """Round all panes, those behind a tab included."""
        self.arrangement.next_pane(step)

    def action_side(self) -> None:
        """Hide or show the panes beside the session."""
        self.arrangement.turn_side()

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, or take it back."""
        self.arrangement.turn_zoom()

    def action_resize(self, step: int) -> None:
        """Move the border of the session; remembered per layout."""
        self.arrangement.move_border(step)

    def action_raise(self, step: int) -> None:
        """Move the border below or above the focused pane."""
        self.arrangement.raise_border(step)

    def action_interrupt(self) -> None:
        """Copy, interrupt or clear, in this order; never quits."""
        if self._copy_selected() or self.session_controller.interrupt():
            return
        if self.bench.prompt.text:
            self.assist.close()
            self.bench.prompt.put("")
        else:
            words = f"nothing runs; {self.bench.key_word('quit')} quits"
            self.session_controller.lines.show_hint(words)

    def _copy_selected(self) -> bool:
        """Copy what is selected, if anything is."""
        prompt = self.bench.prompt
        own = "" if prompt.as_given else prompt.selected_text  # a lesson selects its blank
        selected = self.get_selected_text() or own
        if selected:
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
            prompt.move_cursor(prompt.cursor_location)
            self.bench.notify("copied", 2)
        return bool(selected)

    def action_help(self) -> None:
        """What can be done here."""
        overlays.show_help(self.bench)

    def action_history(self) -> None:
        """Inputs of all sessions."""
        overlays.show_history(self.bench)

    def action_diagnostics(self) -> None:
        """Versions, keys, timings."""
        diagnostics.show(self.bench, self.panes.controller(ValueController).round_trips)

    def action_palette(self) -> None:
        """All commands by name."""
        self.app.action_command_palette()

    def action_examples(self) -> None:
        """Inputs to begin with."""
        overlays.show_examples(self.bench)

    def action_snippet(self, index: int) -> None:
        """A clicked example goes to the prompt."""
        self.on_insert_text(InsertText(SNIPPETS[index], replace=True))

    def action_jump(self) -> None:
        """A letter per pane."""
        overlays.show_jump(self.bench)

    def action_explain(self, cell: str = "") -> None:
        """Explain the error of a cell, of the marked one, or the newest."""
        transcript = self.bench.transcript
        block = transcript.find(cell) if cell else self._marked()
        if block is None or block.error is None:
            block = transcript.newest_error()
        if block is None:
            self.bench.notify("no error in this session", 2)
        else:
            overlays.explain(self.bench, block)

    def action_trace_newest(self) -> None:
        """What made the NaN or infinity that the marked cell shows, or the newest of all."""
        block = self._marked()
        if block is not None and block.code:
            self.nan_controller.trace(code=block.code)
        else:
            self.nan_controller.trace_newest()

    def _marked(self) -> Block | None:
        """The cell that the mark in the transcript stands at, while the focus is there."""
        transcript = self.bench.transcript
        return transcript.current if transcript.has_focus else None

    def action_compare(self) -> None:
        """Compare what stands in the prompt."""
        self.compare_controller.compare(self.bench.prompt.text)

    def action_learn(self, what: str) -> None:
        """A command of the lesson."""
        self.lesson_controller.commands.command(what)

    def action_lessons(self) -> None:
        """All lessons, to take one."""
        self.lesson_controller.commands.choose()

    def action_save(self) -> None:
        """Write the session to a file."""
        overlays.ask_save(self.bench)

    def action_resume(self) -> None:
        """Bring back the cells of an earlier session."""
        self.bench.run(self.resume_controller.offer, opens=True)

    def action_restart(self) -> None:
        """Ask how to restart."""
        self.session_controller.ask_restart()

    def action_quit(self) -> None:
        """Leave, asking first while something runs."""
        overlays.ask_quit(self.bench, self._under_way)

    def _under_way(self) -> str:
        """What would be stopped; cells of another client are not."""
        running = self.session_controller.running()
        if self.bench.state == "busy" and not (running is not None and running.origin):
            return "cell"
        return "file" if self.panes.controller(ValueController).exporter.running else ""
