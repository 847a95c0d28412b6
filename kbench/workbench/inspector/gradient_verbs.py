"""The inspector's verb about gradients: which losses there are, and have one's computed."""

from __future__ import annotations

from functools import partial

from kbench.workbench.analysis import gradients
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.inspector import namespace
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.kernel.latest_task import LatestTask
from kbench.workbench.kernel.live_sampling import LiveSampling
from kbench.workbench.kernel.sandbox import Outcome
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.findings import Gradient, GradientReply
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served

BUDGET_SECONDS = 1.0
"""Of gradients that nobody has asked for by a key."""
FORCED_BUDGET_SECONDS = 120.0
"""Of those that were asked for by a key."""
STOP_SECONDS = 5.0
"""That earlier ones have to stop in, where a cell waits for new ones."""
LIVE_BUDGET_SECONDS = 0.25
"""That they may have taken before, to be computed while a cell runs, which waits for them."""


class GradientVerbs:
    """Serves the names of one view; what was computed is pushed as "gradient"."""

    def __init__(
        self,
        view: namespace.View,
        recorder: Recorder,
        publish: Publish | None,
        sampling: LiveSampling,
    ) -> None:
        self._sampling = sampling
        self._jobs = LatestTask("kbench-gradient")
        self.sandbox = self._jobs.sandbox
        self._view = view
        self._publish = publish
        self._gradients = gradients.Gradients(view, recorder)
        self._slow: set[str] = set()
        self._took: dict[str, float] = {}  # seconds, by the loss

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Gradient.served_by(self._gradient)]

    def _gradient(self, asked: Gradient) -> GradientReply:
        names = gradients.losses(self._view)
        chosen = asked.loss or (names[0] if names else "")
        reply = partial(GradientReply, losses=names, loss=chosen)
        if asked.stop:
            self.sandbox.halt()
            return reply(state="stopped")
        if not chosen:
            self._gradients.forget()
            return reply(state="none")
        gradients.loss_of(self._view, chosen)
        if asked.live:
            self._sampling.follow_cell("gradient", partial(self._tell_sample, chosen))
        if self.sandbox.blocked:
            return reply(state="held")
        if chosen in self._slow and not asked.force:
            return reply(state="slow")
        budget = FORCED_BUDGET_SECONDS if asked.force else BUDGET_SECONDS
        number = self._jobs.begin(
            partial(self._gradients.compute, chosen), budget, partial(self._tell, chosen, budget)
        )
        return reply(state="computing", number=number)

    def sample(self, loss: str, force: bool = False) -> JsonObject | None:
        """What is told of the gradients of a loss, on the thread of the running cell.

        None where they have been slow before, or nothing is a loss: they wait for the cell's end.
        With `force` they may be slow.
        """
        if not loss:
            loss = next(iter(gradients.losses(self._view)), "")
        slow = loss in self._slow or self._took.get(loss, 0.0) > LIVE_BUDGET_SECONDS
        if not loss or (slow and not force):
            return None
        budget = FORCED_BUDGET_SECONDS if force else BUDGET_SECONDS
        work = partial(self._gradients.compute, loss)
        outcome, number = self._jobs.run_in_cell(work, budget, STOP_SECONDS if force else 0.0)
        if outcome.stopped and not force:
            self._took[loss] = max(outcome.seconds, BUDGET_SECONDS)
            return None
        return self._found(loss, budget, outcome, number)

    def _tell_sample(self, loss: str) -> None:
        found = self.sample(loss)
        if found is not None and self._publish is not None:
            self._publish(messages.push("gradient", {**found, "live": True}))

    def _found(
        self, loss: str, budget: float, outcome: Outcome[JsonObject], number: int
    ) -> JsonObject:
        self._took[loss] = outcome.seconds
        found = {**_outcome_data(outcome, budget), "loss": loss, "number": number}
        found["seconds"] = outcome.seconds
        return found

    def _tell(self, loss: str, budget: float, outcome: Outcome[JsonObject], number: int) -> None:
        if outcome.stopped == "time" or outcome.seconds > BUDGET_SECONDS:
            self._slow.add(loss)
        else:
            self._slow.discard(loss)
        if self._publish is not None:
            found = self._found(loss, budget, outcome, number)
            self._publish(messages.push("gradient", found))

    def close(self) -> None:
        """Compute no more."""
        self.sandbox.halt()
        self._gradients.forget()


def _outcome_data(outcome: Outcome[JsonObject], budget: float) -> JsonObject:
    if outcome.stopped == "cell":
        return {"stopped": "cell"}
    if outcome.stopped == "stuck":
        return {"error": "earlier ones are still within calls that do not stop"}
    if outcome.stopped:
        return {"stopped": "time", "budget": budget}
    if isinstance(outcome.error, ProtocolError):
        return {"error": outcome.error.reason, "kind": outcome.error.kind}
    if outcome.error is not None:
        return {"error": gradients.error_words(outcome.error)}
    return outcome.value or {}
