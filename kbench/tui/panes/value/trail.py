"""The way that led into a value: what was open before, and where the cursor stood."""

from __future__ import annotations

from msgspec.structs import replace

from kbench.tui.panes.rows import NameRow
from kbench.workbench.contents.address import root_of, split_cell

MAX_DEPTH = 200
"""Values on the way: what contains itself can be followed for ever."""


class Trail:
    """Rows that were opened one inside the other, the outermost first. Knows no widget."""

    def __init__(self) -> None:
        self._steps: list[tuple[NameRow, tuple[int, int]]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def clear(self) -> None:
        """Something else is opened, from outside."""
        self._steps = []

    def push(self, row: NameRow, at: tuple[int, int]) -> None:
        """Something inside `row` is opened, with the cursor at a place."""
        self._steps = [*self._steps, (row, at)][-MAX_DEPTH:]

    def pop(self) -> tuple[NameRow, tuple[int, int]] | None:
        """What was open before, and where the cursor stood; None at the outermost."""
        return self._steps.pop() if self._steps else None

    def move(self, root: str) -> None:
        """The same way after another cell: what `x@3` is to `x`. Steps of other names stay."""
        moved = []
        for row, at in self._steps:
            here = root_of(row.name)
            if split_cell(here)[0] == split_cell(root)[0]:
                row = replace(row, name=root + row.name[len(here) :])
            moved.append((row, at))
        self._steps = moved

    def words(self, shown: str, room: int) -> str:
        """`d > ['a'] > [3]`: the way to what is shown; '' where nothing is above it.

        What does not fit `room` characters is left out from its beginning.
        """
        if not self._steps:
            return ""
        names = [*(row.name for row, _ in self._steps), shown]
        steps = [names[0]]
        for before, name in zip(names, names[1:], strict=False):
            steps.append(name.removeprefix(before))
        whole = " > ".join(steps)
        while len(whole) > room and len(steps) > 1:
            del steps[0]
            whole = " > ".join(["...", *steps])
        return whole
