"""Library kernels that add rows up by index: what a gather gives back to its table.

The positions are sorted by the row they go to, which keeps their order. Each row of the result is
then added up in registers and written once, by whichever thread has it: no two write to one row,
and the sums do not depend on the threads. When most positions go to a few rows, which would keep
one thread busy, or when rows are short, each thread owns columns of the result instead, and walks
over all positions. Both add in the same order and give the same bits. Where a row is named often,
float32 is added up in float64.
"""

from __future__ import annotations

import math
from textwrap import indent

import numpy as np

from kbench.engine.codegen.typed_expr import computed
from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import Job, service
from kbench.engine.kernels.data.gather import (
    PREFETCH_ROWS,
    apart,
    checked_result,
    find_take,
    own_indices,
    ready_job,
)
from kbench.engine.kernels.data.strided_copy import MIN_STREAMED_BYTES
from kbench.engine.runtime import threads

MAX_UNCHECKED_ELEMENTS = 6_000_000
"""Elements added up between two looks at the cancel flag."""
MAX_PLAIN_TERMS = 8
"""Terms of a row up to which float32 is added up in float32: it errs less than by halves."""
ROUNDED_DTYPES = ("float16", "float32")
"""Dtypes that more terms are added up in float64 of."""
MIN_THREAD_COLUMNS = 16
"""Columns that one thread owns, at least: a cache line of float32."""
MIN_SORTED_ROW_BYTES = 64
"""Bytes of a row from which on rows are worth sorting by."""
MAX_SORTED_POSITIONS = 1 << 22
"""Positions that are sorted; more are added up in parts, column by column."""
ITEM_BYTES = 1 << 16
"""Bytes of the result that are one item."""
ELEMENT_SECONDS = 1e-9
"""Seconds for an element that is added up: a guess, for the distance between cancel checks."""

COLUMNS = '''"""Library kernel of kbench: rows of DTYPE added up by index, column by column."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    load_DTYPE,
    load_int64,
    peek_WIDE,
    range_kernel,
    store_WIDE,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    count = field(params, 4)
    span = field(params, 5)
    for item in range(start, stop):
        low = item * span
        high = min(low + span, width)
        for i in range(count):
            to = load_int64(rows, i) * width
            source = i * width
            for j in range(low, high):
                total = peek_WIDE(y, to + j) + load_DTYPE(g, source + j)
                store_WIDE(y, to + j, np.WIDE(total))
'''

FREQUENT = '''"""Library kernel of kbench: the same of DTYPE, with float64 totals for some rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    load_DTYPE,
    load_int64,
    peek_float64,
    peek_int32,
    peek_WIDE,
    range_kernel,
    store_WIDE,
    store_float64,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    count = field(params, 4)
    span = field(params, 5)
    slots = field(params, 6)
    exact = field(params, 7)
    for item in range(start, stop):
        low = item * span
        high = min(low + span, width)
        for i in range(count):
            row = load_int64(rows, i)
            slot = np.int64(peek_int32(slots, row)) - FIRST
            source = i * width
            if slot >= 0:
                for j in range(low, high):
                    place = slot * width + j
                    sum = peek_float64(exact, place) + load_DTYPE(g, source + j)
                    store_float64(exact, place, np.float64(sum))
            else:
                for j in range(low, high):
                    place = row * width + j
                    total = peek_WIDE(y, place) + load_DTYPE(g, source + j)
                    store_WIDE(y, place, np.WIDE(total))
'''

COUNT = '''"""Library kernel of kbench: how often the most frequent of some rows is named."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    load_int64,
    peek_int32,
    range_kernel,
    store_int32,
    store_int64,
)


@range_kernel
def run(params, start, stop):
    rows = field(params, 0)
    counts = field(params, 2)
    most = np.int32(load_int64(field(params, 3), 0))
    for i in range(field(params, 1)):
        row = load_int64(rows, i)
        here = np.int32(peek_int32(counts, row) + 1)
        store_int32(counts, row, here)
        most = max(most, here)
    store_int64(field(params, 3), 0, np.int64(most))
'''

SORT = '''"""Library kernel of kbench: positions sorted by what they hold, in order."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    load_int64,
    peek_int32,
    range_kernel,
    store_int32,
    store_int64,
)


@range_kernel
def run(params, start, stop):
    rows = field(params, 0)
    count = field(params, 1)
    ends = field(params, 2)
    order = field(params, 3)
    height = field(params, 4)
    most = np.int32(0)
    for i in range(count):
        row = load_int64(rows, i)
        store_int32(ends, row, np.int32(peek_int32(ends, row) + 1))
    total = np.int32(0)
    for row in range(height):
        here = peek_int32(ends, row)
        most = max(most, here)
        store_int32(ends, row, total)
        total = np.int32(total + here)
    for i in range(count):
        row = load_int64(rows, i)
        place = peek_int32(ends, row)
        store_int32(order, place, np.int32(i))
        store_int32(ends, row, np.int32(place + 1))
    store_int64(field(params, 5), 0, np.int64(most))
'''

ROWS = '''"""Library kernel of kbench: rows of DTYPE added up by index, row by row."""
import numpy as np
from kbench.engine.kernels.data.copy_tile import copy_bytes, fetch_line, stream_bytes
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.toolkit import (
    field,
    load_DTYPE,
    load_int32,
    peek_WIDE,
    range_kernel,
    scratch_64,
    IMPORTS
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    order = field(params, 2)
    ends = field(params, 3)
    width = field(params, 4)
    rows = field(params, 5)
    height = field(params, 6)
    stream = field(params, 7)
    last = field(params, 8) - 1
    total = scratch_64()
    rounded = ROUNDED
    for row in range(start * height, min(stop * height, rows)):
        end = np.int64(load_int32(ends, row))
        begin = np.int64(load_int32(ends, row - 1)) if row > 0 else 0
        for low in range(0, width, 4096):
            size = min(4096, width - low)
            SUMS
WRITE
    if stream:
        store_fence()
'''

SUM = """for j in range(size):
    store_WIDE(total, j, np.WIDE(0))
for k in range(begin, end):
    ahead = g + (np.int64(load_int32(order, min(k + AHEAD, last))) * width + low) * READ
    for line in range(0, min(size * READ, 4096), 64):
        fetch_line(ahead + line)
    source = np.int64(load_int32(order, k)) * width + low
    for j in range(size):
        here = peek_WIDE(total, j) + load_DTYPE(g, source + j)
        store_WIDE(total, j, np.WIDE(here))
"""
ROUND = """for j in range(size):
    store_DTYPE(rounded, j, np.VALUE(peek_WIDE(total, j)))
"""
AS_BYTES = """            if stream:
                stream_bytes(y + (row * width + low) * SIZE, rounded, size * SIZE)
            else:
                copy_bytes(y + (row * width + low) * SIZE, rounded, size * SIZE)"""


def _wide(dtype: str) -> str:
    """What few rows of a dtype are added up in."""
    return "float32" if dtype == "float16" else dtype


def _sums(dtype: str) -> str:
    """The sum of a row in `rounded`: in float64 where it has many terms."""
    plain = SUM + (ROUND if dtype == "float16" else "")
    if dtype not in ROUNDED_DTYPES:
        return plain
    exact = (SUM + ROUND).replace("WIDE", "float64")
    head = f"if end - begin > {MAX_PLAIN_TERMS}:\n"
    return head + indent(exact, " " * 4) + "else:\n" + indent(plain, " " * 4)


def source(form: str, dtype: str) -> str:
    """The module that defines `run` of the form "columns", "frequent", "rows", "sort", "count"."""
    forms = {"columns": COLUMNS, "frequent": FREQUENT, "rows": ROWS, "sort": SORT, "count": COUNT}
    text, narrow = forms[form], dtype in ROUNDED_DTYPES
    text = text.replace("            SUMS\n", indent(_sums(dtype), " " * 12))
    text = text.replace("WRITE", AS_BYTES)
    apart = narrow and dtype != "float32"
    text = text.replace("ROUNDED", "scratch_64()" if apart else "total")
    kinds = {_wide(dtype), dtype, "float64"} if narrow else {dtype}
    helpers = {f"store_{kind}" for kind in kinds} | ({"peek_float64"} if narrow else set())
    text = text.replace("IMPORTS", ",\n    ".join([*sorted(helpers)]) + ",")
    size = str(np.dtype(dtype).itemsize)
    text = text.replace("SIZE", size).replace("READ", size).replace("AHEAD", str(PREFETCH_ROWS))
    text = text.replace("VALUE", computed(dtype))
    text = text.replace("FIRST", str(MAX_PLAIN_TERMS + 1))
    return text.replace("DTYPE", dtype).replace("WIDE", _wide(dtype))


def find(kind: str, dtype: str) -> KernelCall | None:
    """The kernel "take", for words of a dtype, or "add"."""
    return find_take(dtype, 1) if kind == "take" else find_add(dtype)


def forms_of(dtype: str) -> dict[str, str]:
    """The forms that a dtype needs, by the names of their kernels."""
    more = {"frequent": f"add_frequent_{dtype}", "count": "add_count_rows"}
    plain = {form: f"add_{form}_{dtype}" for form in ("columns", "rows")}
    return {**plain, "sort": "add_sort_rows", **(more if dtype in ROUNDED_DTYPES else {})}


def find_add(dtype: str) -> KernelCall | None:
    """The kernel `(out, g, indices, cancel_check)`: `out[indices[i]] += g[i]` from zero; or None.

    float16 adds up in float32; in a row that is named more often than `MAX_PLAIN_TERMS` times
    float16 and float32 do in float64. It raises IndexError, with nothing written, when an index is
    negative or no row of `out`.
    """
    jobs: dict[str, Job] = {}
    for form, name in forms_of(dtype).items():
        job = ready_job(name, source(form, dtype))
        if job is not None:
            jobs[form] = job
    if len(jobs) < len(forms_of(dtype)):
        return None

    def call(out: Array, g: Array, indices: Array, cancel_check: CancelCheck | None = None) -> None:
        own, width = own_indices(indices, len(out)), math.prod(out.shape[1:])
        checked_result(out, dtype, len(out) * width)
        if g.dtype != dtype or g.size != own.size * width:
            raise ValueError(f"expected {own.size} rows of {width} {dtype}")
        if not g.size:
            out.fill(0)
            return
        g = apart(g, out)
        long = width * out.itemsize >= MIN_SORTED_ROW_BYTES and own.size <= MAX_SORTED_POSITIONS
        if not (long and _by_rows(jobs, out, g, own, width, cancel_check)):
            _by_columns(jobs, out, g, own, width, cancel_check)

    return call


def _often(job: Job, rows: Array, counts: Array, cancel_check: CancelCheck | None) -> Array:
    """The rows that are named often. In `counts`, which are 0, each of them gets its number among
    them, from `MAX_PLAIN_TERMS` + 1 on; the others keep less."""
    most = np.zeros(1, np.int64)
    for start in range(0, rows.size, MAX_UNCHECKED_ELEMENTS):
        count = min(MAX_UNCHECKED_ELEMENTS, rows.size - start)
        heads = [address_of(rows) + start * 8, count, address_of(counts), address_of(most)]
        if cancel_check is not None:
            cancel_check()
        service.driver.run(job.address, np.array(heads, np.int64), 0, 1, False)
    if most[0] <= MAX_PLAIN_TERMS:
        return np.empty(0, np.int64)
    often = np.flatnonzero(counts > MAX_PLAIN_TERMS)
    counts[often] = np.arange(MAX_PLAIN_TERMS + 1, MAX_PLAIN_TERMS + 1 + len(often))
    return often


def _by_rows(
    jobs: dict[str, Job],
    out: Array,
    g: Array,
    rows: Array,
    width: int,
    cancel_check: CancelCheck | None,
) -> bool:
    """Add up row by row; False, with nothing done, when one row has too large a share."""
    ends, order = np.zeros(len(out), np.int32), np.empty(rows.size, np.int32)
    most = np.zeros(1, np.int64)
    heads = [address_of(rows), rows.size, address_of(ends), address_of(order), len(out)]
    if cancel_check is not None:
        cancel_check()
    params = np.array([*heads, address_of(most)], np.int64)
    service.driver.run(jobs["sort"].address, params, 0, 1, False)
    crowd = threads.count() if g.size >= threads.MIN_PARALLEL_ELEMENTS else 1
    if crowd > 1 and int(most[0]) * 2 * crowd > max(rows.size, 64):
        return False
    height = max(1, ITEM_BYTES // (width * out.itemsize))
    stream = int(out.nbytes >= MIN_STREAMED_BYTES)
    heads = [address_of(out), address_of(g), address_of(order), address_of(ends)]
    params = np.array([*heads, width, len(out), height, stream, rows.size], np.int64)
    items = -(-len(out) // height)
    drive(jobs["rows"], params, items, (out.size + g.size) // items, cancel_check, ELEMENT_SECONDS)
    return True


def _by_columns(
    jobs: dict[str, Job],
    out: Array,
    g: Array,
    rows: Array,
    width: int,
    cancel_check: CancelCheck | None,
) -> None:
    wide = _wide(out.dtype.name)
    total = out if wide == out.dtype else np.empty(out.shape, wide)
    total.fill(0)
    counts, often = np.zeros(len(out), np.int32), np.empty(0, np.int64)
    if "count" in jobs and rows.size > MAX_PLAIN_TERMS:
        often = _often(jobs["count"], rows, counts, cancel_check)
    exact = np.zeros((len(often), width))
    places = (address_of(counts), address_of(exact))
    job = jobs["frequent" if len(often) else "columns"]
    crowd = threads.count() if g.size >= threads.MIN_PARALLEL_ELEMENTS else 1
    span = max(
        MIN_THREAD_COLUMNS, -(-width // crowd) + MIN_THREAD_COLUMNS - 1 & -MIN_THREAD_COLUMNS
    )
    items = -(-width // span)
    step = max(1, MAX_UNCHECKED_ELEMENTS // width)
    for start in range(0, rows.size, step):
        count = min(step, rows.size - start)
        sources = (address_of(g) + start * width * g.itemsize, address_of(rows) + start * 8)
        params = np.array([address_of(total), *sources, width, count, span, *places], np.int64)
        if cancel_check is not None:
            cancel_check()
        service.driver.run(job.address, params, 0, items, items > 1)
    with np.errstate(all="ignore"):
        if total is not out:
            out[...] = total
        out.reshape(len(out), width)[often] = exact
