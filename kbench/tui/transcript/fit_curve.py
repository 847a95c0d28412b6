"""The loss of a `fit` or a training loop as a plot below its cell, and each metric as bars."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from textual.content import Content

from kbench.tui.panes.rows import number_text
from kbench.tui.text import curve
from kbench.tui.text.glyphs import Glyphs
from kbench.tui.text.text import one_line
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import Row

PLOT_ROWS = 5
"""Of the loss: twenty levels in braille."""
MAX_PLOT_COLUMNS = 60
"""Wider, the rows of bars could not be compared with it at a glance."""
MAX_NAME_CELLS = 20
"""Of the name of a metric."""
BAR_CELLS = 24
"""Of a row of bars."""

Values = Sequence[float | None]
_UNITS = {"epoch": "epochs", "batch": "batches", "call": "calls"}


class FitCurve(Struct, frozen=True):
    """What the kernel has told of a fit, or of a loop of calls.

    `unit` is "epoch", or "batch" within the first ones, or "call" of what `source` names.
    """

    unit: str
    count: int
    series: tuple[tuple[str, Values], ...]
    source: str = ""

    @classmethod
    def of(cls, data: Row) -> FitCurve | None:
        """From what was pushed; None if it is not what this version knows."""
        try:
            rows = tuple(
                (str(name), tuple(None if value is None else float(value) for value in values))
                for name, values in data["series"]
            )
            unit, source = str(data["unit"]), str(data.get("source", ""))
            return cls(unit, int(data["count"]), rows, source) if rows else None
        except (KeyError, TypeError, ValueError):
            return None

    def rows(self, width: int, glyphs: Glyphs | None) -> list[Content]:
        """Rows of at most `width` cells; without characters to draw with, words alone."""
        unit = _UNITS.get(self.unit, "values")
        if self.unit == "call" and self.source:
            unit += f" of {one_line(self.source, MAX_NAME_CELLS)}"
        (name, values), *others = self.series
        head = f"{one_line(name, MAX_NAME_CELLS)} {_change(values)} over {self.count:,} {unit}"
        if glyphs is None:
            return [Content(head), *(Content(f"{one} {_change(known)}") for one, known in others)]
        found = [Content.styled(one_line(head, width, glyphs.ellipsis), MUTED)]
        columns = min(width, MAX_PLOT_COLUMNS)
        places = curve.stretches(values)
        if width > len(" 0.001234 |") + 2:
            found += curve.framed(places, columns, PLOT_ROWS, glyphs, number_text)
        return found + self._metrics(others, width, glyphs)

    @staticmethod
    def _metrics(others: Sequence[tuple[str, Values]], width: int, glyphs: Glyphs) -> list[Content]:
        names = [one_line(name, MAX_NAME_CELLS, glyphs.ellipsis) for name, _ in others]
        longest = max(map(len, names), default=0)
        words = [_change(values) for _, values in others]
        widest = max(map(len, words), default=0)
        found = []
        for name, change, (_, values) in zip(names, words, others, strict=True):
            text = f" {name:<{longest}} {change:<{widest}} "
            room = min(width - len(text), BAR_CELLS)
            bars = curve.spark(_picked(values, room), glyphs, room)
            cut = one_line(text, width, glyphs.ellipsis)
            found.append(Content.assemble((cut, MUTED), (bars, "$text-accent")))
        return found


def _change(values: Values) -> str:
    """`1.2 -> 0.31`, from the first to the last value that is a number."""
    known = [value for value in values if value is not None]
    if not known:
        return "NaN or Inf in all"
    last = "NaN or Inf" if values[-1] is None else number_text(known[-1])
    return f"{number_text(known[0])} -> {last}"


def _picked(values: Values, count: int) -> Values:
    """So many of them, from the first to the last."""
    if count < 2 or len(values) <= count:
        return values
    return [values[at * (len(values) - 1) // (count - 1)] for at in range(count)]
