"""What the process was given: environment variables, which small evaluations ask for at each call,
and cores."""

from __future__ import annotations

import functools
import os

# What os.environ keeps its variables in, where it does: this tells in a tenth of the time that one
# is not set, as most are not.
_held = getattr(os.environ, "_data", os.environ)
_key = functools.cache(getattr(os.environ, "encodekey", str))


def env(name: str) -> str | None:
    """An environment variable, None when unset or empty."""
    return (os.environ.get(name) or None) if _key(name) in _held else None


def cores() -> int:
    """Cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


@functools.cache
def usual_threads() -> int:
    """Threads of a parallel call where nobody sets how many, as first asked for."""
    asked = env("KBENCH_NUM_THREADS")
    return int(asked) if asked is not None and asked.isdigit() and int(asked) > 0 else cores()
