"""One workload on all libraries: values first, then rounds that go from one to the next.

Values are compared with a reference in float64 before anything is timed, and again after: the form
that was timed may be another one than that of the first call. A library that disagrees is reported
and not timed. Rounds begin with another library each time, so that fast and slow phases of the
machine meet all of them.
"""

from __future__ import annotations

import os
import tempfile
import time
from statistics import median, quantiles
from typing import Any

import numpy as np
from process import Process
from workloads import Workload

SEED = 20261120
LARGE = 32 << 20  # bytes of a result from which the allocator matters
_PREPARE = 90.0  # seconds a library may take for its first call
_SLOW, _SLOW_SECONDS = 6, 0.02  # so many times the fastest, and longer: one round is enough
_PAUSE = 0.004  # for the threads of the last library to go to sleep


def disagreement(result: Any, reference: Any, tolerance: float) -> str | None:
    """What is wrong with a value, or None."""
    if np.shape(result) != np.shape(reference):
        return f"shape {np.shape(result)}, expected {np.shape(reference)}"
    if not np.size(reference):
        return None
    scale = max(float(np.max(reference)), -float(np.min(reference))) or 1.0
    if np.asarray(result).dtype.kind == "f":  # in the result's precision, which is all it has
        reference = np.asarray(reference, np.asarray(result).dtype)
    away = np.subtract(result, reference)
    worst = max(float(np.max(away)), -float(np.min(away))) / scale
    return None if worst <= tolerance else f"off by {worst:.2g}, allowed {tolerance:.2g}"


def _compare(one: Workload, results: list[Any], references: list[Any]) -> str | None:
    if len(results) != len(references):
        return f"{len(results)} results, expected {len(references)}"
    for result, reference in zip(results, references, strict=True):
        if one.summary is not None:
            result, reference = one.summary(result), one.summary(reference)
        wrong = disagreement(result, reference, one.tolerance)
        if wrong:
            return wrong
    return None


def values(process: Process, do: str, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
    """Ask for something that leaves a value: the answer, and the value."""
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        answer = process.ask(do, _PREPARE, result=folder, **arguments)
        if "error" in answer:
            return answer, []
        files = sorted(os.listdir(folder))
        return answer, [np.load(os.path.join(folder, name)) for name in files]


def _checked(
    process: Process, one: Workload, references: list[Any], do: str, **arguments: Any
) -> dict[str, Any]:
    answer, results = values(process, do, **arguments)
    if "error" in answer:
        absent = answer["error"].startswith("Missing: ")
        return {"absent": answer["error"].removeprefix("Missing: ")} if absent else answer
    wrong = _compare(one, results, references)
    return {**answer, "error": wrong} if wrong else answer


def measure(
    one: Workload,
    reference: Process,
    processes: list[Process],
    kept: list[Process],
    rounds: int,
    seconds: float,
) -> dict[str, dict[str, Any]]:
    """Rows by label: first call, median, quartiles; or why there is no time. The processes of
    `kept`, which keep freed memory, take part where a result is large."""
    answer, references = values(reference, "prepare", workload=one.name, seed=SEED)
    reference.ask("forget")
    if "error" in answer:
        return {"kbench": {"error": f"no reference: {answer['error']}"}}
    large = max(4 * array.size for array in references)
    narrow = one.summary is None and one.tolerance >= 1e-6  # far above the rounding of float32
    if narrow and all(array.dtype.kind == "f" for array in references):
        references = [array.astype(np.float32) for array in references]
    taking = processes + (kept if large > LARGE else [])
    rows = {
        process.name: _checked(process, one, references, "prepare", workload=one.name, seed=SEED)
        for process in taking
    }
    able = [one for one in taking if not rows[one.name].keys() & {"error", "absent"}]
    times = _rounds(able, rows, rounds, seconds)
    for process in able:
        if "error" not in rows[process.name]:
            checked = _checked(process, one, references, "last")
            rows[process.name].update({**spread(times[process.name]), **checked})
    for process in taking:
        process.ask("forget")
    return rows


def _rounds(
    able: list[Process], rows: dict[str, dict[str, Any]], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Times by label; a library that fails on the way gets its `error` into the rows."""
    times: dict[str, list[float]] = {one.name: [] for one in able}
    best: dict[str, float] = {}
    for process in able:
        answer = process.ask("warm", seconds=max(seconds, 0.1))
        best[process.name] = answer.get("best", float("inf"))
        rows[process.name].update({key: answer[key] for key in answer if key == "error"})
    enough = max(_SLOW_SECONDS, _SLOW * min(best.values(), default=0.0))
    for number in range(rounds):
        shift = number % max(len(able), 1)
        for process in able[shift:] + able[:shift]:
            slow = best[process.name] > enough
            if "error" in rows[process.name] or (slow and number):
                continue
            time.sleep(_PAUSE)
            answer = process.ask("round", seconds=seconds, least=2 if slow or rounds == 1 else 1)
            times[process.name] += answer.get("times", [])
            rows[process.name].update({key: answer[key] for key in answer if key == "error"})
    return times


def timed_in_turns(
    able: list[Process],
    rows: dict[str, dict[str, Any]],
    rounds: int,
    seconds: float,
    patience: float,
    pause: float,
) -> dict[str, list[float]]:
    """Times by name, of processes that settle first: rounds go from one to the next, each time from
    another one on. One that fails gets its `error` into the rows, and takes part no longer."""
    times: dict[str, list[float]] = {one.name: [] for one in able}
    for process in able:
        if "error" not in rows[process.name]:
            rows[process.name] |= trouble(process.ask("settle", patience))
            rows[process.name] |= trouble(process.ask("warm", patience, seconds=max(seconds, 0.1)))
    for number in range(rounds):
        shift = number % max(len(able), 1)
        for process in able[shift:] + able[:shift]:
            if "error" in rows[process.name]:
                continue
            time.sleep(pause)
            answer = process.ask("round", patience, seconds=seconds, least=2)
            times[process.name] += answer.get("times", [])
            rows[process.name] |= trouble(answer)
    return times


def trouble(answer: dict[str, Any]) -> dict[str, Any]:
    """The `error` of an answer, or nothing."""
    return {key: value for key, value in answer.items() if key == "error"}


def spread(times: list[float]) -> dict[str, Any]:
    """Median, middle half and best of calls."""
    if len(times) < 2:
        return {"error": "no times"}
    low, _, high = quantiles(times, n=4)
    return {
        "median": median(times),
        "low": low,
        "high": high,
        "best": min(times),
        "calls": len(times),
    }
