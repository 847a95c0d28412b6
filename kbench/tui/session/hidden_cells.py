"""Cells that a lesson runs for its own ends, in turn with the learner's and not seen by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons import lesson_cells
from kbench.workbench.session.cell import FORGOTTEN, UNSEEN

if TYPE_CHECKING:
    from kbench.tui.session.session_controller import SessionController


class HiddenCells:
    """What earlier steps made is made again; answers are judged. One check at a time."""

    def __init__(self, session: SessionController) -> None:
        self._session = session
        self._early: list[tuple[str, str]] = []  # asked for before there was a session
        self._names: dict[int, str] = {}  # what each cell is, by its number
        self._ticket = 0
        self._check: int | None = None

    @property
    def checking(self) -> bool:
        """Whether a verdict is on its way."""
        return self._check is not None

    def prepare(self, lesson: int) -> None:
        """Give the kernel what lessons need."""
        self.make(lesson_cells.opening_code(lesson), "")

    def make(self, code: str, name: str) -> None:
        """Run the code of an earlier step; `name` is what it is called should it fail, or ''."""
        cell = self._session.run_unseen(code, UNSEEN)
        if cell is None:
            self._early.append((code, name))
        else:
            self._names[cell] = name

    def link_ready(self) -> None:
        """There is a session now."""
        early, self._early = self._early, []
        for code, name in early:
            self.make(code, name)

    def judge(self, lesson: int, exercise: str) -> bool:
        """Have an answer judged, once the cells before it are done; False without a session."""
        self._ticket += 1
        code = lesson_cells.judging_code(lesson, exercise, self._ticket)
        self._check = self._session.run_unseen(code, FORGOTTEN)
        return self.checking

    def take(self, data: JsonObject) -> bool:
        """Whether this is the verdict that is waited for."""
        if data.get("ticket") != self._ticket or not self.checking:
            return False
        self._check = None
        return True

    def ended(self, cell: int) -> bool:
        """Whether the check has ended, without a verdict."""
        if cell != self._check:
            return False
        self._check = None
        return True

    def give_up(self) -> None:
        """No verdict is waited for any more."""
        self._ticket += 1
        self._check = None

    def name(self, cell: int) -> str:
        """What a cell is called, '' if its end is nobody's business."""
        return self._names.get(cell, "")
