"""The workbench's one main screen: which panes there are, and who answers what they ask."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult

from kbench.tui import geometry, keys
from kbench.tui.assist import Assist
from kbench.tui.conduct import Conductor
from kbench.tui.messages import (
    AssignSetting,
    CopyText,
    HintChanged,
    InsertText,
    LinkFailed,
    LinkReady,
    SessionEvent,
    ShowValue,
    Submitted,
    TitleChanged,
)
from kbench.tui.panes import Panes
from kbench.tui.screens import overlays, value_commands
from kbench.tui.screens.pane_screen import PaneScreen
from kbench.tui.table import Table
from kbench.tui.widgets.bars import Banner, HintLine, KeyLine, Line, StatusLine, TabLine
from kbench.tui.widgets.completion import CompletionList
from kbench.tui.widgets.plan import PlanTable
from kbench.tui.widgets.prompt import Prompt
from kbench.tui.widgets.settings import SettingsPane
from kbench.tui.widgets.transcript import Transcript
from kbench.tui.widgets.value import ValuePane
from kbench.tui.widgets.variables import SNIPPETS, VariablesTable


class MainScreen(PaneScreen):
    """Widgets post messages; this screen hands them to the conductor, the panes, the dialogs."""

    BINDINGS = keys.bindings("main")
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__()
        self.conductor = Conductor(self)
        self.panes = Panes(self)
        self.assist = Assist(self)

    def compose(self) -> ComposeResult:
        """What the first frame needs; the other panes follow it."""
        yield StatusLine("status")
        yield Transcript()
        yield Line("label")
        yield Prompt()
        yield HintLine("hint")
        yield KeyLine("keybar")

    def on_mount(self) -> None:
        """The first frame goes out before anything else is loaded."""
        self.relayout()
        self.conductor.show_status()
        self.conductor.show_hint()
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        """Everything that can wait until a prompt is on the screen."""
        self.bench.link.start()
        panes = (TabLine("tabs"), VariablesTable(), ValuePane(), SettingsPane(), PlanTable())
        await self.mount_all([*panes, CompletionList(), Banner("banner")])
        self.on_title_changed(TitleChanged("settings", geometry.TITLES["settings"]))
        self.query_one(VariablesTable).update_rows([], [])
        self.query_one(PlanTable).show(None)
        self.relayout()
        prompt = self.query_one(Prompt)
        prompt.colour()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: prompt.recolour())

    def rearranged(self) -> None:
        """Panes that have come to the screen catch up."""
        self.panes.shown_changed()

    def redrawn(self) -> None:
        """Lines that are cut to their width are written again at the new one."""
        self.conductor.show_status()
        self.conductor.show_hint()
        self.conductor.show_number()

    # ------------------------------------------------------------------ what widgets ask for

    def on_submitted(self, event: Submitted) -> None:
        """Run the prompt's text."""
        self.assist.close()
        prompt = self.query_one(Prompt)
        prompt.clear()
        prompt.remember(event.code)
        self.conductor.run(event.code)

    def on_insert_text(self, event: InsertText) -> None:
        """Text from a pane goes to the prompt."""
        prompt = self.query_one(Prompt)
        if event.replace:
            prompt.put(event.text)
        else:
            prompt.insert(event.text)
        self.action_pane("prompt")

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
        self.conductor.show_hint(event.text)

    def on_session_event(self, event: SessionEvent) -> None:
        """The kernel reports."""
        self.conductor.take(event.event)

    def on_link_ready(self, event: LinkReady) -> None:
        """The session can take cells."""
        self.query_one(Prompt).take_history(event.older)
        self.bench.settle(event.folder)
        self.conductor.link_ready()

    def on_link_failed(self, event: LinkFailed) -> None:
        """There will be no kernel: say why."""
        self.conductor.link_failed(event.reason)

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter in a table."""
        if event.table.id == "variables":
            self.panes.open_value(event.key)
        else:
            overlays.show_source(self, event.key)

    def on_variables_table_pointed(self, event: VariablesTable.Pointed) -> None:
        """The value pane follows the cursor in the variables while both are on the screen."""
        if self.shows("value"):
            self.panes.show_value(event.name)

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

    def on_value_pane_fetch(self, event: ValuePane.Fetch) -> None:
        """The value pane needs another part."""
        self.panes.fetch_window(event.view)

    def on_value_pane_fetch_graph(self, event: ValuePane.FetchGraph) -> None:
        """The value pane shows what has a graph in place of a value."""
        self.panes.fetch_graph(event.name)

    def on_value_pane_command(self, event: ValuePane.Command) -> None:
        """A key of the value pane that needs the kernel or a dialog."""
        value_commands.act(self, event.what)

    def on_transcript_explain(self, event: Transcript.Explain) -> None:
        """e on a cell."""
        overlays.explain(self, event.block)

    def on_prompt_typed(self) -> None:
        """Completion and signatures follow the cursor."""
        self.assist.typed()

    def on_prompt_asked(self, event: Prompt.Asked) -> None:
        """Keys of the prompt that need more than the prompt."""
        if event.what == "complete":
            self.assist.complete()
        elif event.what == "search":
            overlays.show_history(self)
        elif event.what == "signature":
            self.background(partial(overlays.show_documentation, self))
        elif event.what == "leave" and not self.assist.close():
            self.action_pane("transcript")
        elif event.what == "quit":
            self.action_quit()

    def on_prompt_list_key(self, event: Prompt.ListKey) -> None:
        """Keys that go to the list of completions while it is open."""
        self.assist.list_key(event.key)

    # ------------------------------------------------------------------ keys

    def action_interrupt(self) -> None:
        """Copy, interrupt or clear, in this order; never quits."""
        self.conductor.interrupt()

    def action_help(self) -> None:
        """What can be done here."""
        overlays.show_help(self)

    def action_history(self) -> None:
        """Inputs of all sessions."""
        overlays.show_history(self)

    def action_diagnostics(self) -> None:
        """Versions, keys, timings."""
        overlays.show_diagnostics(self)

    def action_palette(self) -> None:
        """All commands by name."""
        self.app.action_command_palette()

    def action_jump(self) -> None:
        """A letter per pane."""
        overlays.show_jump(self)

    def action_explain(self, cell: str = "") -> None:
        """Explain the error of a cell, or the newest."""
        transcript = self.query_one(Transcript)
        block = transcript.find(cell) if cell else transcript.newest_error()
        if block is None:
            self.notify("no error in this session", timeout=2, markup=False)
        else:
            overlays.explain(self, block)

    def action_save(self) -> None:
        """Write the session to a file."""
        overlays.ask_save(self)

    def action_restart(self) -> None:
        """Ask how to restart."""
        overlays.ask_restart(self)

    def action_quit(self) -> None:
        """Leave, asking first while something runs."""
        overlays.ask_quit(self)
