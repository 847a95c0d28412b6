"""Tier 1 of bilinear interpolation along one axis, and of its transpose.

Small arrays are [outer, n, inner], large ones [outer, n, factor, inner]: cell i of the small one
lies in the middle of the `factor` cells (i, phase) of the large one. Phase p takes `1 - w[p]` of
its own cell and `w[p]` of the neighbour on its side: the one before for the first phases, the one
behind for the last. Each thread owns cells of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kbench.engine.codegen.typed_expr import computed
from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import Job, service
from kbench.engine.runtime import config

MIN_ELEMENTS = 8192
"""Elements of the larger array from which on a kernel is worth while."""
FEW_LANES = 8
"""Lanes up to which neighbouring cells are computed side by side."""

HEAD = '''"""Library kernel of kbench: NAME of DTYPE along one axis."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    inline,
    load_DTYPE,
    load_VALUE,
    PEEKrange_kernel,
    store_DTYPE,
)


@inline
def neighbour(phase, factor):
    """Where the other cell of a phase lies: before, nowhere, or behind."""
    if 2 * phase + 1 == factor:
        return 0
    return -1 if 2 * phase + 1 < factor else 1
'''

STRETCH = '''

@inline
def mix(y, to, step, x, at, other, far, weight, n):
    """n lanes between two cells."""
    rest = np.VALUE(1) - weight
    for i in range(n):
        own = load_DTYPE(x, at + i * far) * rest
        store_DTYPE(y, to + i * step, own + load_DTYPE(x, other + i * far) * weight)


@inline
def copy(y, to, step, x, at, far, n):
    """n lanes as they are: edges, and cells with the same centre."""
    for i in range(n):
        store_DTYPE(y, to + i * step, load_DTYPE(x, at + i * far))


@range_kernel
def run(params, start, stop):
READ
    for item in range(start, stop):
        if inner > FEW:
            i = item % n
            for phase in range(factor):
                side = neighbour(phase, factor)
                to = (item * factor + phase) * inner
                at = item * inner
                if (side == 0) | (i + side < 0) | (i + side >= n):
                    copy(y, to, 1, x, at, 1, inner)
                else:
                    weight = load_VALUE(weights, phase)
                    mix(y, to, 1, x, at, at + side * inner, 1, weight, inner)
            continue
        row = item * n * inner
        for phase in range(factor):
            side = neighbour(phase, factor)
            weight = load_VALUE(weights, phase)
            low = 1 if side < 0 else 0
            high = n - 1 if side > 0 else n
            for j in range(inner):
                to = row * factor + phase * inner + j
                step = factor * inner
                if side == 0:
                    copy(y, to, step, x, row + j, inner, n)
                    continue
                at = row + low * inner + j
                other = at + side * inner
                mix(y, to + low * step, step, x, at, other, inner, weight, high - low)
                edge = 0 if side < 0 else n - 1
                copy(y, to + edge * step, step, x, row + edge * inner + j, inner, 1)
'''

SHRINK = '''

@inline
def add(first, y, to, step, g, at, far, weight, n):
    """n lanes of a cell take their share of one phase."""
    if first:
        for i in range(n):
            store_DTYPE(y, to + i * step, load_DTYPE(g, at + i * far) * weight)
        return
    for i in range(n):
        part = load_DTYPE(g, at + i * far) * weight
        store_DTYPE(y, to + i * step, peek_DTYPE(y, to + i * step) + part)


@range_kernel
def run(params, start, stop):
READ
    whole = np.VALUE(1)
    for item in range(start, stop):
        if inner > FEW:
            i = item % n
            to = item * inner
            for phase in range(factor):
                side = neighbour(phase, factor)
                weight = load_VALUE(weights, phase)
                outside = (side == 0) | (i + side < 0) | (i + side >= n)
                own = whole if outside else whole - weight
                at = (item * factor + phase) * inner
                add(phase == 0, y, to, 1, x, at, 1, own, inner)
                if (side != 0) & (i - side >= 0) & (i - side < n):
                    add(False, y, to, 1, x, at - side * factor * inner, 1, weight, inner)
            continue
        row = item * n * inner
        far = factor * inner
        for j in range(inner):
            to = row + j
            for phase in range(factor):
                side = neighbour(phase, factor)
                weight = load_VALUE(weights, phase)
                at = row * factor + phase * inner + j
                own = whole if side == 0 else whole - weight
                add(phase == 0, y, to, inner, x, at, far, own, n)
                if side == 0:
                    continue
                edge = 0 if side < 0 else n - 1
                add(False, y, to + edge * inner, inner, x, at + edge * far, far, weight, 1)
                low = 1 if side < 0 else 0
                from_ = to + (low + side) * inner
                add(False, y, from_, inner, x, at + low * far, far, weight, n - 1)
'''

FIELDS = ("y", "x", "weights", "n", "factor", "inner")
_READ = "\n".join(f"    {name} = field(params, {place})" for place, name in enumerate(FIELDS))


def source(name: str, dtype: str) -> str:
    """The module that defines `run` over cells, or over rows where these have few lanes."""
    text = HEAD + (STRETCH if name == "stretch" else SHRINK).replace("READ", _READ)
    text = text.replace("PEEK", "peek_DTYPE,\n    " if name == "shrink" else "")
    text = (
        text.replace("NAME", name).replace("FEW", str(FEW_LANES)).replace("VALUE", computed(dtype))
    )
    text = text.replace("    load_DTYPE,\n", "") if dtype == computed(dtype) else text
    return text.replace("DTYPE", dtype)


def kernel_factory(
    name: str, dtype: str, outer: int, n: int, factor: int, inner: int
) -> Callable[[], KernelCall | None] | None:
    """Where the kernel `(out, x, cancel_check)` is found: "stretch", or "shrink", its transpose."""
    size = outer * n * factor * inner
    if dtype not in ("float32", "float64") and (name, dtype) != ("stretch", "float16"):
        return None
    if not size or size < config.min_elements(MIN_ELEMENTS):
        return None
    return partial(_find, name, dtype, outer, n, factor, inner)


def find(name: str, dtype: str) -> KernelCall | None:
    """The kernel "stretch" or "shrink" for a single cell, for warm-up."""
    return _find(name, dtype, 1, 1, 1, 1)


def _find(name: str, dtype: str, outer: int, n: int, factor: int, inner: int) -> KernelCall | None:
    job = service.submit(f"{name}_{dtype}", partial(source, name, dtype))
    if job is None or job.state != "ready":
        return None
    centres = (np.arange(factor) + 0.5) / factor - 0.5
    weights = np.abs(centres).astype(computed(dtype))
    return partial(_run, job, name, dtype, weights, (outer, n, factor, inner))


def _run(
    job: Job,
    name: str,
    dtype: str,
    weights: Array,
    sizes: tuple[int, int, int, int],
    out: Array,
    x: Array,
    cancel_check: CancelCheck | None = None,
) -> None:
    outer, n, factor, inner = sizes
    small, large = outer * n * inner, outer * n * factor * inner
    read, written = (small, large) if name == "stretch" else (large, small)
    if x.dtype != dtype or x.size != read:
        raise ValueError(f"expected {read} elements of {dtype}, got {x.dtype}[{x.size}]")
    if out.dtype != dtype or out.size != written:
        raise ValueError(f"{name} writes {written} elements of {dtype}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("the result array must be contiguous and writeable")
    x = np.ascontiguousarray(x)
    x = x.copy() if np.may_share_memory(x, out) else x
    addresses = [address_of(array) for array in (out, x, weights)]
    params = np.array([*addresses, n, factor, inner], np.int64)
    items = outer * n if inner > FEW_LANES else outer
    drive(job, params, items, large // items, cancel_check)
