"""Matrices brought into panels, as tiles read them: how their rows are shared out."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.types import Array
from kbench.engine.jit import kernel_file
from kbench.engine.jit.fast_call import address_of
from kbench.engine.kernels.conv.launch import PACK, PRODUCTS_PER_ELEMENT, PanelTiles, Plan, plan

ITEM_ROWS = 16
"""Rows of an item: as many streams of memory as processors follow at one time."""
WORK_PER_ELEMENT = 2 * PRODUCTS_PER_ELEMENT


def packing(
    tiles: PanelTiles, places: Array, rows: int, columns: int, row_step: int, column_step: int
) -> Plan:
    """The launch that packs as many matrices of `rows` and `columns` as there are `places`.

    A call sets where the panels go, and where the matrices are: places and steps are in elements
    from there.
    """
    places = np.ascontiguousarray(places, np.int64)
    blocks = -(-rows // ITEM_ROWS)
    values = {
        "places": address_of(places), "taps": places.size, "rows": rows, "columns": columns,
        "row_step": row_step, "column_step": column_step, "lanes": tiles.lanes,
        "together": ITEM_ROWS, "blocks": blocks,
    }  # fmt: skip
    fields = kernel_file.parameters_of(PACK)
    work = WORK_PER_ELEMENT * min(rows, ITEM_ROWS) * columns
    return plan(tiles.pack, tiles.dtype, fields, values, places.size * blocks, work, kept=[places])


def packed_bytes(tiles: PanelTiles, count: int, rows: int, columns: int) -> int:
    """Bytes of the panels of so many matrices."""
    return count * rows * -(-columns // tiles.lanes) * tiles.lanes * tiles.size
