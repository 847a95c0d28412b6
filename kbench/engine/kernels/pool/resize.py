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

from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.runtime import config

MIN_ELEMENTS = 8192
"""Elements of the larger array from which on a kernel is worth while."""
FEW_LANES = 8
"""Lanes up to which neighbouring cells are computed side by side."""


def source(name: str, dtype: str) -> str:
    """The module that defines `run` over cells, or over rows where these have few lanes."""
    value = computed(dtype)
    names = {"peek_element": f"peek_{dtype}"} if name == "shrink" else {}
    return kernel_file.specialized(
        f"kernels/pool/sources/{name}",
        FEW_LANES=FEW_LANES,
        load_element=f"load_{dtype}",
        load_value=f"load_{value}",
        store_element=f"store_{dtype}",
        value=value,
        **names,
    )


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
    job = service.find(f"{name}_{dtype}", partial(source, name, dtype))
    if job is None:
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
    check_result(out, dtype, written)
    x = operand(x, dtype, read, out)
    addresses = [address_of(array) for array in (out, x, weights)]
    params = np.array([*addresses, n, factor, inner], np.int64)
    items = outer * n if inner > FEW_LANES else outer
    drive(job, params, items, large // items, cancel_check)
