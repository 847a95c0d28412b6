"""Models on all libraries, each in a process of its own, in turns.

A library's first process finds nothing: kbench an empty cache of kernels, the others perhaps files
that no one has read yet. Its second process finds what the first left, and is what is measured.
Values are compared before anything is timed and again after, since kbench then runs other kernels.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import disagreement, spread, timed_in_turns, values
from process import Process, users_environment

from .cases import TOLERANCE, Case
from .runners import files

FOLDER = Path(__file__).resolve().parent
BUILDING = 600.0
"""Seconds until a model must be built; float64 on NumPy takes most of them."""
PATIENCE = 150.0
"""Seconds for a round, and for kernels to be compiled."""
PAUSE = 0.05
"""Seconds after a library's round: threads of some look for work that long before they sleep."""

Row = dict[str, Any]


def _surroundings(home: str, **more: str) -> dict[str, str]:
    """What a process finds in its environment."""
    root = str(FOLDER.parents[1])
    own = {"KERAS_BACKEND": "kbench", "KERAS_HOME": home, "PYTHONPATH": root}
    return {**own, "PYTHONWARNINGS": "ignore", **more}


def built(model: str, folder: str, home: str, peers: list[str]) -> str | None:
    """Write a model to the folder, for kbench and its peers; what went wrong, or None."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "build.py"), model, folder, *peers],
        capture_output=True,
        text=True,
        timeout=BUILDING,
        env={**users_environment(), **_surroundings(home, KBENCH_JIT="off")},
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    return None


class Contest:
    """The libraries, and the folder where kbench keeps the kernels of one case."""

    def __init__(self, names: list[str], python: str, threads: int, home: str) -> None:
        self.names, self.versions = names, dict[str, str]()
        self._python, self._threads, self._home = python, threads, home

    def start(self, name: str, folder: str, one: Case, cache: str) -> tuple[Process, Row]:
        """A process with the model loaded, and what its first call took and gave."""
        begun = time.time()
        python = sys.executable if name == "kbench" else self._python
        around = _surroundings(self._home, KBENCH_CACHE_DIR=cache)
        process = Process(python, name, self._threads, around, worker=FOLDER / "worker.py")
        if "error" in process.hello:
            return process, {"error": process.hello["error"]}
        self.versions[name] = process.hello["version"]
        answer, found = values(process, "prepare_case", folder=folder, batch=one.batch)
        if "error" not in answer:
            answer["start"] = answer["at"] - begun
            answer |= _judged(found, folder, one)
        return process, answer

    def measure(self, one: Case, folder: str, rounds: int, seconds: float) -> dict[str, Row]:
        """The rows of one case, by library."""
        rows: dict[str, Row] = {}
        able: list[Process] = []
        with tempfile.TemporaryDirectory() as cache:
            for name in self.names:
                cold = self._cold(name, folder, one, cache)
                process, rows[name] = self.start(name, folder, one, cache)
                rows[name]["cold"] = cold
                able.append(process)
            try:
                right = [process for process in able if "error" not in rows[process.name]]
                _timed(right, rows, rounds, seconds)
                for process in able:
                    self._last(process, rows[process.name], folder, one)
            finally:
                for process in able:
                    process.close()
        return rows

    def _cold(self, name: str, folder: str, one: Case, cache: str) -> float | None:
        """Seconds to the first result of a process that finds nothing."""
        process, row = self.start(name, folder, one, cache)
        if "error" not in row:
            process.ask("settle", PATIENCE)
        process.close()
        return row.get("start")

    def _last(self, process: Process, row: Row, folder: str, one: Case) -> None:
        """The memory, and whether the values are still right."""
        if "error" in row:
            return
        row["peak"] = process.ask("memory", reset=False).get("peak")
        answer, found = values(process, "last")
        row |= {"error": answer["error"]} if "error" in answer else _judged(found, folder, one)


def _judged(found: list[np.ndarray], folder: str, one: Case) -> Row:
    """How far a result is from that of float64, or why it is wrong."""
    expected = np.load(files(folder, one.batch)["expected"])[: one.batch]
    wrong = disagreement(found[0], expected, TOLERANCE)
    if wrong:
        return {"error": wrong}
    return {"off": float(np.abs(found[0] - expected).max() / np.abs(expected).max())}


def _timed(able: list[Process], rows: dict[str, Row], rounds: int, seconds: float) -> None:
    """Rounds that go from one library to the next, each time from another one on."""
    times = timed_in_turns(able, rows, rounds, seconds, PATIENCE, PAUSE)
    for name, found in times.items():
        if "error" not in rows[name]:
            rows[name] |= spread(found)
