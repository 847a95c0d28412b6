"""Exports of the value on show: written in the kernel, followed here, asked before they replace."""

from __future__ import annotations

import asyncio
from functools import partial

from kbench.tui.dialogs.dialogs import may_replace
from kbench.tui.panes.bench import Bench
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.session.link import AskFailed
from kbench.tui.text.glyphs import human_bytes
from kbench.tui.text.text import safe
from kbench.workbench.protocol.arrays import Export, Exporting

POLL_SECONDS = 0.2
"""Seconds between two looks at how far it is."""


class Exporter:
    """One export at a time is followed; `stop` gives it up."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.running = False  # while a file is being written
        self._stopping = False

    def write(self, pane: ValuePane, path: str, whole: bool) -> None:
        """Write the array, or what is on show of it, to a file."""
        if self.running:
            self._bench.notify("another file is being written; Esc cancels it")
            return
        asked = Export(name=pane.shown, path=path, wait=False)
        self._begin(pane, asked if whole else part(asked, pane), replace=False)

    def stop(self) -> None:
        """Give the writing up, if there is any."""
        self._stopping = self.running

    def _begin(self, pane: ValuePane, asked: Export, replace: bool) -> None:
        self._bench.run(partial(self._run, pane, asked.replaced(replace=replace)))

    async def _run(self, pane: ValuePane, asked: Export) -> None:
        self.running, self._stopping = True, False
        ask = self._bench.ask
        try:
            data = await ask(asked, 30.0)
            while data.job is not None and not data.done:
                so_far = f": {human_bytes(data.written)}" if data.written else ""
                pane.set_note(f"writing {asked.path}{so_far}  Esc stops")
                await asyncio.sleep(POLL_SECONDS)
                data = await ask(Exporting(job=data.job, stop=self._stopping), 30.0)
        except AskFailed as error:
            self._bench.notify(safe(str(error)), warning=True)
        else:
            if data.exists is not None:
                again = partial(self._begin, pane, asked, replace=True)
                self._bench.open(*may_replace(data.exists, again))
            else:
                self._bench.notify(safe(f"written: {data.path}, {human_bytes(data.bytes)}"))
        finally:
            self.running = False
            pane.set_note("")


def part(asked: Export, pane: ValuePane) -> Export:
    """The export of what is on show."""
    here, picture = pane.target, pane.picture.picture
    if pane.as_picture and picture is not None:
        rows, cols, channel = picture.axes
        axes = [rows, cols, channel] if picture.colours else [rows, cols]
        limits = list(picture.limits)
        return asked.replaced(index=list(picture.index), axes=axes, limits=limits, grey=True)
    if here is None:
        return asked
    axes = [axis for axis in (here.row_axis, here.col_axis) if axis is not None]
    return asked.replaced(index=list(here.index), axes=axes)
