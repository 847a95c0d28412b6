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
from kbench.workbench.progress.duration import clock
from kbench.workbench.protocol.runs import JobHead, JobsReply, OtherWorkers, WorkerRow

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
        self.data: JobsReply | None = None
        self._sort = SORTS[0]
        self._remarks: list[Content] = []
        self.empty_rows = ["No worker has reported yet."]

    @property
    def job(self) -> JobHead | None:
        """The job on show, without its workers; None before there is one."""
        return None if self.data is None else self.data.shown

    @property
    def rows(self) -> list[WorkerRow | OtherWorkers]:
        """The workers on show, and what stands for those without a row."""
        if self.data is None:
            return []
        return [*self.data.rows, *([self.data.others] if self.data.others is not None else [])]

    # ------------------------------------------------------------------ content

    def show(self, data: JobsReply) -> None:
        """Draw a reply to `jobs`."""
        self.data = data
        self._show()

    def _show(self) -> None:
        rows = self.rows
        if self._sort == "time":
            rows.sort(key=lambda row: (isinstance(row, OtherWorkers), -row.seconds))
        self.fill([(_key(row), self._cells(row)) for row in rows])
        self.tell()

    def tell(self) -> None:
        """Say in the frame what is shown."""
        if self.display and self.job is not None:
            self.post_message(TitleChanged("plan", self._title(self.job)))

    def _title(self, job: JobHead) -> str:
        words = "ended"
        if job.running:
            words = f"{job.steps / job.total:.0%}" if job.total else "running"
        numbers = self._numbers()
        at = ""
        if job.job in numbers and len(numbers) > 1:
            at = f" job {numbers.index(job.job) + 1}/{len(numbers)}"
        order = ", by time" if self._sort == "time" else ""
        return f"Plan: {safe(job.kind)} '{safe(job.name)}' {words}{at}{order}"

    def _numbers(self) -> list[int]:
        """Of all jobs, the oldest first."""
        return [] if self.data is None else [one.job for one in self.data.jobs]

    def _cells(self, row: WorkerRow | OtherWorkers) -> list[CellText]:
        head: list[CellText]
        if isinstance(row, OtherWorkers):
            head = [f"{row.count:,} more", "", ""]
        else:
            head = [job_text.name(row), safe(row.address), _state(row, self.narrow)]
        return [
            *head,
            f"{row.tasks:,}",
            f"{row.rows:,}",
            _time(row.seconds),
            share_bar(row.share, self.glyphs),
            human_bytes(row.received),
            human_bytes(row.returned),
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
        words = "; ".join(self._told())
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

    def _told(self) -> list[str]:
        """What should not be overlooked, a sentence each."""
        if self.data is None or self.data.shown is None:
            return []
        return job_text.remarks(self.data.shown, self.data.rows)

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
            if self.job is not None:
                line = Content(f" {safe(job_text.headline(self.job, titled))}")
            if line.cell_length <= width:
                return line
        return cut(line, width, self.glyphs.ellipsis)

    # ------------------------------------------------------------------ in words

    def details(self, key: str = "") -> list[str]:
        """All that is known of the job, a sentence each; or of one worker."""
        shown = [row for row in self.rows if key in ("", _key(row))]
        rows = [safe(job_text.line(row, _time, human_bytes)) for row in shown]
        if key or self.job is None:
            return rows
        return [safe(job_text.headline(self.job)), *map(safe, self._told()), "", *rows]

    # ------------------------------------------------------------------ keys

    def action_sort(self) -> None:
        """In the order of the workers, or those first that have computed longest."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._show()

    def action_other_job(self, step: int) -> None:
        """An earlier or a later job."""
        numbers, now = self._numbers(), self.job
        at = numbers.index(now.job) + step if now is not None and now.job in numbers else -1
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


def _key(row: WorkerRow | OtherWorkers) -> str:
    return OTHERS if isinstance(row, OtherWorkers) else job_text.name(row)


def _time(seconds: float) -> str:
    return human_seconds(seconds) if seconds < 60 else clock(seconds)


def _state(row: WorkerRow, narrow: bool) -> CellText:
    """In words, so that it does not depend on colour; what is wrong stands out all the same."""
    words = "slow" if narrow and row.slow is not None else safe(job_text.state(row))
    if row.state == "lost":
        return Content.styled(words, "$text-error")
    return Content.styled(words, "$text-warning") if row.slow is not None else words
