"""A kernel whose rows are finished while they are in the cache: bias and activation of a layer.

A product or a convolution gives its result row by row. Elementwise work that reads such a result
is done on each row as soon as it is there, and stored in its place; the result itself is never
seen in memory. Where the work reads whole variables it is their update, which runs later, in
their own memory (see `in_place_update`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kbench.engine.codegen import loop_kernel
from kbench.engine.codegen.arguments import COLUMNS, Binding
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import Buffers, SlotValues
from kbench.engine.execute.steps.group_step import GroupStep, Step, single
from kbench.engine.execute.steps.library_step import NativeStep, native_step
from kbench.engine.fusion.elementwise import Group, Source
from kbench.engine.jit.array_memory import same
from kbench.engine.jit.launch import Launch
from kbench.engine.runtime import config

FEWEST = 16  # columns of a row that is worth a call of its own


def finished(
    step: GroupStep, items: Sequence[Value], needed: Sequence[bool], roots: Sequence[int]
) -> Step | None:
    """A group with the kernel whose result it alone reads as one step, where that can be."""
    group = step.group
    if group.fold is not None or step.program is None or not _by_rows(group):
        return None
    read = [items[one.slot] for one in group.sources if one.number is None]
    if any(one.source == "variable" and one.shape == group.shape for one in read):
        return None
    inside = {member.slot for member in group.members}
    for source in group.sources:
        if source.number is not None or not needed[source.slot] or source.slot in roots:
            continue
        item = items[source.slot]
        if not item.op.finishes or item.source or item.shape != group.shape:
            continue
        same = item.spec.dtype == group.dtype and group.dtype in ("float32", "float64")
        alone = inside.issuperset(item.users) and item.guard == items[group.slot].guard
        native = native_step(item, items) if same and alone else None
        if native is not None:
            return FinishStep(step, item, native).chosen(items)
    return None


def _by_rows(group: Group) -> bool:
    """Whether rows are long enough, and every source has one value for each of them or is one."""
    shape = group.shape
    if len(shape) < 2 or not FEWEST <= shape[-1] <= 2 * COLUMNS:
        return False
    return all(_moves(one, shape) in ([], [False], [True]) for one in group.sources)


def _moves(source: Source, shape: tuple[int, ...]) -> list[bool]:
    """Along which of the axes before the last, as far as these are longer than one, it varies."""
    pairs = zip(source.varies[:-1], shape[:-1], strict=True)
    return sorted({varies for varies, size in pairs if size != 1})


class FinishStep:
    """Runs a kernel and a group on each of its rows; one after the other until both are ready."""

    def __init__(self, step: GroupStep, item: Value, native: NativeStep) -> None:
        group = step.group
        self.step = step
        self.item = item
        self.native = native
        self.place = group.writes.index(group.slot)
        self.read = [source.slot for source in group.sources].index(item.slot)
        self.dims = (math.prod(group.shape[:-1]), group.shape[-1])
        inputs = tuple(
            loop_kernel.Input(one.dtype, (True in _moves(one, group.shape), one.varies[-1]))
            for one in group.sources
        )
        statements = tuple(loop_kernel.Statement(expr, dtype) for expr, dtype in group.statements)
        self.program = loop_kernel.Program(inputs, statements, step.outputs)
        self.binding = Binding(self.program, self.dims)
        self.together = False
        self.kernel: loop_kernel.Kernel | None = None

    def chosen(self, items: Sequence[Value]) -> Step:
        """The step, with its description."""
        item, group = self.item, self.step.group
        others = [one for one in self.step.reads if one not in (-1, item.slot)]
        product = single(item, items)
        return replace(
            self.step.chosen(),
            step=self.run,
            reads=(*item.inputs, *others),
            label=f"{item.op.name}+{group.label}",
            form=lambda: "library" if self.together else product.form(),
            work=product.work + len(group.statements),
            elements=item.size,
            group=None,
            launches=self.launches,
        )

    def run(self, v: SlotValues, b: Buffers) -> None:
        operands = [v[one] for one in self.item.inputs]
        on = config.jit_mode() != "off"
        multiply = self.native.find() if on else None
        if on and self.kernel is None:
            self.kernel = loop_kernel.request(self.program)
        kernel = self.kernel if on else None
        self.together = multiply is not None and kernel is not None
        if multiply is None or kernel is None:
            self._apart(v, b, operands, multiply)
            return
        outs = [b[slot] for slot in self.step.group.writes]
        params, _alive = self._parameters(outs, self._sources(v, outs))
        multiply(outs[self.place], *operands, cancel.check, after=(kernel.address, params))
        for slot, one in zip(self.step.group.writes, outs, strict=True):
            v[slot] = one

    def _sources(self, v: SlotValues, outs: list[Any]) -> list[Any]:
        """What the group reads: instead of what the kernel gives, the place where that goes."""
        arrays = self.step.sources(v)
        arrays[self.read] = outs[self.place]
        return arrays

    def _parameters(self, outs: list[Any], arrays: list[Any]) -> tuple[np.ndarray, list[Any]]:
        self.binding.check_outs(outs)
        return self.binding.parameters(outs, arrays)

    def launches(self, v: SlotValues, b: Buffers) -> list[Launch] | None:
        """What `run` does as launches of kernels; None where there is no such form."""
        kernel = loop_kernel.request(self.program)
        write = getattr(self.native.find(), "launches", None)
        if kernel is None or write is None:
            return None
        outs = [b[slot] for slot in self.step.group.writes]
        arrays = self._sources(v, outs)
        params, alive = self._parameters(outs, arrays)
        if not same(alive, arrays):
            return None
        operands = [v[one] for one in self.item.inputs]
        found: list[Launch] | None = write(
            outs[self.place], *operands, after=(kernel.address, params)
        )
        return found

    def _apart(self, v: SlotValues, b: Buffers, operands: list[Any], multiply: Any) -> None:
        item = self.item
        between: np.ndarray = pool.take(item.shape, item.spec.dtype)
        if multiply is not None:
            multiply(between, *operands, cancel.check)
        else:
            item.op.numpy(between, *operands, **item.attrs)
        v[item.slot] = between
        self.step.run(v, b)
        v[item.slot] = None
