"""What recorded runs did: one row per step with its form, its share of the time, its rates."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, PaneMessage, TitleChanged, TraceNan
from kbench.tui.text.glyphs import Glyphs, human_bytes, human_seconds
from kbench.tui.text.table import Column, Table, cut
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.workbench.analysis.plan_text import machine, of_limit
from kbench.workbench.protocol.runs import JobHead, Limits, PlanPart, PlanRun, PlanStep, RunHead

BAR_CELLS = 6
"""Cells of the bar that shows a share of the time."""
SORTS = ("step", "time")


def rate(value: float | None) -> str:
    """A rate in three digits, two behind the point at most; '-' when there is none."""
    if value is None or value <= 0:
        return "-"
    if value < 0.01:
        return "<.01"
    return f"{value:.3g}" if value >= 1 else f"{value:.2f}"


def share_bar(share: float, glyphs: Glyphs) -> str:
    """A part of the whole as a bar and in percent; a part that is not nothing is seen."""
    share = min(max(share, 0.0), 1.0)
    full = max(round(share * BAR_CELLS), 1 if share > 0.005 else 0)
    return f"{glyphs.bars[-1] * full:<{BAR_CELLS}} {share * 100:3.0f}%"


class WorkersWanted(PaneMessage):
    """Another job by its number, what is known in words, or the plan of the last run."""

    def __init__(self, what: str, number: int = 0) -> None:
        self.what = what
        self.number = number
        super().__init__()


class PlanTable(Table):
    """Steps of one run; Enter shows the source of a step, [ and ] earlier and later runs."""

    BINDINGS = keys.bindings("plan")
    columns = (
        Column("step", 3),
        Column("op", 0, most=40, least=20, stretch=True),
        Column("form", 0, most=9),
        Column("time", 0, right=True),
        Column("share", 1, most=BAR_CELLS + 5),
        Column("% of peak", 2, right=True),
        Column("GB/s", 4, right=True),
        Column("GFLOP/s", 5, right=True),
        Column("bytes", 6, right=True),
        Column("place", 7, most=16),
    )

    class Wanted(PaneMessage):
        """A run, the source of a step, a place, the limits or the workers of a job are wanted."""

        def __init__(self, what: str, number: int = 0, text: str = "") -> None:
            self.what = what
            self.number = number
            self.text = text
            super().__init__()

    def __init__(self) -> None:
        super().__init__("plan-run")
        self.run: PlanRun | None = None
        self.job: JobHead | None = None  # the job whose workers may be shown in this place
        self.runs: list[RunHead] = []
        self.limits: Limits | None = None
        self.pinned: int | None = None  # the run that was chosen; None follows the newest
        self._sort = SORTS[0]
        self._unfolded: set[str] = set()
        self.empty_rows = [
            "No run yet. Call a K.function or K.eval, for example:",
            "  K.eval(K.softmax(K.ones((4, 4))))",
        ]

    # ------------------------------------------------------------------ content

    def show(
        self, run: PlanRun | None, runs: Sequence[RunHead] = (), limits: Limits | None = None
    ) -> None:
        """Draw a run; `runs` are those that can be chosen, `limits` what the machine can do."""
        if run is None or self.run is None or run.run != self.run.run:
            self._unfolded = set()
        self.run, self.runs, self.limits = run, list(runs), limits
        self.header_rows = 2 if run else 1
        self._show()

    def action_trace(self) -> None:
        """Look for what made the first NaN or infinity in the run."""
        if self.run is None:
            return
        if self.run.called:
            self.post_message(TraceNan(name=self.run.called))
        else:
            self.post_message(TraceNan(function=self.run.function))

    def forget(self) -> None:
        """The kernel is another one: its runs are gone."""
        self.pinned = None
        self.show(None)

    def _show(self) -> None:
        run, rows = self.run, list[tuple[str, list[Content | str]]]()
        steps = sorted(
            [] if run is None else run.rows,
            key=lambda row: -row.seconds if self._sort == "time" else row.step,
        )
        for row in steps:
            key = str(row.step)
            rows.append((key, self._cells(row, run.seconds if run is not None else 0.0)))
            if key in self._unfolded:
                rows += [(f"{key}.{at}", self._part(part)) for at, part in enumerate(row.parts)]
        self.fill(rows)
        self.tell()

    def tell(self) -> None:
        """Say in the frame what is shown."""
        if self.display:
            self.post_message(TitleChanged("plan", self._title()))

    def _cells(self, row: PlanStep, whole: float) -> list[Content | str]:
        moves = row.form != "view"
        mark = ""
        if row.parts:
            mark = "- " if str(row.step) in self._unfolded else "+ "
        return [
            str(row.step),
            mark + safe(row.op),
            row.form,
            human_seconds(row.seconds),
            share_bar(row.seconds / whole if whole else 0.0, self.glyphs),
            of_limit(row, self.limits),
            rate(row.gb_per_s if moves else None),
            rate(row.gflop_per_s if moves else None),
            human_bytes(row.bytes),
            safe(row.place or "-"),
        ]

    def _part(self, part: PlanPart) -> list[Content | str]:
        words = [safe(word) for word in (part.op, part.spec, part.place or "")]
        return ["", "  ".join(word for word in words if word), *[""] * (len(self.columns) - 2)]

    def row(self, y: int) -> Content:
        """A step in its columns; an operation within one has the whole line."""
        key, cells = self._rows[y] if self._rows else ("", [])
        if "." not in key:
            return super().row(y)
        mark = ">" if key == self.current_key and self.has_focus else " "
        line = Content.assemble(f"{mark}        ", (cells[1].plain, MUTED))
        width = max(self.text_width, 4)
        return line if line.cell_length <= width else cut(line, width, self.glyphs.ellipsis)

    def header(self, y: int) -> Content:
        """What is known of the whole run over the titles of the columns."""
        if self.header_rows == 1 or y == 1:
            return super().header(y)
        width = max(self.text_width, 4)
        words = self._summary(self.run)
        if len(words) >= width:
            words = self._summary(self.run, "")
        line = Content.styled(f" {words}", MUTED)
        return line if line.cell_length <= width else cut(line, width, self.glyphs.ellipsis)

    def _summary(self, run: PlanRun | None, hint: str = "m measures this machine") -> str:
        if run is None:
            return ""
        made = [
            f"{count} {word}"
            for count, word in ((run.compiled, "compiled"), (run.loaded, "loaded"))
            if count
        ]
        kernels = ", ".join(made) or "none new"
        if made:
            kernels += f" in {human_seconds(run.kernel_seconds)}"
        if run.pending:
            kernels += f", {run.pending} still compiling"
        parts = [f"peak {human_bytes(run.peak_bytes)}", f"kernels: {kernels}"]
        if run.cut:
            parts.insert(0, f"the slowest of {run.cut + len(run.rows)} steps")
        if self.job is not None:
            parts.insert(0, f"{self.key_word('plan_workers')} shows the workers")
        if self.limits is None and hint:
            parts.append(hint)
        return "  ".join(parts)

    def _title(self) -> str:
        shown = self.run
        if shown is None:
            return "Plan"
        words = ", ".join(f"{count} {form}" for form, count in shown.forms.items())
        seconds = human_seconds(shown.seconds)
        numbers = [run.run for run in self.runs]
        at = ""
        if shown.run in numbers and len(numbers) > 1:
            at = f" run {numbers.index(shown.run) + 1}/{len(numbers)}"
        name = safe(shown.called or shown.function)
        order = ", by time" if self._sort == "time" else ""
        return f"Plan: {name}{at} {seconds}{order} ({words})"

    # ------------------------------------------------------------------ one step

    def step(self, key: str | None) -> PlanStep | None:
        """The step of a row, or of the row that it is a part of; None where there is none."""
        wanted = (key or "").partition(".")[0]
        rows = [] if self.run is None else self.run.rows
        return next((row for row in rows if str(row.step) == wanted), None)

    def source(self, key: str) -> str:
        """The generated source of a step, '' when it has none."""
        row = self.step(key)
        return "" if row is None else row.source or ""

    def details(self) -> list[str]:
        """All that is known of the run besides its steps, line by line."""
        lines = [self._title(), self._summary(self.run)]
        for kernel in [] if self.run is None else self.run.kernels:
            how = "loaded" if kernel.loaded else "compiled"
            lines.append(f"  {how} {human_seconds(kernel.seconds)}  {safe(kernel.name)}")
        if self.limits:
            lines.append(machine(self.limits))
        return lines

    # ------------------------------------------------------------------ keys

    def action_sort(self) -> None:
        """In the order of the run, or the slowest first."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._show()

    def action_unfold(self) -> None:
        """Show the operations that a step runs as one."""
        row = self.step(self.current_key)
        if row is not None and row.parts:
            self._touched = True
            self._unfolded.add(str(row.step))
            self._show()

    def action_fold(self) -> None:
        """Hide them again."""
        row = self.step(self.current_key)
        key = "" if row is None else str(row.step)
        if key in self._unfolded:
            self._unfolded.discard(key)
            self.go(self.keys().index(key))
            self._show()

    def action_other_run(self, step: int) -> None:
        """An earlier or a later run; behind the last one, the newest is followed."""
        numbers = [run.run for run in self.runs]
        now = None if self.run is None else self.run.run
        at = (numbers.index(now) if now is not None and now in numbers else len(numbers)) + step
        if not numbers or at < 0 or (at >= len(numbers) and self.pinned is None):
            self.app.bell()
            return
        self.pinned = numbers[at] if at < len(numbers) - 1 else None
        self.post_message(self.Wanted("run"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to turn to before there was a job."""
        return action != "turn" or self.job is not None

    def action_turn(self) -> None:
        """The workers of the last job in this place."""
        self.post_message(self.Wanted("turn"))

    def action_measure(self) -> None:
        """Find out what this machine can do at best."""
        self.post_message(self.Wanted("measure"))

    def action_details(self) -> None:
        """Read what does not fit the line."""
        if self.run:
            self.post_message(self.Wanted("details"))

    def action_place(self) -> None:
        """Show the line of the program that made the step."""
        row, key = self.step(self.current_key), self.current_key or ""
        _, dot, at = key.partition(".")
        place = None if row is None else row.place
        if row is not None and dot:
            place = row.parts[int(at)].place
        self.post_message(self.Wanted("place", text=place or ""))

    def action_copy(self) -> None:
        """Copy the run as a table."""
        if self.run:
            lines = [*self.details(), ""]
            lines += ["\t".join(str(cell).strip() for cell in cells) for _, cells in self._rows]
            self.post_message(CopyText("\n".join(lines), "the run"))
