"""The inspector's verbs about recorded runs: which there are, and what each step of one did."""

from __future__ import annotations

from msgspec.structs import asdict

from kbench.engine.inspect import describe
from kbench.workbench.analysis import engine_functions, plan_text
from kbench.workbench.inspector import namespace, recorder
from kbench.workbench.inspector.job_verbs import JobVerbs
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served
from kbench.workbench.protocol.runs import (
    Limits,
    Plan,
    PlanReply,
    PlanRun,
    RunHead,
    Trace,
    TraceReply,
)

MAX_SOURCE_CHARACTERS = 40_000
"""Of a source that is asked for by its step; it must fit a message."""


class PlanVerbs:
    """Serves what one recorder has kept of a view; `sandbox` knows whether a cell runs."""

    def __init__(
        self, view: namespace.View, kept: recorder.Recorder, sandbox: Sandbox, jobs: JobVerbs
    ) -> None:
        self._view = view
        self._recorder = kept
        self._sandbox = sandbox
        self._jobs = jobs

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Trace.served_by(self._trace), Plan.served_by(self._plan)]

    def _trace(self, asked: Trace) -> TraceReply:
        self._recorder.start() if asked.on else self._recorder.stop()
        return TraceReply(recording=self._recorder.on)

    def _plan(self, asked: Plan) -> PlanReply:
        if asked.record is not None:
            self._recorder.start() if asked.record else self._recorder.stop()
        found = self._recorder.find(asked.function, asked.run)
        if asked.step is not None:
            return PlanReply(step=asked.step, source=_source(found, asked.step))
        return PlanReply(
            recording=self._recorder.on,
            functions=self._recorder.functions(),
            runs=[
                RunHead(
                    run=kept.number,
                    function=describe.printable(kept.record.function),
                    seconds=float(kept.record.seconds),
                )
                for kept in self._recorder.runs()
            ],
            run=None if found is None else _run_data(found, self._called(found)),
            limits=self._limits(asked.measure),
            job=self._jobs.head(),
        )

    def _called(self, run: recorder.Run) -> str:
        """The user's name of what ran, '' where it has none."""
        name, _ = engine_functions.find_recorded(self._view.values(), run.record)
        return describe.printable(name)

    def _limits(self, measure: bool) -> Limits | None:
        from kbench.engine.inspect import roofline

        if measure and self._sandbox.blocked:
            raise ProtocolError("busy", "a cell runs; the machine is measured while none does")
        if measure:
            return Limits.built(asdict(roofline.measure(again=True)))
        return plan_text.known_limits()


def _run_data(run: recorder.Run, called: str) -> PlanRun:
    """A run in one message, with the kernels that were made ready for it."""
    seconds = sum(kernel["seconds"] for kernel in run.kernels)
    slowest = sorted(run.kernels, key=lambda kernel: -float(kernel["seconds"]))
    row = {
        **recorder.shortened(describe.run(run.record)),
        "run": run.number,
        "kernels": [
            {**kernel, "name": describe.printable(kernel["name"])}
            for kernel in slowest[: recorder.MAX_KERNEL_ROWS]
        ],
        "compiled": sum(not kernel["loaded"] for kernel in run.kernels),
        "loaded": sum(bool(kernel["loaded"]) for kernel in run.kernels),
        "kernel_seconds": seconds,
        "pending": run.pending,
        "called": called,
    }
    return PlanRun.built(row)


def _source(run: recorder.Run | None, step: int) -> str:
    steps = [] if run is None else run.record.steps
    if not 0 <= step < len(steps):
        raise ProtocolError("name", f"plan: there is no step {step}")
    source = str(steps[step].source or "")
    short = len(source) <= MAX_SOURCE_CHARACTERS
    return source if short else f"{source[:MAX_SOURCE_CHARACTERS]}\n# … cut"
