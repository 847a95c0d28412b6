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
from kbench.workbench.core_types import JsonObject

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
        arguments: JsonObject = {"name": pane.shown, "path": path, "wait": False}
        if not whole:
            arguments |= part(pane)
        self._begin(pane, arguments, replace=False)

    def stop(self) -> None:
        """Give the writing up, if there is any."""
        self._stopping = self.running

    def _begin(self, pane: ValuePane, arguments: JsonObject, replace: bool) -> None:
        self._bench.run(partial(self._run, pane, {**arguments, "replace": replace}))

    async def _run(self, pane: ValuePane, arguments: JsonObject) -> None:
        self.running, self._stopping = True, False
        ask = self._bench.ask
        try:
            data = await ask("export", 30.0, **arguments)
            while "exists" not in data and not data["done"]:
                words = f"writing {arguments['path']}: {human_bytes(data['written'])}  Esc stops"
                pane.set_note(words)
                await asyncio.sleep(POLL_SECONDS)
                data = await ask("exporting", 30.0, job=data["job"], stop=self._stopping)
        except AskFailed as error:
            self._bench.notify(safe(str(error)), warning=True)
        else:
            if "exists" in data:
                again = partial(self._begin, pane, arguments, replace=True)
                self._bench.open(*may_replace(data["exists"], again))
            else:
                size = human_bytes(data["bytes"])
                self._bench.notify(safe(f"written: {data['path']}, {size}"))
        finally:
            self.running = False
            pane.set_note("")


def part(pane: ValuePane) -> JsonObject:
    """What is on show, as arguments of an export."""
    here, picture = pane.target, pane.picture.picture
    if pane.as_picture and picture is not None:
        rows, cols, channel = picture.axes
        axes = [rows, cols, channel] if picture.colours else [rows, cols]
        limits = list(picture.limits)
        return {"index": list(picture.index), "axes": axes, "limits": limits, "grey": True}
    if here is None:
        return {}
    axes = [axis for axis in (here.row_axis, here.col_axis) if axis is not None]
    return {"index": list(here.index), "axes": axes}
