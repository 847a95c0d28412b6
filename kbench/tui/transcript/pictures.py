"""Has the pictures of results decoded beside the event loop, and keeps the newest of them."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from kbench.tui.transcript.cells import Block, ResultPart
from kbench.workbench.core_types import Row
from kbench.workbench.output import picture

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench

MAX_PICTURES = 40
"""In the transcript: each takes up to 0.4 MB, and twice that while it is drawn."""


class Pictures:
    """Those of one transcript."""

    def __init__(self, bench: ScreenBench) -> None:
        self._bench = bench
        self._shown: deque[tuple[Block, ResultPart]] = deque()

    def add(self, block: Block, part: ResultPart, data: Row) -> None:
        """Show the picture of a result, if it has one, below its text as soon as it is decoded."""
        if picture.form_of(data):
            self._bench.run(partial(self._load, block, part, data), group="pictures")

    async def _load(self, block: Block, part: ResultPart, data: Row) -> None:
        found = await self._bench.link.call(picture.decoded, data)
        if found is None or all(kept is not part for kept in block.parts):  # cleared meanwhile
            return
        part.picture = found
        self._shown.append((block, part))
        while len(self._shown) > MAX_PICTURES:
            old, oldest = self._shown.popleft()
            oldest.picture = None
            old.touch()
        self._bench.transcript.changed(block)
