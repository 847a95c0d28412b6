"""`kbench bench`: the workloads on kbench and its peers, side by side in one run.

Each library works in a process of its own and only one works at a time. Values are compared with
a float64 reference before anything is timed; a library that disagrees is reported and not timed.
The first call is timed apart. Then rounds go from library to library; medians and the middle half
of all calls are reported, the ratio to the fastest peer (below 1: kbench is faster), and whether
it reaches the goal. Results over 32 MiB are measured twice: with the allocator as it is, and in
processes that keep freed memory.

    kbench bench --only softmax,conv.3x3 --json out.json --markdown out.md
    kbench bench --quick
    kbench bench --threads 1,2 --peers ""
    kbench bench --against ../before --only reduce   another tree of kbench, in turns with this one
    kbench bench --fresh            first calls, with and without a cache of kernels
    kbench bench --memory           of the training steps
    kbench bench --forms            what each form of an operation pays
    kbench bench --cold             models of Keras in processes that begin with nothing
    kbench bench --inference        models of Keras, beside ONNX Runtime and OpenVINO
    kbench bench --keras3           models of Keras 3 on kbench, JAX, PyTorch and TensorFlow
    kbench bench --scaling          what more cores would give, from what one and two threads take
    kbench bench --cluster          workers of Dask beside one process, and what more would give
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster
import scaling
from cluster_runs import MODELS as FOR_CLUSTER
from cold import MODELS, cold_table, contestants, measure_cold
from figures import BEFORE, KEPT
from first import measure_first
from forms import FORMS, forms_table, measure_forms
from forms import page as forms_page
from fresh import FRESH, measure_fresh
from inference.cases import CASES as FOR_INFERENCE
from inference.command import run_inference
from inference.runners import PEERS as INFERENCE_PEERS
from keras3.cases import CASES as FOR_KERAS3
from keras3.cases import EAGER
from keras3.cases import PEERS as KERAS3_PEERS
from keras3.command import run_keras3
from libraries import MODULES, keras_version
from measuring import SEED, measure
from memory import measure_memory
from page_parts import cores
from process import KEPT as KEEPING
from process import Process
from tables import first_line, line, markdown
from workloads import WORKLOADS, Workload

from kbench.cli.doctor import processor

PEERS = ("numpy", "torch", "jax", "tf-keras", "tf-xla")
QUICK = {"rounds": 3, "seconds": 0.03}
USUAL = {"rounds": 5, "seconds": 0.12}


def _available(python: str, name: str) -> bool:
    module = MODULES.get(name, name)
    script = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.call([python, "-c", script]) == 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kbench bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="names that contain one of these, by commas")
    parser.add_argument("--peers", help=f"libraries to compare with, else {','.join(PEERS)}")
    parser.add_argument(
        "--against", metavar="FOLDER", help="another tree of kbench, instead of other libraries"
    )
    parser.add_argument("--threads", default=str(cores()), help="a number, or several by commas")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of each library's round")
    parser.add_argument("--quick", action="store_true", help="fewer workloads, one allocator")
    parser.add_argument("--fresh", action="store_true", help="first calls, instead of the table")
    parser.add_argument("--memory", action="store_true", help="of training, instead of the table")
    parser.add_argument("--forms", action="store_true", help="what forms pay, instead of the table")
    parser.add_argument("--cold", action="store_true", help="from nothing, instead of the table")
    scaling.add_options(parser)
    cluster.add_options(parser)
    parser.add_argument("--inference", action="store_true", help="models, instead of the table")
    parser.add_argument("--keras3", action="store_true", help="models, instead of the table")
    parser.add_argument("--steps", type=int, default=300, help="of each model, with --cold")
    parser.add_argument("--peer-python", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--lock", metavar="FILE", help="held during a workload: take turns by it")
    parser.add_argument("--json", metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables")
    parser.add_argument("--list", action="store_true", help="list what can be measured, for --only")
    options = parser.parse_args(arguments)
    usual = QUICK if options.quick else {**USUAL, "rounds": 1} if options.cold else USUAL
    options.rounds = usual["rounds"] if options.rounds is None else options.rounds
    options.seconds = usual["seconds"] if options.seconds is None else options.seconds
    if options.peers is None:
        libraries = INFERENCE_PEERS if options.inference else PEERS
        options.peers = ",".join(KERAS3_PEERS if options.keras3 else libraries)
    if options.against is not None:
        if not Path(options.against, "kbench", "__init__.py").is_file():
            parser.error(f"--against takes a folder that holds a folder kbench: {options.against}")
        options.peers = ""
    try:
        options.threads = [int(one) for one in options.threads.split(",")]
    except ValueError:
        parser.error("--threads takes numbers")
    if min(options.threads) < 1 or options.rounds < 1 or options.seconds <= 0:
        parser.error("--threads, --rounds and --seconds must be positive")
    return options


def _peers(options: argparse.Namespace) -> list[str]:
    names = [name for name in options.peers.split(",") if name]
    found = [name for name in names if name == "numpy" or _available(options.peer_python, name)]
    for name in sorted(set(names) - set(found)):
        print(f"{name} is not installed; left out", file=sys.stderr)
    return found


class Turns:
    """While others measure on this machine too, a file's lock says whose turn it is. A turn spans
    as many workloads as fit into so many seconds."""

    LENGTH = 50.0

    def __init__(self, lock: str | None) -> None:
        self._lock, self._since = lock, 0.0
        self._file: Any = None

    def __enter__(self) -> None:
        if self._lock is None or self._file is not None:
            return
        import fcntl

        self._file = open(self._lock, "a")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._since = time.monotonic()

    def __exit__(self, *error: Any) -> None:
        if self._file is not None and (error[0] or time.monotonic() > self._since + self.LENGTH):
            self.close()
            time.sleep(0.1)  # who waits goes first

    def close(self) -> None:
        """The end of the turn."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Team:
    """The processes of one run, each started when it is first needed."""

    def __init__(self, options: argparse.Namespace, names: list[str], threads: int) -> None:
        self._options, self._threads = options, threads
        self.names = names
        self.versions: dict[str, str] = {}
        self._started: dict[tuple[str, ...], Process] = {}

    def start(self, name: str, label: str = "", **environment: str) -> Process:
        """The process of this library, label and environment."""
        key = (name, label, *environment.values())
        if key not in self._started:
            ours = name in ("kbench", "reference", "numpy")
            python = sys.executable if ours else self._options.peer_python
            process = Process(python, name, self._threads, environment, label)
            if "error" in process.hello:
                print(f"{process.name}: {process.hello['error']}", file=sys.stderr)
            elif label in ("", BEFORE) and name != "reference":
                self.versions[label or name] = process.hello["version"]
            self._started[key] = process
        return self._started[key]

    def reference(self) -> Process:
        """What gives the values that all others are compared with."""
        return self.start("reference", KBENCH_JIT="off")

    def contestants(self, mode: str) -> list[Process]:
        """kbench in this mode of compilation, the other tree in the same, and the peers."""
        trees = [self.start("kbench", KBENCH_JIT=mode)]
        if self._options.against is not None:
            folder = str(Path(self._options.against).resolve())
            trees.append(self.start("kbench", BEFORE, KBENCH_JIT=mode, PYTHONPATH=folder))
        return [*trees, *(self.start(name) for name in self.names)]

    def keeping(self) -> list[Process]:
        """The peers once more, in processes that keep freed memory; not for a quick look."""
        if self._options.quick:
            return []
        return [self.start(name, name + KEPT, **KEEPING) for name in self.names]

    def limits(self) -> dict[str, float]:
        """The machine's own: the best copy, and the best product of any library."""
        found = {"copy": self.start("numpy").ask("copy_limit", seconds=1.0).get("rate", 0.0)}
        one, best = WORKLOADS["dot.2048"], float("inf")
        for process in [self.start(name) for name in self.names] or [self.start("numpy")]:
            process.ask("prepare", workload=one.name, seed=SEED)
            times = process.ask("round", seconds=0.5).get("times", [])
            process.ask("forget")
            best = min([best, *times])
        return {**found, "gemm": one.flops / best}

    def close(self) -> None:
        """End all of them."""
        for process in self._started.values():
            process.close()


def _measured(one: Workload, team: Team, options: argparse.Namespace) -> dict[str, Any]:
    contestants, kept = team.contestants(one.jit), team.keeping()
    return measure(one, team.reference(), contestants, kept, options.rounds, options.seconds)


def _run(
    chosen: list[Workload], options: argparse.Namespace, names: list[str], threads: int
) -> Iterator[dict[str, Any]]:
    """Every chosen workload with so many threads: what there is, after each of them."""
    team, turns = Team(options, names, threads), Turns(options.lock)
    result: dict[str, Any] = {"rows": {}, "limits": {}, "versions": team.versions}
    try:
        for mode in {one.jit for one in chosen}:
            team.contestants(mode)
        team.keeping()
        with turns:
            result["limits"] = team.limits()
        for one in chosen:
            with turns:
                result["rows"][one.name] = _measured(one, team, options)
            print(line(one.name, result["rows"][one.name]), file=sys.stderr, flush=True)
            yield result
    except KeyboardInterrupt:
        print("interrupted: this is what there is", file=sys.stderr)
    finally:
        turns.close()
        team.close()


def _chosen(names: Any, only: str) -> list[str]:
    parts = [one for one in only.split(",") if one] or [""]
    return [name for name in names if any(one in name for one in parts)]


def _catalogue(options: argparse.Namespace) -> dict[str, str]:
    """All that may be measured as `options` ask, and a note of each; `--only` chooses of these."""
    if options.forms:
        return {name: one.what for name, one in FORMS.items()}
    if options.cold:
        return {name: str(model.__doc__) for name, model in MODELS.items()}
    if options.inference:
        return {name: one.note for name, one in FOR_INFERENCE.items()}
    if options.keras3:
        notes = {name: one.note for name, one in FOR_KERAS3.items()}
        return notes | {"eager": ", ".join(EAGER), "imports": "import keras"}
    if options.scaling:
        return scaling.catalogue()
    if options.cluster:
        return {name: str(model.__doc__) for name, model in FOR_CLUSTER.items()}
    workloads = {
        name: one.note for name, one in WORKLOADS.items() if not (options.quick and one.long)
    }
    if options.memory:
        return {name: note for name, note in workloads.items() if WORKLOADS[name].mode == "train"}
    return workloads | {name: one.note for name, one in FRESH.items()}


def _first(chosen: list[Workload], options: argparse.Namespace) -> dict[str, Any]:
    """First calls; the kernels of all of them share one new folder."""
    found = {}
    turns = Turns(options.lock)
    with tempfile.TemporaryDirectory() as cache:
        for one in chosen:
            with turns:
                found[one.name] = measure_first(one, options.threads[-1], cache)
            print(first_line(one.name, found[one.name]), file=sys.stderr, flush=True)
    turns.close()
    return found


def _memory(chosen: list[Workload], options: argparse.Namespace) -> dict[str, Any]:
    """Memory of the training steps, each library in a process for each of them."""
    names = ["kbench", *(name for name in _peers(options) if name != "numpy")]
    found: dict[str, Any] = {}
    turns = Turns(options.lock)
    for one in chosen:
        found[one.name] = {}
        for name in names:
            team = Team(options, [], options.threads[-1])
            with turns:
                process = team.start(name, KBENCH_JIT="auto")
                found[one.name][name] = measure_memory(one, process, name == "kbench")
                team.close()
    turns.close()
    return found


def _report(options: argparse.Namespace, names: list[str], fresh: list[str]) -> dict[str, Any]:
    chosen = [WORKLOADS[name] for name in names]
    start = time.monotonic()
    report: dict[str, Any] = {
        "machine": {"cpu": processor(), "python": platform.python_version()},
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "load_before": os.getloadavg(),
        "threads": options.threads[-1],
        "runs": {},
        "first": {},
        "memory": {},
    }
    if options.memory:
        chosen = [one for one in chosen if one.mode == "train"]
        report["memory"] = _memory(chosen, options)
    elif options.fresh:
        report["first"] = _first(chosen, options)
    elif chosen:
        found = _peers(options)
        for threads in options.threads:
            for result in _run(chosen, options, found, threads):
                report["runs"][str(threads)] = result
                _write(options.json, json.dumps({**report, **result}, indent=1))
    last = report["runs"].get(str(options.threads[-1]), {})
    report.update({key: last.get(key, {}) for key in ("rows", "versions", "limits")})
    report.update(fresh=measure_fresh(fresh, options.rounds))
    report.update(load_after=os.getloadavg(), seconds=time.monotonic() - start)
    return report


def _forms(options: argparse.Namespace, names: list[str]) -> int:
    """What these forms pay; 1 when a value is wrong."""
    found = measure_forms(names, options.threads[-1], options.rounds, options.seconds)
    machine = (
        f"{processor()}, {options.threads[-1]} threads, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}; medians of {options.rounds} rounds."
    )
    print(forms_table(found))
    _write(options.json, json.dumps(found, indent=1))
    _write(options.markdown, forms_page(found, machine).rstrip())
    wrong = [row for rows in found.values() for one in rows.values() for row in one.values()]
    return int(any("error" in row for row in wrong))


def _cold(options: argparse.Namespace, names: list[str]) -> int:
    """The first minutes of these models; 1 when one fails."""
    peer = None if options.peer_python == sys.executable else options.peer_python
    who = contestants(options.against, peer)
    found = measure_cold(names, options.steps, options.rounds, who)
    text = cold_table(found)
    print(text)
    _write(options.json, json.dumps(found, indent=1))
    _write(options.markdown, text)
    rows = [row for model in found.values() for one in model.values() for row in one]
    return int(any("error" in row for row in rows))


def _write(file: str | None, text: str) -> None:
    if file:
        Path(file).write_text(text + "\n", encoding="utf-8")


def _lacking(options: argparse.Namespace) -> str | None:
    """What a kind of run says where what it needs is not installed; there is one Keras only."""
    kinds = (("keras3", "keras3", "3."), ("cold", "keras", "2.3."), ("inference", "keras", "2.3."))
    here = keras_version()
    for kind, extra, begin in kinds:
        if getattr(options, kind) and not here.startswith(begin):
            found = f"Keras {here}" if here else "no Keras"
            return f"--{kind} needs Keras {begin}x, here is {found}: pip install 'kbench[{extra}]'"
    if options.cluster and not (here and _available(sys.executable, "distributed")):
        return "--cluster needs Dask and Keras: pip install 'kbench[dask,keras]'"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, write the files; 1 when kbench's values are wrong."""
    options = _options(arguments)
    catalogue = _catalogue(options)
    names = _chosen(catalogue, options.only)
    if options.list:
        print("\n".join(f"{name:<28}{catalogue[name]}".rstrip() for name in names))
        return 0
    if not names:
        some = [*list(catalogue)[:12], *(["and more (--list)"] if len(catalogue) > 12 else [])]
        print(f"no name contains {options.only!r}: {', '.join(some)}", file=sys.stderr)
        return 2
    if problem := _lacking(options):
        print(problem, file=sys.stderr)
        return 2
    if options.forms:
        return _forms(options, names)
    if options.cold:
        return _cold(options, names)
    if options.inference:
        return run_inference(options, names, _peers(options), Turns(options.lock), processor())
    if options.keras3:
        return run_keras3(options, names, _peers(options), Turns(options.lock), processor())
    if options.scaling:
        names = names if options.only else scaling.usual(names)
        return scaling.run_scaling(options, names, Turns(options.lock), processor())
    if options.cluster:
        return cluster.run_cluster(options, names, Turns(options.lock), processor())
    chosen = [name for name in names if name in WORKLOADS]
    fresh = [name for name in names if name in FRESH] if options.only or options.fresh else []
    report = _report(options, chosen, fresh)
    text = markdown(report)
    print(text)
    _write(options.json, json.dumps(report, indent=1))
    _write(options.markdown, text)
    wrong = [name for name, rows in report["rows"].items() if "error" in rows["kbench"]]
    for name in wrong:
        print(f"{name}: {report['rows'][name]['kbench']['error']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
