"""Which steps an executable runs: groups as one loop, everything else as it is.

A group runs its compiled loop once that is ready, and until then the same statements on NumPy,
block by block.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from kbench.engine.compiler.values import Value
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.execute.steps.base import (
    Makers,
)
from kbench.engine.execute.steps.epilogue_step import finished
from kbench.engine.execute.steps.group_step import GroupStep, Step, single
from kbench.engine.execute.steps.library_step import WORK, kernel_step, library_step
from kbench.engine.execute.steps.loop_step import LoopStep
from kbench.engine.execute.steps.row_step import RowStep
from kbench.engine.fusion.elementwise import find_groups
from kbench.engine.fusion.row_schedule import ROWS


def choose_steps(
    items: Sequence[Value],
    needed: Sequence[bool],
    roots: Sequence[int],
    stored: Collection[int],
    makers: Makers,
) -> list[Step]:
    """The steps to run, in order; what only fused steps had needed is left out. `stored` are new
    values of variables."""

    groups = {group.slot: group for group in find_groups(items, needed, roots, stored)}
    covered = {one.slot for group in groups.values() for one in group.members} - set(groups)
    chosen: list[Step] = []
    wanted = set(roots)
    for item in reversed(items):
        if not needed[item.slot] or item.source or item.slot in covered:
            continue
        if item.op is ROWS:
            if "group" in item.attrs:
                chosen.append(row_step(item, makers))
                wanted.update(item.inputs)
                wanted.update(slot for slot, _ in item.guard)
            continue
        group = groups.get(item.slot)
        filled = (item.slot,) if group is None else group.writes
        if wanted.isdisjoint(filled):
            continue
        if group is not None:
            loop = GroupStep(group, items)
            step = finished(loop, items, needed, roots) or loop.chosen()
        else:
            step = from_library(item, items, makers) or single(item, items)
        wanted.update(step.reads)
        wanted.update(slot for slot, _ in item.guard)
        chosen.append(step)
    return chosen[::-1]


def row_step(item: Value, makers: Makers) -> Step:
    """The step of a row group, of which this is the last result."""
    group = item.attrs["group"]
    slots = tuple(range(item.slot + 1 - len(group.outputs), item.slot + 1))
    step = RowStep(group, slots, item.inputs, makers)
    return Step(
        item.slot,
        step.run,
        item.inputs,
        group.label,
        step.form,
        step.source,
        len(group.program.nodes),
        math.prod(group.dims),
        slots[:-1],
        launches=step.launches,
    )


def from_library(item: Value, items: Sequence[Value], makers: Makers) -> Step | None:
    """A step that runs a library kernel or a loop, where there is one."""
    if item.op is LOOP:
        loop = LoopStep(item, makers.plan)
        return replace(single(item, items), step=loop.run, form=loop.form, source=loop.source)
    compiled = kernel_step(item, items)
    if compiled is not None:
        return replace(
            single(item, items), step=compiled.run, form=compiled.form, launches=compiled.launches
        )
    found = library_step(item, items)
    if found is None:
        return None
    elements = items[item.inputs[0]].size
    work = WORK.get(item.op.name, 1)
    return Step(
        item.slot,
        found.run,
        item.inputs,
        item.op.name,
        found.form,
        work=work,
        elements=elements,
    )
