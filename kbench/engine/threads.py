"""The one place that owns threads: how idle ones wait, how many there are, who may run in parallel.

Idle OpenBLAS and OpenMP threads spin by default and steal the core from the other pool, which makes
alternating matrix products and kernels up to thirty times slower. Both pools read how to wait from
the environment when they are loaded, so this module must be imported before NumPy; when a host has
imported NumPy first, `blas_spins` says so and `limit_blas` is the remedy.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PARALLEL_FROM = 100_000
"""Elements below which waking the other threads costs more than it gives."""

_numpy_was_loaded = "numpy" in sys.modules
_kept_spinning = _numpy_was_loaded and "OPENBLAS_THREAD_TIMEOUT" not in os.environ


def _set_environment() -> None:
    """Let idle threads sleep. What the user has set himself stays."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if not _numpy_was_loaded:
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


_set_environment()

parallel_lock = threading.RLock()
"""Held around every parallel call: numba's fallback pool aborts the process on two at once."""

_forked = False


def _after_fork() -> None:
    """A child has no copy of the pool's threads, so it computes on its one thread."""
    global _forked, parallel_lock
    _forked = True
    parallel_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def count() -> int:
    """Threads that a parallel call may use now: the setting, or 1 in a forked child."""
    from kbench.engine import config

    return 1 if _forked else config.num_threads()


@contextmanager
def parallel() -> Iterator[int]:
    """Hold the right to run in parallel; gives the number of threads to use."""
    with parallel_lock:
        yield count()


def blas_spins() -> bool:
    """Whether idle BLAS threads keep their cores busy, because NumPy was loaded before kbench."""
    return _kept_spinning and any(pool["num_threads"] > 1 for pool in _blas_pools())


def _blas_pools() -> list[dict[str, Any]]:
    from threadpoolctl import threadpool_info

    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def limit_blas(limit: int) -> Any:
    """Limit BLAS to `limit` threads until the returned object is left as a context, or for good."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=limit, user_api="blas")


def choose_layer() -> str:
    """Make the best threading layer loadable and name it: 'tbb', 'omp', or 'workqueue'.

    TBB from a package index lies in the environment's own library folder, where the loader does
    not look; naming it once helps. Every layer is used under `parallel_lock` only.
    """
    if os.environ.get("NUMBA_THREADING_LAYER"):
        return os.environ["NUMBA_THREADING_LAYER"]
    if sys.platform.startswith("linux") and _importable("numba.np.ufunc.omppool"):
        return "omp"
    _preload_tbb()
    for layer in ("tbb", "omp"):
        if _importable(f"numba.np.ufunc.{layer}pool"):
            return layer
    return "workqueue"


def _importable(name: str) -> bool:
    import importlib

    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _preload_tbb() -> None:
    import ctypes
    from pathlib import Path

    names = {"linux": "lib/libtbb.so.12", "darwin": "lib/libtbb.12.dylib"}
    path = Path(sys.prefix) / names.get(sys.platform, "Library/bin/tbb12.dll")
    if path.exists():
        try:
            ctypes.CDLL(str(path), getattr(os, "RTLD_GLOBAL", 0) | getattr(os, "RTLD_NOW", 0))
        except OSError:
            return
