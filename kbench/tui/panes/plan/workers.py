"""What each worker of a fit or a map over a cluster has done, while it runs and afterwards."""

from __future__ import annotations

from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, TitleChanged
from kbench.tui.panes.plan.steps import BAR_CELLS, SORTS, WorkersWanted, share_bar
from kbench.tui.text.glyphs import human_bytes, human_seconds
from kbench.tui.text.table import CellText, Column, Table, cut
from kbench.tui.text.text import safe, wrap
from kbench.tui.themes import MUTED
from kbench.workbench.analysis import job_text
from kbench.workbench.core_types import Row
from kbench.workbench.progress.duration import clock

OTHERS = "others"
"""The key of the row that stands for the workers without one."""
MAX_REMARK_ROWS = 6
"""Rows of what should not be overlooked; fewer where the workers need them, but never none."""


class WorkerTable(Table):
    """A row for each worker of a job; [ and ] earlier and later jobs, w the last run."""

    BINDINGS = keys.bindings("workers")
    columns = (
        Column("worker", 0, most=9),
        Column("address", 7, most=40),
        Column("state", 0, most=14, least=7),
        Column("tasks", 6, right=True),
        Column("rows", 5, right=True),
        Column("time", 0, right=True),
        Column("share", 1, most=BAR_CELLS + 5),
        Column("in", 3, right=True),
        Column("out", 4, right=True),
    )

    def __init__(self) -> None:
        super().__init__("workers")
        self.data: Row = {}
        self._sort = SORTS[0]
        self._remarks: list[Content] = []
        self.empty_rows = ["No worker has told of itself yet."]

    @property
    def job(self) -> Row:
        """The job on show, without its workers; empty before there is one."""
        return self.data.get("shown") or {}

    @property
    def rows(self) -> list[Row]:
        """The workers on show, and what stands for those without a row."""
        others = self.data.get("others")
        return [*(self.data.get("rows") or []), *([others] if others else [])]

    # ------------------------------------------------------------------ content

    def show(self, data: Row) -> None:
        """Draw a reply to `jobs`."""
        self.data = data
        self._show()

    def _show(self) -> None:
        rows = self.rows
        if self._sort == "time":
            rows.sort(key=lambda row: ("count" in row, -float(row["seconds"])))
        self.fill([(_key(row), self._cells(row)) for row in rows])
        self.tell()

    def tell(self) -> None:
        """Say in the frame what is shown."""
        if self.display and self.job:
            self.post_message(TitleChanged("plan", self._title()))

    def _title(self) -> str:
        job = self.job
        words = "ended"
        if job["running"]:
            words = f"{job['steps'] / job['total']:.0%}" if job["total"] else "running"
        numbers = [one["job"] for one in self.data["jobs"]]
        at = ""
        if job["job"] in numbers and len(numbers) > 1:
            at = f" job {numbers.index(job['job']) + 1}/{len(numbers)}"
        order = ", by time" if self._sort == "time" else ""
        return f"Plan: {safe(job['kind'])} '{safe(job['name'])}' {words}{at}{order}"

    def _cells(self, row: Row) -> list[CellText]:
        others = "count" in row
        return [
            f"{row['count']:,} more" if others else job_text.name(row),
            "" if others else safe(row["address"]),
            "" if others else _state(row, self.narrow),
            f"{row['tasks']:,}",
            f"{row['rows']:,}",
            _time(float(row["seconds"])),
            share_bar(float(row["share"]), self.glyphs),
            human_bytes(row["received"]),
            human_bytes(row["returned"]),
        ]

    # ------------------------------------------------------------------ the lines above

    def on_resize(self) -> None:
        """A state has more words where there is room."""
        self._show()

    def refit(self) -> None:
        """What is said above the rows depends on the width, too."""
        self._remarks = self._wrapped()
        self.header_rows = 2 + len(self._remarks)
        super().refit()

    def _wrapped(self) -> list[Content]:
        words = "; ".join(job_text.remarks(self.job, self.data["rows"])) if self.job else ""
        if not words:
            return []
        width = max(self.text_width - 1, 4)
        free = self.size.height - 2 - len(self._rows)
        most = max(1, min(free, MAX_REMARK_ROWS))
        found = wrap(Content(safe(words)), width)
        if len(found) > most:
            rest = Content("").join(found[most - 1 :])
            found[most - 1 :] = [cut(rest, width, self.glyphs.ellipsis)]
        return [Content(" ") + line for line in found]

    def header(self, y: int) -> Content:
        """How far the job is, what should not be overlooked, and the titles of the columns."""
        if y == 0:
            return self._headline()
        if y <= len(self._remarks):
            return self._remarks[y - 1].stylize(MUTED)
        return super().header(y)

    def _headline(self) -> Content:
        """Without the title, which stands in the frame, where there is no room for it."""
        width = max(self.text_width, 4)
        line = Content("")
        for titled in (True, False):
            line = Content(f" {safe(job_text.headline(self.job, titled))}" if self.job else "")
            if line.cell_length <= width:
                return line
        return cut(line, width, self.glyphs.ellipsis)

    # ------------------------------------------------------------------ in words

    def details(self, key: str = "") -> list[str]:
        """All that is known of the job, a sentence each; or of one worker."""
        shown = [row for row in self.rows if key in ("", _key(row))]
        rows = [safe(job_text.line(row, _time, human_bytes)) for row in shown]
        if key or not self.job:
            return rows
        remarks = job_text.remarks(self.job, self.data["rows"])
        return [safe(job_text.headline(self.job)), *map(safe, remarks), "", *rows]

    # ------------------------------------------------------------------ keys

    def action_sort(self) -> None:
        """In the order of the workers, or those first that have computed longest."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._show()

    def action_other_job(self, step: int) -> None:
        """An earlier or a later job."""
        numbers = [one["job"] for one in self.data.get("jobs") or []]
        now = self.job.get("job")
        at = numbers.index(now) + step if now in numbers else -1
        if 0 <= at < len(numbers):
            self.post_message(WorkersWanted("job", numbers[at]))
        else:
            self.app.bell()

    def action_turn(self) -> None:
        """The plan of the last run in this place."""
        self.post_message(WorkersWanted("turn"))

    def action_details(self) -> None:
        """Read what does not fit."""
        self.post_message(WorkersWanted("details"))

    def action_copy(self) -> None:
        """Copy all of it in words."""
        self.post_message(CopyText("\n".join(self.details()), "the job"))


def _key(row: Row) -> str:
    return OTHERS if "count" in row else job_text.name(row)


def _time(seconds: float) -> str:
    return human_seconds(seconds) if seconds < 60 else clock(seconds)


def _state(row: Row, narrow: bool) -> CellText:
    """In words, so that it does not depend on colour; what is wrong stands out all the same."""
    words = "slow" if narrow and "slow" in row else safe(job_text.state(row))
    if row["state"] == "lost":
        return Content.styled(words, "$text-error")
    return Content.styled(words, "$text-warning") if "slow" in row else words
