"""Steps of recorded calls: what ran, in which form, how long, how fast, how near to the limit.

Above them stands what each worker of a fit or a map over a cluster has done, from its beginning
until a later cell has recorded a call. Every call is recorded while this is shown; before that some
are (`notebook/base/recording.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

from kbench.api.differences import seconds
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.inspect import describe
from kbench.engine.runtime import profile
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, Option, button, sentence
from kbench.notebook.html import html, job_view, views
from kbench.notebook.html.markup import MAX_OUTPUT_BYTES, Html, element, join
from kbench.workbench.analysis import engine_functions, job_text, plan_text
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.runs import JobHead, Jobs, JobsReply, Limits, Plan, PlanRun, RunHead

if TYPE_CHECKING:
    from kbench.notebook.base.redraw import Undo

EMPTY = "no run yet: call a K.function or K.eval"
NEEDED = "a K.function, a Keras model, a tensor, a list of these, or a name"
NEWEST = ("the newest", None)
SORTS = ("step", "time")
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
        self._limits: Limits | None = None
        self._problem = ""  # why the machine was not measured
        self._make_controls()
        self._show()

    def _make_controls(self) -> None:
        self.run = Dropdown(
            description="run", options=[NEWEST], tooltip="Which of the last calls or jobs is shown"
        )
        self.sort = Dropdown(
            description="sort by", options=list(SORTS), tooltip="Order of the steps"
        )
        self.step = Dropdown(
            description="source of",
            options=[("-", None)],
            tooltip="The step whose generated source is shown",
        )
        self.measure_button = button(
            "measure", "Find what this machine can do at best, in less than a second", self.measure
        )
        self._source = widgets.HTML()
        self._on_change(self.run, lambda _number: self.redraws.throttle.request_now())
        self._on_change(self.sort, lambda _order: self._show())
        self._on_change(self.step, lambda _step: self._show_source())
        controls = widgets.HBox(
            [self.run, self.sort, self.step, self.measure_button], layout={"flex_flow": "row wrap"}
        )
        self.children = (controls, self._body, self._source)

    def choose(self, name: str) -> None:
        """Show the last call of a function of this name."""
        try:
            value = self.hub.view.get(name)
        except ProtocolError:
            return
        if describe.is_function(value) and name != self._function:
            self._function = name
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

    @property
    def _number(self) -> int | None:
        """The run that was chosen, None for the newest and while a job is chosen."""
        return self.run.value if isinstance(self.run.value, int) else None

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
            if self._function and self._run is None and self.run.value is None:
                self._run = before  # the last one of it is not kept, but is still on show
            if self._run is None or before is None or self._run.run != before.run:
                self._problem = ""
            self._limits = data.limits
            runs = [(_run_words(run), run.run) for run in reversed(data.runs or [])]
            self._set_options(self.run, [NEWEST, *listed, *runs], self.run.value)
            steps = [
                (f"{row.step}  {row.op}", row.step)
                for row in ([] if self._run is None else self._run.rows)
                if row.source
            ]
            self._set_options(self.step, [("-", None), *steps], self.step.value)
        self._show()
        self._show_source()

    def _jobs(self, head: JobHead | None) -> tuple[JobsReply | None, list[Option]]:
        """The workers that are shown, if any, and all jobs as choices, the newest first.

        Those of the job that was chosen; where nothing is chosen, of one that leads.
        """
        if head is None:
            return None, []
        chosen: int | None = self.run.value[1] if isinstance(self.run.value, tuple) else None
        try:
            data = self.hub.ask(Jobs(job=chosen, most=job_view.MAX_WORKERS))
        except ProtocolError as error:
            if error.kind != "job":
                raise
            chosen = None  # it is not kept any more
            data = self.hub.ask(Jobs(most=job_view.MAX_WORKERS))
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

    def _static_html(self) -> str:
        with self._lock:
            run, limits, problem, job = self._run, self._limits, self._problem, self._job
        above = _job_parts(job)
        if above and (run is None or isinstance(self.run.value, tuple)):
            return views.styled(join(above))
        if run is None:
            return sentence(problem or self._missing())
        rows = run.rows
        if self.sort.value == "time":
            rows = sorted(rows, key=lambda row: -row.seconds)
        while True:
            head = element("p", join([element("b", _title(run))]), class_="kb-head")
            shown = html.run_table(rows, run.seconds, limits, of_peak=True)
            whole = len(run.rows) + run.cut
            words = (_notes(run), _cut(len(rows), whole), _limit_words(limits), problem)
            notes = [element("p", views.long(note)) for note in words if note]
            text = views.styled(join([*above, head, shown, *notes]))
            if len(text.encode()) <= MAX_OUTPUT_BYTES or len(rows) <= 1:
                return text
            rows = rows[: max(len(rows) * 3 // 4, 1)]

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
        step, rows = self.step.value, [] if self._run is None else self._run.rows
        source = next((row.source or "" for row in rows if row.step == step), "")
        if not source:
            self._source.value = ""
            return
        code = views.lines(source, _SOURCE_CHARACTERS)
        self._source.value = views.styled(element("pre", code, aria_label=f"source of step {step}"))

    def _static_text(self) -> str:
        run, job = self._run, self._job
        above = []
        if job is not None and job.shown is not None:
            above = [job_view.text(job.shown, job.rows, job.others)]
        if above and (run is None or isinstance(self.run.value, tuple)):
            return above[0]
        if run is None:
            return self._missing()
        rows = [f"  {row.op}  {row.form}  {seconds(row.seconds)}" for row in run.rows[:40]]
        return "\n".join([*above, _title(run), *rows])


def _job_parts(job: JobsReply | None) -> list[Html]:
    """What stands above a run of the job that is shown, if one is."""
    if job is None or job.shown is None:
        return []
    return job_view.parts(job.shown, job.rows, job.others)


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
