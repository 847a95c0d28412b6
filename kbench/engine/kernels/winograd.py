"""Winograd's convolution: float32, windows of 3x3, no strides; forward and back to the input.

A quarter of the products, for rounding errors several times those of the direct form, some 1e-5
of the largest result; KBENCH_EXACT forbids it. `conv_run` takes the direct form elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.engine import config
from kbench.engine.kernels import winograd_sources as sources
from kbench.engine.kernels.background import Job, service
from kbench.engine.kernels.binding import address_of
from kbench.engine.kernels.conv_drive import PLANS, Run, Sizes, Tiles, made_run, starts
from kbench.engine.kernels.conv_sources import PACK_FIELDS, filled

Array = np.ndarray[Any, Any]
Check = Callable[[], object] | None

LEAST = 16
"""Channels and filters from which on the transforms are worth it."""
MOST = 256 * 256
"""Channels times filters: beyond, the 36 matrices are too large to be read by every item."""
WIDE = 256
"""Columns of an item's tiles that still stay in the second cache."""
PLACES = 512
"""Output places that make up for the transform of the kernel; large kernels need more."""
TILES = 28
"""Tiles of one item: two rows of fourteen, the height of a register tile."""

# What a line of three weights becomes.
_G = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
_WEIGHTS = np.einsum("ai,bj->abij", _G, _G).reshape(36, 9).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Loops:
    """The compiled transforms and the kernel around them."""

    into: int
    back: int
    kernel: Job


_ready: list[Loops] = []


def _tile_text() -> str:
    from kbench.engine.kernels.conv_tile import geometry

    lanes = str(geometry("float32")[0])
    return sources.TILES.replace("LANES", lanes)


def find_loops() -> Loops | None:
    """The compiled loops, or None while they are not ready."""
    if _ready:
        return _ready[0]
    tiles = service.submit("winograd_tiles_float32", _tile_text)
    text = functools.partial(filled, sources.KERNEL, "float32", sources.FIELDS)
    kernel = service.submit("winograd_gather_float32", text)
    if tiles is None or kernel is None or not tiles.state == kernel.state == "ready":
        return None
    module: Any = tiles.module
    _ready.append(Loops(int(module.into.address), int(module.back.address), kernel))
    return _ready[0]


def suits(
    tiles: Tiles, out: Sizes, x: Sizes, kernel: Sizes, strides: Sequence[int],
    pads: Sequence[int], dilation: Sequence[int],
) -> bool:  # fmt: skip
    """Whether this form can be taken, and is faster than the direct one."""
    if tiles.dtype != "float32" or kernel[:3] != (1, 3, 3) or config.exact():
        return False
    if any(one != 1 for one in (*strides, *dilation, out[1], x[1])) or pads[0] != 0:
        return False
    matrix, places = kernel[3] * kernel[4], x[0] * out[2] * out[3]
    if min(kernel[3:]) < LEAST or matrix > MOST or out[3] > WIDE:
        return False
    computed = 16 * x[0] * -(-out[2] // 4) * -(-out[3] // 4)
    return places >= max(PLACES, matrix // 48) and places > 0.6 * computed


def run(
    tiles: Tiles, loops: Loops, out: Array, x: Array, kernel: Array, back: bool,
    pads: Sequence[int], check: Check,
) -> bool:  # fmt: skip
    """The convolution of `x`, or when `back` the gradient to the input for the gradient `x`.

    False when a result is not finite: then the direct form has to say which ones are.
    """
    before = tuple(2 - pad if back else pad for pad in pads[1:])
    pack, plan = _planned(tiles, loops, out.shape, x.shape, back, before)
    with np.errstate(all="ignore"):
        spread = (_WEIGHTS[:, ::-1] if back else _WEIGHTS) @ kernel.reshape(9, -1)
    packed = np.empty(36 * x.shape[4] * -(-out.shape[4] // tiles.lanes) * tiles.lanes, np.float32)
    pack(tiles.pack, "float32", check, address_of(packed), address_of(spread))
    strange = np.zeros(1, np.int64)
    addresses = address_of(out), address_of(x), address_of(packed), address_of(strange)
    plan(loops.kernel, "float32", check, *addresses)
    return not strange[0]


@functools.lru_cache(PLANS)
def _planned(
    tiles: Tiles, loops: Loops, out: Sizes, x: Sizes, back: bool, before: Sizes
) -> tuple[Run, Run]:
    channels, filters = x[4], out[4]
    places = np.arange(36, dtype=np.int64) * (channels * filters)
    pack = made_run(
        PACK_FIELDS,
        {
            "places": address_of(places), "taps": 36, "rows": channels, "columns": filters,
            "lanes": tiles.lanes, "row_step": 1 if back else filters,
            "column_step": channels if back else 1,
        },
        36, 128 * channels * filters, kept=[places],
    )  # fmt: skip
    tile_rows, tile_columns = -(-out[2] // 4), -(-out[3] // 4)
    together = max(1, TILES // tile_columns)
    items = -(-x[0] * tile_rows // together)
    count = together * tile_columns
    # Odd steps from row to row and plane to plane, or all 36 would share their places in a cache.
    value_bytes = 4 * channels + 64
    value_plane = count * value_bytes + 192
    sum_bytes = 4 * filters + 64
    sum_plane = count * sum_bytes + 192
    areas = (
        6 * (4 * tile_columns + 2) * channels * 4, 36 * value_plane, 36 * sum_plane,
        64 * filters, 64,
    )  # fmt: skip
    _, values_at, sums_at, corner_at, table_at, _ = starts(areas)
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "into": loops.into, "back": loops.back,
        "values_at": values_at, "sums_at": sums_at, "corner_at": corner_at, "table_at": table_at,
        "images": x[0], "in_rows": x[2], "in_columns": x[3], "channels": channels,
        "out_rows": out[2], "out_columns": out[3], "filters": filters,
        "top": before[0], "left": before[1], "tile_rows": tile_rows, "tile_columns": tile_columns,
        "together": together, "value_bytes": value_bytes, "value_plane": value_plane,
        "sum_bytes": sum_bytes, "sum_plane": sum_plane,
    }  # fmt: skip
    work = 36 * count * channels * filters + 40 * 36 * count * (channels + filters)
    return pack, made_run(sources.FIELDS, values, items, work, areas)
