"""What a pane shows follows a running cell: the kernel is asked for it once for each cell."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from kbench.tui.panes.bench import Bench
from kbench.tui.session.link import AskFailed, Work
from kbench.workbench.protocol.question import Question


class Following:
    """Begins with a cell that runs while its pane is shown, and ends with that cell."""

    def __init__(self, bench: Bench, submit: Callable[[Work], object]) -> None:
        self._bench = bench
        self._submit = submit
        self._asked = False

    def update(self, question: Callable[[], Question[Any]] | None) -> None:
        """After each change of the session's state and of what is shown; None: nothing is."""
        busy = self._bench.state == "busy"
        if busy and question is not None and not self._asked:
            self._asked = True
            self._submit(partial(self._ask, question))
        self._asked = self._asked and busy

    async def _ask(self, question: Callable[[], Question[Any]]) -> None:
        with contextlib.suppress(AskFailed):  # it is told when the cell has ended
            await self._bench.ask(question())
