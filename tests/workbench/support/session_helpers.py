"""A session with everything that it says, for tests that wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbench.workbench.history.journal import Journal
from kbench.workbench.session import events

WAIT = 30.0


class Watched:
    """A session and everything that it has said."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.heard: list[Any] = []
        session.events.subscribe(self.heard.append)
        session.start()
        assert session.ready(WAIT)

    def until(self, condition: Callable[[], Any], seconds: float = WAIT) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.005)
        raise AssertionError(f"not within {seconds} s; heard {self.heard[-8:]}")

    def of(self, kind: type, cell: int | None = None) -> list[Any]:
        found = [one for one in list(self.heard) if isinstance(one, kind)]
        return [one for one in found if cell is None or one.cell == cell]

    def heard_of(self, cell: int) -> list[Any]:
        """All that was said of a cell."""
        return [event for event in list(self.heard) if getattr(event, "cell", None) == cell]

    def done(self, cell: int) -> events.CellDone:
        return self.until(lambda: self.of(events.CellDone, cell))[0]

    def run(self, code: str) -> tuple[int, events.CellDone]:
        cell = self.session.execute(code)
        return cell, self.done(cell)

    def text(self, cell: int, name: str = "stdout") -> str:
        return "".join(one.text for one in self.of(events.Stream, cell) if one.name == name)


def make(kind: type, folder: Path) -> Watched:
    return Watched(kind(Journal.create(folder)))


def replied(session: Any, verb: str, timeout: float = 5.0, **arguments: object) -> Any:
    """The inspector's reply as the wire has it; a refusal where none comes in time."""
    try:
        return session.request(verb, **arguments).result(timeout)
    except TimeoutError:
        return {"ok": False, "error": {"kind": "timeout"}}
