"""The arrangement of the panes on the screen: where each stands, which has the focus, borders."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from kbench.tui import layout as pane_layout
from kbench.tui import signal
from kbench.tui.keys import keys
from kbench.tui.messages import TitleChanged
from kbench.tui.panes.registry import BY_ID, FOCUS_ORDER, NUMBERS, SESSION, STACK
from kbench.tui.panes.spec import Taker
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.bars import KeyLine, TabLine
from kbench.tui.workbench import workbench

PLACED = ("banner", "notices", "status", "keybar", "hint", "tabs", "label", *FOCUS_ORDER)


class Arrangement:
    """Panes are absolute regions computed by `layout.arrange`; nothing is ever re-parented."""

    def __init__(self, screen: Screen[None], events: signal.Signal) -> None:
        self._screen = screen
        self._signal = events
        self.choices = pane_layout.Choices()
        self.layout_now: pane_layout.Layout | None = None
        self.notes: dict[str, str] = {}  # what stands beside the tabs, by pane
        self._dragging = ""  # the border that the mouse holds

    # ------------------------------------------------------------------ layout

    def relayout(self) -> None:
        """Give every pane its region; those without one are hidden."""
        screen = self._screen
        width, height = screen.size
        if not width or not height:
            return
        prompt = screen.query_one(Prompt)
        layout = pane_layout.arrange(width, height, self.choices, prompt.lines_needed)
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
        screen.set_class(layout.kind == "tiny", "tiny")
        if screen.focused is not None and not self.shows(self.focused_pane()):
            screen.set_focus(self.home())
        screen.call_after_refresh(self._redraw)
        self._signal.emit(signal.PanesMoved())

    def _redraw(self) -> None:
        """Lines that are cut to their width are written again at the new one."""
        self._show_keys()
        self._show_tabs()
        self._signal.emit(signal.WidthsChanged())

    def _widget(self, name: str) -> Widget | None:
        found = self._screen.query(f"#{name}")
        return found.first(Widget) if found else None

    def shows(self, pane: str) -> bool:
        """True when the pane is on the screen."""
        return self.layout_now is not None and pane in self.layout_now.regions

    def _show_keys(self) -> None:
        bar = self._screen.query_one("#keybar", KeyLine)
        key_word, width = workbench(self._screen).key_word, self._screen.size.width
        shown = {
            key.id: (key_word(key.id), key.bar, f"screen.{key.action}")
            for key in keys.of("main")
            if key.bar
        }
        for ident in keys.BAR_DROP_ORDER:  # so that a narrow screen still says how to leave
            if sum(len(key) + len(word) + 2 for key, word, _ in shown.values()) > width:
                del shown[ident]
        bar.set_keys(shown.values())

    def _show_tabs(self) -> None:
        tabs = self._widget("tabs")
        if tabs is None or self.layout_now is None or not tabs.display:
            return
        active = next((pane for pane in self.layout_now.tabs if self.shows(pane)), "")
        # A frame has the whole title already.
        note = "" if self.layout_now.bordered else self.notes.get(active, "")
        cast(TabLine, tabs).set_tabs(
            [
                (pane, f"{number} {BY_ID[pane].tab or BY_ID[pane].title}")
                for number, pane in NUMBERS.items()
                if pane in self.layout_now.tabs
            ],
            active,
            note,
            workbench(self._screen).glyphs.rule,
        )

    def to_number(self, written: str | None) -> bool:
        """Go to the pane beside the session whose tab has this number; False without one."""
        pane = NUMBERS.get(written or "")
        if pane is None or not self.choices.has(pane):
            return False
        self.go(pane)
        return True

    def title(self, event: TitleChanged) -> None:
        """A pane's words stand in its frame, or beside the tabs."""
        self.notes[event.pane] = event.note
        widget = self._widget(event.pane)
        if widget is not None:
            widget.border_title = Content(event.title)
        self._show_tabs()

    def mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a border between panes."""
        layout = self.layout_now
        at = (event.screen_x, event.screen_y)
        self._dragging = "" if layout is None else pane_layout.border_at(layout, *at)
        if self._dragging:
            self._screen.capture_mouse()

    def mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        layout = self.layout_now
        if self._dragging and layout is not None:
            at = event.screen_x, event.screen_y
            share = pane_layout.share_at(self._dragging, layout, self.choices, *at)
            self.choices.move(self._dragging, share)
            self.relayout()

    def mouse_up(self) -> None:
        """Let the border go."""
        if self._dragging:
            self._dragging = ""
            self._screen.release_mouse()

    # ------------------------------------------------------------------ focus

    def kept_focus(self, widget: Widget | None) -> Widget | None:
        """What takes the focus when `widget` is to: some pane always has it while the terminal has
        it, wherever the mouse clicks."""
        if widget is None and self._screen.app.app_focus:
            now = self._screen.focused
            return now if now is not None and now.is_on_screen else self.home()
        return widget

    def home(self) -> Widget | None:
        """What takes the keys when nothing else does."""
        pane = "prompt" if self.shows("prompt") else self.choices.zoom
        return self.taker(pane) if pane else None

    def go(self, pane: str) -> None:
        """Bring a pane to the front and give it the focus."""
        self._signal.emit(signal.PaneWanted(pane))
        if not self.choices.has(pane):
            return
        if pane in self.choices.side_panes and not self.shows(pane):
            self.choices.side = True
            self.choices.zoom = pane if self.choices.zoom else ""
            self.choices.tab = pane
            if pane in STACK:
                self.choices.stack = pane
            self.relayout()
        if not self.shows(pane) and self.choices.zoom:
            self.choices.zoom = ""
            self.relayout()
        if not self._focus_pane(pane):
            self._screen.call_after_refresh(self._focus_pane, pane)

    def _focus_pane(self, pane: str) -> bool:
        """At once, as what is typed behind the key is for the pane; False if it is not there."""
        widget = self.taker(pane)
        if widget is None or not self.shows(pane) or not widget.focusable:
            return False
        self._screen.set_focus(widget)
        return True

    def focused_pane(self) -> str:
        """The pane that has the focus, 'prompt' if none has."""
        node: object = self._screen.focused
        while isinstance(node, Widget):
            if node.id in FOCUS_ORDER:
                return node.id
            node = node.parent
        return "prompt"

    def key_taker(self, pane: str) -> Taker:
        """What takes the keys of a pane, by what stands in it now."""
        takers = BY_ID[pane].takers
        return next((one for one in takers if self._displayed(one.widget)), takers[0])

    def taker(self, pane: str) -> Widget | None:
        """The widget of the pane that takes its keys."""
        found = (self._displayed(one.widget) for one in BY_ID[pane].takers)
        return next((widget for widget in found if widget is not None), None)

    def _displayed(self, name: str) -> Widget | None:
        widget = self._widget(name)
        return widget if widget is not None and widget.display else None

    def next_pane(self, step: int) -> None:
        """Round all panes, those behind a tab included."""
        kind = self.layout_now.kind if self.layout_now else "tiny"
        order = tuple(pane for pane in FOCUS_ORDER if self.choices.has(pane))
        if kind == "tiny" or not self.choices.side:
            order = tuple(pane for pane in order if pane in SESSION or self.shows(pane))
        now = self.focused_pane()
        at = order.index(now) if now in order else 0
        self.go(order[(at + step) % len(order)])

    def turn_side(self) -> None:
        """Hide or show the panes beside the session."""
        self.choices.side = not self.choices.side
        self.choices.zoom = ""
        self.relayout()

    def turn_zoom(self) -> None:
        """Give the focused pane the whole screen, or take it back."""
        self.choices.zoom = "" if self.choices.zoom else self.focused_pane()
        self.relayout()

    def move_border(self, step: int) -> None:
        """Move the border of the session; remembered per layout."""
        kind = self.layout_now.kind if self.layout_now else ""
        if kind in pane_layout.SHARES:
            self.choices.move(kind, self.choices.share(kind) + step)
            self.relayout()

    def raise_border(self, step: int) -> None:
        """Move the border below or above the focused pane."""
        pane = self.focused_pane()
        border = pane_layout.border_of(self.layout_now, pane) if self.layout_now else ""
        if border:
            step = -step if border == "three watch" else step  # measured from below
            self.choices.move(border, self.choices.share(border) + step)
            self.relayout()
