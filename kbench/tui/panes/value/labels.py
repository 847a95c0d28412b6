"""The lines around the value on show: head, place, histogram, statistics."""

from __future__ import annotations

from typing import Any, Protocol

from textual.app import App
from textual.content import Content
from textual.geometry import Size

from kbench.tui.panes.rows import NameRow, Statistics
from kbench.tui.panes.value import words
from kbench.tui.panes.value.slices import Target
from kbench.tui.panes.value.trail import Trail
from kbench.tui.panes.value.views.entries import EntriesView
from kbench.tui.panes.value.views.picture import PictureView
from kbench.tui.session.bars import Line
from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED

HISTOGRAM_ROWS = ((34, 5), (22, 3), (14, 1))
"""Rows of the pane, and of the histogram in one that has no fewer; in a lower pane it is a word of
the statistics."""


def histogram_height(rows: int) -> int:
    """Rows of the histogram in a pane of so many; 0 for none."""
    return next((height for least, height in HISTOGRAM_ROWS if rows >= least), 0)


class Shown(Protocol):
    """What the lines tell of: the pane of the value."""

    row: NameRow | None
    stats: Statistics | None
    note: str
    shown: str
    trail: Trail
    as_picture: bool

    @property
    def app(self) -> App[Any]: ...
    @property
    def size(self) -> Size: ...
    @property
    def when(self) -> str: ...
    @property
    def entries(self) -> EntriesView: ...
    @property
    def picture(self) -> PictureView: ...
    @property
    def target(self) -> Target | None: ...
    def query_one(self, selector: str, expect_type: type[Line]) -> Line: ...


def write(pane: Shown) -> None:
    """Say what the pane shows, and where its cursor stands."""
    row = pane.row
    head, axes = pane.query_one("#value-head", Line), pane.query_one("#value-axes", Line)
    _write_numbers(pane, row)
    if row is None:
        head.show(Content.styled(f" {safe(pane.note or words.EMPTY)}", MUTED))
        axes.show(Content(""))
        return
    way = pane.trail.words(pane.shown, max(pane.size.width - words.HEAD_CELLS, 8))
    head.show(words.head(row, head.size.width or 80, way, pane.when))
    axes.show(Content.styled(f" {_place(pane, row, (axes.size.width or 80) - 1)}", MUTED))


def _place(pane: Shown, row: NameRow, width: int) -> str:
    if pane.note:
        return safe(pane.note)
    if row.openable:
        return words.entry(pane.entries.page, pane.entries.at, bool(pane.trail), width)
    if not row.held:
        return words.no_value(row)
    drawn = pane.picture.picture if pane.as_picture else None
    at = "" if drawn is None else words.pixel(drawn, pane.picture.at, pane.picture.value)
    return words.where(row, pane.target, drawn, width, at)


def _write_numbers(pane: Shown, row: NameRow | None) -> None:
    held = row is not None and row.held
    stats = (pane.stats or row.stats) if row is not None and held else None
    glyphs: Glyphs = getattr(pane.app, "glyphs", UNICODE)
    height = histogram_height(pane.size.height) if stats is not None and stats.bins else 0
    bars = pane.query_one("#value-histogram", Line)
    bars.display = height > 0
    if height:
        bars.styles.height = height
        bars.show(words.histogram_rows(stats, glyphs, pane.size.width, height))
    note = row.note if row is not None and held and row.shape else ""
    foot = words.statistics(stats, glyphs, not height, note)
    pane.query_one("#value-foot", Line).show(foot)
