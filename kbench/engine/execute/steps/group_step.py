"""The step of a group of elementwise work, and what the plan view tells of any step.

A group runs its compiled loop once that is ready, and until then the same statements on NumPy,
block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.codegen import loop_kernel
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel
from kbench.engine.core.folds import exact_folds
from kbench.engine.core.folds.summation import added
from kbench.engine.execute.steps.again import Again
from kbench.engine.execute.steps.base import (
    Buffers,
    Registers,
    StepRunner,
    bare_step,
    dynamic_step,
    is_bare,
    numpy_step,
)
from kbench.engine.execute.steps.numpy_blocks import BlockedForm
from kbench.engine.fusion.elementwise import Group, collapse, fold_order
from kbench.engine.jit.launch import Prepared
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

SLAB_ELEMENTS = 1 << 22
"""Elements that are computed before they are folded: what is folded may exceed the memory."""


def _no_source() -> str | None:
    return None


class Step(Struct):
    """What an executable runs in one go, with what the plan view tells of it."""

    slot: int
    run: StepRunner
    reads: tuple[int, ...]
    label: str
    form: Callable[[], str]
    source: Callable[[], str | None] = _no_source
    work: int = 1  # FLOP for each element that is looked at
    elements: int = 0
    also: tuple[int, ...] = ()  # the slots that the step fills besides its own
    group_step: GroupStep | None = None
    prepare: Callable[[Registers, Buffers, Workspace], Prepared | None] | None = None
    """What it does as a kernel's call, where that can be: the buffers are its results."""
    repeat: Callable[..., bool] | None = None
    """`repeat(out, *read)`: does it once more at once, where all is known from earlier calls."""
    is_bare: bool = False
    """Whether it is calls of NumPy on a few elements and nothing else: see `is_bare` of `base`."""

    @property
    def writes(self) -> tuple[int, ...]:
        """Every slot that the step fills."""
        return (*self.also, self.slot)

    def flops(self, registers: Registers) -> int:
        result = registers[self.slot]
        results = result if isinstance(result, tuple) else (result,)
        return self.work * (self.elements or sum(np.size(array) for array in results))


def single_step(value: Value, values: Sequence[Value]) -> Step:
    """One op as a step of its own."""
    bare = is_bare(value, values)
    if bare:
        run = bare_step(value)
    else:
        run = numpy_step(value) if value.static else dynamic_step(value)
    form = "view" if value.op.kind in ("view", "update") else value.op.tier
    work = 1
    if value.op.work is not None:
        work = value.op.work(*[values[slot].spec for slot in value.inputs], **value.attrs)
    return Step(value.slot, run, value.inputs, value.op.name, lambda: form, work=work, is_bare=bare)


class GroupStep:
    """Runs a group: compiled when it can, on NumPy otherwise."""

    def __init__(self, group: Group, values: Sequence[Value]) -> None:
        self.group = group
        self.dims, patterns, self.folded = collapse(group)
        stored, last = group.stored, len(group.statements) - 1
        filled = stored if last in stored else (*stored, last)
        self.blocked = BlockedForm(group.statements, patterns, self.dims, filled)
        self._order = None if group.outputs else fold_order(self.folded)
        self._shapes = [
            [size if varies else 1 for size, varies in zip(self.dims, pattern, strict=True)]
            for pattern in patterns
        ]
        order = self._order or range(len(self.dims))
        self._nest_dims = tuple(self.dims[dim] for dim in order)
        columns = [tuple(column[dim] for dim in order) for column in (*patterns, self.folded)]
        self.program = group.program(columns[:-1], columns[-1])
        self.kernel: loop_kernel.Kernel | None = None
        self._writes = group.writes
        self._sources = [(source.slot, source.array) for source in group.sources]
        read = [values[slot] for slot, number in self._sources if number is None]
        forms = [(value.shape, np.dtype(value.spec.dtype)) for value in read]
        self._again = Again([number for _, number in self._sources], forms)

    def as_step(self) -> Step:
        """What the executable runs, with its description."""
        elements = math.prod(self.dims)
        return Step(
            self.group.slot,
            self.run,
            tuple(slot for slot, number in self._sources if number is None),
            self.group.label,
            lambda: "fused" if self.kernel is not None else "numpy",
            lambda: self.kernel.source if self.kernel is not None else None,
            len(self.group.statements),
            elements,
            tuple(slot for slot in self.group.writes if slot != self.group.slot),
            self,
            self.prepare,
            self.repeat,
        )

    @property
    def reads(self) -> tuple[int, ...]:
        """The slots of the sources; -1 for a number."""
        return tuple(-1 if number is not None else slot for slot, number in self._sources)

    def ready_kernel(self) -> loop_kernel.Kernel | None:
        """The kernel, or None while there is none."""
        if config.jit_mode() == "off":
            self.kernel = None
        elif self.kernel is None and self.program is not None:
            self.kernel = loop_kernel.request(self.program)
        return self.kernel

    def sources(self, registers: Registers) -> list[np.ndarray]:
        """What the group reads, from the values of a run."""
        return [registers[slot] if number is None else number for slot, number in self._sources]

    def run(self, registers: Registers, buffers: Buffers) -> None:
        outs = [buffers[slot] for slot in self._writes]
        arrays = self.sources(registers)
        kernel = self.ready_kernel()
        if kernel is not None:
            kernel.run(outs, self._turned(arrays), self._nest_dims, cancel.check)
        else:
            self._on_numpy(outs, arrays)
        for slot, out in zip(self._writes, outs, strict=True):
            registers[slot] = out

    def repeat(self, out: np.ndarray, *arrays: np.ndarray) -> bool:
        """What `run` does, without looking everything up; False where it is not known how."""
        kernel = self.ready_kernel()
        if kernel is None or self._order is not None:
            return False
        return self._again.run(kernel, self._nest_dims, out, arrays)

    def prepare(
        self, registers: Registers, buffers: Buffers, workspace: Workspace
    ) -> Prepared | None:
        """What `run` does as a kernel's call, None while there is none."""
        kernel = self.ready_kernel()
        if kernel is None:
            return None
        outs = [buffers[slot] for slot in self._writes]
        arrays = self.sources(registers)
        turned = self._turned(arrays)
        prepared = kernel.prepare(outs, turned, self._nest_dims, workspace)
        if turned is arrays or all(map(np.may_share_memory, arrays, turned)):
            return prepared
        return prepared._replace(is_lasting=False)  # it reads a copy

    def _turned(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """What the group reads, in the order of the dims of its kernel."""
        if self._order is None:
            return arrays
        pairs = zip(arrays, self._shapes, strict=True)
        return [array.reshape(shape).transpose(self._order) for array, shape in pairs]

    def _on_numpy(self, outs: list[np.ndarray], arrays: list[np.ndarray]) -> None:
        fold = self.group.fold
        if fold is None:
            self.blocked.run(outs, arrays)
            return
        if self.group.members:
            self._fold_in_slabs(fold, outs, arrays)
            return
        whole = np.broadcast_to(arrays[0].reshape(_kept_shape(self.group)), self.group.shape)
        fold.op.numpy(outs[0], whole, **fold.attrs)

    def _fold_in_slabs(self, fold: Value, outs: list[np.ndarray], arrays: list[np.ndarray]) -> None:
        """Compute and fold slab by slab: what is folded may be far larger than the memory."""
        axes = tuple(axis for axis, is_folded in enumerate(self.folded) if is_folded)
        *stored, out = outs
        result = out.reshape([1 if i in axes else size for i, size in enumerate(self.dims)])
        cut = int(np.argmax(self.dims))
        step = max(1, SLAB_ELEMENTS // (math.prod(self.dims) // self.dims[cut]))
        partial: list[np.ndarray] = []
        factors: list[exact_folds.Factors] = []
        adds = fold.op.fold in ("sum", "mean")
        multiplies = fold.op.fold == "prod" and fold.spec.dtype.startswith("float")
        for start in range(0, self.dims[cut], step):
            window = (slice(None),) * cut + (slice(start, start + step),)
            slab = self.blocked.slab(window, stored, arrays)
            if cut not in axes:
                fold.op.numpy(result[window], slab, axis=axes, keepdims=True)
            elif adds:
                partial.append(added(slab, axes, keepdims=True))
            elif multiplies:
                factors.append(exact_folds.product_factors(slab, axes, keepdims=True))
            else:
                partial.append(np.asarray(fold.op.numpy(None, slab, axis=axes, keepdims=True)))
        if factors:
            pairs = zip(*factors, strict=True)
            mantissas, exponents = (np.concatenate(part, cut) for part in pairs)
            whole = exact_folds.product_of_factors((mantissas, exponents), (cut,), keepdims=True)
            with np.errstate(all="ignore"):
                result[...] = exact_folds.scaled(whole)
        if not partial:
            return
        parts = np.concatenate(partial, cut)
        if adds:  # of the means too these are sums
            total = added(parts, (cut,), keepdims=True)
            count = math.prod([self.dims[axis] for axis in axes])
            with np.errstate(all="ignore"):
                result[...] = total / count if fold.op.fold == "mean" else total
        else:
            fold.op.numpy(result, parts, axis=(cut,), keepdims=True)


def _kept_shape(group: Group) -> tuple[int, ...]:
    varies = group.sources[0].varies
    return tuple(size if varying else 1 for size, varying in zip(group.shape, varies, strict=True))
