"""A cell, and what is known of it while a kernel has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.workbench.session.events import Shown

UNSEEN = "unseen"
"""Of a cell that is not shown and not counted, but run again after a restart and exported."""
FORGOTTEN = "forgotten"
"""Of a cell that is in no record at all."""
METADATA_FIELD = "kbench_columns"
"""Of a request to run a cell: how many columns a front end shows of its output."""
MAX_TEXT_CHARACTERS = 200_000
"""Printed text of one cell that is kept for a notebook of the session."""


class Cell(Struct):
    """One piece of code and what became of it: queued, running, ok, error, interrupted, lost."""

    ident: int
    code: str
    status: str = "queued"
    count: int | None = None
    seconds: float = 0.0
    replay_of: int | None = None
    origin: str = ""  # empty for what was typed here
    unseen: str = ""  # UNSEEN or FORGOTTEN: run by the front end for its own ends
    outputs: list[Shown] = field(default_factory=list)
    text_characters: int = 0
    """Characters of printed text, those included that were too many to be kept."""
    rich_characters: int = 0
    """Characters of everything else in `outputs`."""

    @property
    def rerun_arguments(self) -> tuple[str, int, str]:
        """What a cell that runs this one again is made of."""
        return self.code, self.ident, self.unseen

    @property
    def characters(self) -> int:
        """Characters of its output in memory."""
        return min(self.text_characters, MAX_TEXT_CHARACTERS) + self.rich_characters


def renumbered(cells: list[Cell], numbers: Iterator[int]) -> list[Cell]:
    """Copies of cells under other numbers; what they say of one another stays true."""
    new = {cell.ident: next(numbers) for cell in cells}
    copies = []
    for cell in cells:
        ident = new[cell.ident]
        outputs = [replace(event, cell=ident) for event in cell.outputs]
        of = new.get(cell.replay_of) if cell.replay_of is not None else None
        copies.append(replace(cell, ident=ident, outputs=outputs, replay_of=of))
    return copies


class CellExecution(Struct):
    """A cell from when it is sent until the kernel is free again."""

    cell: Cell
    message: str = ""
    """The message that it was sent by, under which the kernel tells of it."""
    began: float = field(default_factory=time.monotonic)
    seen: bool = False
    """Whether the kernel has begun with it; a signal sent earlier it would ignore."""
    interrupting: bool = False
    reply: JsonObject | None = None
    idle: bool = False

    @property
    def done(self) -> bool:
        """Whether the kernel has both replied and told that it is idle again.

        A signal between two cells of the kernel's own loop leaves a cell without reply.
        """
        return self.idle and (self.reply is not None or self.interrupting)

    @property
    def status(self) -> str:
        """How it ended: the kernel's word for it, or "interrupted"."""
        reply = {"status": "aborted"} if self.reply is None else self.reply
        status = str(reply.get("status"))
        stopped = reply.get("ename") == "KeyboardInterrupt" or status in ("aborted", "abort")
        return "interrupted" if stopped else status

    @property
    def count(self) -> int | None:
        """The number that the kernel gave it, if its reply tells."""
        return (self.reply or {}).get("execution_count")

    @property
    def pages(self) -> list[str]:
        """Texts that it asked to page through."""
        asked = [request for request in self._asked if request.get("source") == "page"]
        return [str(request.get("data", {}).get("text/plain", "")) for request in asked]

    @property
    def exits(self) -> bool:
        """Whether it asked to end the session."""
        return any(request.get("source") == "ask_exit" for request in self._asked)

    @property
    def _asked(self) -> list[JsonObject]:
        asked: list[JsonObject] = (self.reply or {}).get("payload", [])
        return asked
