"""Runs the kernel of a loop: checks every array, packs the matrices, cuts rows and time.

Arrays are given as [places, rows, columns], one for each access of the program, with any strides
between rows and places. What they hold is all that compiled code can reach.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.codegen.scan_program import Recurrence, source
from kbench.engine.core.fork_safety import cached_property
from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import service
from kbench.engine.kernels.conv.api import find_panel_tiles
from kbench.engine.kernels.conv.launch import PRODUCTS_PER_ELEMENT, PanelTiles
from kbench.engine.kernels.conv.packing import packed_bytes, packing
from kbench.engine.runtime import config, threads
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace

MIN_ITEM_ROWS = 4
"""Rows of an item: fewer would read the matrices more often than compute with them."""
MAX_ITEM_ROWS = 64
"""Rows of an item: with more, their values would leave the cache between two steps."""
MIN_ITEM_COLUMNS = 256
"""Columns of an item, where nothing but columns is left to share out."""
ALIGN_BYTES = 64
"""Bytes of a cache line, at which each array of scratch memory begins."""

_NOTHING = np.zeros(2, np.int64)


class Kernel:
    """A compiled step. `run` is safe from any thread."""

    def __init__(self, program: Recurrence, job: Job, tiles: PanelTiles | None) -> None:
        self.program = program
        self._job, self._tiles = job, tiles
        self._cost = _cost(program)
        self._pacer = Pacer(2e-9)

    @cached_property
    def source(self) -> str:
        """The generated source."""
        return source(self.program)

    def run(
        self,
        steps: int,
        rows: int,
        arrays: Sequence[Array],
        matrices: Sequence[Array],
        cancel_check: CancelCheck | None = None,
    ) -> None:
        """Run `steps` steps.

        Arguments:
            arrays: one for each access, [1, rows, columns] where it is "fixed", [steps, ...] where
                "moving", and both halves, [2, ...], of a state, of which the first holds the
                state before the first step. Columns are contiguous.
            matrices: [depth, columns] for each product, of any strides.
            cancel_check: called about every 15 ms; may raise to stop.
        """
        widths = self._checked(steps, rows, arrays, matrices)
        if not steps or not rows:
            return
        workspace = Workspace()
        packed = [self._packed(matrix, workspace) for matrix in matrices]
        work = 1 + sum(matrix.size // PRODUCTS_PER_ELEMENT for matrix in matrices)
        work += sum(cost * width for cost, width in zip(self._cost, widths, strict=True))
        parallel = work * rows * steps >= threads.MIN_PARALLEL_ELEMENTS
        block, across = self._cut(rows, widths, parallel)
        pieces = -(-widths[0] // across) if self.program.split else 1
        params = self._parameters(arrays, widths, matrices, packed)
        params[2:6] = rows, block, across, pieces
        items = -(-rows // block) * pieces
        for done, stop in self._pacer.tiles(steps, work * rows, cancel_check):
            params[0:2] = done, stop
            service.driver.run(self._job.address, params, 0, items, parallel)
        workspace.release()

    # -------------------------------------------------------------- what is cut

    def _cut(self, rows: int, widths: Sequence[int], parallel: bool) -> tuple[int, int]:
        """Rows and columns of an item."""
        count = max(1, threads.count()) if parallel else 1
        whole = max(1, widths[0] if widths else 1)
        share = -(-rows // count)
        if self.program.split and rows < MIN_ITEM_ROWS * count:
            each = -(-whole // (count * ALIGN_BYTES)) * ALIGN_BYTES
            return share, max(MIN_ITEM_COLUMNS, each)
        rounds = -(-share // MAX_ITEM_ROWS)
        return max(MIN_ITEM_ROWS, -(-rows // (count * rounds))), whole

    # -------------------------------------------------------------- what is checked

    def _checked(
        self, steps: int, rows: int, arrays: Sequence[Array], matrices: Sequence[Array]
    ) -> list[int]:
        """Hold every array against what compiled code will reach; gives the loops' widths."""
        program = self.program
        places = {"fixed": 1, "moving": steps, "state": 2, "next": 2}
        for access, array in zip(program.accesses, arrays, strict=True):
            if array.shape[:2] != (places[access.kind], rows) or array.ndim != 3:
                raise ValueError(f"{access.kind} is {array.shape}, with {steps} steps, {rows} rows")
            single = array.shape[2] == 1
            if array.dtype != access.dtype or not (single or array.strides[2] == array.itemsize):
                raise ValueError(f"expected rows of {access.dtype}, got {array.dtype} strided")
        for product, matrix in zip(program.products, matrices, strict=True):
            left, target = arrays[product.left], arrays[product.target]
            if (left.shape[2], target.shape[2]) != matrix.shape or matrix.size == 0:
                raise ValueError(f"{left.shape} by {matrix.shape} is not {target.shape}")
            if not left.dtype == target.dtype == matrix.dtype == program.dtype:
                raise ValueError(f"products of {program.dtype} got {matrix.dtype}")
            _check_target(target)
        widths = []
        for loop in program.loops:
            width = arrays[loop.writes[0]].shape[2]
            wide = [arrays[n].shape for n in loop.wide]
            if any(shape[2] != width for shape in wide):
                raise ValueError(f"columns differ: {wide}")
            if any(arrays[n].shape[2] != 1 for n in loop.reads if n not in loop.wide):
                raise ValueError("a value of one column has more")
            for number in loop.writes:
                _check_target(arrays[number])
            widths.append(width)
        if program.split and len(set(widths)) != 1:
            raise ValueError(f"a step that is cut along its columns has loops of {widths}")
        return widths

    # -------------------------------------------------------------- what is handed over

    def _parameters(
        self,
        arrays: Sequence[Array],
        widths: Sequence[int],
        matrices: Sequence[Array],
        packed: Sequence[int],
    ) -> Array:
        tiles = self._tiles
        values = [0] * 6
        values += [tiles.wide, tiles.narrow, tiles.lanes, tiles.most] if tiles else [0] * 4
        values.append(address_of(_NOTHING))
        for array in arrays:
            values += [address_of(array), array.strides[0], array.strides[1]]
        values += widths
        for matrix, panels in zip(matrices, packed, strict=True):
            values += [panels, *matrix.shape]
        return np.array(values, np.int64)

    def _packed(self, matrix: Array, workspace: Workspace) -> int:
        """Where the panels of a matrix are, on cache lines."""
        tiles = self._tiles
        assert tiles is not None
        size = matrix.itemsize
        if any(stride % size for stride in matrix.strides):
            matrix = np.ascontiguousarray(matrix)
        depth, columns = matrix.shape
        steps = [stride // size for stride in matrix.strides]
        panels = workspace.take(packed_bytes(tiles, 1, depth, columns))
        pack = packing(tiles, _NOTHING[:1], depth, columns, *steps)
        pack.launch(workspace, panels, address_of(matrix)).run(None)
        return panels


def _check_target(array: Array) -> None:
    if not array.flags.writeable or array.shape[1] > 1 and array.strides[1] == 0:
        raise ValueError("a result cannot be written row by row")


def _cost(program: Recurrence) -> list[int]:
    """Elements of work for each column of the loops."""
    return [loop.lines + len(loop.wide) for loop in program.loops]


_kernels: dict[Recurrence, Kernel] = {}


def request(program: Recurrence) -> Kernel | None:
    """The kernel of a step, or None while it is being compiled, when that failed or JIT is off."""
    if config.jit_mode() == "off":
        return None
    kernel = _kernels.get(program)
    if kernel is not None:
        return kernel
    tiles = find_panel_tiles(program.dtype) if program.dtype else None
    job = service.find(program.name, lambda: source(program))
    if job is None or (program.dtype and tiles is None):
        return None
    kernel = _kernels[program] = Kernel(program, job, tiles)
    return kernel
