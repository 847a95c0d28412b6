"""Tier 1: matrix products on the fused-multiply-add tile, over stacks that broadcast.

`find` gives a call `(out, x, y, cancel_check=None, after=None)`, or None while it is not ready,
when it cannot be had or JIT is off: out[..., m, n] = x[..., m, k] @ y[..., k, n]. Operands have any
strides, so a transposed one costs nothing. `tiling.is_profitable` says for which sizes.

`after` is `(address, params)` of a range kernel and its block of int64 parameters. It is run over
finished rows while they are in the cache: an item is one row of the result seen as [rows, columns].
Each row is met once, on any thread, before the call returns. The kernel may read and write its row
of `out` and read what else its parameters name.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, replace

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit.array_memory import can_write_to
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import TILE_SECONDS, Launch, scratch, thread_count
from kbench.engine.jit.service import Job, service
from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.kernels.gemm import source as sources
from kbench.engine.kernels.gemm import tiling as gemm_plan
from kbench.engine.kernels.gemm.tiling import Piece, ProductSizes, Tile, padded
from kbench.engine.runtime import config, threads

After = tuple[int, Array]

MAX_PLANS = 512
"""Sizes whose plans are kept."""
MIN_PACED_FLOPS = 1 << 28
"""Operations from which on a run tells how fast the machine is."""
MAX_KEPT_BLOCKS = 4
"""Blocks of scratch memory that are kept for the next product."""
MAX_KEPT_BYTES = 1 << 25
"""Bytes of a block of scratch memory that is kept."""

_pace = {"float32": 1e-10, "float64": 2e-10}
"""Seconds of a floating-point operation: a guess at first, then what the last large run took. It at
most doubles from one to the next, as that run may have waited for other work."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """The compiled tiles of a dtype and the kernels around them."""

    dtype: str
    tile: Tile
    wide: int
    narrow: int
    panel: int
    run: Job


def _sources(dtype: str) -> Sources:
    return {
        "conv_tiles": lambda: conv.tile_text(dtype),
        "gemm_panel": lambda: sources.panel(dtype),
        "gemm_run": lambda: sources.run(dtype),
    }


def _compiled(dtype: str, jobs: dict[str, Job]) -> Compiled:
    tiles, panel = jobs["conv_tiles"].loaded, jobs["gemm_panel"].loaded
    return Compiled(
        dtype, Tile(tiles.LANES, tiles.ROWS, np.dtype(dtype).itemsize), int(tiles.wide.address),
        int(tiles.narrow.address), int(panel.panel.address), jobs["gemm_run"],
    )  # fmt: skip


find_compiled = Family(_sources, _compiled).find
"""The kernels of float32 or float64, or None while they are not ready."""


def find(kind: str, dtype: str) -> Product | None:
    """The call of the module's first lines; `kind` is "product"."""
    if kind != "product" or dtype not in gemm_plan.FLOATS or config.jit_mode() == "off":
        return None
    compiled = find_compiled(dtype)
    return None if compiled is None else Product(compiled)


class Product:
    """The call of the module's first lines."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled

    def __call__(
        self,
        out: Array,
        x: Array,
        y: Array,
        cancel_check: CancelCheck | None = None,
        after: After | None = None,
    ) -> None:
        compiled = self._compiled
        _expect(out, x, y, compiled.dtype)
        x, y = _followed(x), _followed(y)
        if can_write_to(out, compiled.dtype, (x, y)):
            _product(compiled, out, x, y, cancel_check, after)
            return
        if after is not None:
            raise ValueError("rows can be worked on only in a result of the kernel's own form")
        with conv.result_array(out, compiled.dtype, (x, y)) as into:
            _product(compiled, into, x, y, cancel_check, None)

    def launches(
        self, out: Array, x: Array, y: Array, after: After | None = None
    ) -> list[Launch] | None:
        """The launches, to be made later; None where more than launches is needed."""
        compiled = self._compiled
        _expect(out, x, y, compiled.dtype)
        plain = (
            _followed(x) is x and _followed(y) is y and can_write_to(out, compiled.dtype, (x, y))
        )
        if not plain or not out.size or not x.shape[-1]:
            return None
        runs = _runs(compiled, out, x, y, after)
        found = [run.call(compiled.run, out, x, y, after) for run in runs]
        launches = [launch for launch in found if launch is not None]
        if after is not None and not runs[-1].finishes:
            rows = math.prod(out.shape[:-1])
            many = thread_count(rows, out.size >= threads.MIN_PARALLEL_ELEMENTS)
            launches.append(Launch(after[0], after[1], rows, many))
        return launches if None not in found else None


def _expect(out: Array, x: Array, y: Array, dtype: str) -> None:
    """Check what compiled code will rely on."""
    if not out.dtype == x.dtype == y.dtype == dtype:
        raise ValueError(f"expected {dtype}, got {out.dtype}, {x.dtype} and {y.dtype}")
    fits = min(out.ndim, x.ndim, y.ndim) >= 2 and x.shape[-1] == y.shape[-2]
    if not fits or out.shape[-2:] != (x.shape[-2], y.shape[-1]):
        raise ValueError(f"x {x.shape}, y {y.shape} and result {out.shape} disagree")
    if out.ndim > 2 or x.ndim > 2 or y.ndim > 2:
        if out.shape[:-2] != np.broadcast_shapes(x.shape[:-2], y.shape[:-2]):
            raise ValueError(f"stacks {x.shape}, {y.shape} and result {out.shape} disagree")


def _followed(array: Array) -> Array:
    """The array, copied if compiled code cannot follow its strides."""
    flags = array.flags
    if flags.aligned and (flags.c_contiguous or flags.f_contiguous):
        return array
    if flags.aligned and all(step % array.itemsize == 0 for step in array.strides):
        return array
    return array.copy()


def _product(
    compiled: Compiled,
    out: Array,
    x: Array,
    y: Array,
    cancel_check: CancelCheck | None,
    after: After | None,
) -> None:
    finished = False
    if out.size and x.shape[-1]:
        runs = _runs(compiled, out, x, y, after)
        for run in runs:
            run(compiled.run, compiled.dtype, out, x, y, cancel_check, after)
        finished = runs[-1].finishes
    else:
        out.fill(0)
    if after is not None and not finished:
        rows = math.prod(out.shape[:-1])
        service.driver.run(*after, 0, rows, out.size >= threads.MIN_PARALLEL_ELEMENTS)


def _runs(compiled: Compiled, out: Array, x: Array, y: Array, after: After | None) -> list[_Run]:
    shapes = out.shape, x.shape, y.shape
    whole = after is not None
    return _planned(compiled, *shapes, x.strides, y.strides, threads.count(), whole)


class _Run:
    """A piece of a product, for some sizes, with all parameters that do not change."""

    def __init__(self, piece: Piece, compiled: Compiled, places: Array, whole: bool) -> None:
        self.piece = piece
        self.finishes = whole and piece.finishes
        self._places = places
        fields = piece.fields | {
            "wide": compiled.wide, "narrow": compiled.narrow, "panel": compiled.panel,
            "places": address_of(places), "area_bytes": piece.area_bytes,
        }  # fmt: skip
        names = sources.fields()
        self._counters = len(names) + 8  # away from what all threads read
        self._template = np.zeros(self._counters + 16, np.int64)
        for name, value in fields.items():
            self._template[names.index(name)] = value
        self._bytes = piece.workers * piece.area_bytes + piece.packed_bytes
        self._free: list[tuple[Array, memoryview]] = []

    def __call__(
        self, job: Job, dtype: str, out: Array, x: Array, y: Array,
        cancel_check: CancelCheck | None, after: After | None,
    ) -> None:  # fmt: skip
        params, fields = self._block()
        memory, start = _spare.take(self._bytes)
        self._set(fields, start, out, x, y, after)
        self._drive(job, dtype, params, fields, cancel_check)
        _spare.give_back(memory, start)
        self._free.append((params, fields))

    def call(self, job: Job, out: Array, x: Array, y: Array, after: After | None) -> Launch | None:
        """All jobs, as one call; None where it needs more scratch memory than graphs share."""
        piece = self.piece
        memory = scratch()
        if self._bytes > memory.nbytes:
            return None
        params, fields = self._fresh()
        self._set(fields, address_of(memory), out, x, y, after)
        fields[6] = piece.jobs
        kept = (self,) if after is None else (self, after[1])
        return Launch(job.address, params, piece.workers, piece.workers, fields[5], kept)

    def _set(
        self, fields: memoryview, start: int, out: Array, x: Array, y: Array, after: After | None
    ) -> None:
        """Fill in the addresses; scratch memory begins at `start`."""
        piece = self.piece
        fields[0] = address_of(out) + piece.out_at
        fields[1] = address_of(x) + piece.a_at
        fields[2] = address_of(y) + piece.b_at
        fields[3] = start + piece.workers * piece.area_bytes
        fields[4] = start
        fields[7] = fields[8] = 0
        if after is not None and self.finishes:
            fields[7], fields[8] = after[0], address_of(after[1])

    def _block(self) -> tuple[Array, memoryview]:
        """A parameter block that no other call is using."""
        try:
            return self._free.pop()
        except IndexError:
            return self._fresh()

    def _fresh(self) -> tuple[Array, memoryview]:
        params = self._template.copy()
        params[5] = address_of(params) + 8 * self._counters
        return params, params.data

    def _drive(
        self,
        job: Job,
        dtype: str,
        params: Array,
        fields: memoryview,
        cancel_check: CancelCheck | None,
    ) -> None:
        """All jobs, in portions so short that `cancel_check` is called often enough."""
        piece = self.piece
        portion = piece.jobs
        if cancel_check is not None:
            portion = max(piece.workers, int(TILE_SECONDS / (_pace[dtype] * piece.job_work)))
        begun = time.perf_counter()
        fields[self._counters + 8] = 0
        for done in range(0, piece.jobs, portion):
            if cancel_check is not None:
                cancel_check()
            fields[self._counters] = done
            fields[6] = min(done + portion, piece.jobs)
            service.driver.run(job.address, params, 0, piece.workers, piece.workers > 1)
        work = piece.jobs * piece.job_work
        if work > MIN_PACED_FLOPS:
            took = (time.perf_counter() - begun) / work
            _pace[dtype] = max(1e-13, min(took, 2 * _pace[dtype]))


@functools.lru_cache(MAX_PLANS)
def _planned(
    compiled: Compiled, out: Ints, x: Ints, y: Ints, x_steps: Ints, y_steps: Ints, workers: int,
    whole: bool,
) -> list[_Run]:  # fmt: skip
    """The runs of a product of nonzero size; `whole` asks for jobs of whole rows."""
    item = compiled.tile.size
    sizes = ProductSizes(
        stacks=math.prod(out[:-2]), rows=out[-2], columns=out[-1], depth=x[-1],
        a_row=x_steps[-2], a_depth=x_steps[-1], b_depth=y_steps[-2], b_column=y_steps[-1],
        step_out=out[-1] * item,
    )  # fmt: skip
    places = _places(out, x, y, x_steps, y_steps, item)
    tables = [places]
    if sizes.stacks > 1 and sizes.work > gemm_plan.MAX_WHOLE_FLOPS:
        sizes = replace(sizes, stacks=1)
        tables = [np.concatenate([places[:2], row]) for row in places[2:].reshape(-1, 3)]
    pieces = gemm_plan.cut(sizes, compiled.tile, workers, whole)
    finishes = whole and len(tables) == 1
    return [_Run(piece, compiled, table, finishes) for table in tables for piece in pieces]


def _places(out: Ints, x: Ints, y: Ints, x_steps: Ints, y_steps: Ints, item: int) -> Array:
    """Two zeros, then for each of the stacked products where result and operands begin."""
    lead = out[:-2]
    matrix = out[-2] * out[-1] * item
    places = np.zeros((math.prod(lead), 3), np.int64)
    places[:, 0] = np.arange(len(places)) * matrix
    for column, shape, steps in ((1, x, x_steps), (2, y, y_steps)):
        total = np.zeros(lead, np.int64)
        missing = len(lead) - len(shape[:-2])
        for axis, (size, step) in enumerate(zip(shape[:-2], steps[:-2], strict=True), missing):
            if size > 1:
                along = np.arange(size) * step
                total += along.reshape([-1 if i == axis else 1 for i in range(len(lead))])
        places[:, column] = total.reshape(-1)
    return np.concatenate([np.zeros(2, np.int64), places.reshape(-1)])


class _Spare:
    """Scratch memory that is kept between calls: fresh pages cost as much as packing into them."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Array, int]] = []

    def take(self, size: int) -> tuple[Array, int]:
        """A block, and where in it `size` bytes begin on a cache line; safe from any thread."""
        try:
            block = self._blocks.pop()
            if block[0].nbytes >= size + 64:
                return block
        except IndexError:
            pass
        memory = np.empty(size + 64, np.uint8)
        return memory, padded(address_of(memory), 64)

    def give_back(self, memory: Array, start: int) -> None:
        """Keep a block, unless it is large or there are enough."""
        if memory.nbytes <= MAX_KEPT_BYTES and len(self._blocks) < MAX_KEPT_BLOCKS:
            self._blocks.append((memory, start))


_spare = _Spare()
