"""A/B: an expression on several engines or under several settings, run as a cell, then shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs import overlays
from kbench.tui.dialogs.dialogs import ChoiceDialog, InputDialog
from kbench.tui.session.link import AskFailed
from kbench.tui.signal import CellEnded
from kbench.tui.text.text import safe
from kbench.tui.transcript.cells import Block
from kbench.workbench.protocol.findings import Versus

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.session.session_controller import SessionController


class CompareController:
    """Asks what to compare, has it compared, and shows the values side by side."""

    def __init__(self, bench: ScreenBench, session: SessionController) -> None:
        self.bench = bench
        self._session = session
        self._awaited: Block | None = None
        bench.on(CellEnded, self._cell_ended)

    def compare(self, expression: str = "") -> None:
        """Ask for the expression and the variants."""
        from kbench.workbench.analysis import compare as comparison

        def check(text: str) -> str:
            return comparison.problem(text)

        def done(text: str | None) -> None:
            if text is not None:
                self._choose(text.strip())

        if "\n" in expression or comparison.problem(expression):
            if expression.strip() and "\n" in expression and not comparison.problem(expression):
                self._choose(expression.strip())
                return
            expression = "" if "\n" in expression else expression
        self.bench.open(InputDialog("compare an expression", expression, check=check), done)

    def _choose(self, expression: str) -> None:
        from kbench.workbench.analysis.compare import variants

        first = safe(expression.split("\n")[0])
        rows = variants(self.bench.session.settings)
        answers = [(letter, safe(words)) for letter, words, _ in rows]

        def act(answer: str | None) -> None:
            preset = next((text for letter, _, text in rows if letter == answer), "")
            if preset:
                self._adjust(expression, preset)

        self.bench.open(ChoiceDialog(f"Compare {first[:60]} under different ...", answers), act)

    def _adjust(self, expression: str, preset: str) -> None:
        from kbench.workbench.analysis import compare as comparison

        known = self.bench.session.settings

        def check(text: str) -> str:
            try:
                comparison.parse_beside_now(text, known)
            except comparison.VariantsError as error:
                return str(error)
            return ""

        def done(text: str | None) -> None:
            if text is not None:
                self._awaited = self._session.run(comparison.code(expression, text, known))

        title = "variants: name=value,value; a single one is compared with now"
        self.bench.open(InputDialog(title, preset, check=check), done)

    def _cell_ended(self, ended: CellEnded) -> None:
        """The comparison has run: show it."""
        block = ended.block
        if block is not None and block is self._awaited:
            self._awaited = None
            if block.state == "ok":
                self.bench.run(self._show)

    async def _show(self) -> None:
        width = min(104, self.bench.size.width * 9 // 10 - 5)
        try:
            data = await self.bench.ask(Versus(width=width))
        except AskFailed as error:
            self.bench.notify(safe(str(error)), warning=True)
            return
        lines = [Content(safe(line)) for line in data.lines]
        overlays.show_text(self.bench, "Comparison", lines)
