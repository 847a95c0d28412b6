"""Has the pictures of results decoded beside the event loop, and keeps the newest of them."""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from kbench.tui.transcript.cells import Block, ResultPart
from kbench.workbench.output import picture

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.workbench.output.picture import Picture
    from kbench.workbench.session.events import Result

MAX_PICTURES = 40
"""In the transcript: each takes up to 0.4 MB, and twice that while it is drawn. One that the
terminal draws takes its file, too: mostly less than 0.1 MB."""


class _Shown(Struct, eq=False):
    """A picture of a block. `event` is what it was decoded from, while the session keeps that."""

    block: Block
    part: ResultPart
    event: weakref.ref[Result]


class Pictures:
    """Those of one transcript."""

    def __init__(self, bench: ScreenBench) -> None:
        self._bench = bench
        self._shown: deque[_Shown] = deque()

    def add(self, block: Block, part: ResultPart, event: Result) -> None:
        """Show the picture of a result, if it has one, below its text as soon as it is decoded."""
        if picture.form_of(event.data):
            self._bench.run(partial(self._load, block, part, event), group="pictures")

    def update(self, block: Block, old: ResultPart, new: ResultPart, event: Result) -> None:
        """Something else is displayed in the place of a result: its picture, or none any more."""
        for shown in self._shown:
            if shown.part is old:
                shown.part = new
        if picture.form_of(event.data):
            self.add(block, new, event)
        else:
            self._let_go(new)

    def sharpen(self) -> None:
        """Have the terminal draw those, too, that were shown before it said that it draws any."""
        if not self._bench.app.graphics.kind:
            return
        for shown in self._shown:
            event = shown.event()
            if event is not None and shown.part.sharp is None:
                self._bench.run(partial(self._sharpen, shown, event), group="pictures")

    async def _load(self, block: Block, part: ResultPart, event: Result) -> None:
        graphics = self._bench.app.graphics
        kind = await graphics.found()
        found = await self._bench.link.call(picture.decoded, event.data, bool(kind))
        if found is None or not _is_kept(block, part):  # cleared meanwhile
            return
        before = part.sharp
        self._shown = deque(shown for shown in self._shown if shown.part is not part)
        await self._make_sharp(part, found)
        graphics.forget(before)
        part.picture = found
        self._shown.append(_Shown(block, part, weakref.ref(event)))
        while len(self._shown) > MAX_PICTURES:
            oldest = self._shown[0]
            self._let_go(oldest.part)
            oldest.block.touch()
        self._bench.transcript.changed(block)
        if not kind:  # it may be known by now
            self.sharpen()

    def _let_go(self, part: ResultPart) -> None:
        self._bench.app.graphics.forget(part.sharp)
        part.picture = part.sharp = None
        self._shown = deque(shown for shown in self._shown if shown.part is not part)

    async def _sharpen(self, shown: _Shown, event: Result) -> None:
        found = await self._bench.link.call(picture.decoded, event.data, True)
        part = shown.part
        if found is None or part.sharp is not None or shown not in self._shown:
            return
        if _is_kept(shown.block, part):
            await self._make_sharp(part, found)
            self._bench.transcript.changed(shown.block)

    async def _make_sharp(self, part: ResultPart, found: Picture) -> None:
        """Prepare what the terminal draws of a picture, if it draws any."""
        graphics = self._bench.app.graphics
        if found.sharp:
            part.sharp = graphics.add(found.sharp)
            room = self._bench.transcript.cells_of(found)
            await self._bench.link.call(graphics.prepare, part.sharp, *room)


def _is_kept(block: Block, part: ResultPart) -> bool:
    return any(kept is part for kept in block.parts)
