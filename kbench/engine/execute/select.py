"""Which steps an executable runs: groups as one loop, everything else as it is.

A group runs its compiled loop once that is ready, and until then the same statements on NumPy,
block by block.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from kbench.engine.compiler.values import Value
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.execute.steps.base import PlanMakers
from kbench.engine.execute.steps.epilogue_step import with_epilogue
from kbench.engine.execute.steps.group_step import GroupStep, Step, single_step
from kbench.engine.execute.steps.library_step import FLOPS_PER_ELEMENT, kernel_step, library_step
from kbench.engine.execute.steps.loop_step import LoopStep
from kbench.engine.execute.steps.row_step import RowStep
from kbench.engine.fusion.elementwise import find_groups
from kbench.engine.fusion.row_schedule import ROWS


def choose_steps(
    values: Sequence[Value],
    needed: Sequence[bool],
    roots: Sequence[int],
    stored: Collection[int],
    makers: PlanMakers,
) -> list[Step]:
    """The steps to run, in order; what only fused steps had needed is left out. `stored` are new
    values of variables."""
    groups = {group.slot: group for group in find_groups(values, needed, roots, stored)}
    covered = {member.slot for group in groups.values() for member in group.members} - set(groups)
    steps: list[Step] = []
    wanted = set(roots)
    for value in reversed(values):
        if not needed[value.slot] or value.source or value.slot in covered:
            continue
        if value.op is ROWS:
            if "group" in value.attrs:
                steps.append(row_step(value, makers))
                wanted.update(value.inputs)
                wanted.update(slot for slot, _ in value.guard)
            continue
        group = groups.get(value.slot)
        filled = (value.slot,) if group is None else group.writes
        if wanted.isdisjoint(filled):
            continue
        if group is not None:
            group_step = GroupStep(group, values)
            step = with_epilogue(group_step, values, needed, roots) or group_step.as_step()
        else:
            step = compiled_step(value, values, makers) or single_step(value, values)
        wanted.update(step.reads)
        wanted.update(slot for slot, _ in value.guard)
        steps.append(step)
    return steps[::-1]


def row_step(value: Value, makers: PlanMakers) -> Step:
    """The step of a row group, of which this is the last result."""
    group = value.attrs["group"]
    slots = tuple(range(value.slot + 1 - len(group.outputs), value.slot + 1))
    step = RowStep(group, slots, value.inputs, makers)
    return Step(
        value.slot,
        step.run,
        value.inputs,
        group.label,
        step.form,
        step.source,
        len(group.program.values),
        math.prod(group.dims),
        slots[:-1],
        prepare=step.prepare,
        repeat=None if group.program.places or group.program.final_folds else step.repeat,
    )


def compiled_step(value: Value, values: Sequence[Value], makers: PlanMakers) -> Step | None:
    """A step that runs a library kernel or a loop, where there is one."""
    if value.op is LOOP:
        loop = LoopStep(value, makers.plan)
        return replace(single_step(value, values), run=loop.run, form=loop.form, source=loop.source)
    compiled = kernel_step(value, values)
    if compiled is not None:
        return replace(
            single_step(value, values),
            run=compiled.run,
            form=compiled.form,
            prepare=compiled.prepare,
            repeat=compiled.repeat,
            is_bare=False,
        )
    found = library_step(value, values)
    if found is None:
        return None
    elements = values[value.inputs[0]].size
    work = FLOPS_PER_ELEMENT.get(value.op.name, 1)
    return Step(
        value.slot,
        found.run,
        value.inputs,
        value.op.name,
        found.form,
        work=work,
        elements=elements,
    )
