"""Tier 1: the fixed library of kernels, found by name and dtype; compiled on first need.

`find` gives a callable, or None until the kernel is ready, when it cannot be had, or JIT is off.
Arrays are seen as (outer, axis, inner); `view` says which of these sides are longer than one:
"all" (axis), "last" (outer, axis), "first" (axis, inner) or "middle" (all three).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from kbench.engine.codegen import join_kernels
from kbench.engine.codegen.loop_kernel import Kernel, request
from kbench.engine.codegen.loop_program import Fold, Input, LoopProgram, loop_nest, loop_value
from kbench.engine.core.folds import exact_folds
from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.reduce import argreduce, cumulative
from kbench.engine.runtime import cpu_caches

FOLDS = ("sum", "mean", "prod", "max", "min", "any", "all")
VIEWS: dict[str, tuple[int, int, int]] = {  # rank, and the dims folded
    "all": (1, 0, 1),
    "last": (2, 1, 2),
    "first": (2, 0, 1),
    "middle": (3, 1, 2),
}
FLOATS = ("float16", "float32", "float64")
FAMILIES = {  # family -> module, loaded on first need; its `find(kind, dtype)` has calls of its own
    "ctc": "kernels.ctc.api",
    "move": "kernels.data.strided_copy",
    "onehot": "kernels.data.one_hot",
    "random": "kernels.random.fill",
    "conv": "kernels.conv.api",
    "depthwise": "kernels.depthwise.api",
    "gemm": "kernels.gemm.api",
    "join": "codegen.join_kernels",
    "local": "kernels.conv.local",
    "pool": "kernels.pool.api",
    "resize": "kernels.pool.resize",
    "rows": "kernels.data.scatter_add",
}
POOL_KINDS = ("max", "average", "max_gradient", "spread")
BLOCK_ELEMENTS = 65_536
"""Elements of a row that one item takes, where rows are too few to share out."""
MIN_ITEMS = 64
"""Items that keep any number of threads busy."""
BLOCK_ROWS = 256
"""Rows that one item takes on the way down the columns, where these are too few to share out."""


def sides(shape: tuple[int, ...], view: str) -> tuple[int, int, int]:
    """(outer, axis, inner) of an array of the view's rank."""
    if len(shape) != VIEWS[view][0]:
        raise ValueError(f"view {view!r} has {VIEWS[view][0]} dims, got an array of {len(shape)}")
    full = (1,) * (view in ("all", "first")) + tuple(shape) + (1,) * (view in ("all", "last"))
    return full  # type: ignore[return-value]


def find(name: str, dtype: str, view: str = "last") -> KernelCall | None:
    """The library kernel `(out, x, cancel_check=None)` of that name, or None when it is not ready.

    Arguments:
        name: a fold (sum mean prod max min any all var std), argmax, argmin, cumsum or cumprod;
            ctc_cost, ctc_slope, random_uniform, random_normal and random_below, conv_ and
            depthwise_ with forward, to_input and to_kernel, local_, pool_, resize_, rows_, move_,
            join_: see their modules (`FAMILIES`).
        dtype: dtype of `x`. argmax and argmin give int64, any and all bool, the rest `dtype`.
        view: how `x` is laid out, see above. `x` and `out` are C-contiguous.
    """
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
    if name in FOLDS:
        return _fold(name, dtype, view)
    if name in ("var", "std"):
        return _variance(name, dtype, view)
    if name in ("argmax", "argmin"):
        return _argfold(name, dtype, view)
    if name in ("cumsum", "cumprod"):
        return _scan(name, dtype, view)
    family, _, kind = name.partition("_")
    if family in FAMILIES:
        module = importlib.import_module(f"kbench.engine.{FAMILIES[family]}")
        call: KernelCall | None = module.find(kind, dtype)
        return call
    raise ValueError(f"no library kernel {name!r}")


def _block(*values: int) -> Array:
    return np.array(values, np.int64)


# ---------------------------------------------------------------- folds


def _program(name: str, dtype: str, view: str) -> LoopProgram:
    rank, start, stop = VIEWS[view]
    one = Input(dtype, (True,) * rank)
    return loop_nest((one,), (loop_value("a0", dtype),), (), Fold(name, start, stop))


def _fold(name: str, dtype: str, view: str) -> KernelCall | None:
    kernel = request(_program(name, dtype, view))
    if kernel is None:
        return None

    def call(out: Array, x: Array, cancel_check: CancelCheck | None = None) -> None:
        sides(x.shape, view)
        kernel.run([out], [x], x.shape, cancel_check)

    return call


def _variance(name: str, dtype: str, view: str) -> KernelCall | None:
    """Two passes in float64, the mean first: no cancellation, whatever the mean's size.

    The mean of float64 is that of distances from the first element, so that equal elements have
    no variance at all. The result is of the dtype or of float64.
    """
    if dtype not in FLOATS:
        return None
    rank, start, stop = VIEWS[view]
    kept = tuple(not start <= d < stop for d in range(rank))
    inputs = (Input(dtype, (True,) * rank), Input("float64", kept))
    away = "a0 - a1" if dtype == "float64" else "cast(a0, 'float64') - a1"
    fold = Fold("mean", start, stop)
    first = loop_nest(inputs, (loop_value(away, "float64"),), (), fold)
    if dtype != "float64":
        first = loop_nest(inputs[:1], (loop_value("cast(a0, 'float64')", "float64"),), (), fold)
    average = request(first)
    spread = request(loop_nest(inputs, (loop_value(f"square({away})", "float64"),), (), fold))
    if average is None or spread is None:
        return None

    def call(out: Array, x: Array, cancel_check: CancelCheck | None = None) -> None:
        outer, n, inner = sides(x.shape, view)
        middle, found = np.empty(out.shape), np.empty(out.shape)
        with np.errstate(all="ignore"):
            if dtype == "float64" and n:
                begin = x.reshape(outer, n, inner)[:, 0].reshape(out.shape)
                begin = np.where(np.isfinite(begin), begin, 0.0)
                average.run([middle], [x, begin], x.shape, cancel_check)
                middle += begin
            else:
                average.run([middle], [x], x.shape, cancel_check)
            spread.run([found], [x, middle], x.shape, cancel_check)
            np.copyto(out, np.sqrt(found) if name == "std" else found, casting="unsafe")

    return call


# ---------------------------------------------------------------- argmax, argmin


def _argfold(name: str, dtype: str, view: str) -> KernelCall | None:
    read = "uint8" if dtype == "bool" else dtype
    last = view in ("last", "all")
    side = "last" if last else "across"
    job = service.find(f"{name}_{side}_{read}", lambda: argreduce.source(name, read, last))
    if job is None:
        return None
    kept_dtype = "float32" if read == "float16" else read

    def call(out: Array, x: Array, cancel_check: CancelCheck | None = None) -> None:
        outer, n, inner = sides(x.shape, view)
        x = operand(x, dtype, outer * n * inner).view(read)
        check_result(out, "int64", outer * inner)
        if out.size == 0:
            return
        if n == 0:
            raise ValueError(f"{name} of no elements")
        width = (
            min(inner, 4096) if not last else (n if outer >= MIN_ITEMS else min(n, BLOCK_ELEMENTS))
        )
        blocks = -(-(n if last else inner) // width)
        height = n if last or outer * blocks >= MIN_ITEMS else min(n, BLOCK_ROWS)
        pieces = blocks if last else -(-n // height)
        values = np.empty((pieces, outer * inner), kept_dtype)
        places = np.empty((pieces, outer * inner), np.int64) if pieces > 1 else out.reshape(1, -1)
        head = (address_of(values), address_of(places), address_of(x))
        if last:
            params = _block(*head, n, width, blocks, outer)
            drive(job, params, outer * blocks, width, cancel_check)
        else:
            params = _block(*head, inner, width, blocks, n, height, pieces, outer)
            drive(job, params, outer * pieces * blocks, width * height, cancel_check)
        if pieces == 1:
            return
        winner = (np.argmax if name == "argmax" else np.argmin)(values, axis=0)
        chosen = np.take_along_axis(places, winner[None], axis=0)
        np.copyto(out, chosen.reshape(out.shape))

    return call


# ---------------------------------------------------------------- running sums and products


def _scan(name: str, dtype: str, view: str) -> KernelCall | None:
    if dtype == "bool":
        return None
    last = view in ("last", "all")
    side = "last" if last else "across"
    job = service.find(f"{name}_{side}_{dtype}", lambda: cumulative.source(name, dtype, last))
    total = cumulative.total_dtype(dtype)
    blocks = loop_value(f"cast(a0, '{total}')", total)  # each block starts where a scan would be
    whole = Fold("sum" if name == "cumsum" else "prod", 1, 2)
    fold = request(loop_nest((Input(dtype, (True, True)),), (blocks,), (), whole)) if last else None
    if job is None or (last and fold is None):
        return None

    def call(out: Array, x: Array, cancel_check: CancelCheck | None = None) -> None:
        outer, n, inner = sides(x.shape, view)
        x = operand(x, dtype, outer * n * inner, None if address_of(x) == address_of(out) else out)
        check_result(out, dtype, x.size)
        apart = address_of(x) != address_of(out)
        if x.size == 0:
            return
        if not last:
            width = cumulative.columns(outer, inner)
            blocks = -(-inner // width)
            row = min(inner, width) * x.itemsize
            streamed = apart and cpu_caches.is_streamed(2 * x.nbytes, row)
            places = (address_of(out), address_of(x), n, inner, width, blocks)
            params, work = _block(*places, streamed), n * min(inner, width)
            drive(job, params, outer * blocks, work, cancel_check)
            return
        assert fold is not None
        width = n if outer >= MIN_ITEMS or n < 4 * BLOCK_ELEMENTS else BLOCK_ELEMENTS
        starts, besides = _starts(name, x.reshape(outer, n), width, fold, cancel_check)
        streamed = apart and cpu_caches.is_streamed(2 * x.nbytes, width * x.itemsize)
        places = (address_of(out), address_of(x), n, width, starts.shape[1], address_of(starts))
        params = _block(*places, address_of(besides), streamed)
        drive(job, params, starts.size, width, cancel_check)

    return call


def _starts(
    name: str, x: Array, width: int, fold: Kernel, cancel_check: CancelCheck | None
) -> tuple[Array, Array]:
    """The running total before each block of each row, and what is kept beside it."""
    outer, n = x.shape
    blocks = -(-n // width)
    total = cumulative.total_dtype(x.dtype.name)
    starts = np.full((outer, blocks), 0 if name == "cumsum" else 1, total)
    besides = np.zeros((outer, blocks), cumulative.kept_besides(name, x.dtype.name) or np.int8)
    if blocks > 1:
        full = np.ascontiguousarray(x[:, : (blocks - 1) * width]).reshape(-1, width)
        if besides.dtype == np.int64:
            factors = fold.factors([full], full.shape, cancel_check)
            mantissas, exponents = (part.reshape(outer, blocks - 1) for part in factors)
            found, powers = exact_folds.running_factors((mantissas, exponents), 1)
            found, more = exact_folds.factored(found)
            starts[:, 1:], besides[:, 1:] = found * 2, powers + more - 1  # at least 1
            return starts, besides
        sums = np.empty(len(full), total)
        fold.run([sums], [full], full.shape, cancel_check)
        lines = sums.reshape(outer, blocks - 1)
        with np.errstate(all="ignore"):
            if besides.dtype == np.float64:
                starts[:, 1:], losses = exact_folds.running_totals(lines, 1)
                besides[:, 1:] = np.where(np.isnan(losses), 0.0, losses)
            else:
                running = np.add if name == "cumsum" else np.multiply
                running.accumulate(lines, axis=1, out=starts[:, 1:])
    return starts, besides


# ---------------------------------------------------------------- warm-up


def catalogue() -> list[tuple[str, str, str]]:
    """Every kernel of the library as (name, dtype, view)."""
    entries = [
        (name, dtype, view)
        for dtype in ("float32", "float64", "float16")
        for view in VIEWS
        for name in (*FOLDS[:5], "var", "argmax", "argmin", "cumsum", "cumprod")
    ]
    entries += [(name, "bool", view) for name in ("any", "all") for view in VIEWS]
    entries += [(n, "int32", v) for n in ("sum", "max", "min", "argmax", "argmin") for v in VIEWS]
    entries += [(f"ctc_{kind}", dtype, "all") for kind in ("cost", "slope") for dtype in FLOATS[1:]]
    convolutions = ("conv_forward", "depthwise_forward")  # each brings its gradients along
    entries += [(name, dtype, "all") for name in convolutions for dtype in FLOATS[1:]]
    joins = [f"join_{kind}" for kind in join_kernels.KINDS]
    products = ("gemm_product", "local_product", *joins)
    entries += [(name, dtype, "all") for name in products for dtype in FLOATS[1:]]
    pools = [f"pool_{kind}_{walk}" for kind in POOL_KINDS for walk in ("rows", "cells")]
    windows = (*pools, "pool_windows", "resize_stretch", "resize_shrink")
    entries += [(name, dtype, "all") for name in windows for dtype in FLOATS[1:]]
    entries += [("move_rows", "uint8", "all")]
    entries += [("onehot_rows", dtype, "all") for dtype in FLOATS]
    words = [f"uint{bits}" for bits in (8, 16, 32, 64)]
    entries += [(f"move_{form}", word, "all") for form in ("cells", "tiles") for word in words]
    entries += [("rows_take", f"uint{bits}", "all") for bits in (8, 16, 32, 64)]
    entries += [("rows_add", dtype, "all") for dtype in (*FLOATS, "int32", "int64")]
    kinds = importlib.import_module("kbench.engine.kernels.random.fill").KINDS.items()
    return entries + [
        (f"random_{kind}", dtype, "all") for kind, dtypes in kinds for dtype in dtypes
    ]


def warmup(progress: Callable[[int, int, str], object] | None = None) -> int:
    """Compile the whole library into the cache, on all cores; returns how many kernels are ready.

    `progress(done, count, label)` is called after each.
    """
    left, ready, count = catalogue(), 0, len(catalogue())
    with service.warming_up():
        while left:
            pending = service.stats().pending  # looked at first: what is asked for may come of it
            found = [entry for entry in left if find(*entry) is not None]
            ready += len(found)
            more = service.stats().pending
            over = found if pending or more else list(left)
            for entry in over:
                left.remove(entry)
                if progress is not None:
                    progress(count - len(left), count, " ".join(entry))
            if left and not found:
                service.wait_for_change(0.5)
    return ready
