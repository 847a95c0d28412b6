"""Fills the plan from the inspector, or the workers of a job in its place, and answers its keys."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from textual.content import Content

from kbench.tui.dialogs.dialogs import Pager
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.plan.steps import PlanTable, WorkersWanted
from kbench.tui.panes.plan.view import PlanPane
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.text.table import Table
from kbench.tui.text.text import safe
from kbench.tui.transcript.cells import coloured
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.record import MissingFieldError
from kbench.workbench.protocol.runs import JobHead, Jobs, Plan

MEASURE_TIMEOUT_SECONDS = 30.0
"""Seconds for measuring the machine; it takes one, but the machine may be busy."""


class PlanController(PaneController):
    """Asks only while the pane is on the screen and something may have run."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._dirty = True  # of the run on show
        self._workers_dirty = True
        self._is_other = False  # the kernel, than that which the pane tells of
        self._pushed: list[JobHead] = []  # what the kernel has told of the job that leads
        self._turns = 0  # keys that are still to be answered, as newer requests replace older ones
        self._measures = False
        self._request = Latest(bench.run)
        bench.on(PlanTable.Wanted, self.act)
        bench.on(WorkersWanted, lambda event: self.act_on_workers(event.what, event.number))
        bench.on(Table.Opened, self._opened)
        bench.told("jobs", self.on_push)

    @property
    def _pane(self) -> PlanPane | None:
        return self.bench.view(PlanPane)

    @property
    def _table(self) -> PlanTable | None:
        return None if self._pane is None else self._pane.table

    def mounted(self) -> None:
        """It says that nothing has run yet."""
        if (table := self._table) is not None:
            table.show(None)

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """Something may have run."""
        self._dirty = True
        self.refresh()

    def on_push(self, data: JsonObject) -> None:
        """The kernel tells how far a job is."""
        with contextlib.suppress(MissingFieldError):  # of another version: asking tells what lacks
            self._pushed = [JobHead.from_json(data.get("job"))]
        self._workers_dirty = True
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one."""
        self._dirty = self._workers_dirty = True
        self._pushed = []
        if self._pane is not None:
            self._is_other = True
            self._request.submit(self._fetch)  # behind what is still told of the old one

    @property
    def _answers(self) -> bool:
        return self.bench.state in ("idle", "busy")

    def refresh(self) -> None:
        """Ask for what is on show, if it is on show and may be another."""
        is_old = self._dirty or self._workers_dirty
        if is_old and self._answers and self.bench.shows("plan"):
            self._request.submit(self._fetch)

    async def _fetch(self) -> None:
        pane = self._pane
        if pane is None:
            return
        if self._is_other:
            self._is_other = False
            await pane.forget()
        while self._turns:
            self._turns -= 1
            self._workers_dirty = True
            await pane.turn()
        if not self._answers:
            return
        if self._pushed:
            await pane.take(self._pushed.pop())
        follows = pane.shows_workers and pane.job is not None and pane.job.running
        if self._measures or (self._dirty and not follows):
            measure, self._measures = self._measures, False
            await self._fetch_run(pane, measure)
        if self._workers_dirty and pane.shows_workers:
            await self._fetch_workers(pane)

    async def _fetch_run(self, pane: PlanPane, measure: bool) -> None:
        table = pane.table
        self._dirty = False
        timeout = MEASURE_TIMEOUT_SECONDS if measure else 5.0
        try:
            data = await self.bench.ask(Plan(run=table.pinned, measure=measure), timeout)
            if data.run is None and table.pinned is not None:  # so many ran that it is not kept
                table.pinned = None
                data = await self.bench.ask(Plan(), timeout)
        except AskFailed as error:
            self._dirty = True
            if measure:
                self._notify(str(error))
            else:
                self._tell(error)
            return
        table.show(data.run, data.runs or (), data.limits)
        await pane.take(data.job)

    async def _fetch_workers(self, pane: PlanPane) -> None:
        self._workers_dirty = False
        try:
            data = await self.bench.ask(Jobs(job=pane.pinned))
        except AskFailed as error:
            if pane.pinned is not None:  # so many others have ended that it is not kept
                pane.pinned, self._workers_dirty = None, True
                self._request.submit(self._fetch)
            else:
                self._workers_dirty = True
                self._tell(error)
            return
        if data.shown is None:  # what was told of a job came from a kernel that is gone
            await pane.forget()
            await self._fetch_run(pane, False)
        elif pane.worker_table is not None:
            pane.worker_table.show(data)

    def _tell(self, error: AskFailed) -> None:
        self.bench.title("plan", f"Plan: {safe(str(error))}")

    def _notify(self, words: str) -> None:
        self.bench.notify(safe(words), 3)

    # ------------------------------------------------------------------ keys

    def act(self, event: PlanTable.Wanted) -> None:
        """A key of the table."""
        if event.what == "run":
            self._dirty = True
            self._request.submit(self._fetch)
        elif event.what == "turn":
            self._turn()
        elif event.what == "measure":
            self._notify("measuring what this machine can do")
            self._measures = True
            self._request.submit(self._fetch)
        elif event.what == "details":
            self._show_lines("The run", [] if self._table is None else self._table.details())
        elif event.what == "place":
            self.bench.show_place(event.text)

    def act_on_workers(self, what: str, number: int) -> None:
        """A key of the table of workers."""
        pane = self._pane
        if pane is None or pane.worker_table is None:
            return
        if what == "turn":
            self._turn()
        elif what == "job":
            newest = pane.job is not None and number == pane.job.job
            pane.pinned = None if newest else number
            self._workers_dirty = True
            self._request.submit(self._fetch)
        elif what == "details":
            self._show_lines("The job", pane.worker_table.details())

    def _turn(self) -> None:
        self._turns += 1
        self._request.submit(self._fetch)

    def _opened(self, event: Table.Opened) -> None:
        """Enter in one of the two tables."""
        if event.table.id == "plan-run":
            self.open(event.key)
        elif event.table.id == "workers":
            self.open_worker(event.key)

    def open_worker(self, key: str) -> None:
        """Show all that is known of one worker."""
        pane = self._pane
        if pane is not None and pane.worker_table is not None:
            self._show_lines("Worker", pane.worker_table.details(key))

    def _show_lines(self, title: str, lines: list[str]) -> None:
        self.bench.open(Pager(title, [Content(line) for line in lines]))

    def open(self, key: str) -> None:
        """Show the generated source of a step."""
        self.bench.run(partial(self._open, key), opens=True)

    async def _open(self, key: str) -> None:
        table = self._table
        if table is None:
            return
        row, run = table.step(key), table.run
        if row is None or run is None:
            return
        source = row.source or ""
        if source.endswith("# … cut"):
            try:
                data = await self.bench.ask(Plan(run=run.run, step=row.step))
            except AskFailed as error:
                self._notify(str(error))
                return
            source = data.source
        if source:
            title = f"source of step {row.step}: {safe(row.op)}"
            self.bench.open(Pager(title, list(coloured(source))))
        else:
            form = safe(row.form)
            self._notify(f"this step has no generated source: it ran as {form}")
