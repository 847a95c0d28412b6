"""Gradients of a loss, one row per variable; computed by the kernel when the main screen asks."""

from __future__ import annotations

import textwrap

from msgspec.structs import replace
from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, PaneMessage, TitleChanged
from kbench.tui.panes.rows import number_text, shape_text
from kbench.tui.text.glyphs import human_seconds
from kbench.tui.text.table import Column, Table
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import Row

HELP = (
    "No loss yet: make a scalar, loss = K.mean(y * y),",
    "or press {derive} on a tensor in the variables.",
)


class GradientTable(Table):
    """Norm, share of zeros, range and what is wrong; Enter opens a gradient in the value grid."""

    BINDINGS = keys.bindings("gradient")
    columns = (
        Column("variable", 0, most=40, least=14, stretch=True),
        Column("shape", 5, most=20),
        Column("norm", 0, right=True),
        Column("/ |w|", 3, right=True),
        Column("zeros", 1, right=True),
        Column("min", 4, right=True),
        Column("max", 4, right=True),
        Column("mark", 0),
    )

    class Wanted(PaneMessage):
        """A key that needs a dialog or the kernel: compute, choose, stop."""

        def __init__(self, what: str) -> None:
            self.what = what
            super().__init__()

    def __init__(self) -> None:
        super().__init__("gradient")
        self.data: Row = {}
        self._loss = ""
        self._note = ""
        self._reason = ""
        self.empty_rows = [*HELP]

    def _set_empty_rows(self, lines: list[str]) -> None:
        self.empty_rows = [Content.styled(f" {line}", MUTED) for line in lines]

    def show(self, data: Row) -> None:
        """Draw what was computed."""
        self.data, self._note, self._reason = data, "", ""
        self._loss = str(data.get("loss") or "")
        self._fill()

    def fail(self, loss: str, reason: str) -> None:
        """Say why there are no gradients."""
        self.data, self._loss, self._note, self._reason = {}, loss, "", reason
        self._fill()

    def note(self, loss: str, words: str) -> None:
        """Words in the title, such as that values are old; the rows stay."""
        if loss != self._loss:
            self.data, self._reason = {}, ""
        self._loss, self._note = loss, words
        self._fill()

    def clear(self) -> None:
        """There is nothing to derive."""
        self.fail("", "")

    def row_of(self, key: str) -> Row:
        """What is known of the gradient under a key."""
        rows = self.data.get("rows") or []
        return next((row for row in rows if row.get("key") == key), {})

    def _fill(self) -> None:
        rows = [(str(row["key"]), self._cells(row)) for row in self.data.get("rows") or []]
        if self._reason:
            width = max(self.text_width - 2, 20)
            self._set_empty_rows(textwrap.wrap(safe(self._reason), width) or [""])
        elif self._loss:
            self._set_empty_rows([self._note or "not computed yet"])
        else:
            self.empty_rows = [*HELP]
        unreached = self.data.get("unreached") or []
        if unreached:
            words = [Content(safe(str(name))) for name in unreached]
            blank: list[Content | str] = [""] * (len(self.columns) - 2)
            rows += [
                (f"none/{name.plain}", [name, *blank, Content.styled("no path", MUTED)])
                for name in words
            ]
        first = f"d {safe(self._loss)} / d" if self._loss else "variable"
        self.columns = (replace(self.columns[0], title=first[:24]), *self.columns[1:])
        self.fill(rows)
        self.post_message(TitleChanged("gradient", self._title()))

    def _title(self) -> str:
        if not self._loss:
            return "Grad"
        parts = [f"Grad: d {safe(self._loss)}"]
        if self.data:
            of_sum = "sum " if self.data.get("sum") else ""
            parts.append(f"({of_sum}{self.data.get('value')})")
            parts.append(human_seconds(float(self.data.get("seconds") or 0.0)))
            if self.data.get("origin"):
                parts.append(f"on {self.data['origin']}")
        if self._note:
            parts.append(self._note)
        return " ".join(parts)

    def _cells(self, row: Row) -> list[Content | str]:
        zeros, mark = row.get("zeros"), str(row.get("mark") or "")
        bad = f" {row['bad']}" if row.get("bad") else ""
        words = Content.styled(f"{mark}{bad} !", "bold $text-error") if mark else Content("")
        return [
            safe(str(row["name"])),
            shape_text(row.get("shape")),
            _number(row.get("norm")),
            _number(row.get("ratio")),
            "-" if zeros is None else f"{100 * float(zeros):.0f}%",
            _number(row.get("min")),
            _number(row.get("max")),
            words,
        ]

    def on_resize(self) -> None:
        """Fold the reason again."""
        super().on_resize()
        if self._reason:
            self._fill()

    # ------------------------------------------------------------------ keys

    def action_compute(self) -> None:
        """Compute now, however long it takes."""
        self.post_message(self.Wanted("compute"))

    def action_choose(self) -> None:
        """Choose the loss."""
        self.post_message(self.Wanted("choose"))

    def action_stop(self) -> None:
        """Compute no longer."""
        self.post_message(self.Wanted("stop"))

    def action_copy(self) -> None:
        """Copy the row."""
        row = self.row_of(self.current_key or "")
        if row:
            cells = (str(cell).strip() for cell in self._cells(row))
            self.post_message(CopyText("  ".join(cell for cell in cells if cell), str(row["name"])))


def _number(value: float | str | None) -> str:
    return number_text(float(value) if isinstance(value, str) else value)
