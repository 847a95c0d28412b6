"""The cell that a kernel has: what the kernel has told of it so far, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from kbench.workbench.session.session_interface import Cell


@dataclass
class Running:
    """A cell from when it is sent until the kernel is free again."""

    cell: Cell
    message: str = ""
    """The message that it was sent by, under which the kernel tells of it."""
    began: float = field(default_factory=time.monotonic)
    seen: bool = False
    """Whether the kernel has begun with it; a signal sent earlier it would ignore."""
    interrupting: bool = False
    reply: dict[str, Any] | None = None
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
        asked = [one for one in self._asked if one.get("source") == "page"]
        return [str(one.get("data", {}).get("text/plain", "")) for one in asked]

    @property
    def exits(self) -> bool:
        """Whether it asked to end the session."""
        return any(one.get("source") == "ask_exit" for one in self._asked)

    @property
    def _asked(self) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = (self.reply or {}).get("payload", [])
        return asked
