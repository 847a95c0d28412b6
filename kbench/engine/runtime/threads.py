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
from typing import Any

from kbench.engine.core import fork_safety
from kbench.engine.runtime.environment import default_threads

MIN_PARALLEL_ELEMENTS = 100_000
"""Elements below which waking the other threads costs more than it gives."""

_numpy_was_loaded = "numpy" in sys.modules
_kept_spinning = _numpy_was_loaded and "OPENBLAS_THREAD_TIMEOUT" not in os.environ


own_settings: list[str] = []
"""Variables of the environment that kbench has set in this process, which its children inherit."""


def _set_environment() -> None:
    """Let idle threads sleep. What the user has set himself stays."""
    settings = {"OMP_WAIT_POLICY": "PASSIVE"}
    if not _numpy_was_loaded:
        settings["OPENBLAS_THREAD_TIMEOUT"] = "4"
    own_settings.extend(name for name in settings if name not in os.environ)
    os.environ.update({name: settings[name] for name in own_settings})


_set_environment()


def users_environment() -> dict[str, str]:
    """The environment without `own_settings`: that of a process which the user starts himself."""
    return {name: value for name, value in os.environ.items() if name not in own_settings}


parallel_lock = fork_safety.lock()
"""Held around every parallel call: the kernels' threads work for one caller at a time."""

compilers = 0
"""Compilers of ours that are at work."""


asked = 0
"""Threads that `K.set_num_threads` has asked for, which `config` keeps in step; 0 for none."""


class _Own(threading.local):
    most = 0  # threads that calls of this thread of Python may use; 0 for all


_own = _Own()
_shared = False
"""Whether any thread of Python has had a limit of its own."""


def count() -> int:
    """Threads that a parallel call may use now: the setting, which is 1 in a forked child."""
    found = asked or default_threads()
    return min(found, _own.most or found) if _shared else found


def limit_here(most: int) -> int:
    """Let calls of this thread use `most` threads, 0 for all; returns what was.

    Where several of them compute at a time, each is faster with its part of the threads than by
    turns with all: those of a call wait for one another, and so for whoever holds their core.
    """
    global _shared
    _shared = True
    before, _own.most = _own.most, most
    return before


def free() -> int:
    """Those of them that compilers of ours leave: each has a core of its own, or it would take many
    times as long, and the threads would wait for the one beside it."""
    return max(1, count() - compilers)


def count_compilers(change: int) -> None:
    """Tell of one more compiler at work, or of one less. The caller sees to it that one counts."""
    global compilers
    compilers += change


def _no_compilers() -> None:
    global compilers
    compilers = 0


fork_safety.in_child(_no_compilers)


def is_compiling() -> bool:
    """Whether a compiler of ours is at work."""
    return compilers > 0


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
