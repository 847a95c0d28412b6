"""`kbench bench`: the workloads on kbench and its peers, side by side in one run.

Each library works in a process of its own and only one works at a time. Values are compared with
a float64 reference before anything is timed; a library that disagrees is reported and not timed.
The first call is timed apart. Then rounds go from library to library, each round beginning with
another one, so that fast and slow phases of the machine meet all of them; medians and the middle
half of all calls are reported, and the ratio to the fastest peer (below 1: kbench is faster).

    kbench bench --only softmax --json out.json --markdown out.md
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from fresh import FRESH, measure_fresh
from libraries import NUMPY
from tables import markdown
from workloads import WORKLOADS, Workload

HERE = Path(__file__).resolve().parent
PEERS = ("numpy", "torch", "jax")
SEED = 20261120


class Process:
    """A library at work in a process of its own; it is asked one thing at a time."""

    def __init__(self, python: str, name: str, threads: int, environment: dict[str, str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment, "OMP_NUM_THREADS": str(threads)},
            text=True,
        )
        self.hello = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"{self.name} ended with code {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Ask for one thing and wait for the answer; trouble comes back as `error`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"error": f"{self.name} has ended"}
        return self._answer()

    def close(self) -> None:
        """End the process and wait for it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _reference(workload: Workload) -> np.ndarray:
    arrays = workload.inputs(np.random.default_rng(SEED))
    with np.errstate(all="ignore"):
        result = workload.formula(NUMPY, *(one.astype(np.float64) for one in arrays))
    return np.asarray(result)


def _disagreement(result: np.ndarray, reference: np.ndarray, tolerance: float) -> str | None:
    if result.shape != reference.shape:
        return f"shape {result.shape}, expected {reference.shape}"
    scale = float(np.max(np.abs(reference))) or 1.0
    worst = float(np.max(np.abs(result - reference))) / scale
    return None if worst <= tolerance else f"off by {worst:.2g}, allowed {tolerance:.2g}"


def measure(
    one: Workload, processes: list[Process], rounds: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Rows by library: first call, median, quartiles; or why there is no time."""
    rows: dict[str, dict[str, Any]] = {}
    reference = _reference(one)
    for process in processes:
        rows[process.name] = _checked(
            process, one, reference, "prepare", workload=one.name, seed=SEED
        )
    able = [one for one in processes if "error" not in rows[one.name]]
    for process in able:
        process.ask("warm", seconds=max(seconds, 0.3))
    times: dict[str, list[float]] = {one.name: [] for one in able}
    for number in range(rounds):
        shift = number % max(len(able), 1)
        for process in able[shift:] + able[:shift]:
            answer = process.ask("round", seconds=seconds)
            times[process.name] += answer.get("times", [])
    for process in able:
        # The form that was timed may be another one than that of the first call.
        checked = _checked(process, one, reference, "last")
        rows[process.name].update({**_spread(times[process.name]), **checked})
    return rows


def _checked(
    process: Process, one: Workload, reference: np.ndarray, do: str, **arguments: Any
) -> dict[str, Any]:
    """Ask for something that leaves a value; the answer, or `error` when the value is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.npy")
        answer = process.ask(do, result=result, **arguments)
        if "error" not in answer:
            wrong = _disagreement(np.load(result), reference, one.tolerance)
            answer = {**answer, "error": wrong} if wrong else answer
    return answer


def _spread(times: list[float]) -> dict[str, Any]:
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


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _available(python: str, name: str) -> bool:
    module = "torch" if name == "torch-compile" else name
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    script = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.call([python, "-c", script]) == 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kbench bench", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", default="", help="workloads whose name contains this text")
    parser.add_argument("--peers", default=",".join(PEERS), help="libraries to compare with")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each library's round")
    parser.add_argument("--peer-python", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--json", metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    options = parser.parse_args(arguments)
    if options.threads < 1 or options.rounds < 1 or options.seconds <= 0:
        parser.error("--threads, --rounds and --seconds must be positive")
    return options


def _run_workloads(chosen: list[Workload], options: argparse.Namespace) -> dict[str, Any]:
    """Every chosen workload; kbench's process is another one for each compile mode."""
    names = [name for name in options.peers.split(",") if name]
    found = [name for name in names if name == "numpy" or _available(options.peer_python, name)]
    for name in sorted(set(names) - set(found)):
        print(f"{name} is not installed; left out", file=sys.stderr)
    results: dict[str, Any] = {"versions": {}, "rows": {}}
    for mode in sorted({one.jit for one in chosen}):
        processes = [Process(sys.executable, "kbench", options.threads, {"KBENCH_JIT": mode})]
        processes += [
            Process(
                sys.executable if name == "numpy" else options.peer_python,
                name,
                options.threads,
                {},
            )
            for name in found
        ]
        for process in processes:
            results["versions"][process.name] = process.hello.get("version")
            if "error" in process.hello:
                print(f"{process.name}: {process.hello['error']}", file=sys.stderr)
        for workload in (one for one in chosen if one.jit == mode):
            print(f"{workload.name} ...", file=sys.stderr, flush=True)
            rows = measure(workload, processes, options.rounds, options.seconds)
            results["rows"][workload.name] = rows
        for process in processes:
            process.close()
    return results


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, write the files; 1 when kbench's values are wrong."""
    options = _options(arguments)
    chosen = [one for name, one in WORKLOADS.items() if options.only in name]
    fresh = [name for name in FRESH if options.only in name]
    if options.list:
        for one in chosen:
            print(f"{one.name:<26}{one.note}")
        for name in fresh:
            print(f"{name:<26}{FRESH[name].note}")
        return 0
    if not chosen and not fresh:
        print(f"no workload's name contains {options.only!r}", file=sys.stderr)
        return 2
    report = {
        "machine": {
            "cpu": _cpu_name(),
            "threads": options.threads,
            "python": platform.python_version(),
        },
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "load_before": os.getloadavg(),
        **(_run_workloads(chosen, options) if chosen else {"versions": {}, "rows": {}}),
        "fresh": measure_fresh(fresh, options.rounds),
    }
    report["load_after"] = os.getloadavg()
    text = markdown(report)
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(text + "\n")
    wrong = [name for name, rows in report["rows"].items() if "error" in rows["kbench"]]
    for name in wrong:
        print(f"{name}: {report['rows'][name]['kbench']['error']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
