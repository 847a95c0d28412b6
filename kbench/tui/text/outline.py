"""Rows below rows: the layers of a Keras model and their weights, as far as they are unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.rows import NameRow
from kbench.workbench.contents.address import root_of
from kbench.workbench.protocol.names import VariableRow

MAX_UNFOLDED_LAYERS = 64
"""Layers whose weights one key unfolds."""


class Outline:
    """Which rows are unfolded, and the rows below them. Knows no widget."""

    def __init__(self) -> None:
        self.unfolded: set[str] = set()
        self._below: dict[str, list[str]] = {}
        self._rows: dict[str, NameRow] = {}
        self._old: set[str] = set()  # unfolded rows whose parts have changed since they came

    def find(self, key: str) -> NameRow | None:
        """The row of a part."""
        return self._rows.get(key)

    # ------------------------------------------------------------------ folding

    def fold(self, key: str) -> None:
        """Show nothing below this row."""
        self.unfolded.discard(key)

    def unfold(self, key: str) -> None:
        """Show the parts of this row; they are asked for unless they are at hand."""
        self.unfolded.add(key)
        self._old.add(key)

    def unfold_below(self, row: NameRow) -> None:
        """Show the parts of this row, and the weights of its layers."""
        self.unfold(row.name)
        layers = [key for key in self._below.get(row.name, ()) if self._rows[key].parts]
        for key in layers[:MAX_UNFOLDED_LAYERS]:
            self.unfold(key)

    def forget(self, names: Iterable[str]) -> None:
        """These names are gone."""
        gone = set(names)
        for key in [key for key in (*self._rows, *self.unfolded) if root_of(key) in gone]:
            self._rows.pop(key, None)
            self.unfolded.discard(key)
            self._below.pop(key, None)
            self._old.discard(key)

    # ------------------------------------------------------------------ content

    def changed(self, names: Iterable[str]) -> None:
        """What is below these names may be another."""
        changed = set(names)
        self._old |= {key for key in self.unfolded if root_of(key) in changed}

    def wanted(self, seen: set[str]) -> list[str]:
        """Unfolded rows whose parts must be asked for; of those on screen only."""
        visible = {*seen, *(key.rpartition("/")[0] for key in seen if "/" in key)}
        return sorted(self._old & self.unfolded & visible)

    def take(self, asked: Iterable[str], data: Sequence[VariableRow]) -> set[str]:
        """The reply to `parts` of the asked rows; gives the keys whose rows have changed."""
        below: dict[str, list[str]] = {key: [] for key in asked}
        changed = set()
        before = ""
        for part in data:
            parent = part.parent or ""
            if parent not in below:
                continue
            row = pane_rows.row_of(part)
            sources = part.sources or []
            if sources and below[parent] and sources != [before]:
                row = replace(row, note=f"{row.note} from {', '.join(sources)}")
            before = row.label
            below[parent].append(row.name)
            if self._rows.get(row.name) != row:
                if row.name in self._rows:
                    changed.add(row.name)
                self._rows[row.name] = row
        for parent, keys in below.items():
            for key in set(self._below.get(parent, ())) - set(keys):
                self._rows.pop(key, None)
                self.unfolded.discard(key)
            self._below[parent] = keys
            self._old.discard(parent)
        return changed

    def update(self, rows: Iterable[NameRow]) -> None:
        """Newer rows of parts that are known."""
        self._rows.update({row.name: row for row in rows})

    def lines(self, roots: Iterable[NameRow]) -> list[tuple[int, NameRow]]:
        """The rows to show with their depth: each root and what is unfolded below it."""
        found: list[tuple[int, NameRow]] = []
        waiting = [(0, row) for row in reversed(list(roots))]
        while waiting:
            depth, row = waiting.pop()
            found.append((depth, row))
            if row.name in self.unfolded:
                inner = [self._rows[key] for key in self._below.get(row.name, ())]
                waiting += [(depth + 1, inner_row) for inner_row in reversed(inner)]
        return found
