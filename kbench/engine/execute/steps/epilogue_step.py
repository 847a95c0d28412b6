"""A kernel with an epilogue: bias and activation of a layer, while its rows are in the cache.

A product gives its result row by row. Elementwise work that reads such a result
is done on each row as soon as it is there, and stored in its place; the result itself is never
seen in memory. Where the work reads whole variables it is their update, which runs later, in
their own memory (see `in_place_update.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from kbench.engine.codegen import loop_kernel
from kbench.engine.codegen.arguments import ITEM_SIZES, Binding, ItemSizes
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import Buffers, Registers
from kbench.engine.execute.steps.group_step import GroupStep, Step, single_step
from kbench.engine.execute.steps.library_step import KernelStep, kernel_step
from kbench.engine.fusion.elementwise import Group
from kbench.engine.fusion.group import GroupInput
from kbench.engine.jit.array_memory import are_same
from kbench.engine.jit.launch import Preparable, Prepared
from kbench.engine.runtime.workspace import Workspace

MIN_ROW_COLUMNS = 16
"""Columns of a row that is worth a call of its own."""


def with_epilogue(
    group_step: GroupStep, values: Sequence[Value], needed: Sequence[bool], roots: Sequence[int]
) -> Step | None:
    """A group with the kernel whose result it alone reads as one step, where that can be."""
    group = group_step.group
    if group.fold is not None or group_step.program is None or not _by_rows(group):
        return None
    read = [values[feed.slot] for feed in group.sources if feed.number is None]
    if any(operand.source == "variable" and operand.shape == group.shape for operand in read):
        return None
    inside = {member.slot for member in group.members}
    for source in group.sources:
        if source.number is not None or not needed[source.slot] or source.slot in roots:
            continue
        value = values[source.slot]
        if not value.op.takes_epilogue or value.source or value.shape != group.shape:
            continue
        same = value.spec.dtype == group.dtype and group.dtype in ("float32", "float64")
        alone = inside.issuperset(value.users) and value.guard == values[group.slot].guard
        compiled = kernel_step(value, values) if same and alone else None
        if compiled is not None:
            return EpilogueStep(group_step, value, compiled).as_step(values)
    return None


def _by_rows(group: Group) -> bool:
    """Whether rows are long enough, and every source has one value for each of them or is one."""
    shape = group.shape
    if len(shape) < 2 or not MIN_ROW_COLUMNS <= shape[-1] <= 2 * ITEM_SIZES.columns:
        return False
    return all(_moves(source, shape) in ([], [False], [True]) for source in group.sources)


def _moves(source: GroupInput, shape: tuple[int, ...]) -> list[bool]:
    """Along which of the axes before the last, as far as these are longer than one, it varies."""
    pairs = zip(source.varies[:-1], shape[:-1], strict=True)
    return sorted({varies for varies, size in pairs if size != 1})


class EpilogueStep:
    """Runs a kernel and a group on each of its rows; one after the other until both are ready."""

    def __init__(self, group_step: GroupStep, value: Value, kernel_step: KernelStep) -> None:
        group = group_step.group
        self.group_step = group_step
        self.value = value
        self.kernel_step = kernel_step
        self.position = group.writes.index(group.slot)
        self.read = [source.slot for source in group.sources].index(value.slot)
        self.dims = (math.prod(group.shape[:-1]), group.shape[-1])
        shape = group.shape
        patterns = [(True in _moves(source, shape), source.varies[-1]) for source in group.sources]
        program = group.program(patterns)
        assert program is not None  # a group without a fold
        self.program = program
        # An item is a row, which is what the kernel before it counts.
        self.binding = Binding(self.program, self.dims, ItemSizes(columns=self.dims[1]))
        self.is_fused = False
        self.kernel: loop_kernel.Kernel | None = None

    def as_step(self, values: Sequence[Value]) -> Step:
        """The step, with its description."""
        value, group = self.value, self.group_step.group
        others = [slot for slot in self.group_step.reads if slot not in (-1, value.slot)]
        product = single_step(value, values)
        return replace(
            self.group_step.as_step(),
            run=self.run,
            reads=(*value.inputs, *others),
            label=f"{value.op.name}+{group.label}",
            form=lambda: "library" if self.is_fused else product.form(),
            work=product.work + len(group.statements),
            elements=value.size,
            group_step=None,
            prepare=self.prepare,
        )

    def run(self, registers: Registers, buffers: Buffers) -> None:
        workspace = Workspace()
        prepared = self.prepare(registers, buffers, workspace)
        self.is_fused = prepared is not None
        if prepared is None:
            self._run_separately(registers, buffers)
            return
        prepared.run(cancel.check)
        workspace.release()
        for slot in self.group_step.group.writes:
            registers[slot] = buffers[slot]

    def prepare(
        self, registers: Registers, buffers: Buffers, workspace: Workspace
    ) -> Prepared | None:
        """Both kernels as one call; None while one of them is not ready."""
        multiply = self.kernel_step.find()
        kernel = self.kernel = self.kernel or loop_kernel.request(self.program)
        if kernel is None or not isinstance(multiply, Preparable):
            return None
        outs = [buffers[slot] for slot in self.group_step.group.writes]
        arrays = self.group_step.sources(registers)
        arrays[self.read] = out = outs[self.position]  # where what the kernel gives goes instead
        self.binding.check_outs(outs)
        params, alive = self.binding.parameters(outs, arrays)
        operands = [registers[operand] for operand in self.value.inputs]
        after = (kernel.address, params)
        prepared = multiply.prepare(out, *operands, workspace=workspace, after=after)
        lasts = prepared.is_lasting and are_same(alive, arrays)
        return prepared._replace(kept=(prepared.kept, alive), is_lasting=lasts)

    def _run_separately(self, registers: Registers, buffers: Buffers) -> None:
        value = self.value
        between: Buffers = [None] * len(buffers)
        between[value.slot] = pool.take(value.shape, value.spec.dtype)
        self.kernel_step.run(registers, between)
        self.group_step.run(registers, buffers)
        registers[value.slot] = None
