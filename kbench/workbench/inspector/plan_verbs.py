"""The inspector's verbs about recorded runs: which there are, and what each step of one did."""

from __future__ import annotations

from dataclasses import asdict

from kbench.engine.inspect import describe
from kbench.workbench.analysis import engine_functions, plan_text
from kbench.workbench.core_types import JsonObject, Row
from kbench.workbench.inspector import namespace, recorder
from kbench.workbench.inspector.job_verbs import JobVerbs
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.protocol.messages import ProtocolError

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

    def serve_trace(self, on: bool = True) -> JsonObject:
        """Turn the recording of runs on or off."""
        self._recorder.start() if on else self._recorder.stop()
        return {"recording": self._recorder.on}

    def serve_plan(
        self,
        function: str | None = None,
        record: bool | None = None,
        run: int | None = None,
        step: int | None = None,
        measure: bool = False,
    ) -> JsonObject:
        """A recorded run: the last, the last of a function, or the one of a number.

        With `step` only the source of that step. `record` turns recording on or off; `measure`
        finds out what this machine can do at best, in less than a second, while no cell runs.
        """
        if record is not None:
            self._recorder.start() if record else self._recorder.stop()
        found = self._recorder.find(function, run)
        if step is not None:
            return {"step": step, "source": _source(found, step)}
        return {
            "recording": self._recorder.on,
            "functions": self._recorder.functions(),
            "runs": [
                {
                    "run": kept.number,
                    "function": describe.printable(kept.record.function),
                    "seconds": float(kept.record.seconds),
                }
                for kept in self._recorder.runs()
            ],
            "run": None if found is None else {**_run_data(found), "called": self._called(found)},
            "limits": self._limits(measure),
            "job": self._jobs.head(),
        }

    def _called(self, run: recorder.Run) -> str:
        """The user's name of what ran, '' where it has none."""
        name, _ = engine_functions.find_recorded(self._view.values(), run.record)
        return describe.printable(name)

    def _limits(self, measure: bool) -> Row | None:
        from kbench.engine.inspect import roofline

        if measure and self._sandbox.blocked:
            raise ProtocolError("busy", "a cell runs; the machine is measured while none does")
        return asdict(roofline.measure(again=True)) if measure else plan_text.known_limits()


def _run_data(run: recorder.Run) -> JsonObject:
    """A run in one message, with the kernels that were made ready for it."""
    seconds = sum(kernel["seconds"] for kernel in run.kernels)
    slowest = sorted(run.kernels, key=lambda kernel: -float(kernel["seconds"]))
    return {
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
    }


def _source(run: recorder.Run | None, step: int) -> str:
    steps = [] if run is None else run.record.steps
    if not 0 <= step < len(steps):
        raise ProtocolError("name", f"plan: there is no step {step}")
    source = str(steps[step].source or "")
    short = len(source) <= MAX_SOURCE_CHARACTERS
    return source if short else f"{source[:MAX_SOURCE_CHARACTERS]}\n# … cut"
