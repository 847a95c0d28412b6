"""What this machine can do at best: copy and matrix-product rates, measured once and kept.

The plan view and `kbench doctor` show a step's rates against these.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from kbench.engine import folders, threads
from kbench.engine.kernels.program import Input, Program, Statement

COPY_BYTES = 64 * 2**20
GEMM_SIZE = 1024
SECONDS = 0.15


@dataclass(frozen=True)
class Limits:
    """Best rates seen, with `threads` threads: bytes read and written, and operations of GEMM."""

    copy_gb_per_s: float
    gemm_float32: float
    gemm_float64: float
    threads: int


def _best(run: Callable[[], object], seconds: float = SECONDS) -> float:
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


def _copy_seconds() -> float:
    from kbench.engine.kernels.loops import request

    source = np.ones(COPY_BYTES // 4, np.float32)
    target = np.ones_like(source)
    program = Program((Input("float32", (True,)),), (Statement("a0", "float32"),), (0,))
    kernel = request(program)
    if kernel is None:
        return _best(lambda: np.copyto(target, source))
    return _best(lambda: kernel.run([target], [source], source.shape))


def _gemm_rate(dtype: str) -> float:
    x = np.ones((GEMM_SIZE, GEMM_SIZE), dtype)
    out = np.empty_like(x)
    seconds = _best(lambda: np.matmul(x, x, out=out))
    return 2 * GEMM_SIZE**3 / seconds / 1e9


def _file() -> Path:
    from kbench.engine.kernels import store

    return folders.cache_dir() / f"limits-{store.machine()}-{threads.count()}.json"


def _read(path: Path) -> Limits | None:
    try:
        found = Limits(**json.loads(path.read_text(encoding="utf-8")))
        rates = (found.copy_gb_per_s, found.gemm_float32, found.gemm_float64)
        return found if all(0 < float(rate) < 1e7 for rate in rates) else None
    except (OSError, ValueError, TypeError):
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
    """This machine's limits: from the cache folder, or measured in about half a second.

    `again` measures anew and keeps the better figures, as other work only ever lowers them.
    """
    path = _file()
    known = _read(path)
    if known is not None and not again:
        return known
    copied = 2 * COPY_BYTES / _copy_seconds() / 1e9
    found = Limits(copied, _gemm_rate("float32"), _gemm_rate("float64"), threads.count())
    if known is not None:
        rates = {name: max(rate, getattr(known, name)) for name, rate in asdict(found).items()}
        found = Limits(**rates)
    _write(path, found)
    return found
