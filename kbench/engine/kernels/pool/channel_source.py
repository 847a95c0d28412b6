"""Sources of pooling whose lanes are channels: windows that lie inside go side by side.

`gather` owns rows of the result; `route` owns a strip of rows of the input and visits every window
that reaches into it. What it adds up there may be made in scratch, and written past the caches at
the end. Every size is in elements.
"""

from __future__ import annotations

TILES = '''"""The inner loops of pooling in DTYPE."""
from kbench.engine.jit.numba_backend import entry
from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.kernels.pool.channel_tile import dealt, gathered, routed

LANES = geometry("DTYPE")[0]
'''
NAMES = ("max", "max_past", "average", "average_past", "added", "written", "written_past",
         "shared", "shared_past")  # fmt: skip

_GATHERED = """_NAME = gathered("KIND", "DTYPE", LANES, PAST)


@entry(8)
def NAME(windows, table, taps, step_x, out, step_out, divides, channels):
    _NAME(windows, table, taps, step_x, out, step_out, divides, channels)


"""
_ROUTED = """_NAME = routed("DTYPE", LANES, KIND, PAST)


@entry(9)
def NAME(windows, table, taps, step_x, h, g, step_h, away, channels):
    _NAME(windows, table, taps, step_x, h, g, step_h, away, channels)


"""

_SHARED_OUT = """_NAME = dealt("DTYPE", LANES, PAST)


@entry(9)
def NAME(windows, table, taps, step_x, h, g, step_h, away, channels):
    _NAME(windows, table, taps, step_x, g, step_h, channels)


"""


def _entry(name: str) -> str:
    kind, _, past = name.partition("_")
    text = _GATHERED if kind in ("max", "average") else _ROUTED
    text = _SHARED_OUT if kind == "shared" else text
    kind = {"added": "True", "written": "False"}.get(kind, kind)
    return text.replace("NAME", name).replace("KIND", kind).replace("PAST", str(bool(past)))


TILES += "".join(map(_entry, NAMES))

_SHARED = """tile past images rows columns in_rows in_columns channels row_window column_window
row_stride column_stride row_pad column_pad inner_first inner_last height strips""".split()
_AREAS = ("flags", "areas", "scratch", "area_bytes")
GATHER_FIELDS = ("y", "x", *_AREAS, *_SHARED, "divides")
ROUTE_FIELDS = ("y", "x", "h", "g", *_AREAS, *_SHARED, "adds", "strip_at")

_TABULATE = '''from kbench.engine.intrinsics.memory import (
    call_8, call_9, give_back, take, zero_bytes,
)
from kbench.engine.kernels.data.copy_tile import stream_bytes
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.toolkit import field, inline, range_kernel, store_int64


@inline
def tabulate(table, source, row, column, row_window, column_window, in_rows, in_columns, pixel,
             top, bottom):
    """Write the cells of a window that are real, and whether they are in the strip."""
    count = 0
    for from_row in range(max(row, 0), min(row + row_window, in_rows)):
        line = source + from_row * in_columns * pixel
        own = 1 if from_row >= top and from_row < bottom else 0
        for from_column in range(max(column, 0), min(column + column_window, in_columns)):
            store_int64(table, 2 * count, line + from_column * pixel)
            store_int64(table, 2 * count + 1, own)
            count += 1
    return count


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    table = scratch + number * area_bytes
    pixel = channels * SIZE
    step = column_stride * pixel
    loop = past if y % 64 == 0 and pixel % 64 == 0 else tile
'''

GATHER = (
    '''"""The largest or the mean of windows of DTYPE."""
'''
    + _TABULATE
    + """\
    for item in range(start, stop):
        image = item // strips
        first = (item - image * strips) * height
        source = x + image * in_rows * in_columns * pixel
        for row in range(first, min(first + height, rows)):
            line = (image * rows + row) * columns
            column = 0
            while column < columns:
                count = tabulate(table, source, row * row_stride - row_pad,
                                 column * column_stride - column_pad, row_window, column_window,
                                 in_rows, in_columns, pixel, 0, in_rows)
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = inner_last
                call_8(loop, end - column, table, count, step, y + (line + column) * pixel, pixel,
                       divides, channels)
                column = end
    give_back(flags, number)
"""
)

ROUTE = (
    '''"""What arrived at windows of DTYPE, given to their largest cells."""
'''
    + _TABULATE
    + """\
    for item in range(start, stop):
        image = item // strips
        top = (item - image * strips) * height
        bottom = min(top + height, in_rows)
        source = x + image * in_rows * in_columns * pixel
        begin = y + (image * in_rows + top) * in_columns * pixel
        size = (bottom - top) * in_columns * pixel
        target = table + strip_at if strip_at != 0 else begin
        if adds != 0:
            zero_bytes(target, size)
        away = target - (source + top * in_columns * pixel)
        first = max((top + row_pad - row_window + row_stride) // row_stride, 0)
        last = min((bottom + row_pad + row_stride - 1) // row_stride, rows)
        for row in range(first, last):
            line = (image * rows + row) * columns
            column = 0
            while column < columns:
                count = tabulate(table, source, row * row_stride - row_pad,
                                 column * column_stride - column_pad, row_window, column_window,
                                 in_rows, in_columns, pixel, top, bottom)
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = inner_last
                at = (line + column) * pixel
                call_9(loop, end - column, table, count, step, h + at, g + at, pixel, away,
                       channels)
                column = end
        if strip_at != 0:
            stream_bytes(begin, target, size)
    store_fence()
    give_back(flags, number)
"""
)
