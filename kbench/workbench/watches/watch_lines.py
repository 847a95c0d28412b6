"""Watches of a prompt without panes: a numbered list, and lines of text about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbench.workbench.protocol.findings import WatchRow
from kbench.workbench.watches.watched_set import WatchedSet
from kbench.workbench.watches.watches import Watches


class WatchLines:
    """Expressions that are evaluated when their lines are asked for."""

    def __init__(
        self, names: Callable[[], Mapping[str, object]], watched: WatchedSet | None = None
    ) -> None:
        self.watched = watched or WatchedSet()
        self._watches = Watches(names)
        self._shown: dict[str, str] = {}

    def add(self, expression: str) -> str:
        """Watch one more; its line. ValueError when there are too many."""
        self.watched.add(expression)
        found = {row.expression: text for row, text in self._numbered(expression)}
        return found.get(expression, "")  # a pane may have removed it meanwhile

    def remove(self, number: int) -> str:
        """Take watch `number`, counted from 1, off the list; ValueError when there is none."""
        return self.watched.remove(number)

    def rows(self, force: str = "") -> list[WatchRow]:
        """All, evaluated anew; the one to `force` with more time."""
        self._watches.cell_ended()
        found = self._watches.evaluate_now(self.watched.expressions, [force] if force else [])
        self._shown = {row.expression: words(row) for row in found}
        return found

    def lines(self, force: str = "") -> list[str]:
        """`1  K.mean(w)  0.31 -> 0.29`, one for each."""
        return [text for _, text in self._numbered(force)]

    def _numbered(self, force: str) -> list[tuple[WatchRow, str]]:
        found = self.rows(force)
        return list(zip(found, self.texts(found), strict=True))

    @staticmethod
    def texts(rows: list[WatchRow]) -> list[str]:
        """Rows as numbered lines."""
        return [f"{number}  {line(row)}" for number, row in enumerate(rows, 1)]

    def news(self) -> list[str]:
        """Lines of those that are no longer what they were when they were last shown."""
        shown = self._shown
        return [line(row) for row in self.rows() if shown.get(row.expression) != words(row)]


def words(row: WatchRow) -> str:
    """The value, or why there is none."""
    if row.state in ("error", "refused"):
        return f"refused: {row.text}" if row.state == "refused" else row.text
    if row.state == "slow":
        return f"{row.note}; %watch {row.expression} evaluates it"
    return f"{row.text}  ({row.note})" if row.note else row.text


def line(row: WatchRow) -> str:
    """The expression, and its value behind the one that it had before."""
    before = f"{row.before} -> " if row.changed and row.before else ""
    return f"{row.expression}  {before}{words(row)}"
