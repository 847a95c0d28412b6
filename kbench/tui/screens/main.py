"""The workbench's one main screen: which panes there are, where they stand, who has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

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
    ShowPane,
    ShowValue,
    Submitted,
    TitleChanged,
)
from kbench.tui.panes import Panes
from kbench.tui.screens import overlays, value_commands
from kbench.tui.table import Table
from kbench.tui.widgets.bars import Banner, HintLine, KeyLine, Line, StatusLine, TabLine
from kbench.tui.widgets.completion import CompletionList
from kbench.tui.widgets.plan import PlanTable
from kbench.tui.widgets.prompt import Prompt
from kbench.tui.widgets.settings import SettingsPane
from kbench.tui.widgets.transcript import Transcript
from kbench.tui.widgets.value import ValuePane
from kbench.tui.widgets.variables import SNIPPETS, VariablesTable

if TYPE_CHECKING:
    from kbench.tui.app import WorkbenchApp

INNER = {"value": "grid", "settings": "settings-list"}


class MainScreen(Screen[None]):
    """Panes are absolute regions computed by `geometry.arrange`; nothing is ever re-parented."""

    BINDINGS = keys.bindings("main")
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__()
        self.choices = geometry.Choices()
        self.layout_now: geometry.Layout | None = None
        self.titles: dict[str, str] = {}
        self.conductor = Conductor(self)
        self.panes = Panes(self)
        self.assist = Assist(self)

    @property
    def bench(self) -> WorkbenchApp:
        """The app, with its own members."""
        return cast("WorkbenchApp", self.app)

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
        self.query_one("#banner").display = False
        for pane in ("variables", "plan"):
            self.query_one(f"#{pane}", Widget).border_title = Content(geometry.TITLES[pane])
        self.query_one(VariablesTable).update_rows([], [])
        self.query_one(PlanTable).show(None)
        self.relayout()
        self.query_one(Prompt).colour()
        self.bench.settled()

    # ------------------------------------------------------------------ layout

    def on_resize(self, event: events.Resize) -> None:
        """Another size, another layout."""
        self.relayout()

    def relayout(self) -> None:
        """Give every pane its region; those without one are hidden."""
        width, height = self.size
        if not width or not height:
            return
        prompt = self.query_one(Prompt)
        layout = geometry.arrange(width, height, self.choices, prompt.lines_needed)
        self.layout_now = layout
        for name in ("status", "keybar", "hint", "tabs", "label", *geometry.FOCUS_ORDER):
            widget = self._widget(name)
            if widget is None:
                continue
            region = layout.regions.get(name)
            widget.display = region is not None
            if region is not None:
                widget.styles.offset = (region.x, region.y)
                widget.styles.width = region.width
                widget.styles.height = region.height
                widget.set_class(layout.bordered, "bordered")
        self.set_class(layout.kind == "tiny", "tiny")
        self._stand_banner(layout)
        self.call_after_refresh(self._redraw)
        self.panes.shown_changed()

    def _stand_banner(self, layout: geometry.Layout) -> None:
        banner, place = self._widget("banner"), layout.regions.get("transcript")
        if banner is not None and place is not None:
            banner.styles.offset = (place.x, place.y)
            banner.styles.width = place.width

    def _redraw(self) -> None:
        """Lines that are cut to their width are written again at the new one."""
        self.conductor.show_status()
        self.conductor.show_hint()
        self._show_keys()
        self._show_tabs()
        self.conductor.show_number()

    def _widget(self, name: str) -> Widget | None:
        found = self.query(f"#{name}")
        return found.first(Widget) if found else None

    def shows(self, pane: str) -> bool:
        """True when the pane is on the screen."""
        return self.layout_now is not None and pane in self.layout_now.regions

    def _show_keys(self) -> None:
        bar = self.query_one("#keybar", KeyLine)
        shown = [
            (self.bench.key_words(key.id, key.keys), key.bar, f"screen.{key.action}")
            for key in keys.of("main")
            if key.bar
        ]
        bar.set_keys(shown)

    def _show_tabs(self) -> None:
        tabs = self._widget("tabs")
        if tabs is None or self.layout_now is None or not tabs.display:
            return
        numbers = {pane: at for at, pane in enumerate(geometry.SIDE_PANES, 1)}
        names = {**geometry.TITLES, "variables": "Vars"}
        active = next((pane for pane in self.layout_now.tabs if self.shows(pane)), "")
        cast(TabLine, tabs).set_tabs(
            [(pane, f"{numbers[pane]} {names[pane]}") for pane in self.layout_now.tabs],
            active,
            self.titles.get(active, ""),
            self.bench.glyphs.rule,
        )

    def on_title_changed(self, event: TitleChanged) -> None:
        """A pane's words stand in its frame, or beside the tabs."""
        self.titles[event.pane] = event.title
        widget = self._widget(event.pane)
        if widget is not None:
            widget.border_title = Content(event.title)
        self._show_tabs()

    def on_prompt_resized(self) -> None:
        """The prompt grows with its text."""
        self.relayout()

    # ------------------------------------------------------------------ focus

    def action_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the focus."""
        if pane in geometry.SIDE_PANES and not self.shows(pane):
            self.choices.side = True
            self.choices.zoom = pane if self.choices.zoom else ""
            self.choices.tab = pane
            self.relayout()
        if not self.shows(pane) and self.choices.zoom:
            self.choices.zoom = ""
            self.relayout()
        self.call_after_refresh(self._focus_pane, pane)

    def _focus_pane(self, pane: str) -> None:
        widget = self._widget(INNER.get(pane, pane))
        if widget is not None and self.shows(pane):
            widget.focus()

    def focused_pane(self) -> str:
        """The pane that has the focus, 'prompt' if none has."""
        node: object = self.focused
        while isinstance(node, Widget):
            if node.id in geometry.FOCUS_ORDER:
                return node.id
            node = node.parent
        return "prompt"

    def action_next_pane(self, step: int) -> None:
        """Round all panes, those behind a tab included."""
        kind = self.layout_now.kind if self.layout_now else "tiny"
        order = geometry.FOCUS_ORDER
        if kind == "tiny" or not self.choices.side:
            order = ("prompt", "transcript")
        now = self.focused_pane()
        at = order.index(now) if now in order else 0
        self.action_pane(order[(at + step) % len(order)])

    def on_show_pane(self, event: ShowPane) -> None:
        """A widget asks for another pane."""
        self.action_pane(event.pane)

    def action_side(self) -> None:
        """Hide or show the panes beside the session."""
        self.choices.side = not self.choices.side
        self.choices.zoom = ""
        if not self.choices.side and self.focused_pane() not in ("prompt", "transcript"):
            self.query_one(Prompt).focus()
        self.relayout()

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, or take it back."""
        self.choices.zoom = "" if self.choices.zoom else self.focused_pane()
        self.relayout()

    def action_resize(self, step: int) -> None:
        """Move the border of the session; remembered per layout."""
        kind = self.layout_now.kind if self.layout_now else ""
        if kind in geometry.SHARES:
            share = self.choices.shares.get(kind, geometry.SHARES[kind]) + step
            self.choices.shares[kind] = max(25, min(share, 75))
            self.relayout()

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

    def on_variables_table_filter_wanted(self) -> None:
        """Slash in the variables."""
        overlays.ask_filter(self)

    def on_variables_table_exact_wanted(self, event: VariablesTable.ExactWanted) -> None:
        """x in the variables."""
        self.run_worker(self.panes.exact(event.name))

    def on_value_pane_fetch(self, event: ValuePane.Fetch) -> None:
        """The value pane needs another part."""
        self.panes.fetch_window(event.view)

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
            self.run_worker(overlays.show_documentation(self))
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

    def action_restart(self) -> None:
        """Ask how to restart."""
        overlays.ask_restart(self)

    def action_quit(self) -> None:
        """Leave, asking first while something runs."""
        overlays.ask_quit(self)
