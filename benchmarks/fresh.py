"""What a user waits for in a fresh process: commands, imports and the very first evaluation.

Rounds go through all measurements in turn, and `import kbench` is set against `import numpy` of
the same round, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from process import users_environment

_TIMED_IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""

# What the installed console script does.
_VERSION = """
import sys
sys.argv = ["kbench", "--version"]
from kbench_launcher import main
sys.exit(main())
"""

_FIRST_EVAL = """
import time
import kbench as K
a, b = K.variable([[1., 2., 3., 4.]] * 3), K.variable([[4., 3., 2., 1.]] * 3)
start = time.perf_counter()
K.eval(K.tanh(a * 2.0 + b) / (1.0 + K.square(b)))
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Fresh:
    """One measurement: a command that is timed whole, or a script that prints its own seconds."""

    note: str
    arguments: tuple[str, ...]
    prints: bool = False
    empty_cache: bool = False
    minus: str | None = None


FRESH = {
    "fresh.python": Fresh("an empty Python process", ("-c", "pass")),
    "fresh.version": Fresh("kbench --version, whole process", ("-c", _VERSION)),
    "fresh.import_numpy": Fresh("import numpy", ("-c", _TIMED_IMPORT.format(module="numpy")), True),
    "fresh.import_kbench": Fresh(
        "import kbench, less import numpy of the same round",
        ("-c", _TIMED_IMPORT.format(module="kbench")),
        True,
        minus="fresh.import_numpy",
    ),
    "fresh.first_eval": Fresh(
        "first K.eval of a small expression, nothing compiled",
        ("-c", _FIRST_EVAL),
        True,
        empty_cache=True,
    ),
}


def _command(one: Fresh) -> list[str]:
    return [sys.executable, *one.arguments]


def _once(one: Fresh, cache: str) -> float:
    environment = users_environment()
    if one.empty_cache:
        environment["KBENCH_CACHE_DIR"] = cache
    start = time.perf_counter()
    done = subprocess.run(_command(one), capture_output=True, text=True, env=environment)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "failed")
    return float(done.stdout) if one.prints else seconds


def measure_fresh(names: list[str], rounds: int) -> dict[str, dict[str, Any]]:
    """Median, best and worst seconds by name; or the error that stopped it."""
    wanted = list(dict.fromkeys([FRESH[name].minus or name for name in names] + names))
    times: dict[str, list[float]] = {name: [] for name in wanted}
    errors: dict[str, str] = {}
    for number in range(rounds + 1):
        for name in wanted:
            if name in errors:
                continue
            with tempfile.TemporaryDirectory() as cache:
                try:
                    seconds = _once(FRESH[name], cache)
                except (RuntimeError, ValueError) as error:
                    errors[name] = str(error)
                    continue
            if number:  # the first round only fills the disk cache
                times[name].append(seconds)
    return {name: _row(name, times, errors) for name in names}


def _row(name: str, times: dict[str, list[float]], errors: dict[str, str]) -> dict[str, Any]:
    base = FRESH[name].minus
    if name in errors or (base is not None and base in errors):
        return {"error": errors.get(name) or errors[str(base)]}
    found = times[name]
    if base is not None:
        found = [one - other for one, other in zip(found, times[base], strict=True)]
    return {"median": median(found), "best": min(found), "worst": max(found), "runs": len(found)}
