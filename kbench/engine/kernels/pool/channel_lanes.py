"""Pooling over one or two axes whose lanes are channels: the largest, the mean, and the way back
to the largest. `api` checks sizes and arrays, and has the other forms.

Windows that lie inside go side by side. `gather` owns rows of the result; `route` owns a strip of
rows of the input and visits every window that reaches into it. What it adds up there may be made in
scratch, and written past the caches at the end. Every size is in elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.kernels.conv.launch import (
    MIN_STREAMED_BYTES,
    PRODUCTS_PER_ELEMENT,
    Plan,
    plan,
    starts,
)
from kbench.engine.kernels.family import Family, Sources

GATHER, ROUTE, TILES = (
    f"kernels/pool/sources/channel_{name}" for name in ("gather", "route", "tiles")
)
LOOPS = ("max", "max_past", "average", "average_past", "added", "written", "written_past",
         "shared", "shared_past")  # fmt: skip
"""The loops of `sources/channel_tiles.py`."""
NAMES = ("max", "average", "sum", "max_gradient", "spread")
MIN_CHANNELS = {"float32": 16, "float64": 8}
"""Channels from which on they fill vectors."""
STRIP_BYTES = 1 << 17
"""Rows of the input that one item writes; where windows overlap they are read again."""
SECOND_CACHE_BYTES = 1 << 19
"""Those that stay in the second cache while they are added up, to be written past it then."""
ITEM_CELLS = 1 << 16
"""Cells that one item of the way forward reads."""
CELL_COST = 4
"""A cell takes as long as so many products of a convolution: memory is the limit."""


class Loops(Struct, frozen=True, eq=False):
    """The compiled inner loops of a dtype, by name, and the kernels around them."""

    tiles: dict[str, int]
    gather: Job
    route: Job


def _sources(dtype: str) -> Sources:
    size = 4 if dtype == "float32" else 8
    return {
        "pool_tiles": lambda: kernel_file.specialized(TILES, DTYPE=dtype),
        "pool_gather": lambda: kernel_file.specialized(GATHER, SIZE=size),
        "pool_route": lambda: kernel_file.specialized(ROUTE, SIZE=size),
    }


def _loops(_dtype: str, jobs: dict[str, Job]) -> Loops:
    tiles, gather, route = jobs.values()
    return Loops({name: int(getattr(tiles.loaded, name).address) for name in LOOPS}, gather, route)


find_loops = Family(_sources, _loops).find
"""The loops of float32 or float64, or None while they are not ready."""


def is_profitable(name: str, dtype: str, axes: Sequence[Sequence[int]], inner: int) -> bool:
    """Whether these loops are the ones for a way of pooling over three axes of sizes.

    Means are given back here only where windows do not overlap: else rows go first, then columns.
    """
    if name not in NAMES or axes[0][0] * axes[0][2] != 1 or inner < MIN_CHANNELS[dtype]:
        return False
    return name != "spread" or is_exact(axes)


def is_exact(axes: Sequence[Sequence[int]]) -> bool:
    """Whether each cell lies in one window, by (size, steps, window, stride, border before)."""
    return all(
        window == stride and before == 0 and steps * stride == size
        for size, steps, window, stride, before in axes
    )


class Windows:
    """One way of pooling bound to the sizes of an image: two axes of (size, steps, window, stride,
    border before), and the number of channels."""

    def __init__(self, name: str, dtype: str, axes: Sequence[Sequence[int]], inner: int) -> None:
        self.name, self.dtype, self.inner = name, dtype, inner
        self.rows, self.columns = axes
        self.back = name in ("max_gradient", "spread")
        size, steps, window, stride, before = self.columns
        self.inside = -(-before // stride), min(steps, (size - window + before) // stride + 1)
        self.exact = is_exact(axes)
        self._plans: dict[int, Plan] = {}

    def drive(
        self, loops: Loops, out: Array, arrays: dict[str, Array], cancel_check: CancelCheck | None
    ) -> None:
        """Compute `out` from contiguous arrays of the right sizes and dtype."""
        images = len(out)
        planned = self._plans.get(images)
        if planned is None:
            self._plans.clear()
            planned = self._plans[images] = self._planned(loops, images, out.nbytes)
        if self.name == "spread":  # which asks for no values: `x` is where it writes
            arrays = {"x": out, "g": arrays["g"]}
        addresses = [address_of(arrays[letter]) for letter in ("xg" if self.back else "x")]
        planned.run(cancel_check, address_of(out), *addresses)

    def _planned(self, loops: Loops, images: int, nbytes: int) -> Plan:
        (in_rows, rows, *row), (in_columns, columns, *column) = self.rows, self.columns
        tile = {"sum": "average", "max_gradient": "written" if self.exact else "added"}
        name = tile.get(self.name, "shared" if self.name == "spread" else self.name)
        past = f"{name}_past" if nbytes >= MIN_STREAMED_BYTES and name != "added" else name
        height = self._height()
        strips = -(-(in_rows if self.back else rows) // height)
        values = {
            "tile": loops.tiles[name], "past": loops.tiles[past], "images": images,
            "rows": rows, "columns": columns, "in_rows": in_rows, "in_columns": in_columns,
            "channels": self.inner, "row_window": row[0], "column_window": column[0],
            "row_stride": row[1], "column_stride": column[1],
            "row_pad": row[2], "column_pad": column[2],
            "inner_first": self.inside[0], "inner_last": self.inside[1],
            "height": height, "strips": strips,
            "divides": int(self.name == "average"), "adds": int(not self.exact),
        }  # fmt: skip
        file = ROUTE if self.back else GATHER
        fields = kernel_file.parameters_of(file)
        cells = row[0] * column[0]
        areas: tuple[int, ...] = (16 * cells,)
        strip = height * in_columns * self.inner * (4 if self.dtype == "float32" else 8)
        if name == "added" and nbytes >= MIN_STREAMED_BYTES and strip <= SECOND_CACHE_BYTES:
            areas = (*areas, strip)
            values["strip_at"] = starts(areas)[1]
        work = (
            CELL_COST * PRODUCTS_PER_ELEMENT // 32 * rows * columns * cells * self.inner // strips
        )
        job = loops.route if self.back else loops.gather
        return plan(job, self.dtype, fields, values, images * strips, work, areas)

    def _height(self) -> int:
        """Rows of one item: of the input, in whole strides, on the way back; else of the result."""
        in_rows, rows, window, stride, _ = self.rows
        if not self.back:
            line = self.columns[0] * self.inner * stride
            return max(1, min(rows, ITEM_CELLS // line))
        line = self.columns[0] * self.inner * (4 if self.dtype == "float32" else 8)
        least = stride if self.exact else 4 * max(window, stride)
        wanted = max(least, STRIP_BYTES // line)
        return min(in_rows, -(-wanted // stride) * stride)
