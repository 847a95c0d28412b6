"""The workbench's one main screen: which panes there are, and who answers what they ask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult

from kbench.tui.dialogs import diagnostics, overlays
from kbench.tui.keys import keys
from kbench.tui.lesson.lesson_screen import LessonScreen
from kbench.tui.messages import (
    AssignSetting,
    CompareWanted,
    CopyText,
    FetchGraph,
    FetchPixel,
    HintChanged,
    InsertText,
    LinkFailed,
    LinkReady,
    SessionEvent,
    ShowValue,
    Submitted,
    TitleChanged,
    TraceNan,
    ValueCommand,
)
from kbench.tui.panes.gradient import GradientTable
from kbench.tui.panes.gradient_controller import GradientController
from kbench.tui.panes.graph import GraphView
from kbench.tui.panes.graph_controller import GraphController
from kbench.tui.panes.panes import Panes
from kbench.tui.panes.plan import PlanTable
from kbench.tui.panes.plan_controller import PlanController, show_place
from kbench.tui.panes.registry import BY_ID, LESSON, SIDE_PANES, new_view
from kbench.tui.panes.variables import SNIPPETS, VariablesTable
from kbench.tui.panes.watch import WatchTable
from kbench.tui.panes.watch_controller import WatchController
from kbench.tui.prompt.assist import Assist
from kbench.tui.prompt.completion import CompletionList
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.bars import Banner, HintLine, KeyLine, Line, StatusLine, TabLine
from kbench.tui.session.compare_controller import CompareController
from kbench.tui.session.nan_controller import NanController
from kbench.tui.session.resume import ResumeController
from kbench.tui.session.session_controller import SessionController
from kbench.tui.session.unsent_input import UnsentInput
from kbench.tui.text.table import Table
from kbench.tui.transcript.transcript import Transcript
from kbench.tui.value import commands
from kbench.tui.value.value import ValuePane

if TYPE_CHECKING:
    from kbench.tui.panes.plan_workers import WorkerTable
    from kbench.tui.transcript.cells import Block

MOUNTED_AT_ONCE = 4
"""Panes that come between two keys, after the first frame."""


class MainScreen(LessonScreen):
    """Widgets post messages; this screen hands them to controllers, panes and dialogs."""

    BINDINGS = keys.bindings("main")
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__()
        self.session_controller = SessionController(self)
        self.panes = Panes(self)
        self.assist = Assist(self)
        self.resume_controller = ResumeController(self)
        self.unsent_input = UnsentInput(self)
        self.watch_controller = WatchController(self)
        self.nan_controller = NanController(self)
        self.compare_controller = CompareController(self)
        self.gradient_controller = GradientController(self)
        self.plan_controller = PlanController(self)
        self.graph_controller = GraphController(self)

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
        self.on_title_changed(TitleChanged("settings", BY_ID["settings"].title))
        self.query_one(VariablesTable).update_rows([], [])
        self.query_one(PlanTable).show(None)
        self.query_one(WatchTable).show(self.watch_controller.expressions)
        self.query_one(GradientTable).clear()
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
        self.panes.shown_changed()

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

    def on_assign_setting(self, event: AssignSetting) -> None:
        """To the kernel, whose answer is what is shown."""
        self.panes.assign(event.name, event.value)

    def on_show_value(self, event: ShowValue) -> None:
        """Open a name in the value pane."""
        self.panes.open_value(event.name)

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

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter in a table."""
        if event.table.id == "variables":
            self.panes.open_value(event.key)
        elif event.table.id == "gradient":
            self.gradient_controller.open(event.key)
        elif event.table.id == "plan-run":
            self.plan_controller.open(event.key)
        elif event.table.id == "workers":
            self.plan_controller.open_worker(event.key)

    def on_variables_table_pointed(self, event: VariablesTable.Pointed) -> None:
        """The value pane follows the cursor in the variables while both are on the screen."""
        if self.shows("value"):
            self.panes.show_value(event.name)
        self.graph_controller.point(event.name)

    def on_variables_table_filter_wanted(self) -> None:
        """Slash in the variables."""
        overlays.ask_filter(self)

    def on_variables_table_parts_wanted(self) -> None:
        """A model is unfolded, or scrolled to."""
        self.panes.parts_wanted()

    def on_variables_table_graph_wanted(self, event: VariablesTable.GraphWanted) -> None:
        """o in the variables."""
        self.panes.open_graph(event.name)

    def on_variables_table_exact_wanted(self, event: VariablesTable.ExactWanted) -> None:
        """x in the variables."""
        self.background(partial(self.panes.exact, event.name))

    def on_variables_table_watch_wanted(self, event: VariablesTable.WatchWanted) -> None:
        """w in the variables."""
        self.watch_controller.add(event.expression)

    def on_variables_table_derive_wanted(self, event: VariablesTable.DeriveWanted) -> None:
        """g in the variables."""
        self.gradient_controller.derive(event.name)

    def on_gradient_table_wanted(self, event: GradientTable.Wanted) -> None:
        """Keys of the gradients."""
        self.gradient_controller.act(event.what)

    def on_trace_nan(self, event: TraceNan) -> None:
        """t on a variable, on a cell, in the plan."""
        self.nan_controller.trace(**event.wanted)

    def on_plan_table_wanted(self, event: PlanTable.Wanted) -> None:
        """Keys of the plan."""
        self.plan_controller.act(event)

    def on_worker_table_wanted(self, event: WorkerTable.Wanted) -> None:
        """Keys of the workers."""
        self.plan_controller.act_on_workers(event.what, event.number)

    def on_graph_view_place_wanted(self, event: GraphView.PlaceWanted) -> None:
        """Enter on a node of a graph."""
        show_place(self, event.place)

    def on_graph_view_search_wanted(self, event: GraphView.SearchWanted) -> None:
        """Slash in a graph."""
        self.graph_controller.search(event.view)

    def on_compare_wanted(self, event: CompareWanted) -> None:
        """c on a variable."""
        self.compare_controller.compare(event.expression)

    def on_watch_table_wanted(self, event: WatchTable.Wanted) -> None:
        """Keys of the watches."""
        self.watch_controller.act(event.what, event.expression)

    def on_value_pane_fetch(self, event: ValuePane.Fetch) -> None:
        """The value pane needs another part."""
        self.panes.fetch_window(event.request)

    def on_value_pane_fetch_picture(self, event: ValuePane.FetchPicture) -> None:
        """The value pane needs a picture."""
        self.panes.fetch_picture(event.request)

    def on_fetch_pixel(self, event: FetchPixel) -> None:
        """The cursor in a picture is elsewhere."""
        self.panes.fetch_pixel(event.window)

    def on_fetch_graph(self, event: FetchGraph) -> None:
        """The value pane shows what has a graph in place of a value."""
        self.panes.fetch_graph(event.name)

    def on_value_command(self, event: ValueCommand) -> None:
        """A key of the value pane that needs the kernel or a dialog."""
        if event.what == "watch":
            self.watch_controller.add_cell(self.query_one(ValuePane))
            return
        commands.act(self, event.what)

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
