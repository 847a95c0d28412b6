"""Which steps a bound plan runs: elementwise chains grouped into one step, the rest as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kbench.engine.plan.items import Item
from kbench.engine.plan.schedule import writes_out
from kbench.engine.plan.steps import Step, Values, dynamic_step, numpy_step


def _numpy_form() -> str:
    return "numpy"


def _no_source() -> str | None:
    return None


@dataclass
class Chosen:
    """A step with what the plan view tells of it."""

    slot: int
    step: Step
    reads: tuple[int, ...]
    name: str
    form: Callable[[], str] = _numpy_form
    source: Callable[[], str | None] = _no_source
    work: float = 1.0  # FLOP for each element of the result
    members: tuple[int, ...] = field(default=())

    def label(self) -> str:
        return self.name

    def flops(self, values: Values) -> int:
        return int(self.work * np.size(values[self.slot]))


def choose_steps(
    items: Sequence[Item], needed: Sequence[bool], roots: Sequence[int]
) -> list[Chosen]:
    """The steps to run, in order."""
    return [single(item) for item in items if needed[item.slot] and not item.source]


def single(item: Item) -> Chosen:
    """One op as a step of its own."""
    step = numpy_step(item) if writes_out(item) or item.static else dynamic_step(item)
    form = "view" if item.op.kind in ("view", "update") else "numpy"
    return Chosen(item.slot, step, item.inputs, item.op.name, lambda: form)
