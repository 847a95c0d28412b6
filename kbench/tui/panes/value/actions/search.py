"""A search in the value on show: piece by piece in the kernel, so that it can be given up."""

from __future__ import annotations

from functools import partial

from kbench.tui.panes.bench import Bench
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.session.link import AskFailed
from kbench.tui.text.text import safe
from kbench.workbench.protocol.arrays import Find, FindReply

PIECE_TIMEOUT_SECONDS = 30.0
"""Seconds for one piece; the kernel may have other questions to answer before."""


class ValueSearch:
    """One search at a time; `condition` is what F looks for again."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._number = 0  # of the newest search; an older one ends when it sees another
        self._under_way = 0  # searches that have not ended
        self.condition = ""

    @property
    def running(self) -> bool:
        """Whether there is one to give up."""
        return self._under_way > 0

    def find(self, pane: ValuePane, condition: str, missing: str = "") -> None:
        """Go to the next element that meets a condition; `missing` is said when there is none."""
        if pane.target is not None:
            self._number += 1
            self._bench.run(partial(self._run, pane, condition, missing, self._number))

    def stop(self) -> None:
        """Give the search up, if there is one."""
        self._number += 1

    async def _run(self, pane: ValuePane, condition: str, missing: str, number: int) -> None:
        name = pane.shown
        self._under_way += 1
        try:
            data = await self._search(pane, name, condition, number)
        except AskFailed as error:
            self._bench.notify(safe(str(error)), warning=True)
            data = None
        finally:
            self._under_way -= 1
        pane.set_note("")
        if data is None:
            return
        if data.index is not None:
            pane.go_to_index(data.index)
        else:
            words = missing or f"nothing in {pane.shown} {data.words}"
            self._bench.notify(safe(words), 3)

    async def _search(
        self, pane: ValuePane, name: str, condition: str, number: int
    ) -> FindReply | None:
        """The last reply; None when search cancelled."""
        asked = Find(name=name, what=condition, after=list(pane.full_index()))
        data = await self._bench.ask(asked, PIECE_TIMEOUT_SECONDS)
        while data.rest and number == self._number and pane.shown == name:
            start, left = data.rest
            done = 100 * (1 - left / max(data.size, 1))
            pane.set_note(f"looking for what {data.words}: {done:.0f} %  Esc stops")
            asked = Find(name=name, what=condition, start=start, left=left)
            data = await self._bench.ask(asked, PIECE_TIMEOUT_SECONDS)
        if number == self._number and pane.shown == name:
            return data
        self._bench.notify("search cancelled", 2)
        return None
