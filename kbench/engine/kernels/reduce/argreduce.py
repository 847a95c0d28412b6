"""Library kernels that find where the largest or smallest value stands; the first one, NaN first.

Along the last axis the largest value of each chunk is found with SIMD, and only the winning chunk
is searched for its place. Across rows, value and place of each column are kept side by side.
"""

from __future__ import annotations

import re

from kbench.engine.codegen.typed_expr import computed

CHUNK_ELEMENTS = 256
"""Elements whose largest is found before it is looked for where it stands."""
SHORT_ROW_ELEMENTS = 48
"""Rows up to this length are searched one by one."""

LAST = '''"""Library kernel of kbench: NAME of DTYPE along rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import HELPER, field, load_DTYPE, range_kernel, STORES


@range_kernel
def run(params, start, stop):
    values = field(params, 0)
    places = field(params, 1)
    x = field(params, 2)
    n = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    kept = field(params, 6)
    for item in range(start, stop):
        row = item // blocks
        block = item - row * blocks
        first = row * n + block * width
        last = row * n + min((block + 1) * width, n)
        best = load_DTYPE(x, first)
        where = first
        if last - first <= SHORT:
            for j in range(first + 1, last):
                value = load_DTYPE(x, j)
                wins = (value BEATS best) | ((value != value) & (best == best))
                best = value if wins else best
                where = j if wins else where
            store_VALUE(values, block * kept + row, best)
            store_int64(places, block * kept + row, where - row * n)
            continue
        for low in range(first, last, CHUNK):
            top = load_DTYPE(x, low)
            for j in range(low, min(low + CHUNK, last)):
                top = np.VALUE(HELPER(top, load_DTYPE(x, j)))
            if (top BEATS best) | ((top != top) & (best == best)):
                best = top
                where = low
        for j in range(where, last):
            value = load_DTYPE(x, j)
            if (value == best) | (value != value):
                where = j
                break
        store_VALUE(values, block * kept + row, best)
        store_int64(places, block * kept + row, where - row * n)
'''

ACROSS = '''"""Library kernel of kbench: NAME of DTYPE across rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import field, load_DTYPE, peek_VALUE, peek_int64, range_kernel
from kbench.engine.intrinsics.toolkit import scratch_64, scratch_BITS, select, STORES


@range_kernel
def run(params, start, stop):
    values = field(params, 0)
    places = field(params, 1)
    x = field(params, 2)
    n = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    reduced = field(params, 6)
    rows = field(params, 7)
    pieces = field(params, 8)
    outer = field(params, 9)
    best = scratch_BITS()
    where = scratch_64()
    for item in range(start, stop):
        rest = item // blocks
        first = (item - rest * blocks) * width
        size = min(first + width, n) - first
        place = rest // pieces
        piece = rest - place * pieces
        begin = piece * rows
        base = (place * reduced + begin) * n + first
        for j in range(size):
            store_VALUE(best, j, load_DTYPE(x, base + j))
            store_int64(where, j, begin)
        for row in range(begin + 1, min(begin + rows, reduced)):
            base = (place * reduced + row) * n + first
            for j in range(size):
                old = peek_VALUE(best, j)
                new = load_DTYPE(x, base + j)
                wins = (new BEATS old) | ((new != new) & (old == old))
                store_VALUE(best, j, select(wins, new, old))
                store_int64(where, j, select(wins, row, peek_int64(where, j)))
        base = (piece * outer + place) * n + first
        for j in range(size):
            store_VALUE(values, base + j, peek_VALUE(best, j))
            store_int64(places, base + j, peek_int64(where, j))
'''


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; bool arrays are read as uint8."""
    value = computed(dtype)
    kind = "float" if value[0] == "f" else "int"
    helper = f"{'maximum' if name == 'argmax' else 'minimum'}_{kind}"
    stores = ", ".join(sorted({f"store_{value}", "store_int64"}))
    text = LAST if last else ACROSS
    if value == "int64":
        text = text.replace("peek_VALUE, peek_int64", "peek_int64")
    if re.sub(r"\D", "", value) == "64":
        text = text.replace("scratch_64, scratch_BITS", "scratch_64")
    text = text.replace("NAME", name).replace("HELPER", helper).replace("STORES", stores)
    text = text.replace("BEATS", ">" if name == "argmax" else "<").replace(
        "CHUNK", str(CHUNK_ELEMENTS)
    )
    text = text.replace("SHORT", str(SHORT_ROW_ELEMENTS))
    text = text.replace("BITS", re.sub(r"\D", "", value)).replace("VALUE", value)
    return text.replace("DTYPE", dtype)
