"""NaN traces: asked for by t, or quietly when a cell shows NaN; the answer is a text to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs.dialogs import Pager, key_hints
from kbench.tui.keys import keys
from kbench.tui.session.link import AskFailed
from kbench.tui.signal import CellEnded
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import Block, NotePart, ResultPart, StreamPart
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.findings import Nan

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench

_BAD = re.compile(r"(?<![\w.])[+-]?(?:nan|NaN|inf|Inf)(?![\w(])")
_PLACE = re.compile(r"^In \[(\d+)\]")
MAX_RESULT_CHARACTERS = 20_000
"""Characters of a result that are looked through for NaN."""
MAX_PRINTED_LINES = 100
"""The last printed lines that are."""
MAX_TRIED = 20
"""Cells that show NaN of which the newest that can be traced is looked for."""


class TraceScreen(Pager):
    """The answer, or that it is being looked for; closing it gives the search up."""

    BINDINGS = keys.bindings("trace")

    def __init__(self, name: str, controller: NanController) -> None:
        words = f"tracing the first NaN or infinity in {safe(name)} ... Esc cancels"
        super().__init__(f"NaN trace: {safe(name)}", [Content.styled(words, MUTED)])
        self._controller = controller
        self._cell: int | None = None

    def name_it(self, name: str) -> None:
        """What was traced: of a cell, what it shows."""
        self.query_one(".dialog").border_title = Content(f"NaN trace: {safe(name)}")

    def show(self, lines: Sequence[str], place: str) -> None:
        """The answer has come."""
        drawn = [Content.styled(safe(lines[0]), "bold")] if lines else []
        drawn += [Content(safe(line)) for line in lines[1:]]
        found = _PLACE.match(place)
        self._cell = int(found.group(1)) if found else None
        if self._cell is not None:
            words = f"goes to In [{self._cell}]"
            drawn += [Content(""), key_hints(self.app, trace_place=words).stylize(MUTED)]
        self._lines.replace(drawn)

    def text(self) -> str:
        """All that is shown."""
        return self._lines.plain()

    def action_goto(self) -> None:
        """Close, and make the cell of the operation the current one."""
        if self._cell is not None:
            self.dismiss()
            self._controller.go_to(self._cell)


class NanController:
    """Asks the kernel for traces, and hands the answers to the screen or to the cell."""

    def __init__(self, bench: ScreenBench) -> None:
        self.bench = bench
        self._shown: TraceScreen | None = None
        self._job = -1
        self._block: Block | None = None  # the cell below which a quiet answer goes
        self._quiet_job = -1
        self._early: JsonObject | None = None  # an answer that came before its job's number
        bench.on(CellEnded, self._cell_ended)
        bench.told("nan", self._answered)

    # ------------------------------------------------------------------ asked for by a key

    def trace(self, name: str = "", code: str = "", function: str = "") -> None:
        """Look for the origin in a name, in a cell's code, or in a recorded function."""
        self._look([Nan(name=name, code=code, function=function)])

    def _look(self, wanted: Sequence[Nan]) -> None:
        """Look in the first of these that has something to trace."""
        first = wanted[0]
        title = (first.name or first.code or first.function).strip().split("\n")[-1]
        shown = TraceScreen(title, self)
        self._shown, self._job, self._early = shown, -1, None

        def closed(_: None) -> None:
            if self._shown is shown:
                self._shown = None
                self.bench.run(self._stop)

        self.bench.open(shown, closed)

        async def ask() -> None:
            try:
                for asked in wanted:
                    data = await self.bench.ask(asked)
                    if data.state != "none":
                        break
            except AskFailed as error:
                shown.show([f"not traced: {error}"], "")
                return
            if data.job is not None:
                self._job = data.job
                if self._early is not None:
                    self._answered(self._early)
            else:
                shown.show([_REASONS.get(data.state, data.state)], "")

        self.bench.run(ask)

    async def _stop(self) -> None:
        if self._job >= 0:
            self._job = -1
            try:
                await self.bench.ask(Nan(stop=True))
            except AskFailed:
                return

    def _answered(self, data: JsonObject) -> None:
        """The kernel has an answer."""
        if data.get("quiet"):
            self._on_quiet_push(data)
            return
        if self._shown is None or data.get("job") != self._job:
            self._early = data
            return
        self._job, self._early = -1, None
        self._shown.name_it(str(data.get("name", "")))
        self._shown.show(
            [str(line) for line in data.get("lines") or []], str(data.get("place", ""))
        )

    def go_to(self, cell: int) -> None:
        """Make a cell the current one."""
        transcript = self.bench.transcript
        block = transcript.by_count(cell)
        if block is None:
            self.bench.notify(f"In [{cell}] is not in this session", 2)
        else:
            self.bench.go("transcript")
            self.bench.after_refresh(partial(transcript.select, block))

    def trace_newest(self) -> None:
        """Trace the newest cell that shows NaN or an infinity and can be traced."""
        blocks = reversed(self.bench.transcript.blocks)
        bad = (block.code for block in blocks if not block.past and shows_bad(block))
        wanted = [Nan(code=code) for code in islice(bad, MAX_TRIED)]
        if wanted:
            self._look(wanted)
        else:
            self.bench.notify("no cell shows NaN or an infinity", 2)

    # ------------------------------------------------------------------ below a cell

    def _cell_ended(self, ended: CellEnded) -> None:
        """Where the cell shows NaN or an infinity, have its origin looked for."""
        block = ended.block
        if block is None or self._shown is not None:
            return
        if block.state == "ok" and shows_bad(block):
            self._block = block
            self.bench.run(self._ask_quietly)

    async def _ask_quietly(self) -> None:
        if (block := self._block) is None:
            return
        try:
            data = await self.bench.ask(Nan(code=block.code, quiet=True))
        except AskFailed:  # the result is there all the same
            return
        if data.job is not None:
            self._quiet_job = data.job

    def _on_quiet_push(self, data: JsonObject) -> None:
        block, self._block = self._block, None
        if block is None or data.get("state") != "found":
            return
        key = self.bench.key_word("trace_newest")
        block.add(NotePart(f"! {data.get('verdict', '')}; {key} traces"))
        self.bench.transcript.refit()


_REASONS = {
    "held": "a cell runs; ask again when it has ended",
    "none": "this cell shows no tensor and no call of a function that could be traced",
    "stopped": "cancelled",
}


def shows_bad(block: Block) -> bool:
    """Whether a cell shows NaN or an infinity, as its result or printed."""
    texts = [
        part.text[:MAX_RESULT_CHARACTERS] for part in block.parts if isinstance(part, ResultPart)
    ]
    texts += [
        part.ending(MAX_PRINTED_LINES) for part in block.parts if isinstance(part, StreamPart)
    ]
    return any(_BAD.search(text) is not None for text in texts)
