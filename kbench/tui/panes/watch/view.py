"""Watched expressions: value, history and value before; what they are is the controller's business.

Where a pane is narrow, the column of the value before is left out, then that of the notes; then a
long value gives way, and only then the history. Of an array its shape is cut first, then its mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, PaneMessage, TitleChanged
from kbench.tui.text import curve
from kbench.tui.text.glyphs import Glyphs, histogram, human_seconds
from kbench.tui.text.table import Column, Table
from kbench.tui.text.text import end_kept, safe
from kbench.tui.themes import MUTED
from kbench.workbench.protocol.findings import WatchRow

BAD = "bold $text-error"
BEFORE = "values from before the running cell"
MAX_BARS = 24
"""Of the history: as many values as the kernel keeps."""
NARROW_BARS = 8
"""The same in a narrow pane."""
LEAST_VALUE_CELLS = 12
"""Of a value that runs over the columns behind it."""

BARE_VALUE_CELLS = 24
"""Of a long value beside the history: any number, or the range of an array."""


def value_words(row: WatchRow, stale: bool = False) -> Content:
    """The value, or what the kernel says in place of it; never by colour alone."""
    state, text, note = row.state, safe(row.text), safe(row.note)
    if state == "new":
        return Content.styled(note or "not evaluated yet", MUTED)
    if state in ("error", "refused"):
        return Content.assemble((text if state == "error" else f"refused: {text}", BAD))
    if note and not text:
        return Content.styled(f"{note}: Enter evaluates it", MUTED)
    parts: list[str | tuple[str, str]] = [(text, MUTED) if stale else text]
    if note and state == "slow":  # the value is an old one, which must be seen however long it is
        parts.insert(0, (f"({note})  ", MUTED))
    return Content.assemble(*parts)


def cells(row: WatchRow, stale: bool, glyphs: Glyphs, bars: int) -> list[Content]:
    """Expression, value, `bars` of a number's history or of an array's histogram, before, note."""
    found = [Content(safe(row.expression)), value_words(row, stale)]
    if row.state in ("new", "error", "refused") or not row.text:
        return [*found, Content(""), Content(""), Content("")]
    history = curve.spark(row.history or (), glyphs, bars)
    if row.histogram:
        history = histogram(row.histogram, glyphs, bars)
    note = "" if row.state == "slow" else safe(row.note)
    rest = ((history, MUTED if stale else "$text-accent"), (safe(row.before), MUTED), (note, MUTED))
    return [*found, *(Content.styled(text, style) for text, style in rest)]


def fitted(
    row: WatchRow, cells: list[Content], widths: Sequence[int], ellipsis: str
) -> list[Content]:
    """The cells, that of an array's value cut so that its range stays whole."""
    value, room = cells[1], widths[1]
    if not row.histogram or not 0 < room < value.cell_length:
        return cells
    style = value.spans[0].style if value.spans else ""
    short = Content.styled(end_kept(value.plain, room, ellipsis), style)
    return [cells[0], short, *cells[2:]]


def wanted_lengths(cells: Sequence[Content]) -> list[int]:
    """A value with nothing behind it runs over the other columns: it needs none left out."""
    found = [cell.cell_length for cell in cells]
    if not any(found[2:]):
        found[1] = min(found[1], LEAST_VALUE_CELLS)
    return found


class WatchTable(Table):
    """One row per expression; a adds one, Enter edits it, or evaluates one that is slow."""

    BINDINGS = keys.bindings("watch")
    columns = (
        Column("watch", 0, most=36, least=10),
        Column("value", 0, most=200, bare=BARE_VALUE_CELLS, runs_over=True),
        Column("history", 1, most=MAX_BARS, optional=True),
        Column("before", 3, most=60, least=10, optional=True),
        Column("note", 2, most=40, least=12, optional=True),
    )

    class Wanted(PaneMessage):
        """A key that needs a dialog or the kernel: add, edit, evaluate, remove."""

        def __init__(self, what: str, expression: str = "") -> None:
            self.what = what
            self.expression = expression
            super().__init__()

    def __init__(self) -> None:
        super().__init__("watch")
        self._known: dict[str, WatchRow] = {}
        self._stale = self._was_narrow = False
        self.empty_rows = [
            "No watches yet: press {watch_name} on a variable or a cell,",
            "or {watch_add} here for an expression such as K.mean(w).",
        ]

    def show(self, expressions: Sequence[str], rows: Sequence[WatchRow] = ()) -> None:
        """Show these expressions; `rows` are news of some of them, the others stay as they are."""
        news = {row.expression: row for row in rows if self._is_news(row)}
        known = {**self._known, **news}
        self._known = {
            expression: known.get(expression) or WatchRow(expression=expression)
            for expression in expressions
        }
        self._fill()
        changed = {
            expression
            for expression, row in news.items()
            if row.changed and expression in self._known
        }
        if changed:
            self.flash(changed)

    def _is_news(self, row: WatchRow) -> bool:
        """Whether a row is no older than what is shown: a reply and what is told later cross."""
        known = self._known.get(row.expression)
        return row.count is None or known is None or row.count >= (known.count or 0)

    def forget(self) -> None:
        """The kernel is another one: nothing is known of the expressions."""
        self._known = {known: WatchRow(expression=known) for known in self._known}
        self._fill()

    def hold(self, stale: bool) -> None:
        """Whether a cell runs, so that values are those of the last idle moment."""
        if stale != self._stale:
            self._stale = stale
            if not stale:
                self._known = {key: row.replaced(live=False) for key, row in self._known.items()}
            self._fill()

    def on_resize(self) -> None:
        """Draw as many bars as there is room for."""
        super().on_resize()
        if self.narrow != self._was_narrow:
            self._was_narrow = self.narrow
            self._fill()

    def lengths(self, cells: Sequence[Content]) -> list[int]:
        """See `wanted_lengths`."""
        return wanted_lengths(cells)

    def fitted(self, name: str, cells: list[Content], widths: Sequence[int]) -> list[Content]:
        """See `fitted`."""
        row = self._known.get(name)
        return fitted(row, cells, widths, self.glyphs.ellipsis) if row else cells

    def _fill(self) -> None:
        rows = []
        bars = NARROW_BARS if self.narrow else MAX_BARS
        for name, row in self._known.items():
            stale = (self._stale and not row.live) or not (row.current or row.live)
            rows.append((name, cells(row, stale, self.glyphs, bars)))
        self.fill(rows)
        count = f" ({len(rows)})" if rows else ""
        held = f": {self._held_words()}" if self._stale and rows else ""
        self.post_message(TitleChanged("watch", f"Watch{count}{held}"))

    def _held_words(self) -> str:
        """Which values are those of the running cell."""
        live = sum(row.live for row in self._known.values())
        if live == len(self._known):
            return "live"
        return f"{live} live, others older" if live else BEFORE

    # ------------------------------------------------------------------ keys

    def action_add(self) -> None:
        """Type a new one."""
        self.post_message(self.Wanted("add"))

    def action_open(self) -> None:
        """Evaluate one that is slow, edit any other."""
        key = self.current_key
        if key is None:
            self.action_add()
            return
        row = self._known[key]
        slow = row.state == "slow" or not row.current
        self.post_message(self.Wanted("evaluate" if slow else "edit", key))

    def action_edit(self) -> None:
        """Change the expression."""
        if (key := self.current_key) is not None:
            self.post_message(self.Wanted("edit", key))

    def action_full(self) -> None:
        """Read all of what does not fit the line."""
        if (key := self.current_key) is not None:
            self.post_message(self.Wanted("full", key))

    def words(self, expression: str) -> list[Content]:
        """All that is known of an expression, line by line."""
        row = self._known.get(expression) or WatchRow(expression=expression)
        lines = [Content.styled(safe(expression), "bold")]
        for name, text in (("value", row.text), ("before", row.before), ("note", row.note)):
            if text:
                lines.append(Content(f"{name:<8}{safe(text)}"))
        if row.seconds:
            lines.append(Content(f"{'took':<8}{human_seconds(row.seconds)}"))
        return lines

    def action_evaluate(self) -> None:
        """Evaluate it now, however long it takes."""
        if (key := self.current_key) is not None:
            self.post_message(self.Wanted("evaluate", key))

    def action_remove(self) -> None:
        """Watch it no longer."""
        if (key := self.current_key) is not None:
            self.post_message(self.Wanted("remove", key))

    def action_copy(self) -> None:
        """Copy the expression and its value."""
        if (key := self.current_key) is not None:
            text = self._known[key].text
            self.post_message(CopyText(f"{key}  {text}".rstrip(), "the watch"))
