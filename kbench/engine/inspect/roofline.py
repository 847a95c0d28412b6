"""What this machine can do at best: memory, cache and matrix-product rates, measured once and kept.

The plan view and `kbench doctor` show a step's rates against these. What a step moves and the
caches hold comes from there, many times faster than memory gives it: so there is a rate for each of
some sizes, the better of copying and of reading alone.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.core import fork_safety
from kbench.engine.runtime import paths, threads
from kbench.engine.runtime.cpu_caches import last_level_bytes

COPY_BYTES = 64 * 2**20
GEMM_SIZE = 1024
MAX_FILE_BYTES = 1 << 16
"""Bytes of the file that they are kept in."""
MEASURING_SECONDS = 0.12
CACHED_COPY_BYTES = (1 << 17, 1 << 20, 1 << 23)
"""Bytes moved, where the caches hold twice as many."""
CACHED_MEASURING_SECONDS = 0.015


class Limits(Struct, frozen=True):
    """Best rates seen, with `threads` threads: bytes read and written, and operations of GEMM.

    `cached` are pairs of bytes and of the rate from there on, below the caches' size, `cache`.
    """

    copy_gb_per_s: float
    gemm_float32: float
    gemm_float64: float
    threads: int
    read_gb_per_s: float = 0.0
    cached: tuple[tuple[int, float], ...] = ()
    cache: int = 0


def _best(run: Callable[[], object], seconds: float = MEASURING_SECONDS) -> float:
    """Shortest of the runs that fit into some time, after one that warms up."""
    run()
    shortest, end = float("inf"), time.perf_counter() + seconds
    while True:
        begun = time.perf_counter()
        run()
        now = time.perf_counter()
        shortest = min(shortest, now - begun)
        if now > end:
            return shortest


def _copy_seconds(moved: int, seconds: float) -> float:
    """Of copying so many bytes, half of them read and half written."""
    from kbench.engine.codegen.loop_kernel import request

    source = np.ones(moved // 8, np.float32)
    target = np.ones_like(source)
    program = loop_nest((Input("float32", (True,)),), (loop_value("a0", "float32"),), (0,))
    kernel = request(program)
    if kernel is None:
        return _best(lambda: np.copyto(target, source), seconds)
    return _best(lambda: kernel.run([target], [source], source.shape), seconds)


def _read_seconds(moved: int, seconds: float) -> float:
    """Of reading so many bytes."""
    left, right = np.ones((2, moved // 8), np.float32)
    return _best(lambda: np.dot(left, right), seconds)


def _cached_rates() -> tuple[tuple[int, float], ...]:
    """The rates where the caches hold what is moved, without what a call costs by itself."""
    found = []
    for size in CACHED_COPY_BYTES:
        if 2 * size > last_level_bytes():
            break
        rates = []
        for run in (_copy_seconds, _read_seconds):
            once, twice = (
                run(size, CACHED_MEASURING_SECONDS),
                run(2 * size, CACHED_MEASURING_SECONDS),
            )
            more = max(twice - once, twice / 8)  # else it is the clock that is measured
            rates.append(size / more / 1e9)
        found.append((size, max(rates)))
    return tuple(found)


def _gemm_rate(dtype: str) -> float:
    x = np.ones((GEMM_SIZE, GEMM_SIZE), dtype)
    out = np.empty_like(x)

    def multiply() -> None:
        with fork_safety.unforked:
            np.matmul(x, x, out=out)

    seconds = _best(multiply)
    return 2 * GEMM_SIZE**3 / seconds / 1e9


def _file() -> Path:
    from kbench.engine.jit import disk_cache

    return paths.cache_dir() / f"limits-2-{disk_cache.machine()}-{threads.count()}.json"


def _read(path: Path) -> Limits | None:
    try:
        given = json.loads(paths.read_regular(path, MAX_FILE_BYTES))
        given["cached"] = tuple((int(size), float(rate)) for size, rate in given["cached"])
        found = Limits(**given)
        rates = [found.copy_gb_per_s, found.gemm_float32, found.gemm_float64, found.read_gb_per_s]
        rates += [rate for _, rate in found.cached]
        return found if all(0 < float(rate) < 1e7 for rate in rates) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _write(path: Path, limits: Limits) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(asdict(limits), stream)
        os.replace(temporary, path)
    except OSError:
        return  # they are measured again next time


def known() -> Limits | None:
    """The limits that were measured earlier with as many threads, if they were."""
    return _read(_file())


def measure(*, again: bool = False) -> Limits:
    """This machine's limits: from the cache folder, or measured in less than a second.

    `again` measures anew and keeps the better figures, as other work only ever lowers them.
    """
    path = _file()
    known = _read(path)
    if known is not None and not again:
        return known
    moved = 2 * COPY_BYTES
    found = Limits(
        moved / _copy_seconds(moved, MEASURING_SECONDS) / 1e9,
        _gemm_rate("float32"),
        _gemm_rate("float64"),
        threads.count(),
        moved / _read_seconds(moved, MEASURING_SECONDS / 2) / 1e9,
        _cached_rates(),
        last_level_bytes(),
    )
    if known is not None:
        before = dict(known.cached)
        cached = tuple((size, max(rate, before.get(size, 0.0))) for size, rate in found.cached)
        names = ("copy_gb_per_s", "gemm_float32", "gemm_float64", "read_gb_per_s")
        best = {name: max(getattr(found, name), getattr(known, name)) for name in names}
        found = replace(found, cached=cached, **best)
    _write(path, found)
    return found
