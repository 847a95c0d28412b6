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
from functools import partial

import numpy as np

from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.data.gather import (
    find_take,
    own_indices,
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
"""Seconds for an element that is added up: a guess."""


def _wide(dtype: str) -> str:
    """What few rows of a dtype are added up in."""
    return "float32" if dtype == "float16" else dtype


def source(form: str, dtype: str) -> str:
    """The module that defines `run` of the form "columns", "frequent", "rows", "sort", "count"."""
    if form in ("sort", "count"):
        return kernel_file.specialized(f"kernels/data/sources/{form}_rows")
    wide = _wide(dtype)
    totals = {
        "load_element": f"load_{dtype}",
        "peek_total": f"peek_{wide}",
        "store_total": f"store_{wide}",
        "total_value": wide,
    }
    if form == "rows":
        return kernel_file.specialized(
            "kernels/data/sources/add_rows",
            **totals,
            store_element=f"store_{dtype}",
            value=computed(dtype),
            SIZE=np.dtype(dtype).itemsize,
            IS_ROUNDED=dtype in ROUNDED_DTYPES,
            IS_WIDENED=wide != dtype,
            MAX_PLAIN_TERMS=MAX_PLAIN_TERMS,
        )
    return kernel_file.specialized(
        "kernels/data/sources/add_columns",
        **totals,
        HAS_SLOTS=form == "frequent",
        FIRST_SLOT=MAX_PLAIN_TERMS + 1,
    )


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
    names = forms_of(dtype)
    found = {form: service.find(names[form], partial(source, form, dtype)) for form in names}
    jobs = {form: job for form, job in found.items() if job is not None}
    if len(jobs) < len(names):
        return None

    def call(out: Array, g: Array, indices: Array, cancel_check: CancelCheck | None = None) -> None:
        own, width = own_indices(indices, len(out)), math.prod(out.shape[1:])
        check_result(out, dtype, len(out) * width)
        g = operand(g, dtype, own.size * width, out)
        if not g.size:
            out.fill(0)
            return
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
