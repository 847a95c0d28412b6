"""The step of a row group: its kernel once that is ready, the values by themselves until then."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from kbench.engine.codegen import row_kernel
from kbench.engine.codegen.row_kernel import is_inside
from kbench.engine.compiler.values import Value, mark_needed
from kbench.engine.core import cancel
from kbench.engine.execute.steps.again import Again
from kbench.engine.execute.steps.base import Buffers, ExecutableLike, PlanMakers, Registers
from kbench.engine.fusion.row_lower import RowGroup
from kbench.engine.jit.launch import Prepared
from kbench.engine.jit.service import service
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace


class RowStep:
    """Runs a row group. `slots` are those of its results, and `reads` those of its inputs."""

    def __init__(
        self, group: RowGroup, slots: tuple[int, ...], reads: tuple[int, ...], makers: PlanMakers
    ) -> None:
        self.group = group
        self.slots = slots
        self.reads = reads
        self.kernel: row_kernel.RowKernel | None = None
        self._numbers = [source.array for source in group.sources]
        read = [group.values[one.slot] for one in group.sources if one.array is None]
        forms = [(value.shape, np.dtype(value.spec.dtype)) for value in read]
        self._again = Again(self._numbers, forms)
        self._makers = makers
        self._plain: ExecutableLike | None = None

    def form(self) -> str:
        """What ran last."""
        return "fused" if self.kernel is not None else "numpy"

    def source(self) -> str | None:
        """The generated source of the kernel."""
        return self.kernel.source if self.kernel is not None else None

    def _ready_kernel(self) -> row_kernel.RowKernel | None:
        """The kernel, or None while there is none."""
        if config.jit_mode() == "off":
            self.kernel = None
        elif self.kernel is None:
            self.kernel = row_kernel.request(self.group.program)
        return self.kernel

    def run(self, registers: Registers, buffers: Buffers) -> None:
        """Fill the slots of the results."""
        given = [registers[slot] for slot in self.reads]
        kernel = self._ready_kernel()
        arrays = self._arrays(given)
        columns = self.group.dims[-1]
        inside = all(is_inside(arrays[number], columns) for number in self.group.places)
        if kernel is None or not inside:  # without a kernel, the value at fault says so
            for slot, array in zip(self.slots, self._run_plain(given), strict=True):
                registers[slot] = array
            return
        outs = [buffers[slot] for slot in self.slots]
        kernel.run(outs, arrays, self.group.dims, cancel.check)
        for slot, out in zip(self.slots, outs, strict=True):
            registers[slot] = out

    def _run_plain(self, given: list[np.ndarray]) -> list[np.ndarray]:
        """The values of the group by themselves; while its kernel is on its way without theirs."""
        if self._plain is None:
            self._plain = plain_form(self.group, self._makers)
        coming = self.kernel is None and row_kernel.is_coming(self.group.program)
        with service.queue.muted() if coming else nullcontext():
            return self._plain.run(given, quiet=True)

    def repeat(self, out: np.ndarray, *arrays: np.ndarray) -> bool:
        """What `run` does, without looking everything up; False where it is not known how."""
        kernel = self._ready_kernel()
        return kernel is not None and self._again.run(kernel, self.group.dims, out, arrays)

    def prepare(
        self, registers: Registers, buffers: Buffers, workspace: Workspace
    ) -> Prepared | None:
        """What `run` does as a kernel's call, None while there is none."""
        kernel = self._ready_kernel()
        if kernel is None or self.group.program.places:
            return None
        arrays = self._arrays([registers[slot] for slot in self.reads])
        outs = [buffers[slot] for slot in self.slots]
        return kernel.prepare(outs, arrays, self.group.dims, workspace)

    def _arrays(self, given: list[np.ndarray]) -> list[np.ndarray]:
        """All that the kernel reads: what is given, with the numbers between."""
        left = iter(given)
        return [next(left) if number is None else number for number in self._numbers]


def plain_form(group: RowGroup, makers: PlanMakers) -> ExecutableLike:
    """The values of a group as a plan of their own, from what the group reads to what it gives."""
    reads = list(dict.fromkeys(group.reads))
    place: dict[int, int] = {}
    made: list[Value] = []
    for slot in _closure(group, set(reads)):
        value, given = group.values[slot], slot in reads
        inputs = () if given else tuple(place[operand] for operand in value.inputs)
        source = "feed" if given and value.source != "constant" else value.source
        constant = value.constant if source == "constant" else None
        spec, origin = value.spec, value.origin
        place[slot] = len(made)
        made.append(Value(len(made), value.op, value.attrs, inputs, spec, origin, source, constant))
    roots = [place[output.slot] for output in group.outputs]
    feeds = [place.get(read) for read in group.reads]
    feeds = [None if feed is None or made[feed].source == "constant" else feed for feed in feeds]
    return makers.bind("rows", made, mark_needed(made, roots), roots, feeds)


def _closure(group: RowGroup, reads: set[int]) -> list[int]:
    """The slots that the outputs are made of, in order."""
    found: set[int] = set()
    todo = [output.slot for output in group.outputs]
    while todo:
        slot = todo.pop()
        if slot in found:
            continue
        found.add(slot)
        if slot not in reads:
            todo.extend(group.values[slot].inputs)
    return sorted(found)
