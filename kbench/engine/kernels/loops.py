"""Fused loops: from a `Program` to a running kernel.

`request` gives the kernel of a program as soon as it is compiled, and None until then; meanwhile
the caller computes with `numpy_form`. A `Kernel` checks its arrays against the loop dims before
every call, so that compiled code never reads or writes outside of them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.engine import config, threads
from kbench.engine.kernels import nest
from kbench.engine.kernels.background import Job, service
from kbench.engine.kernels.program import Fold, Input, Program, Statement, field_names
from kbench.engine.kernels.scalars import numpy_form

__all__ = ["Fold", "Input", "Kernel", "Program", "Statement", "numpy_form", "request"]

Array = np.ndarray[Any, Any]
Check = Callable[[], object]

COLUMNS = 16_384
"""Columns of one item of a nest with rows."""
FOLD_COLUMNS = 65_536
SCRATCH_COLUMNS = 4096
FOLD_ROWS = 256
ENOUGH = 64
"""Items that keep any number of threads busy; a fold with fewer results is cut into parts."""
TILE_SECONDS = 0.015
"""Longest time between two looks at the cancel flag."""

_SLOW = re.compile(r"\b(mod|floordiv|pow)\b|%|//|\*\*")


class Kernel:
    """A compiled program. `run` is safe from any thread."""

    form = "fused"

    def __init__(self, program: Program, job: Job) -> None:
        self.program = program
        self.name = program.name
        self.path: Path | None = job.path
        self._job = job
        self._slots = {name: place for place, name in enumerate(field_names(program))}
        slow = sum(len(_SLOW.findall(one.expr)) for one in program.statements)
        # Until a run has been timed; a look at the flag too many costs less than one too few.
        self._pace = 1e-9 * (1 + len(program.inputs) + 2 * len(program.statements)) + 2e-8 * slow

    @property
    def source(self) -> str:
        """The generated source of the loop nest."""
        return nest.source(self.program)

    def run(
        self,
        outs: Sequence[Array],
        ins: Sequence[Array],
        dims: Sequence[int],
        check: Check | None = None,
    ) -> None:
        """Compute into `outs`: the program's outputs, then the fold's result.

        Arguments:
            outs: C-contiguous arrays; outputs hold prod(dims) elements, the result the kept ones.
            ins: arrays of the program's dtypes, C-contiguous over the dims they vary in, or of the
                full rank with any strides as long as the last varying loop dim is contiguous.
            dims: the loop dims.
            check: called about every 20 ms; may raise to stop, which leaves `outs` half written.
        """
        sizes = [int(size) for size in dims] or [1]
        self._check_outs(outs, sizes)
        total = math.prod(sizes)
        if self.program.fold is not None:
            return self._fold(outs, ins, sizes, check)
        if total == 0:
            return
        params, _kept = self._parameters(outs, ins, sizes)
        if len(sizes) == 1:
            items, each = total, 1
        else:
            width = sizes[-1] if sizes[-1] <= 2 * COLUMNS else COLUMNS
            blocks = -(-sizes[-1] // width)
            self._set(params, width=width, blocks=blocks)
            items, each = total // sizes[-1] * blocks, width
        self._drive(params, items, each, check)

    # -------------------------------------------------------------- arguments

    def _check_outs(self, outs: Sequence[Array], sizes: list[int]) -> None:
        program = self.program
        expected = [program.statements[number].dtype for number in program.outputs]
        if len(outs) != len(expected) + (program.fold is not None):
            raise ValueError(f"{self.name} has {len(expected)} outputs, got {len(outs)}")
        if len(sizes) != program.rank or min(sizes) < 0:
            raise ValueError(f"{self.name} loops over {program.rank} dims, got {sizes}")
        for out, dtype in zip(outs, expected, strict=False):
            if out.dtype != dtype or out.size != math.prod(sizes) or not out.flags.c_contiguous:
                raise ValueError(f"{self.name} writes contiguous {dtype}{sizes}, got {_show(out)}")
        for out in outs:
            if not out.flags.writeable:
                raise ValueError(f"{self.name} cannot write to a read-only array")

    def _parameters(
        self, outs: Sequence[Array], ins: Sequence[Array], sizes: list[int]
    ) -> tuple[Array, list[Array]]:
        """The parameter block, and the arrays that must stay alive during the call."""
        program, slots = self.program, self._slots
        if len(ins) != len(program.inputs):
            raise ValueError(f"{self.name} has {len(program.inputs)} inputs, got {len(ins)}")
        params = np.zeros(len(slots), np.int64)
        written = [_span(out) for out in outs]
        for number in range(len(program.outputs)):
            params[slots[f"y{number}"]] = written[number][0]
        alone = len(outs) == 1
        kept = []
        for number, array in enumerate(ins):
            array, strides = self._strides(number, array, sizes)
            low, high = _span(array)
            for (begin, end), out in zip(written, outs, strict=True):
                if low < end and begin < high and not (alone and _same(array, out, low, begin)):
                    array, strides = self._strides(number, array.copy(), sizes)
            kept.append(array)
            params[slots[f"x{number}"]] = array.__array_interface__["data"][0]
            for d, stride in enumerate(strides[:-1]):
                if stride:
                    params[slots[f"s{number}_{d}"]] = stride
        for d, size in enumerate(sizes):
            params[slots[f"n{d}"]] = size
        return params, kept

    def _strides(self, number: int, array: Array, sizes: list[int]) -> tuple[Array, list[int]]:
        """The array, copied if need be, and its element stride in each loop dim."""
        one, pattern = self.program.inputs[number], self.program.patterns[number]
        if array.dtype != one.dtype:
            raise ValueError(f"{self.name} reads {one.dtype} as a{number}, got {_show(array)}")
        wanted = [size if varies else 1 for size, varies in zip(sizes, pattern, strict=True)]
        if array.size != math.prod(wanted):
            raise ValueError(
                f"{self.name} reads {one.dtype}{wanted} as a{number}, got {_show(array)}"
            )
        if not array.flags.c_contiguous:
            if array.ndim == len(wanted) and list(array.shape) == wanted:
                steps = [s // array.itemsize for s in array.strides]
                aligned = all(s % array.itemsize == 0 and s >= 0 for s in array.strides)
                if aligned and (not pattern[-1] or steps[-1] == 1 or sizes[-1] == 1):
                    return array, [s if v else 0 for s, v in zip(steps, pattern, strict=True)]
            array = np.ascontiguousarray(array)
        strides, step = [], 1
        for size, varies in zip(reversed(sizes), reversed(pattern), strict=True):
            strides.append(step if varies else 0)
            step *= size if varies else 1
        return array, strides[::-1]

    def _set(self, params: Array, **values: int) -> None:
        for name, value in values.items():
            params[self._slots[name]] = value

    # -------------------------------------------------------------- running

    def _drive(self, params: Array, items: int, each: int, check: Check | None) -> None:
        begun = time.perf_counter()
        drive(self._job, params, items, each, check, self._pace)
        if items * each >= threads.PARALLEL_FROM:
            self._pace = 2 * max(1e-11, (time.perf_counter() - begun) / (items * each))

    def _fold(
        self, outs: Sequence[Array], ins: Sequence[Array], sizes: list[int], check: Check | None
    ) -> None:
        fold = self.program.fold
        assert fold is not None
        result = outs[-1]
        reduced = math.prod(sizes[fold.start : fold.stop])
        kept = math.prod(sizes[: fold.start]) * math.prod(sizes[fold.stop :])
        if result.size != kept:
            raise ValueError(f"{self.name} gives {kept} results, got {_show(result)}")
        if reduced == 0 and fold.kind in ("max", "min") and kept:
            raise ValueError(f"{fold.kind} of no elements")
        if kept == 0 or reduced == 0:
            identity = {"prod": 1, "all": True, "mean": np.nan}.get(fold.kind, 0)
            np.copyto(result, np.asarray(identity).astype(result.dtype))
            return
        params, _alive = self._parameters(outs, ins, sizes)
        parts, items, each = self._cut(params, sizes, kept, reduced)
        partials = np.empty((parts, kept), self.program.partial_dtype)
        self._set(params, partials=partials.__array_interface__["data"][0])
        self._drive(params, items, each, check)
        _combine(fold.kind, partials, reduced, result)

    def _cut(
        self, params: Array, sizes: list[int], kept: int, reduced: int
    ) -> tuple[int, int, int]:
        """Partial results per kept element, items in all, and elements of an item."""
        fold = self.program.fold
        assert fold is not None
        last = sizes[-1]
        if fold.stop == len(sizes):
            single = fold.stop - fold.start == 1
            rows = last if single else reduced // last
            wanted = FOLD_COLUMNS if single else max(1, FOLD_COLUMNS // last)
            width = min(rows, wanted) if kept < ENOUGH else rows
            blocks = -(-rows // width)
            self._set(params, width=width, blocks=blocks)
            return blocks, kept * blocks, reduced // blocks
        width = min(last, SCRATCH_COLUMNS)
        blocks = -(-last // width)
        lanes = kept // last * blocks
        height = min(reduced, FOLD_ROWS) if lanes < ENOUGH else reduced
        pieces = -(-reduced // height)
        self._set(params, width=width, blocks=blocks, rows=height, pieces=pieces)
        return pieces, lanes * pieces, height * width


def _span(array: Array) -> tuple[int, int]:
    """First and end address of the memory an array may touch."""
    if array.flags.c_contiguous:
        address = array.__array_interface__["data"][0]
        return address, address + array.nbytes
    return np.lib.array_utils.byte_bounds(array)


def _same(array: Array, out: Array, low: int, begin: int) -> bool:
    """Whether an input is the output itself, element for element."""
    return low == begin and array.nbytes == out.nbytes and array.flags.c_contiguous


def _show(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}" + ("" if array.flags.c_contiguous else " strided")


def _combine(kind: str, partials: Array, reduced: int, result: Array) -> None:
    """Join the partial results and round them once into `result`."""
    with np.errstate(all="ignore"):
        if len(partials) > 1:
            join: np.ufunc = {
                "prod": np.multiply,
                "max": np.maximum,
                "min": np.minimum,
                "any": np.bitwise_or,
                "all": np.bitwise_and,
            }.get(kind, np.add)
            whole = join.reduce(partials, axis=0)
        else:
            whole = partials[0]
        if kind == "mean":
            whole = whole / reduced
        np.copyto(result, whole.reshape(result.shape), casting="unsafe")


def drive(
    job: Job, params: Array, items: int, each: int, check: Check | None = None, pace: float = 2e-9
) -> None:
    """Run a compiled job over items of about `each` elements that take `pace` seconds each.

    Looks at `check` between tiles of about 15 ms, and uses all threads when there is enough work.
    """
    assert job.module is not None
    address = int(job.module.run.address)
    spread = items * each >= threads.PARALLEL_FROM
    tile = items if check is None else max(1, int(TILE_SECONDS / (pace * max(1, each))))
    for start in range(0, items, tile):
        if check is not None:
            check()
        service.driver.run(address, params, start, min(items, start + tile), spread)


_kernels: dict[Program, Kernel | None] = {}


def request(program: Program) -> Kernel | None:
    """The program's kernel, or None while it is being compiled, when that failed or JIT is off."""
    kernel = _kernels.get(program)
    if kernel is not None:
        return None if config.jit_mode() == "off" else kernel
    job = service.submit(program.name, lambda: nest.source(program))
    if job is None or job.state != "ready":
        return None
    kernel = _kernels[program] = Kernel(program, job)
    return kernel
