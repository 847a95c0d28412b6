"""First calls in a fresh process: what a user waits for with and without a cache of kernels.

For each workload: the time of a call when every kernel is there; the first call of another process
that finds the kernels in the cache; the first call, and the slowest of those that follow, of a
process with an empty cache, which compiles in the background. The last two are set against NumPy:
the formula's own NumPy form, or, where it needs gradients, kbench's NumPy forms.

The share of a first call that the system took is told beside it: memory that a process uses for the
first time is given to it then, which takes a virtual machine up to 6 ms for 2 MB.
"""

from __future__ import annotations

import sys
import tempfile
from statistics import median
from typing import Any

from measuring import SEED
from process import Process
from workloads import Workload

BEYOND = 0.05  # seconds that a first call may take beyond its run time
TIMES = 2.0  # of NumPy's time, with an empty cache
_FOLLOWING = 1.0  # seconds of calls after the first one


class _Fresh:
    """A process for one question, with a folder of kernels of its own or the common one."""

    def __init__(self, name: str, threads: int, mode: str, cache: str) -> None:
        environment = {"KBENCH_JIT": mode, "KBENCH_CACHE_DIR": cache}
        self.process = Process(sys.executable, name, threads, environment)

    def __enter__(self) -> Process:
        return self.process

    def __exit__(self, *error: Any) -> None:
        self.process.close()


def _prepared(process: Process, one: Workload) -> tuple[float, float]:
    """Seconds of the first call, and those of them that the system took."""
    answer = process.ask("prepare", 90.0, workload=one.name, seed=SEED)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return float(answer["first"]), float(answer["system"])


def _usual(process: Process, one: Workload) -> float:
    _prepared(process, one)
    process.ask("warm", seconds=0.1)
    return median(process.ask("round", seconds=0.1, least=3)["times"])


def _numpy(one: Workload, threads: int, cache: str) -> float:
    with _Fresh("numpy", threads, "off", cache) as process:
        try:
            return _usual(process, one)
        except RuntimeError as error:
            if not str(error).startswith("Missing"):
                raise
    with _Fresh("kbench", threads, "off", cache) as process:
        return _usual(process, one)


def measure_first(one: Workload, threads: int, cache: str) -> dict[str, Any]:
    """Seconds, by what they are; or the error that stopped it."""
    try:
        with _Fresh("kbench", threads, "auto", cache) as process:
            usual = _usual(process, one)
        with _Fresh("kbench", threads, "auto", cache) as process:
            warm, warm_system = _prepared(process, one)
        with (
            tempfile.TemporaryDirectory() as empty,
            _Fresh("kbench", threads, "auto", empty) as process,
        ):
            cold, cold_system = _prepared(process, one)
            following = process.ask("round", seconds=_FOLLOWING, least=2)["times"]
        numpy = _numpy(one, threads, cache)
    except (RuntimeError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "usual": usual,
        "warm": warm,
        "warm_system": warm_system,
        "cold": cold,
        "cold_system": cold_system,
        "following": max(following),
        "numpy": numpy,
    }


def reached(row: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Whether the first call with a cache, the first without, and the following are in time.

    A first call without a cache is allowed the tracing and binding that one with a cache is.
    """
    limit = TIMES * row["numpy"]
    return (
        row["warm"] - row["usual"] <= BEYOND,
        row["cold"] <= limit + BEYOND,
        row["following"] <= max(limit, row["usual"] * TIMES),
    )
