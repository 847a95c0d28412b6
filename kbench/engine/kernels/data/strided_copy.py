"""Library kernels that copy between arrays of any strides: the one way in which data is moved.

A copy is described by its axes: size, and the step in bytes of target and source along it. The
axes are put in the target's order and merged where both sides allow it. What is left decides the
form: "rows" are contiguous on both sides and go by whole blocks of bytes; "tiles" are contiguous
along different axes and turned over in registers, square by square, so that no cache line is
touched twice; "cells" is the form for all else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit import array_memory, kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.runtime import config
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

AxisStrides = tuple[int, int, int]
"""Size, and the steps of target and source in bytes."""

MIN_KERNEL_BYTES = 1 << 16
"""Bytes from which on a copy in another order is worth a kernel; a plain one four times that."""
MAX_AXES = 12
"""Axes of a copy that kernels take, once neighbours are merged."""
MIN_STREAMED_BYTES = 1 << 25
"""Bytes over which a target reaches that no cache holds: writing past them saves reading them."""
MIN_BLOCK_BYTES = 32
"""Bytes from which on a run is copied as one block; shorter ones are a few cells each."""
LONG_ROW_ELEMENTS = 512
"""Elements of a row, or of a column of tiles, from which on its ends do not count."""
ITEM_BYTES = 1 << 17
"""Bytes of one item of rows."""
ITEM_SIDE = 128
"""Rows and columns of one item of tiles."""
ITEM_CELLS = 1 << 12
"""Cells of one item that is copied one by one; they stay in the first cache."""
SHORT_LOOP_CELLS = 16
"""Cells up to which an inner loop is so short that the other axis is the better one."""
MAX_UNCHECKED_BYTES = 1 << 22
"""Bytes that NumPy copies between two looks at the cancel flag."""
EASE = {"rows": 4, "tiles": 1, "cells": 1}
"""How many times as many elements as others are worth a second thread: of rows these are bytes, and
one thread copies 256 KB in 7 us."""
SECONDS = {"rows": 1.5e-10, "tiles": 1e-9, "cells": 1e-9}
"""Seconds of a byte in rows, of an element in other forms: a guess."""
_ZEROS = np.zeros(1 << 13, np.uint8)

TURN_LANES = {1: 16, 2: 16, 4: 16, 8: 8}
"""Sides of the square that `copy_tile` turns over, by the bytes of an element."""


def _turns_lines(width: int) -> bool:
    """Whether the rows of that square are whole lines, for words of `width` bytes."""
    return TURN_LANES[width] * width == CACHE_LINE_BYTES


def source(form: str, width: int) -> str:
    """The module that defines `run(params, first item, end item)` for words of `width` bytes."""
    bits, tile = 8 * width, "kernels.data.copy_tile"
    return kernel_file.specialized(
        "kernels/data/sources/move",
        FORM=form,
        SQUARE_SIDE=TURN_LANES[width],
        WORD_BYTES=width,
        load_word=f"load_uint{bits}",
        store_word=f"store_uint{bits}",
        halve_words=f"{tile}.halve_{bits}",
        turn_square=f"{tile}.turn_{bits}",
        turn_square_past=f"{tile}.turn_{'past_' if _turns_lines(width) else ''}{bits}",
    )


# ------------------------------------------------------------------ what a copy looks like


def canonical(
    shape: tuple[int, ...], target: tuple[int, ...], origin: tuple[int, ...]
) -> tuple[list[AxisStrides], int, int]:
    """The axes in the target's order, merged; and by how many bytes both sides begin later.

    The target is walked upwards along every axis, so one that it walks down is turned round.
    """
    axes, late, early = [], 0, 0
    for size, to, out_of in zip(shape, target, origin, strict=True):
        if to < 0:
            late, early = late + (size - 1) * to, early + (size - 1) * out_of
            to, out_of = -to, -out_of
        if size != 1:
            axes.append((size, to, out_of))
    axes.sort(key=lambda one: -one[1])
    merged: list[AxisStrides] = []
    for size, to, out_of in axes:
        if merged and merged[-1][1] == size * to and merged[-1][2] == size * out_of:
            merged[-1] = (merged[-1][0] * size, to, out_of)
        else:
            merged.append((size, to, out_of))
    return merged, late, early


def _words(axes: list[AxisStrides], itemsize: int) -> tuple[list[AxisStrides], int]:
    """The copy by larger elements, when the last axis is contiguous and short."""
    size, to, out_of = axes[-1]
    if to != itemsize or out_of != itemsize or size * itemsize > 64:
        return axes, itemsize
    steps = [abs(step) for axis in axes[:-1] for step in axis[1:]]
    width = math.gcd(8, size * itemsize, *steps)
    if width <= itemsize:
        return axes, itemsize
    count = size * itemsize // width
    return [*axes[:-1], *([(count, width, width)] if count > 1 else [])], width


class Move:
    """How a copy of some shape and strides is done: its form, items and parameter block."""

    def __init__(self, axes: list[AxisStrides], itemsize: int) -> None:
        reach = max(size * to for size, to, _ in axes)
        axes, width = _words(axes, itemsize)
        while len(axes) < 2:
            axes = [(1, 0, 0), *axes]
        *outer, rows, columns = axes
        self.form, self.word = "cells", width
        if columns[1] == columns[2] == width and columns[0] * width >= MIN_BLOCK_BYTES:
            self.form, self.word = "rows", 1
            columns = (columns[0] * width, 1, 1)
            wide = min(columns[0], ITEM_BYTES)
            tall = max(1, ITEM_BYTES // wide)
        else:
            turned = _turned([*outer, rows], columns, width)
            if turned is not None:
                self.form, (outer, rows) = "tiles", turned
                tall = wide = ITEM_SIDE
            else:
                if columns[0] < SHORT_LOOP_CELLS and rows[0] > columns[0]:
                    rows, columns = columns, rows
                wide = min(columns[0], max(1, ITEM_CELLS // min(rows[0], SHORT_LOOP_CELLS)))
                tall = max(1, ITEM_CELLS // wide)
        blocks = [_blocks(rows, tall), _blocks(columns, wide)]
        self.each = min(tall, rows[0]) * min(wide, columns[0])
        table = [*outer, *blocks]
        self.items = math.prod(row[0] for row in table)
        fields = [
            0,
            0,
            len(table),
            int(reach >= MIN_STREAMED_BYTES and self._long(rows[0], columns[0])),
        ]
        fields += [rows[0], tall, *rows[1:], columns[0], wide, *columns[1:]]
        fields += [number for axis in table for number in axis]
        self.fields = np.array(fields, np.int64)

    def _long(self, rows: int, columns: int) -> bool:
        """Whether whole lines are most of what is written."""
        if self.form == "tiles" and (rows < LONG_ROW_ELEMENTS or not _turns_lines(self.word)):
            return False
        return columns >= LONG_ROW_ELEMENTS


def _turned(
    outer: list[AxisStrides], columns: AxisStrides, width: int
) -> tuple[list[AxisStrides], AxisStrides] | None:
    """The axis along which the source is contiguous, and the rest, when squares can be turned."""
    least = TURN_LANES[width]
    if columns[1] != width or columns[0] < least:
        return None
    for place, axis in enumerate(outer):
        if axis[2] == width and axis[0] >= least:
            return outer[:place] + outer[place + 1 :], axis
    return None


def _blocks(axis: AxisStrides, length: int) -> AxisStrides:
    """An axis of blocks of this length."""
    return -(-axis[0] // length), length * axis[1], length * axis[2]


@functools.lru_cache(maxsize=1024)
def _planned(
    shape: tuple[int, ...],
    target: tuple[int, ...],
    origin: tuple[int, ...],
    itemsize: int,
    least: int,
) -> tuple[Move, int, int] | None:
    """The move and both offsets; None when NumPy does it as well, or no kernel can."""
    axes, late, early = canonical(shape, target, origin)
    total = math.prod(shape) * itemsize
    plain = len(axes) == 1 and axes[0][1] == axes[0][2] == itemsize
    if total < least * (4 if plain else 1) or not axes or not total:
        return None
    if len(axes) > MAX_AXES or any(axis[1] <= 0 for axis in axes):
        return None
    return Move(axes, itemsize), late, early


def _job(form: str, width: int) -> Job | None:
    return service.find(f"move_{form}_{width}", lambda: source(form, width))


def copy(target: Array, origin: Array, cancel_check: CancelCheck | None = None) -> None:
    """Copy an array into one of the same shape and dtype, both of any strides.

    By a kernel when it is large and the kernel is ready, else by NumPy. `cancel_check` is called
    about every 15 ms.
    """
    if target.shape != origin.shape:
        origin = np.broadcast_to(origin, target.shape)
    if not _by_kernel(target, origin, cancel_check):
        in_parts(target, origin, cancel_check)


def _by_kernel(target: Array, origin: Array, cancel_check: CancelCheck | None) -> bool:
    """Whether a kernel has copied."""
    if target.dtype != origin.dtype or target.dtype.kind not in "biuf" or not target.size:
        return False
    if not (target.flags.writeable and target.flags.aligned and origin.flags.aligned):
        return False
    least = config.min_elements(MIN_KERNEL_BYTES)
    plan = _planned(target.shape, target.strides, origin.strides, target.itemsize, least)
    if plan is None or target.itemsize not in TURN_LANES or np.may_share_memory(target, origin):
        return False
    move, late, early = plan
    job = _job(move.form, move.word)
    if job is None:
        return False
    params = move.fields.copy()
    params[0], params[1] = address_of(target) + late, address_of(origin) + early
    if (params[0] | params[1]) % move.word:
        return False
    form = move.form
    drive(job, params, move.items, move.each, cancel_check, SECONDS[form], EASE[form])
    return True


def in_parts(target: Array, origin: Array, cancel_check: CancelCheck | None = None) -> None:
    """The NumPy form of `copy`, in parts of a few milliseconds."""
    if cancel_check is None or target.nbytes <= MAX_UNCHECKED_BYTES:
        np.copyto(target, origin)
        return
    step = max(1, MAX_UNCHECKED_BYTES * len(target) // target.nbytes)
    for start in range(0, len(target), step):
        np.copyto(target[start : start + step], origin[start : start + step])
        cancel_check()


def zero(out: Array, copy: Callable[[Array, Array], None]) -> None:
    """Fill a contiguous array with zeros, by copies of a row of them."""
    flat = out.reshape(-1).view(np.uint8)
    whole = flat.size // _ZEROS.size * _ZEROS.size
    if whole:
        copy(flat[:whole].reshape(-1, _ZEROS.size), _ZEROS)
    flat[whole:] = 0


def contiguous(array: Array, cancel_check: CancelCheck | None = None) -> Array:
    """The array itself when it is C-contiguous, else a copy that is."""
    if array.flags.c_contiguous:
        return array
    result = np.empty(array.shape, array.dtype)
    copy(result, array, cancel_check)
    return result


def find(kind: str, dtype: str) -> Callable[..., None] | None:
    """`copy`, when the kernel of a form ("rows", "cells", "tiles") is ready; None until then."""
    width = 1 if kind == "rows" else np.dtype(dtype).itemsize
    return copy if _job(kind, width) is not None else None


array_memory.use_copy(copy)
