"""A screen of panes: where each stands, which has the focus, how borders are dragged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from textual import events
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import Worker

from kbench.tui import layout as pane_layout
from kbench.tui.keys import keys
from kbench.tui.messages import HintChanged, ShowPane, TitleChanged
from kbench.tui.panes.registry import BY_ID, FOCUS_ORDER, LESSON, SESSION, SIDE_PANES, STACK
from kbench.tui.panes.spec import Taker
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.bars import KeyLine, TabLine
from kbench.tui.session.link import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbench.tui.app import WorkbenchApp

TYPED_ON = ("transcript", LESSON)  # where no letter is a command
PLACED = ("banner", "status", "keybar", "hint", "tabs", "label", *FOCUS_ORDER)


class PaneScreen(Screen[None]):
    """Panes are absolute regions computed by `layout.arrange`; nothing is ever re-parented."""

    def __init__(self) -> None:
        super().__init__()
        self.choices = pane_layout.Choices()
        self.layout_now: pane_layout.Layout | None = None
        self.notes: dict[str, str] = {}  # what stands beside the tabs, by pane
        self._dragging = ""  # the border that the mouse holds

    @property
    def bench(self) -> WorkbenchApp:
        """The app, with its own members."""
        return cast("WorkbenchApp", self.app)

    def background(
        self, work: Work, group: str = "default", exclusive: bool = False, opens: bool = False
    ) -> None:
        """Run something on the event loop; exclusive work takes the place of its group's.

        `opens`: it ends with a dialog, for which keys that are typed meanwhile wait.
        """

        async def begin() -> None:
            waiting = self.bench.key_queue.opening() if opens else contextlib.nullcontext()
            with self.while_it_stands(), waiting:
                await work()

        _: Worker[None] = self.run_worker(begin, group=group, exclusive=exclusive)

    @contextlib.contextmanager
    def while_it_stands(self) -> Iterator[None]:
        """Around what may come to widgets late, when the workbench is left and they are gone."""
        try:
            yield
        except NoMatches:
            if self.app.is_running:
                raise

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
        self.set_class(layout.kind == "tiny", "tiny")
        if self.focused is not None and not self.shows(self.focused_pane()):
            self.set_focus(self._home())
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
        shown = {
            key.id: (self.bench.key_word(key.id), key.bar, f"screen.{key.action}")
            for key in keys.of("main")
            if key.bar
        }
        for ident in keys.BAR_DROP_ORDER:  # so that a narrow screen still says how to leave
            if sum(len(key) + len(word) + 2 for key, word, _ in shown.values()) > self.size.width:
                del shown[ident]
        bar.set_keys(shown.values())

    def _show_tabs(self) -> None:
        tabs = self._widget("tabs")
        if tabs is None or self.layout_now is None or not tabs.display:
            return
        numbers = {pane: at for at, pane in enumerate(SIDE_PANES, 1)}
        active = next((pane for pane in self.layout_now.tabs if self.shows(pane)), "")
        # A frame has the whole title already.
        note = "" if self.layout_now.bordered else self.notes.get(active, "")
        cast(TabLine, tabs).set_tabs(
            [
                (pane, f"{numbers[pane]} {BY_ID[pane].tab or BY_ID[pane].title}")
                for pane in self.layout_now.tabs
            ],
            active,
            note,
            self.bench.glyphs.rule,
        )

    def on_title_changed(self, event: TitleChanged) -> None:
        """A pane's words stand in its frame, or beside the tabs."""
        self.notes[event.pane] = event.note
        widget = self._widget(event.pane)
        if widget is not None:
            widget.border_title = Content(event.title)
        self._show_tabs()

    def on_prompt_resized(self) -> None:
        """The prompt grows with its text."""
        self.relayout()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a border between panes."""
        layout = self.layout_now
        at = (event.screen_x, event.screen_y)
        self._dragging = "" if layout is None else pane_layout.border_at(layout, *at)
        if self._dragging:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the border."""
        layout = self.layout_now
        if self._dragging and layout is not None:
            at = event.screen_x, event.screen_y
            share = pane_layout.share_at(self._dragging, layout, self.choices, *at)
            self.choices.move(self._dragging, share)
            self.relayout()

    def on_mouse_up(self) -> None:
        """Let the border go."""
        if self._dragging:
            self._dragging = ""
            self.release_mouse()

    # ------------------------------------------------------------------ typing

    def on_key(self, event: events.Key) -> None:
        """What is typed is input: a letter that the focused pane has no use for is not lost.

        In the transcript and in a lesson it goes to the prompt, elsewhere the way back is told.
        """
        written = event.is_printable and not event.key.startswith("alt+")
        if not written or event.key in self.active_bindings:
            return
        event.stop()
        if self.focused_pane() in TYPED_ON:
            self._to_prompt(events.Key(event.key, event.character))
        else:
            key = self.bench.key_word("prompt")
            self.post_message(HintChanged(f"{key} or Esc goes to the prompt; F1 tells the keys"))

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is for the prompt, wherever the focus is."""
        if not isinstance(self.focused, (Input, TextArea)):
            event.stop()
            self._to_prompt(events.Paste(event.text))

    def _to_prompt(self, event: events.Event) -> None:
        self.action_pane("prompt")
        self.query_one(Prompt).post_message(event)

    # ------------------------------------------------------------------ focus

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """Some pane always has the focus while the terminal has it, wherever the mouse clicks."""
        if widget is None and self.app.app_focus:
            now = self.focused
            widget = now if now is not None and now.is_on_screen else self._home()
        super().set_focus(widget, scroll_visible, from_app_focus)

    def _home(self) -> Widget | None:
        """What takes the keys when nothing else does."""
        pane = "prompt" if self.shows("prompt") else self.choices.zoom
        return self.taker(pane) if pane else None

    def action_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the focus."""
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
            self.call_after_refresh(self._focus_pane, pane)

    def _focus_pane(self, pane: str) -> bool:
        """At once, as what is typed behind the key is for the pane; False if it is not there."""
        widget = self.taker(pane)
        if widget is None or not self.shows(pane) or not widget.focusable:
            return False
        self.set_focus(widget)
        return True

    def focused_pane(self) -> str:
        """The pane that has the focus, 'prompt' if none has."""
        node: object = self.focused
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

    def action_next_pane(self, step: int) -> None:
        """Round all panes, those behind a tab included."""
        kind = self.layout_now.kind if self.layout_now else "tiny"
        order = tuple(pane for pane in FOCUS_ORDER if self.choices.has(pane))
        if kind == "tiny" or not self.choices.side:
            order = tuple(pane for pane in order if pane in SESSION or self.shows(pane))
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
        self.relayout()

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, or take it back."""
        self.choices.zoom = "" if self.choices.zoom else self.focused_pane()
        self.relayout()

    def action_resize(self, step: int) -> None:
        """Move the border of the session; remembered per layout."""
        kind = self.layout_now.kind if self.layout_now else ""
        if kind in pane_layout.SHARES:
            self.choices.move(kind, self.choices.share(kind) + step)
            self.relayout()

    def action_raise(self, step: int) -> None:
        """Move the border below or above the focused pane."""
        pane = self.focused_pane()
        border = pane_layout.border_of(self.layout_now, pane) if self.layout_now else ""
        if border:
            step = -step if border == "three watch" else step  # measured from below
            self.choices.move(border, self.choices.share(border) + step)
            self.relayout()
