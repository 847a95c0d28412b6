"""Whether several workers are faster than one machine, from what a training has measured.

One machine needs no connections, but has its own threads alone. Its time is predicted from the
time that shards take: seconds of all shards, times the threads that computed each, divided by the
threads of this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct, field

from kbench.dask.training.parts import Work
from kbench.engine.runtime import threads as own_threads

FIRST_STEPS = 5
"""Steps that are not counted: kernels are compiled, weights arrive for the first time."""
LEAST_STEPS = 5
"""Steps whose medians are told."""


class _Step(Struct):
    computing: float  # of the slowest worker, seconds
    thread_seconds: float  # of all of them
    moved: int  # bytes
    seconds: float = 0.0  # of the whole step


class BreakEven(Struct):
    """Collects steps, and tells what they come to."""

    steps: list[_Step] = field(default_factory=list)
    workers: int = 0

    def note(self, work: Sequence[Work], threads: Sequence[int]) -> None:
        """What the workers have done for a step."""
        self.workers = len(work)
        self.steps.append(
            _Step(
                max(one.seconds - one.waited for one in work),
                sum(
                    (one.seconds - one.waited) * count
                    for one, count in zip(work, threads, strict=True)
                ),
                sum(one.received + one.returned for one in work),
            )
        )
        del self.steps[: -100 - FIRST_STEPS]

    def add(self, seconds: float) -> None:
        """The whole time of the step that was noted last."""
        if self.steps:
            self.steps[-1].seconds = seconds

    def known(self) -> list[_Step]:
        """Steps that count."""
        found = [step for step in self.steps if step.seconds]
        return found[FIRST_STEPS:] if len(found) >= FIRST_STEPS + LEAST_STEPS else []

    def sentence(self) -> str:
        """What a step takes, and what it would on one machine; "" while it is not known."""
        steps = self.known()
        if not steps:
            return ""
        whole = median(step.seconds for step in steps)
        computing = median(step.computing for step in steps)
        alone = median(step.thread_seconds for step in steps) / own_threads.count()
        moved = median(step.moved for step in steps)
        faster = (
            "one machine is faster, by model.fit"
            if alone <= whole
            else f"{alone / whole:.1f} times as fast as one machine"
        )
        return (
            f"{faster}: a step takes {_milliseconds(whole)} with {self.workers} workers, "
            f"{_milliseconds(computing)} to compute and {_milliseconds(whole - computing)} to move "
            f"{moved / 1e6:,.1f} MB and to wait; this machine alone, with {own_threads.count()} "
            f"threads, would take about {_milliseconds(alone)}"
        )


def _milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1e3
    return f"{milliseconds:,.1f} ms" if milliseconds < 100 else f"{milliseconds:,.0f} ms"
