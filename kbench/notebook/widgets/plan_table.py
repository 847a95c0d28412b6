"""Steps of recorded calls: what ran, in which form, how long, how fast, how near to the limit.

Above them stands what each worker of a fit or a map over a cluster has done, from its beginning
until a later cell has recorded a call. Every call is recorded while this is shown; before that some
are (`notebook/base/recording.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from kbench.api.differences import seconds
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.inspect import describe
from kbench.engine.runtime import profile
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.live_table import LiveTable
from kbench.notebook.base.namespace_widget import NamespaceWidget, Option, button, sentence
from kbench.notebook.html import job_view, run_steps, views
from kbench.notebook.markup.columns import span
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES, Html, element, facts, join
from kbench.workbench.analysis import engine_functions, job_text, plan_text
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.runs import (
    JobHead,
    Jobs,
    JobsReply,
    Limits,
    Plan,
    PlanPart,
    PlanRun,
    PlanStep,
    RunHead,
)

if TYPE_CHECKING:
    from kbench.notebook.base.redraw import Undo

EMPTY = "no run yet: call a K.function or K.eval"
NEEDED = "a K.function, a Keras model, a tensor, a list of these, or a name"
NEWEST = ("the newest", None)
_Choice = int | tuple[str, int] | None
_SORTS: dict[str, Callable[[PlanStep, Limits | None], Any]] = {
    "step": lambda row, _limits: row.step,
    "form": lambda row, _limits: (row.form, row.step),
    "time": lambda row, _limits: -row.seconds,
    "share": lambda row, _limits: -row.seconds,
    "% of peak": lambda row, limits: -_percent(plan_text.of_limit(row, limits)),
    "moved": lambda row, _limits: -row.bytes,
    "GB/s": lambda row, _limits: -(row.gb_per_s or 0.0),
    "GFLOP/s": lambda row, _limits: -(row.gflop_per_s or 0.0),
    "made at": lambda row, _limits: (row.place or "", row.step),
}
_MAX_LIVE_WORKERS = 200
"""Workers of a job that can be paged through; those that matter less are summed up."""
_SOURCE_CHARACTERS = 4_000
"""Characters of a source on show."""


class PlanTable(NamespaceWidget):
    """The steps of the last call, of the last of one function, or of one of the last calls.

    While a fit or a map over a cluster runs, and after it, what each of its workers has done too.

    Arguments:
        function: a K.function, a Keras model, a tensor that K.eval computes, a list of these, or a
            name; '' for whatever runs.
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(self, function: object = "", namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [profile.run_finished], [self._record, self._follow_jobs])
        self._function = self._name_of_argument("function", function, given.is_runnable, NEEDED)
        self._run: PlanRun | None = None
        self._job: JobsReply | None = None  # what workers have done, if that is on show
        self._wanted: _Choice = None  # the run or job that a user has chosen, None for the newest
        self._limits: Limits | None = None
        self._problem = ""  # why the machine was not measured
        self._make_controls()
        self._show()

    def _make_controls(self) -> None:
        self.run = Dropdown(
            description="run", options=[NEWEST], tooltip="Which of the last calls or jobs is shown"
        )
        self.measure_button = button(
            "measure", "Find what this machine can do at best, in less than a second", self.measure
        )
        self.table = LiveTable(
            run_steps.STEPS_OF_PEAK,
            self._body,
            "step",
            run_steps.MAX_STEPS,
            self._show,
            self._own_changes,
        )
        self.sort, self.step = self.table.sort, self.table.rows
        self._workers, self._worker = widgets.HTML(), widgets.HTML()
        self.workers = LiveTable(
            job_view.COLUMNS,
            self._workers,
            "worker",
            job_view.MAX_WORKERS,
            self._show,
            self._own_changes,
        )
        self._on_change(self.workers.rows, lambda _worker: self._show_worker())
        self._head, self._notes, self._source = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._job_head = widgets.HTML()
        self._on_change(self.run, self._run_chosen)
        self._on_change(self.step, lambda _step: self._show_source())
        controls = widgets.HBox([self.run, self.measure_button], layout={"flex_flow": "row wrap"})
        self.children = (
            controls,
            self._job_head,
            self.workers.box,
            self._worker,
            self._head,
            self.table.box,
            self._source,
            self._notes,
        )

    @property
    def html(self) -> str:
        """What the widget shows below its controls at present."""
        parts = (self._job_head, self._workers, self._head, self._body, self._notes)
        return "".join(part.value for part in parts)

    def choose(self, name: str) -> None:
        """Show the last call of a function of this name."""
        try:
            value = self.hub.view.get(name)
        except ProtocolError:
            return
        if describe.is_function(value) and name != self._function:
            self._function, self._wanted = name, None
            self._set_options(self.run, self.run.options, None)
            if self.redraws.running:
                self.redraws.throttle.request()

    def measure(self) -> None:
        """Find what this machine can do at best, against which each step is told."""
        problem = ""
        self.measure_button.disabled = True
        try:
            self.hub.ask(Plan(measure=True))
        except ProtocolError as error:
            problem = error.reason
        finally:
            self.measure_button.disabled = False
        with self._lock:
            self._problem = problem
        self.redraws.throttle.request_now()

    def _record(self) -> Undo:
        return self.hub.record()

    def _follow_jobs(self) -> Undo:
        return self.hub.pushes["jobs"].subscribe(lambda _head: self.redraws.throttle.request())

    def _run_chosen(self, choice: _Choice) -> None:
        """Kept beside the control, which another thread may be bringing in line at this moment."""
        self._wanted = choice
        self.redraws.throttle.request_now()

    @property
    def _number(self) -> int | None:
        """The run that was chosen, None for the newest and while a job is chosen."""
        return self._wanted if isinstance(self._wanted, int) else None

    def refresh(self) -> None:
        """Read the run on show again, and the job."""
        wanted, number = Plan(), self._number
        if number is not None:
            wanted = Plan(run=number)
        elif self._function:
            self._function = self._current_name(self._function)
            wanted = self._last_run()
        data = self.hub.ask(wanted)
        if data.run is None and number is not None:  # so many others ran since
            data = self.hub.ask(Plan())
        jobs, listed = self._jobs(data.job)
        with self._lock:
            self._job = jobs
            before, self._run = self._run, data.run
            if self._function and self._run is None and self._wanted is None:
                self._run = before  # the last one of it is not kept, but is still on show
            if self._run is None or before is None or self._run.run != before.run:
                self._problem = ""
            self._limits = data.limits
            runs = [(_run_words(run), run.run) for run in reversed(data.runs or [])]
            choices, chosen = [NEWEST, *listed, *runs], self._wanted
            self._set_options(self.run, choices, chosen)
            if self._wanted == chosen and chosen not in [choice for _, choice in choices]:
                self._wanted = None  # it is not kept any more
        self._show()
        self._show_source()

    def _jobs(self, head: JobHead | None) -> tuple[JobsReply | None, list[Option]]:
        """The workers that are shown, if any, and all jobs as choices, the newest first.

        Those of the job that was chosen; where nothing is chosen, of one that leads.
        """
        if head is None:
            return None, []
        wanted = self._wanted
        chosen = wanted[1] if isinstance(wanted, tuple) else None
        try:
            data = self.hub.ask(Jobs(job=chosen, most=_MAX_LIVE_WORKERS))
        except ProtocolError as error:
            if error.kind != "job":
                raise
            chosen = None  # it is not kept any more
            data = self.hub.ask(Jobs(most=_MAX_LIVE_WORKERS))
        listed: list[Option] = [
            (job_text.short(job), ("job", job.job)) for job in reversed(data.jobs)
        ]
        is_shown = chosen is not None or (self._number is None and head.leads)
        return (data if is_shown else None), listed

    def _last_run(self) -> Plan:
        """What to ask for: the last run that is kept of what was chosen, not of its namesakes."""
        try:
            value = self.hub.view.get(self._function)
        except ProtocolError:
            return Plan(function=self._function)
        records = [function.records for function in engine_functions.functions_of(value)]
        number = self.hub.inspector.recorder.number_of(
            [records for records in records if records is not None]
        )
        return Plan(run=number)

    # -------------------------------------------------------------- drawing

    def _ordered(self) -> list[PlanStep]:
        """The steps in the order that was chosen."""
        rows = [] if self._run is None else self._run.rows
        key = _SORTS[self.sort.value or "step"]
        return sorted(rows, key=lambda row: key(row, self._limits), reverse=self.table.reversed)

    def _show(self) -> None:
        """Draw what is known now; of two threads the later one has the last word."""
        with self._lock:
            run = self._run
            self._show_job()
            if run is None or self._only_job():
                shown, head, notes, names = "", Html(""), [], []
                if not self._job_head.value:
                    head = element("p", views.long(self._problem or self._missing()))
            else:
                rows = self._ordered()
                if self.table.start >= len(rows):  # a shorter run than the one before
                    self.table.start = 0
                head = _heading(run)
                notes = self._note_words(run)
                page = (self.table.start, run_steps.MAX_STEPS)
                drawn = run_steps.table(rows, run.seconds, self._limits, of_peak=True, page=page)
                shown = views.styled(drawn)
                on_page = rows[page[0] : page[0] + page[1]]
                names = [(f"{row.step} {row.op}", row.step) for row in on_page]
            total = len(run.rows) if names and run is not None else 0
            self.table.box.layout.display = "" if names else "none"
            self.table.show(names, total, self.step.value)
            for part, markup in (
                (self._head, views.styled(head) if head else ""),
                (self._notes, views.styled(join(notes)) if notes else ""),
            ):
                self._set(part, markup)
            self._draw(shown)

    def _set(self, part: Any, markup: str) -> None:
        """Have a part show something else; the same again is not sent."""
        if part.value != markup:
            part.value = markup
            self._update_twin()

    def _show_job(self) -> None:
        """The workers of the job that is shown, if one is: a page, in the order that was chosen."""
        job, table = self._job, self.workers
        if job is None or job.shown is None:
            self._set(self._job_head, "")
            self._set(self._workers, "")
            table.box.layout.display = "none"
            return
        key = job_view.SORTS[table.sort.value or "worker"]
        rows = sorted(job.rows, key=key, reverse=table.reversed)
        if table.start >= len(rows):
            table.start = 0
        page = rows[table.start : table.start + job_view.MAX_WORKERS]
        parts = job_view.heading(job.shown, job.rows)
        if job.others is not None:
            words = f"{job.others.count:,} more workers, which matter less, are not listed"
            parts.append(element("p", words))
        self._set(self._job_head, views.styled(join(parts)))
        drawn = job_view.workers(page, span(table.start, len(page), len(rows), "worker"))
        self._set(self._workers, views.styled(drawn))
        names = [(job_text.name(row), row.number) for row in page]
        table.box.layout.display = "" if names else "none"
        table.show(names, len(rows), table.rows.value)
        self._show_worker()

    def _show_worker(self) -> None:
        """What is known of the worker that was clicked, in one line."""
        rows = [] if self._job is None else self._job.rows
        row = next((row for row in rows if row.number == self.workers.rows.value), None)
        words = "" if row is None else job_text.line(row, job_view.time, describe.size)
        self._worker.value = sentence(words) if words else ""

    def _above(self) -> list[Html]:
        """What stands above a run of the job that is shown, if one is."""
        job = self._job
        if job is None or job.shown is None:
            return []
        return job_view.parts(job.shown, *job_view.fewer(job.rows, job.others))

    def _only_job(self) -> bool:
        """Whether a job was chosen, and no run."""
        return bool(self._above()) and isinstance(self._wanted, tuple)

    def _note_words(self, run: PlanRun) -> list[Html]:
        """What is told below the steps."""
        whole = len(run.rows) + run.cut
        words = (_notes(run), _cut(len(run.rows), whole), _limit_words(self._limits), self._problem)
        return [element("p", views.long(note)) for note in words if note]

    def _static_html(self) -> str:
        with self._lock:
            run, above, most = self._run, self._above(), run_steps.MAX_STEPS
            if run is None or self._only_job():
                return (
                    views.styled(join(above), job_view.COLUMNS.style)
                    if above
                    else sentence(self._missing())
                )
            rows, notes = self._ordered(), self._note_words(run)
            while True:
                page = (self.table.start, most)
                drawn = run_steps.table(rows, run.seconds, self._limits, of_peak=True, page=page)
                parts = join([*above, _heading(run), drawn, *notes])
                style = run_steps.STEPS_OF_PEAK.style + (job_view.COLUMNS.style if above else "")
                text = views.styled(parts, style)
                if len(text.encode()) <= MAX_OUTPUT_BYTES or most <= 1:
                    return text
                most = max(most * 3 // 4, 1)

    def _missing(self) -> str:
        """Why there is nothing to show."""
        if not self._function:
            return EMPTY
        name = describe.printable(self._function)
        try:
            value = self.hub.view.get(self._function)
        except ProtocolError:
            return f"there is no name {name}, and no call of that name was recorded"
        if not given.is_runnable(value):
            return f"{name} must be {NEEDED}; it is {describe_operand(value)}"
        how = f"K.eval({name})" if describe.is_tensor(value) else f"call {name}"
        return f"no call of {name} was recorded yet: {how}, and its steps are shown"

    def _show_source(self) -> None:
        """What the chosen step did, the operations in it, and what was generated for it."""
        step, rows = self.step.value, [] if self._run is None else self._run.rows
        row = next((row for row in rows if row.step == step), None)
        if row is None:
            self._source.value = ""
            return
        head = join([element("b", f"step {row.step}"), views.long(f" {row.op} {row.spec}")])
        parts = [element("p", head, class_="kb-head")]
        known = [("form", row.form), ("time", seconds(row.seconds)), ("made at", row.place)]
        parts.append(facts(known))
        if row.parts:
            inner = [element("li", views.long(_part(part))) for part in row.parts]
            parts.append(element("ul", join(inner)))
        if row.source:
            code = views.lines(row.source, _SOURCE_CHARACTERS)
            parts.append(element("pre", code, aria_label=f"source of step {step}"))
        self._source.value = views.styled(join(parts))

    def _static_text(self) -> str:
        run, job = self._run, self._job
        above = []
        if job is not None and job.shown is not None:
            above = [job_view.text(job.shown, *job_view.fewer(job.rows, job.others))]
        if above and (run is None or isinstance(self._wanted, tuple)):
            return above[0]
        if run is None:
            return self._missing()
        rows = [f"  {row.op}  {row.form}  {seconds(row.seconds)}" for row in run.rows[:40]]
        return "\n".join([*above, _title(run), *rows])


def _part(part: PlanPart) -> str:
    return "  ".join(word for word in (part.op, part.spec, part.place or "") if word)


def _heading(run: PlanRun) -> Html:
    return element("p", element("b", _title(run)), class_="kb-head")


def _percent(words: str) -> float:
    """The number of `67% flop`; 0 where there is none."""
    digits = words.partition("%")[0]
    return float(digits) if digits.isdigit() else 0.0


def _title(run: PlanRun) -> str:
    forms = ", ".join(f"{count} {form}" for form, count in run.forms.items())
    return f"{run.called or run.function}  {seconds(run.seconds)}  ({forms})"


def _notes(run: PlanRun) -> str:
    """What is known of the whole run."""
    counts = ((run.compiled, "compiled"), (run.loaded, "loaded"))
    made = [f"{count} {word}" for count, word in counts if count]
    kernels = ", ".join(made) or "none new"
    if made:
        kernels += f" in {seconds(run.kernel_seconds)}"
    if run.pending:
        kernels += f", {run.pending} still compiling"
    return f"at most {describe.size(run.peak_bytes)} in use; kernels: {kernels}"


def _limit_words(limits: Limits | None) -> str:
    """Against what the steps are told."""
    if limits is None:
        return "'measure' finds the peak rates of this machine, for the column '% of peak'"
    machine = plan_text.machine(limits)
    return f"% of peak: of the peak rate of memory, caches or arithmetic; {machine}"


def _cut(shown: int, total: int) -> str:
    return "" if shown == total else f"{shown} of {total} steps; a terminal's plan shows more"


def _run_words(run: RunHead) -> str:
    return f"{run.run}  {run.function}  {seconds(run.seconds)}"
