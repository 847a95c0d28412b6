"""Backends in processes of their own, in turns.

A backend's first processes find nothing: kbench an empty cache of kernels, the others perhaps files
that no one has read yet. Later ones find what the last of these left, and the last of them is what
is measured. First batches are those of several processes, in turns: on a virtual machine, memory
may take ten times as long to come for one process as for the next. The losses of a batch and of an
epoch must agree before anything is timed.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from measuring import spread, timed_in_turns, trouble
from process import Process, users_environment

from .cases import BATCHES, FIRSTS, LATER_TOLERANCE, TOLERANCE

FOLDER = Path(__file__).resolve().parent
PATIENCE = 240.0
"""Seconds for a first epoch, for a round, and for kernels to be compiled."""
PAUSE = 0.05
"""Seconds after a backend's round: threads of some look for work that long before they sleep."""
IMPORTS = 5
"""Processes of each backend that import Keras and end."""

Row = dict[str, Any]


class Contest:
    """The backends, and the Python that has them."""

    def __init__(self, names: list[str], python: str, threads: int, home: str) -> None:
        self.names, self.versions = names, dict[str, str]()
        self._python, self._threads, self._home = python, threads, home

    def _around(self, name: str, cache: str) -> dict[str, str]:
        root = str(FOLDER.parents[1])
        own = {"KERAS_BACKEND": name, "KERAS_HOME": self._home, "KBENCH_CACHE_DIR": cache}
        quiet = {"PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
        quiet["KBENCH_COMPILE_AFTER_EXIT"] = "off"  # it would compile beside the next process
        return {**own, **quiet, "PYTHONPATH": root}

    def _process(self, name: str, cache: str) -> Process:
        around, file = self._around(name, cache), FOLDER / "worker.py"
        process = Process(self._python, name, self._threads, around, worker=file)
        if "version" in process.hello:
            self.versions[name] = process.hello["version"]
        return process

    def measure(self, case: str, rounds: int, seconds: float) -> dict[str, Row]:
        """The rows of one model, by backend."""
        last: dict[str, Process] = {}
        with tempfile.TemporaryDirectory() as folder:
            caches = [f"{folder}/{number}" for number in range(FIRSTS)]
            try:
                cold = self._first_batches(case, caches, last)
                if "error" not in cold["kbench"]:
                    _compile_all(last["kbench"])
                rows = self._first_batches(case, caches[-1:] * FIRSTS, last, epoch=True)
                for name, row in rows.items():
                    row |= {"cold": cold[name].get("first"), **trouble(cold[name])}
                _agree(rows)
                able = [last[name] for name in self.names]
                for what in ("fit", "predict"):
                    _timed(able, rows, what, {"what": what}, rounds, seconds)
                for process in able:
                    if "error" not in rows[process.name]:
                        rows[process.name]["peak"] = process.ask("memory", reset=False)["peak"]
            finally:
                for process in last.values():
                    process.close()
        return rows

    def _first_batches(
        self, case: str, caches: list[str], last: dict[str, Process], epoch: bool = False
    ) -> dict[str, Row]:
        """The rows of backends, with their first batches in a process for each of the caches, in
        turns. Each takes the place of the `last` one; what is left there goes on for an `epoch`."""
        rows: dict[str, Row] = {name: {} for name in self.names}
        times: dict[str, list[Row]] = {name: [] for name in self.names}
        for number, cache in enumerate(caches):
            shift = number % len(self.names)
            for name in self.names[shift:] + self.names[:shift]:
                if name in last:
                    last[name].close()
                if "error" in rows[name]:
                    continue
                last[name] = process = self._process(name, cache)
                rows[name] = trouble(process.hello)
                if not rows[name]:
                    goes_on = epoch and number == len(caches) - 1
                    rows[name] = process.ask("start", PATIENCE, name=case, epoch=goes_on)
                times[name].append(rows[name])
        for name, row in rows.items():
            if "error" not in row:
                row["first"] = _least_to_most([one["first"] for one in times[name]])
                row["first"]["system"] = median(one["system"] for one in times[name])
        return rows

    def measure_eager(self, names: list[str], rounds: int, seconds: float) -> dict[str, Any]:
        """Rows by call and backend."""
        found: dict[str, dict[str, Row]] = {name: {} for name in names}
        with tempfile.TemporaryDirectory() as cache:
            able = [self._process(name, cache) for name in self.names]
            try:
                for call in names:
                    rows = found[call]
                    for process in able:
                        rows[process.name] = dict(process.hello) if "error" in process.hello else {}
                        rows[process.name].pop("version", None)
                    _timed(able, rows, "call", {"name": call}, rounds, seconds)
            finally:
                for process in able:
                    process.close()
        return found

    def measure_imports(self) -> dict[str, Row]:
        """Seconds and memory of processes that import Keras on a backend, in turns."""
        text = "import keras, resource; keras.ops; print(resource.getrusage(0).ru_maxrss * 1024)"
        times: dict[str, list[float]] = {name: [] for name in self.names}
        peaks: dict[str, int] = {}
        with tempfile.TemporaryDirectory() as cache:
            for _ in range(IMPORTS + 1):  # the first of each may read files that no one has read
                for name in self.names:
                    before = "import keras_kbench; " if name == "kbench" else ""
                    begun = time.perf_counter()
                    done = subprocess.run(
                        [self._python, "-c", before + text],
                        capture_output=True,
                        text=True,
                        timeout=PATIENCE,
                        env={**users_environment(), **self._around(name, cache)},
                    )
                    times[name].append(time.perf_counter() - begun)
                    if done.returncode == 0:
                        peaks[name] = int(done.stdout.split()[-1])
        return {
            name: {**_least_to_most(times[name][1:]), "peak": peaks[name]}
            if name in peaks
            else {"error": "the import failed"}
            for name in self.names
        }


def _compile_all(process: Process) -> None:
    """Have the kernels of training and predicting compiled, for the processes that come later."""
    for what in ("fit", "predict"):
        process.ask("choose", what=what)
        process.ask("settle", PATIENCE)


def _least_to_most(times: list[float]) -> Row:
    return {"median": median(times), "low": min(times), "high": max(times)}


def _agree(rows: dict[str, Row]) -> None:
    """An error in each row whose losses are not those of the middle one."""
    right = {name: row["losses"] for name, row in rows.items() if "error" not in row}
    if not right:
        return
    middle = [median(losses) for losses in zip(*right.values(), strict=True)]
    for name, losses in right.items():
        away = [abs(a - b) / abs(b) for a, b in zip(losses, middle, strict=True)]
        rows[name]["off"] = away[0], max(away)
        for worst, allowed in ((away[0], TOLERANCE), (max(away), LATER_TOLERANCE)):
            if worst > allowed:
                rows[name]["error"] = f"losses off by {worst:.2g}, allowed {allowed:.2g}"


def _timed(
    able: list[Process],
    rows: dict[str, Row],
    what: str,
    arguments: dict[str, str],
    rounds: int,
    seconds: float,
) -> None:
    """Rounds that go from one backend to the next, each time from another one on."""
    choose = "choose_eager" if what == "call" else "choose"
    for process in able:
        if "error" not in rows[process.name]:
            rows[process.name] |= trouble(process.ask(choose, **arguments))
    times = timed_in_turns(able, rows, rounds, seconds, PATIENCE, PAUSE)
    steps = 1 if what == "call" else BATCHES
    for name, found in times.items():
        if "error" not in rows[name]:
            rows[name][what] = spread([one / steps for one in found])
