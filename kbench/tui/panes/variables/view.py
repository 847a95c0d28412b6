"""The user's names with shape, dtype, size and range, kept up by what the kernel pushes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace
from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import (
    CompareWanted,
    CopyText,
    InsertText,
    PaneMessage,
    TitleChanged,
    TraceNan,
)
from kbench.tui.panes.rows import (
    SHORT_DTYPES,
    NameRow,
    Statistics,
    kind_word,
    number_text,
    shape_text,
)
from kbench.tui.text.glyphs import Glyphs, histogram, human_bytes
from kbench.tui.text.outline import Outline
from kbench.tui.text.table import Column, Table
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.workbench.protocol.names import VariableRow

SORTS = ("name", "kind", "size", "change")
BAR_CELLS = 8
"""Bars of the histogram within a range."""
NARROW_BAR_CELLS = 5
"""The same in a narrow pane."""
WEIGHT_RANGE_CELLS = 34
"""Cells that `[-.123 ▁▂▄█▅▂▂▁ .123]  mean -.012` needs."""
NARROW_RANGE_CELLS = 18
"""Cells that `[-.17 ▁▄█▃▁ .2] v0` needs."""
SNIPPETS = (
    "x = K.placeholder((None, 4), name='x')",
    "w = K.variable([[1., 2.], [3., 4.]], name='w')",
    "K.eval(K.softmax(K.dot(K.ones((3, 2)), w)))",
)


def range_words(stats: Statistics, glyphs: Glyphs | None, narrow: bool = False) -> Content:
    """`NaN 3!  ~[-.12 ▁▅█▂ .12]`: a tilde when only a sample was read; dots without glyphs."""
    if stats.refused:
        return Content.styled(stats.refused, MUTED)
    counts = (("NaN", stats.nan), ("Inf", stats.inf))
    flags = [f"{word} {count}!" for word, count in counts if count]
    parts: list[str | tuple[str, str]] = []
    for flag in flags:
        parts += [(flag, "bold $text-error"), "  "]
    parts.append("~" if stats.sampled else "")
    if stats.count == 0:
        parts.append("empty")
    elif stats.low is None:
        parts.append("all NaN or Inf")
    elif stats.zeros == stats.count:
        parts.append("all zero")
    elif stats.low == stats.high:
        parts.append(f"all {number_text(stats.low)}" if stats.count > 1 else number_text(stats.low))
    else:
        cells = NARROW_BAR_CELLS if narrow else BAR_CELLS
        bars = ".." if glyphs is None else histogram(stats.bins, glyphs, cells)
        digits = 2 if narrow else 3
        low, high = number_text(stats.low, digits), number_text(stats.high, digits)
        parts += [f"[{low} ", (bars, "$text-accent"), f" {high}]"]
    return Content.assemble(*parts)


def note_words(row: NameRow, glyphs: Glyphs | None, narrow: bool = False) -> Content:
    """The last column: range, version, last fed shape, or what the kernel says of the object."""
    if row.stats is not None:
        words = range_words(row.stats, glyphs, narrow)
        if row.note and row.stats.low is None and not row.stats.refused:
            words = Content(safe(row.note))
    elif row.kind == "placeholder":
        words = Content(f"last fed {shape_text(row.fed)}" if row.fed is not None else "not fed yet")
    else:
        words = Content(safe(row.note))
    if row.stats is not None and row.label:  # a weight
        mean = "" if narrow or not row.shape else f"  mean {number_text(row.stats.mean, 2)}"
        return words + mean + (f"  {row.note}" if row.note else "")
    if row.version is None:
        return words
    return words + (f" v{row.version}" if narrow else f"  v{row.version}")


class VariablesTable(Table):
    """One row per name; filter with /, sort with s, Enter shows the value or unfolds a model."""

    BINDINGS = keys.bindings("variables")
    columns = (
        Column("name", 0, most=24),
        Column("kind", 2),
        Column("shape", 1, most=26),
        Column("dtype", 3, most=10),
        Column("size", 4, right=True),
        Column(
            "range / note",
            most=60,
            least=NARROW_RANGE_CELLS,
            bare=NARROW_RANGE_CELLS,
            stretch=True,
        ),
    )

    class FilterWanted(PaneMessage):
        """The user wants to type a filter."""

    class Pointed(PaneMessage):
        """The cursor stands on another name."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    class ExactWanted(PaneMessage):
        """Statistics of every element of a name are wanted."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    class PartsWanted(PaneMessage):
        """Rows below unfolded rows are on the screen, and not at hand or old."""

    class GraphWanted(PaneMessage):
        """The user wants to see the graph of the name."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    class DeriveWanted(PaneMessage):
        """The user wants to see the gradients of a tensor or a model."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    class WatchWanted(PaneMessage):
        """The user wants to see how the value changes."""

        def __init__(self, expression: str) -> None:
            self.expression = expression
            super().__init__()

    def __init__(self) -> None:
        super().__init__("variables")
        self.outline = Outline()
        self._known: dict[str, NameRow] = {}
        self._changes: dict[str, int] = {}
        self._cells_of: dict[str, tuple[NameRow, tuple[object, ...], list[Content]]] = {}
        self._tick = 0
        self._filter = ""
        self._sort = "name"
        self._was_narrow = False

    @property
    def known(self) -> dict[str, NameRow]:
        """All names, filtered or not."""
        return self._known

    def find(self, name: str) -> NameRow | None:
        """The row of a name or of a part."""
        return self._known.get(name) or self.outline.find(name)

    def forget(self) -> None:
        """The kernel is another one: nothing is known, and nothing is filtered."""
        self._known = {}
        self._changes, self._cells_of = {}, {}
        self._filter = ""
        self.outline = Outline()
        self._show()

    def update_rows(self, rows: Iterable[NameRow], gone: Iterable[str], flash: bool = True) -> None:
        """Take over new, changed and deleted names."""
        self._tick += 1
        changed = set()
        for row in rows:
            if self._known.get(row.name) != row:
                if row.name in self._known:
                    changed.add(row.name)
                self._known[row.name] = row
                self._changes[row.name] = self._tick
        gone = list(gone)
        for name in gone:
            self._known.pop(name, None)
            self._changes.pop(name, None)
            self._cells_of.pop(name, None)
        self.outline.forget(gone)
        self._show()
        if changed and flash:
            self.flash(changed)

    def take_parts(self, asked: list[str], data: list[VariableRow]) -> None:
        """What the kernel says of the parts of unfolded rows."""
        changed = self.outline.take(asked, data)
        self._show()
        if changed:
            self.flash(changed)
        self._ask_for_parts()

    def _ask_for_parts(self) -> None:
        if self.outline.wanted(set(self.keys_shown())):
            self.post_message(self.PartsWanted())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Parts that come to the screen catch up."""
        super().watch_scroll_y(old_value, new_value)
        self._ask_for_parts()

    @property
    def filter_text(self) -> str:
        """What names must contain."""
        return self._filter

    def action_filter(self) -> None:
        """Ask for a filter."""
        self.post_message(self.FilterWanted())

    def action_exact(self) -> None:
        """Ask for statistics of every element."""
        if (key := self.current_key) is not None:
            self.post_message(self.ExactWanted(key))

    def set_filter(self, text: str) -> None:
        """Show only names that contain `text`, case aside."""
        self._filter = text
        self._show()

    def action_leave(self) -> None:
        """Show all names again; where they are all shown, back to the prompt."""
        if self._filter:
            self.set_filter("")
        else:
            super().action_leave()

    def _order(self, row: NameRow) -> tuple[object, ...]:
        if self._sort == "kind":
            return (row.kind, row.name.lower())
        if self._sort == "size":
            return (-(row.nbytes or 0), row.name.lower())
        if self._sort == "change":
            return (-self._changes.get(row.name, 0), row.name.lower())
        return (row.name.lower(), row.name)

    def on_resize(self) -> None:
        """Word the cells for the new width."""
        super().on_resize()
        if self.narrow != self._was_narrow:
            self._was_narrow = self.narrow
            self._show()

    def _fit_range(self, weights: bool, ranges: Iterable[int]) -> None:
        """Keep room for the last column's words before the others'; `ranges` are their cells."""
        least = WEIGHT_RANGE_CELLS if weights else type(self).columns[-1].least
        least = NARROW_RANGE_CELLS if self.narrow else least
        least = max(least, min(max(ranges, default=0), WEIGHT_RANGE_CELLS))
        if self.columns[-1].least != least:
            self.columns = (*self.columns[:-1], replace(self.columns[-1], least=least))

    def _show(self) -> None:
        wanted = self._filter.lower()
        rows = [row for row in self._known.values() if wanted in row.name.lower()]
        rows.sort(key=self._order)
        self.empty_rows = self._empty()
        lines = self.outline.lines(rows)
        how = self.narrow, self.glyphs
        drawn = [(row.name, self._drawn(row, depth, how)) for depth, row in lines]
        known = [at for at, (_, row) in enumerate(lines) if row.stats is not None]
        weights = any(lines[at][0] for at in known)
        self._fit_range(weights, (drawn[at][1][-1].cell_length for at in known))
        self.fill(drawn)
        count = f"{len(rows)} of {len(self._known)}" if wanted else str(len(self._known))
        extra = f"  /{self._filter}" if wanted else ""
        extra += f"  by {self._sort}" if self._sort != "name" else ""
        names = f"{count} name{'s' * (count != '1')}{extra}"
        self.post_message(TitleChanged("variables", f"Variables ({count}){extra}", names))

    def _drawn(self, row: NameRow, depth: int, how: tuple[bool, Glyphs]) -> list[Content]:
        """The cells of a row, drawn again only when they are others: there may be thousands."""
        key = depth, row.name in self.outline.unfolded, *how
        kept = self._cells_of.get(row.name)
        if kept is None or kept[0] is not row or kept[1] != key:
            cells = [
                Content(cell) if isinstance(cell, str) else cell for cell in self._cells(row, depth)
            ]
            kept = self._cells_of[row.name] = row, key, cells
        return kept[2]

    def _cells(self, row: NameRow, depth: int = 0) -> list[Content | str]:
        narrow = self.narrow
        mark = ""
        if row.parts:
            mark = "- " if row.name in self.outline.unfolded else "+ "
        elif depth:
            mark = "  "
        return [
            " " * (depth * (1 if narrow else 2)) + mark + safe(row.label if depth else row.name),
            kind_word(row),
            shape_text(row.shape, "," if narrow else ", "),
            (SHORT_DTYPES.get(row.dtype, row.dtype) if narrow else row.dtype) or "-",
            row.about + human_bytes(row.nbytes).replace(" ", "" if narrow else " "),
            note_words(row, self.glyphs, narrow),
        ]

    def _empty(self) -> list[Content]:
        if self._filter and self._known:
            return [Content.styled(f" no name contains {self._filter!r}; Esc shows all", MUTED)]
        lines = [Content.styled(" No variables yet. Click a line, or type your own:", MUTED)]
        for index, snippet in enumerate(SNIPPETS):
            action = f"screen.snippet({index})"
            lines.append(Content.assemble("   ", (snippet, f"$text-accent @click={action}")))
        return lines

    # ------------------------------------------------------------------ keys

    def moved(self) -> None:
        """Let the value pane follow."""
        if (key := self.current_key) is not None:
            self.post_message(self.Pointed(key))

    def action_sort(self) -> None:
        """The next order."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._show()

    def action_open(self) -> None:
        """Unfold or fold a model or a layer; of anything else show the value."""
        row = self.find(self.current_key or "")
        if row is None or not row.parts:
            super().action_open()
        elif row.name in self.outline.unfolded:
            self.action_fold()
        else:
            self.outline.unfold(row.name)
            self._show()
            self._ask_for_parts()

    def action_fold(self) -> None:
        """Fold the row, or go to the one that it is below."""
        key = self.current_key or ""
        parent = key.rpartition("/")[0]
        if key in self.outline.unfolded:
            self.outline.fold(key)
            self._show()
        elif parent in self.keys():
            self.go(self.keys().index(parent))

    def action_unfold(self) -> None:
        """Unfold the row; a second time, what is below its rows too."""
        row = self.find(self.current_key or "")
        if row is None or not row.parts:
            return
        if row.name in self.outline.unfolded:
            self.outline.unfold_below(row)
        else:
            self.outline.unfold(row.name)
        self._show()
        self._ask_for_parts()

    def action_graph(self) -> None:
        """Show the graph of the name."""
        if (key := self.current_key) is not None:
            self.post_message(self.GraphWanted(key))

    def action_derive(self) -> None:
        """Show the gradients of a tensor or a model."""
        row = self.find(self.current_key or "")
        if row is not None and row.kind in ("tensor", "model"):
            self.post_message(self.DeriveWanted(row.name))
        elif row is not None:
            kind = f"{'an' if row.kind[0] in 'aou' else 'a'} {row.kind}"
            words = f"{safe(row.name)} is {kind}; gradients need a tensor or a model"
            self.notify(words, timeout=3, markup=False)

    def action_trace(self) -> None:
        """Look for what made the first NaN or infinity in it."""
        if (key := self.current_key) is not None:
            self.post_message(TraceNan(name=key))

    def action_compare(self) -> None:
        """Compare its value on several engines or under several settings."""
        if (row := self.find(self.current_key or "")) is not None:
            self.post_message(CompareWanted(row.expression))

    def action_watch(self) -> None:
        """Watch the value."""
        if (row := self.find(self.current_key or "")) is not None:
            self.post_message(self.WatchWanted(row.expression))

    def action_insert(self) -> None:
        """Put what stands for the row into the prompt."""
        if (row := self.find(self.current_key or "")) is not None:
            self.post_message(InsertText(row.expression))

    def action_copy(self) -> None:
        """Copy the row as text, nothing of it shortened."""
        if (row := self.find(self.current_key or "")) is not None:
            cells = (
                safe(row.label or row.name),
                kind_word(row),
                shape_text(row.shape),
                row.dtype or "-",
                row.about + human_bytes(row.nbytes),
                note_words(row, None).plain,
            )
            self.post_message(CopyText("  ".join(cells), row.label or row.name))
