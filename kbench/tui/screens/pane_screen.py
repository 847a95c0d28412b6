"""A screen of panes: where each stands, which has the focus, how borders are dragged."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker

from kbench.tui import geometry, keys
from kbench.tui.link import Work
from kbench.tui.messages import ShowPane, TitleChanged
from kbench.tui.widgets.bars import KeyLine, TabLine
from kbench.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kbench.tui.app import WorkbenchApp

# What takes the focus in a pane: the first that is shown.
INNER = {"value": ("grid", "graph"), "settings": ("settings-list",)}
PLACED = ("banner", "status", "keybar", "hint", "tabs", "label", *geometry.FOCUS_ORDER)


class PaneScreen(Screen[None]):
    """Panes are absolute regions computed by `geometry.arrange`; nothing is ever re-parented."""

    def __init__(self) -> None:
        super().__init__()
        self.choices = geometry.Choices()
        self.layout_now: geometry.Layout | None = None
        self.titles: dict[str, str] = {}
        self._dragging = ""  # the layout whose border the mouse holds

    @property
    def bench(self) -> WorkbenchApp:
        """The app, with its own members."""
        return cast("WorkbenchApp", self.app)

    def background(self, work: Work, group: str = "default", exclusive: bool = False) -> None:
        """Run something on the event loop; exclusive work takes the place of its group's."""
        begin = cast("Callable[[], Coroutine[None, None, None]]", work)
        _: Worker[None] = self.run_worker(begin, group=group, exclusive=exclusive)

    def rearranged(self) -> None:
        """Called when another set of panes is on the screen, or at another size."""

    def redrawn(self) -> None:
        """Called after each change of layout, when lines know their new width."""

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
        for name in PLACED:
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
        self.call_after_refresh(self._redraw)
        self.rearranged()

    def _redraw(self) -> None:
        """Lines that are cut to their width are written again at the new one."""
        self._show_keys()
        self._show_tabs()
        self.redrawn()

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

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the border beside or below the session."""
        layout = self.layout_now
        at = (event.screen_x, event.screen_y)
        self._dragging = "" if layout is None else geometry.border_at(layout, *at)
        if self._dragging:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        if self._dragging:
            width, height = self.size
            share = geometry.share_at(self._dragging, width, height, event.screen_x, event.screen_y)
            self.choices.shares[self._dragging] = max(25, min(share, 75))
            self.relayout()

    def on_mouse_up(self) -> None:
        """Let the border go."""
        if self._dragging:
            self._dragging = ""
            self.release_mouse()

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
        inner = (self._widget(name) for name in INNER.get(pane, (pane,)))
        widget = next((one for one in inner if one is not None and one.display), None)
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
        order: tuple[str, ...] = geometry.FOCUS_ORDER
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
