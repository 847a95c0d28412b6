"""A step of a lesson: its prose, what was said about the answer, and one line that tells the state.

What stands in it is the business of `lesson_controller.py`; here it is only drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from markdown_it import MarkdownIt
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.style import Style
from textual.widgets import Markdown, Static

from kbench.tui.keys import keys
from kbench.tui.session.bars import Line, clickable
from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import one_line, safe
from kbench.tui.themes import MUTED

if TYPE_CHECKING:
    from textual.events import Resize

CommandLink = tuple[str, str]  # words, and the command behind them


def _parser() -> MarkdownIt:
    """CommonMark and tables; HTML is text like any other."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


class Prose(Markdown):
    """Markdown whose links lead nowhere: a lesson is read offline, wherever it is."""

    def __init__(self) -> None:
        super().__init__("", id="lesson-prose", parser_factory=_parser, open_links=False)

    def plain_bullets(self) -> None:
        """Only characters that every font has."""
        setattr(self, "BULLETS", ["* ", "- ", "+ "])  # noqa: B010 - a constant of the class


class LessonText(VerticalScroll, can_focus=True, inherit_bindings=False):
    """What scrolls: the prose, and below it what was said last."""

    BINDINGS = keys.bindings("lesson")

    def compose(self) -> ComposeResult:
        """Prose, then words."""
        yield Prose()
        yield Static(id="lesson-said", markup=False)


class LessonPane(Vertical):
    """Title, text and state; the title stands in the frame where there is one."""

    def __init__(self) -> None:
        super().__init__(id="lesson")
        self._title = ("", "")
        self._state: tuple[str, str, Sequence[CommandLink]] = ("", "", ())
        self._more = ""
        self._said_last = False  # words are to be in view, until the learner scrolls

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Line("lesson-head")
        yield LessonText(id="lesson-text")
        yield Line("lesson-foot")

    def on_mount(self) -> None:
        """In ASCII there are other bullets."""
        if self._glyphs.ellipsis != UNICODE.ellipsis:
            self.query_one(Prose).plain_bullets()
        text = self.query_one(LessonText)
        for what in ("scroll_y", "virtual_size"):
            self.watch(text, what, self._draw)
        self.watch(text, "virtual_size", self._follow)

    @property
    def _glyphs(self) -> Glyphs:
        return cast(Glyphs, getattr(self.app, "glyphs", UNICODE))

    async def read(self, prose: str) -> None:
        """Show other prose, from its beginning."""
        self._said_last = False
        await self.query_one(Prose).update(safe(prose))
        self.query_one(LessonText).scroll_home(animate=False)

    def set_message(self, lines: Sequence[Content]) -> None:
        """Show words below the prose, and bring them into view."""
        said = self.query_one("#lesson-said", Static)
        said.update(Content("\n").join(lines))
        said.display = self._said_last = bool(lines)
        self._follow()

    def _follow(self) -> None:
        """Words that were said come into view once they have their place, however late."""
        if self._said_last:
            self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        """As much of what was said as there is room for, from its first line."""
        text = self.query_one(LessonText)
        said = self.query_one("#lesson-said", Static)
        top = said.virtual_region.y
        low = top + said.virtual_region.height - text.scrollable_content_region.height
        text.scroll_to(y=min(top, max(low, 0)), animate=False)

    def turn(self, way: str) -> None:
        """Scroll, while the focus is elsewhere."""
        self._said_last = False
        text = self.query_one(LessonText)
        (text.scroll_page_up if way == "up" else text.scroll_page_down)(animate=False)

    def set_title(self, title: str, where: str) -> None:
        """The lesson's title, and where the learner is in it."""
        self._title = (title, where)
        self.border_title = Content(safe(title))
        self.border_subtitle = Content(where)
        self._draw()

    def set_state(
        self, words: str, style: str, choices: Sequence[CommandLink], more: str = ""
    ) -> None:
        """The line below: how things stand, and commands that can be clicked.

        `more` is the key that reads on; it is named while there is something to read on.
        """
        self._state, self._more = (words, style, choices), more
        self._draw()

    @property
    def short(self) -> bool:
        """Whether only the state is seen: folded, or there is no room for prose."""
        return self.has_class("folded") or 0 < self.size.height < 4

    def fold(self, folded: bool) -> None:
        """Only the line that tells the state, or all."""
        self.set_class(folded, "folded")
        self._draw()

    def on_resize(self, _event: Resize) -> None:
        """Lines are cut to the width."""
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        framed, folded = self.has_class("bordered"), self.short
        head = self.query_one("#lesson-head", Line)
        head.display = not framed and not folded
        self.query_one(LessonText).display = not folded
        title, where = self._title
        width = max(self.content_size.width, 20)
        left = one_line(f" {title}", max(width - len(where) - 2, 8), self._glyphs.ellipsis)
        gap = " " * max(width - Content(left).cell_length - len(where) - 1, 1)
        head.show(Content.assemble((left, "bold $text-accent"), gap, (where, MUTED)))
        self.query_one("#lesson-foot", Line).show(self._foot(width, where if folded else ""))

    @property
    def _cut(self) -> bool:
        """Whether there is prose below what is seen."""
        text = self.query_one(LessonText)
        return text.max_scroll_y > round(text.scroll_y)

    def _foot(self, width: int, where: str) -> Content:
        """The state in words, then as many commands as there is room for."""
        words, style, choices = self._state
        words = f"{where}: {words}" if where else words
        more = f"  {self._more}" if self._more and not where and self._cut else ""
        words = one_line(f" {words}", width - 1 - len(more), self._glyphs.ellipsis)
        parts: list[str | tuple[str, str | Style]] = [(words, style), (more, "bold $text-accent")]
        room = width - Content(words).cell_length - len(more)
        for shown, command in choices:
            if len(shown) + 2 > room:
                break
            piece: tuple[str, Style] = clickable(shown, f"screen.learn('{command}')", MUTED)
            parts += ["  ", piece]
            room -= len(shown) + 2
        return Content.assemble(*parts)
