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
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit.array_memory import can_write_to
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import (
    STEADY_PACER,
    HostStep,
    Launch,
    LaunchGraph,
    Part,
    Preparable,
    Prepared,
    run,
)
from kbench.engine.jit.service import service
from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.conv.launch import copied, result_array
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.kernels.gemm import source as sources
from kbench.engine.kernels.gemm import tiling as gemm_plan
from kbench.engine.kernels.gemm.repeated import Repeatable, RepeatedProduct
from kbench.engine.kernels.gemm.tiling import Piece, ProductSizes, Tile
from kbench.engine.runtime import config, threads
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace

After = tuple[int, Array]

MAX_PLANS = 512
"""Sizes whose plans are kept."""
MAX_KEPT_SCRATCH_BYTES = 1 << 25
"""Bytes of scratch memory that are kept for the next product: fresh pages cost as much as packing
into them."""
MAX_MISSES = 16
"""Times that a step may come with arrays of another form before its calls are kept no longer."""
MIN_PACED_FLOPS = 1 << 28
"""Operations from which on a run tells how fast the machine is."""
PACERS = {
    "float32": Pacer(1e-10, MIN_PACED_FLOPS, margin=1.0),
    "float64": Pacer(2e-10, MIN_PACED_FLOPS, margin=1.0),
}
"""Seconds of a floating-point operation, by dtype."""


class Compiled(Struct, frozen=True, eq=False):
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
    computed = "float32" if dtype == "float16" else dtype
    if kind != "product" or computed not in gemm_plan.FLOATS or config.jit_mode() == "off":
        return None
    compiled = find_compiled(computed)
    return None if compiled is None else Product(compiled, dtype)


class Product(Preparable):
    """The call of the module's first lines."""

    def __init__(self, compiled: Compiled, dtype: str) -> None:
        self._compiled, self._dtype = compiled, dtype
        self._known: RepeatedProduct | None = None
        self._misses = 0

    def __call__(
        self,
        out: Array,
        x: Array,
        y: Array,
        cancel_check: CancelCheck | None = None,
        after: After | None = None,
    ) -> None:
        run(partial(self.prepare, out, x, y, after=after), cancel_check)

    def prepare(
        self, out: Array, x: Array, y: Array, workspace: Workspace, after: After | None = None
    ) -> Prepared:
        """The call; float16 multiplies in float32, and is rounded once."""
        compiled = self._compiled
        _expect(out, x, y, self._dtype)
        given = _followed(x), _followed(y)
        if compiled.dtype != self._dtype:
            given = x.astype(compiled.dtype), y.astype(compiled.dtype)
        into = result_array(out, compiled.dtype, given)
        parts = _parts(compiled, into, *given, after, workspace)
        if into is not out:
            if after is not None:
                raise ValueError("rows can be worked on only in a result of the kernel's own form")
            parts.append(copied(out, into))
        lasts = into is out and given[0] is x and given[1] is y
        return Prepared(parts, "library", None, None, given, lasts)

    def repeat(self, out: Array, x: Array, y: Array) -> bool:
        """The call at once, where the last one kept is for arrays of this form; False otherwise."""
        known = self._known
        return known is not None and known.run(out, x, y)

    def keep(self, out: Array, x: Array, y: Array) -> None:
        """Have calls for arrays of the form of these, which were multiplied, made by `repeat`."""
        known = self._known
        if (known is None or not known.fits(out, x, y)) and self._misses < MAX_MISSES:
            self._misses += 1
            self._known = _repeated(self._compiled, self._dtype, out, x, y)


def _repeated(
    compiled: Compiled, dtype: str, out: Array, x: Array, y: Array
) -> RepeatedProduct | None:
    """The calls of this form; None where `prepare` would copy, or needs more than one run."""
    _expect(out, x, y, dtype)
    if compiled.dtype != dtype or not out.size or not x.shape[-1]:
        return None
    if not can_write_to(out, dtype, (x, y)) or _followed(x) is not x or _followed(y) is not y:
        return None
    shapes = out.shape, x.shape, y.shape
    runs, size = _planned(compiled, *shapes, x.strides, y.strides, threads.count(), False)
    if len(runs) > 1 or size > MAX_KEPT_SCRATCH_BYTES or not LaunchGraph.is_supported():
        return None
    (only,) = runs

    def launch() -> Launch:
        return only.part(compiled, 0, out, x, y, None).launch()

    piece, pacer = only.piece, PACERS[dtype]
    work, packed_at = piece.jobs * piece.job_work, piece.workers * piece.area_bytes
    return RepeatedProduct(Repeatable(launch, size, packed_at, work, pacer), out, x, y)


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


def _parts(
    compiled: Compiled, out: Array, x: Array, y: Array, after: After | None, workspace: Workspace
) -> list[Part]:
    parts: list[Part] = []
    finished = False
    if not out.size or not x.shape[-1]:
        parts.append(HostStep(lambda _check: out.fill(0)))
    else:
        shapes, whole = (out.shape, x.shape, y.shape), after is not None
        runs, size = _planned(compiled, *shapes, x.strides, y.strides, threads.count(), whole)
        room = workspace.take(size, MAX_KEPT_SCRATCH_BYTES)
        parts = [run.part(compiled, room, out, x, y, after) for run in runs]
        finished = runs[-1].finishes
    if after is not None and not finished:
        rows, columns = math.prod(out.shape[:-1]), out.shape[-1]
        parallel = out.size >= threads.MIN_PARALLEL_ELEMENTS
        parts.append(Launch(*after, rows, columns, parallel, STEADY_PACER))
    return parts


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
        self.counters = len(names) + 8  # away from what all threads read
        self._template = np.zeros(self.counters + 16, np.int64)
        for name, value in fields.items():
            self._template[names.index(name)] = value
        self.bytes = piece.workers * piece.area_bytes + piece.packed_bytes

    def part(
        self, compiled: Compiled, room: int, out: Array, x: Array, y: Array, after: After | None
    ) -> _Claimed:
        """The piece with scratch memory at `room`."""
        piece = self.piece
        params = self._template.copy()
        counters = address_of(params) + 8 * self.counters
        fields = params.data
        fields[0] = address_of(out) + piece.out_at
        fields[1] = address_of(x) + piece.a_at
        fields[2] = address_of(y) + piece.b_at
        fields[3] = room + piece.workers * piece.area_bytes
        fields[4] = room
        fields[5] = counters
        fields[6] = piece.jobs
        if after is not None and self.finishes:
            fields[7], fields[8] = after[0], address_of(after[1])
        return _Claimed(compiled, self, params, fields, after)


class _Claimed(NamedTuple):
    """A piece whose jobs are claimed from a counter, by as many workers as it has items."""

    compiled: Compiled
    planned: _Run
    params: Array
    fields: memoryview
    after: After | None

    def run(self, cancel_check: CancelCheck | None) -> None:
        """All jobs, in portions so short that `cancel_check` is called often enough."""
        compiled, planned, params, fields, _ = self
        address, piece, counter = compiled.run.address, planned.piece, planned.counters
        workers, pacer = piece.workers, PACERS[compiled.dtype]
        fields[counter + 8] = 0
        for start, stop in pacer.tiles(piece.jobs, piece.job_work, cancel_check, workers):
            fields[counter], fields[6] = start, stop
            service.driver.run(address, params, 0, workers, workers > 1)

    def launch(self) -> Launch:
        """All jobs at once, with both counters at zero."""
        address, workers = self.compiled.run.address, self.planned.piece.workers
        kept, counters = (self.planned, self.after), self.fields[5]
        return Launch(address, self.params, workers, 0, workers > 1, STEADY_PACER, counters, kept)


@functools.lru_cache(MAX_PLANS)
def _planned(
    compiled: Compiled, out: Ints, x: Ints, y: Ints, x_steps: Ints, y_steps: Ints, workers: int,
    whole: bool,
) -> tuple[list[_Run], int]:  # fmt: skip
    """The runs of a product of nonzero size, and the scratch memory that they take in turns.

    `whole` asks for jobs of whole rows.
    """
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
    runs = [_Run(piece, compiled, table, finishes) for table in tables for piece in pieces]
    return runs, max(run.bytes for run in runs)


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
