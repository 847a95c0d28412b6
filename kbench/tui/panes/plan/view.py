"""The plan's place: the steps of a run, or the workers of a job while one is what there is to see.

The job leads from its beginning until a later cell has recorded a run; a key turns between the two,
and what the user has turned to stays until something else leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical

from kbench.tui.panes.plan.steps import PlanTable
from kbench.workbench.protocol.runs import JobHead

if TYPE_CHECKING:
    from kbench.tui.panes.plan.workers import WorkerTable


class PlanPane(Vertical):
    """Shows one of its two tables; that of the workers is made when there is a job."""

    def __init__(self) -> None:
        super().__init__(id="plan")
        self.table = PlanTable()
        self.worker_table: WorkerTable | None = None
        self.job: JobHead | None = None  # the one that leads, without its workers
        self.pinned: int | None = None  # the job that was chosen; None follows the one that leads
        self._turned: bool | None = None  # what the user has turned to

    def compose(self) -> ComposeResult:
        """The steps of a run."""
        yield self.table

    @property
    def shows_workers(self) -> bool:
        """Whether the workers have the place."""
        if self.job is None:
            return False
        return self.job.leads if self._turned is None else self._turned

    async def take(self, job: JobHead | None) -> None:
        """What is known of the job that leads; None where there is none."""
        before, self.job = self.job, job
        was = (None, None) if before is None else (before.job, before.leads)
        now = (None, None) if job is None else (job.job, job.leads)
        if now[0] != was[0]:
            self.pinned = None
        if now != was:
            self._turned = None
        self.table.job = job
        self.table.refresh()  # which says how to get to the workers
        await self._arrange()

    async def turn(self) -> None:
        """To the other table, if there is one."""
        if self.job is not None:
            self._turned = not self.shows_workers
            await self._arrange()

    async def _arrange(self) -> None:
        """Give one of the tables the place, and the keys where the other one had them."""
        if self.shows_workers and self.worker_table is None:
            from kbench.tui.panes.plan.workers import WorkerTable

            self.worker_table = WorkerTable()
            self.worker_table.display = False
            await self.mount(self.worker_table)
        shown = (
            self.worker_table
            if self.shows_workers and self.worker_table is not None
            else self.table
        )
        if shown.display:
            return
        had_focus = self.has_pseudo_class("focus-within")
        for table in (self.table, self.worker_table):
            if table is not None:
                table.display = table is shown
        if had_focus and self.is_attached:
            shown.focus()
        shown.tell()

    async def forget(self) -> None:
        """The kernel is another one: its runs and its jobs are gone."""
        self.table.forget()
        await self.take(None)
