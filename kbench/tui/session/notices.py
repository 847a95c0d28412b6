"""What the user is told in passing: in the status line's place, so that it covers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content

from kbench.tui.session.bars import Line
from kbench.tui.signal import WidthsChanged
from kbench.tui.text.text import safe, wrap

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench

MAX_NOTICE_ROWS = 4
"""Rows of all that is told at once: what is said first gives way, and stays in the diagnostics
where it is a problem."""
SEVERITIES = ("information", "warning", "error")


class Notice(Struct, frozen=True, eq=False):
    """Some words, each time they are told another."""

    words: str
    severity: str  # one of SEVERITIES


class Notices:
    """Words that go by themselves; a longer text takes more rows, for which the panes move."""

    def __init__(self, bench: ScreenBench) -> None:
        self._bench = bench
        self._told: list[Notice] = []
        bench.on(WidthsChanged, lambda _: self._draw())

    def add(self, words: str, severity: str, seconds: float) -> None:
        """Tell something for some seconds; what is told again is told once."""
        self._told = [notice for notice in self._told if notice.words != words]
        notice = Notice(words, severity)
        self._told.append(notice)
        self._bench.later(seconds, lambda: self._drop(notice))
        self._draw()

    def clear(self) -> None:
        """Nothing is told any more."""
        self._told = []
        self._draw()

    def _drop(self, notice: Notice) -> None:
        if notice in self._told:
            self._told.remove(notice)
            self._draw()

    def rows(self, width: int, most: int) -> list[Content]:
        """What is told, folded to a width, the newest last; what came first gives way."""
        shown: list[Content] = []
        for told in reversed(self._told):
            lines = [Content(f" {safe(line)}") for line in told.words.split("\n")]
            rows = [row for line in lines for row in wrap(line, width)]
            room = most - len(shown)
            if len(rows) > room and shown:
                break
            if len(rows) > room:
                ending = self._bench.app.glyphs.ellipsis
                rows = [*rows[: room - 1], rows[room - 1].truncate(width - len(ending)) + ending]
            shown = rows + shown
        return shown

    def _draw(self) -> None:
        width, height = self._bench.size
        rows = self.rows(max(width, 4), max(min(MAX_NOTICE_ROWS, height // 4), 1))
        worst = max((SEVERITIES.index(told.severity) for told in self._told), default=0)
        for line in self._bench.views(Line):
            if line.id == "notices":
                line.show(Content("\n").join(rows))
                for at, severity in enumerate(SEVERITIES):
                    line.set_class(at == worst, severity)
        choices = self._bench.arrangement.choices
        if choices.notices != len(rows):
            choices.notices = len(rows)
            self._bench.arrangement.relayout()
