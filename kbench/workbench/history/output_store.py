"""What cells have shown, kept for a notebook of the session: so much of each, so much of all.

Beyond that the oldest cells' output leaves the memory; a note in its place says where to read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kbench.engine.core import fork_safety
from kbench.workbench.output import terminal_lines
from kbench.workbench.session import events
from kbench.workbench.session.cell import MAX_TEXT_CHARACTERS, Cell

if TYPE_CHECKING:
    from kbench.workbench.history.journal import Journal
    from kbench.workbench.session.events import Event

MAX_RICH_CHARACTERS = 20_000_000
"""Values, pictures and errors of one cell: a few pictures of a high resolution."""
MAX_TOTAL_CHARACTERS = 50_000_000
"""Output of all cells together: two or three cells of the largest."""


class OutputStore:
    """Remembers for the cells of one session what they showed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._characters = 0
        self._displays = Displays()
        self._lock = fork_safety.lock()  # a session is brought back beside one that runs

    def add(self, cells: Collection[Cell], cell: Cell, event: Event) -> None:
        """Add what an event shows to its cell; the oldest of `cells` may have to let go."""
        with self._lock:
            if isinstance(event, events.Result) and event.updates:
                for owner, old, new in self._displays.updated(event):
                    more = _size(new) - _size(old)
                    owner.rich_characters += more
                    self._characters += more
            else:
                before = cell.characters
                _add(cell, event)
                self._characters += cell.characters - before
                self._displays.add(cell, event)
            if self._characters > MAX_TOTAL_CHARACTERS:
                self._release(
                    [other for other in list(cells) if other is not cell and other.characters]
                )

    def adopt(self, cell: Cell) -> None:
        """Count what a cell of an earlier session brings along."""
        texts = [event for event in cell.outputs if isinstance(event, events.Stream)]
        cell.text_characters = sum(len(event.text) for event in texts)
        cell.rich_characters = sum(
            _size(event) for event in cell.outputs if not isinstance(event, events.Stream)
        )
        with self._lock:
            self._characters += cell.characters

    def _release(self, cells: list[Cell]) -> None:
        """Let the output of the first of these cells go until there is room again."""
        journal = self._journal
        whole = journal.path is not None and not journal.full
        where = f"is in {journal.path}" if whole else "is no longer kept"
        for cell in cells:
            if self._characters <= MAX_TOTAL_CHARACTERS:
                return
            self._characters -= cell.characters
            note = f"what this cell showed {where}\n"
            cell.outputs = [events.Stream(cell.ident, "notice", note)]
            cell.text_characters = cell.rich_characters = 0


class Displays:
    """Which cells show what was displayed under an id, so that a later display takes its place."""

    def __init__(self) -> None:
        self._cells: dict[str, list[Cell]] = {}

    def add(self, cell: Cell, event: Event) -> None:
        """Remember where something is shown."""
        if isinstance(event, events.Result) and event.display_id:
            known = self._cells.setdefault(event.display_id, [])
            if not any(other is cell for other in known):
                known.append(cell)

    def updated(self, event: events.Result) -> Iterator[tuple[Cell, events.Result, events.Result]]:
        """Put `event` in the place of what has its id: of each the cell, what was there, what is.

        What the cell has cleared, or let go, stays away.
        """
        for cell in self._cells.get(event.display_id, ()):
            for at, old in enumerate(cell.outputs):
                if isinstance(old, events.Result) and old.display_id == event.display_id:
                    new = replace(event, cell=cell.ident, count=old.count, updates=False)
                    cell.outputs[at] = new
                    yield cell, old, new


def _add(cell: Cell, event: Event) -> None:
    if isinstance(event, events.ClearOutput):
        cell.outputs.clear()
        cell.text_characters = cell.rich_characters = 0
    elif isinstance(event, events.Stream):
        add_text(cell, event)
    elif isinstance(event, (events.Result, events.Error)):
        size = _size(event)
        if cell.rich_characters + size <= MAX_RICH_CHARACTERS:
            cell.outputs.append(event)
            cell.rich_characters += size


def _size(event: events.Result | events.Error) -> int:
    if isinstance(event, events.Result):
        return len(event.text) + sum(
            len(form) for form in event.data.values() if isinstance(form, (str, bytes))
        )
    return len(event.value) + sum(len(line) for line in event.traceback)


def add_text(cell: Cell, event: events.Stream) -> None:
    """Remember printed text; what redraws a line, as progress bars do, takes the line's place."""
    last = cell.outputs[-1] if cell.outputs else None
    redraws = "\r" in event.text or "\b" in event.text
    if redraws and isinstance(last, events.Stream) and last.name == event.name:
        text = terminal_lines.joined(last.text, event.text)
        cell.text_characters += len(text) - len(last.text)
        cell.outputs[-1] = replace(last, text=text)
        return
    cell.text_characters += len(event.text)
    if cell.text_characters <= MAX_TEXT_CHARACTERS:
        cell.outputs.append(event)
