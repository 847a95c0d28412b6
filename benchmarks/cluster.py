"""What a cluster of Dask gives: measured with worker processes here, and what more would give.

    kbench bench --cluster                       fits and maps with 1, 2 and 4 workers
    kbench bench --cluster --only cnn --rounds 5
    kbench bench --cluster --markdown out.md     the tables of docs/scale.md

`cluster_runs.py` measures, in a process of its own for each model. From what a step computes, from
its bytes, and from what Dask takes for tasks and messages, `cluster_model.py` says how long a step
takes with any number of workers and any network. What it says of the clusters here is compared
with what they take; they share the cores of this machine.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cluster_model import Network, Prediction, Training, error, line, predict, rows_to_pay
from cluster_runs import AT_ONCE, BATCH, EMPTY, LARGE, LEVELS, PARTS_OF_BATCH, TINY_CHUNKS
from process import users_environment
from tables import seconds, table

WORKERS = (1, 2, 4)
MORE_WORKERS = (2, 4, 8, 16, 32, 64, 128, 256)
GIGABITS = (1, 10, 100)
LARGE_BATCH = 4096
"""Rows of a batch that stays as large however many workers there are."""
MAX_MEDIAN_ERROR = 0.30
"""Median error of what is predicted for the clusters here, above which it is not believed."""
PATIENCE = 900.0
"""Seconds for all that one process measures."""
PROGRAM = Path(__file__).resolve().parent / "cluster_runs.py"

Row = dict[str, Any]


# ------------------------------------------------------------------ measuring


def settings(home: str) -> dict[str, str]:
    """The environment of a process that measures, with its files in the folder `home`."""
    return {
        **users_environment(), "KERAS_BACKEND": "kbench", "KERAS_HOME": home, "KBENCH_JIT": "wait",
        "PYTHONPATH": str(PROGRAM.parents[1]), "DASK_TEMPORARY_DIRECTORY": home,
    }  # fmt: skip


def measured(part: str, rounds: int, home: str, models: str = "", steps: int = 20) -> Row:
    """What a process of its own finds out; RuntimeError with its last words if it fails."""
    command = [
        sys.executable, str(PROGRAM), "--parts", part, "--rounds", str(rounds),
        "--models", models, "--steps", str(steps), "--workers", ",".join(map(str, WORKERS)),
    ]  # fmt: skip
    done = subprocess.run(
        command, env=settings(home), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{part}: {done.stderr.strip().splitlines()[-1]}")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return dict(found[part])


def _measure_all(options: Any, names: list[str], turns: AbstractContextManager[None]) -> Row:
    report: Row = {"fits": {}}
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            with turns:
                report["fits"] |= measured("fits", options.rounds, home, name)
            print("\n".join(fit_table(report).splitlines()[-5:]), flush=True)
        with turns:
            report["maps"] = measured("maps", options.rounds, home)
    return report


# ------------------------------------------------------------------ what follows from it


def network_of(row: Row, gigabits: float | None = None) -> Network:
    """Dask as it was measured in turns with a model, over loopback or a wire of so many Gbit/s."""
    mid = {key: median(times) for key, times in row["messages"].items()}
    step, second = (_empty_step(row[f"{EMPTY} {count}"]) for count in (1, 2))
    network = Network(
        step=step,
        per_worker=max(0.0, second - step),
        level=max(0.0, mid["chain"] - mid["task"]) / LEVELS,
        message=mid["message"],
        per_message=max(0.0, mid["messages"] - mid["message"]) / (AT_ONCE - 1),
        copying=2 * LARGE / max(mid["copied"] - mid["placed"], 1e-6),
    )
    return network if gigabits is None else replace(network, bandwidth=gigabits * 1e9 / 8)


def _empty_step(row: Row) -> float:
    """A step without what it computes and stores."""
    return max(0.0, median(row["times"]) - median(row["computing"]) - _outside(row))


def _outside(row: Row) -> float:
    """Seconds of the client: storing, and the loop of Keras."""
    return median(row["stores"]) + max(0.0, median(row["times"]) - median(row["steps"]))


def training_of(row: Row) -> Training:
    """A model's steps: from one worker, over the whole batch and over parts of it."""
    points = [(rows, median(row[f"rows {rows}"]["computing"])) for rows in PARTS_OF_BATCH]
    fixed, per_row = line(points)
    one = row["1"]
    return Training(
        fixed, per_row, one["row_bytes"], one["weight_bytes"], _outside(one), row["2"]["meetings"],
    )  # fmt: skip


def cores_of(row: Row, cores: int) -> float:
    """Of the cores of this machine, those that were free: what `model.fit` gains by all threads."""
    gain = median(row["one"]["times"]) / median(row["all"]["times"])
    return min(max(1.0, gain), float(cores))


def checks(report: Row) -> Iterable[tuple[str, int, Prediction, list[float]]]:
    """Model, workers, what is predicted for this machine, and the times that were measured."""
    for name, row in report["fits"].items():
        for workers in WORKERS:
            cores = cores_of(row, report["cores"])
            found = predict(training_of(row), network_of(row), workers, BATCH, cores)
            yield name, workers, found, row[str(workers)]["times"]


def median_error(report: Row) -> float:
    """Of the predictions for the clusters here."""
    return median(abs(error(one.seconds, median(times))) for _, _, one, times in checks(report))


# ------------------------------------------------------------------ tables


def spread(times: list[float]) -> str:
    """The median, and the middle half where there is more than one time."""
    if len(times) < 2:
        return seconds(median(times))
    low, middle, high = quantiles(times, n=4)
    return f"{seconds(middle)} ({seconds(low)} to {seconds(high)})"


def fit_table(report: Row) -> str:
    """A step by one process and by each cluster, and where its time goes."""
    lines = []
    for name, row in report["fits"].items():
        whole = median(row["all"]["times"])
        for label, who in (("one", "1 thread"), ("all", f"{report.get('cores', 2)} threads")):
            lines.append(_fit_line(name, f"`model.fit`, {who}", row[label], whole))
        for workers in WORKERS:
            lines.append(_fit_line(name, _count(workers), row[str(workers)], whole))
    header = ["model", "who", "a step (middle half)", "computing", "moving and waiting", "MB moved"]
    return table([*header, "times `model.fit`"], lines)


def _count(workers: int) -> str:
    return f"{workers} worker{'s' * (workers > 1)}"


def _fit_line(name: str, who: str, row: Row, whole: float) -> list[str]:
    times = row["times"]
    parts = ["", "", ""]
    if "computing" in row:
        computing = median(row["computing"])
        rest = max(0.0, median(times) - computing)
        parts = [seconds(computing), seconds(rest), f"{row['moved'] / 1e6:.1f}"]
    return [f"`{name}`", who, spread(times), *parts, f"{median(times) / whole:.2f}"]


def map_table(report: Row) -> str:
    """The map over all data, and what a chunk of one row costs."""
    maps = report["maps"]
    times, size = maps["times"], maps["bytes"]
    alone = median(times["one process"])
    lines = [["one process", spread(times["one process"]), f"{size / alone / 1e6:.0f}", "1.00", ""]]
    names = {
        "map": "`kbench.dask.map_blocks`",
        "plain": "`dask.array.map_blocks`",
        "nothing": "the same, of a function that does nothing",
    }
    for workers in WORKERS:
        for kind, label in names.items():
            whole, tiny = times.get(f"{kind} {workers}"), times[f"{kind} {workers} tiny"]
            cells = ["", "", ""]
            if whole:
                mid = median(whole)
                cells = [spread(whole), f"{size / mid / 1e6:.0f}", f"{mid / alone:.2f}"]
            each = f"{median(tiny) / TINY_CHUNKS * 1e3:.2f} ms"
            lines.append([f"{_count(workers)}, {label}", *cells, each])
    header = ["who", "all rows (middle half)", "MB/s", "times one process", "a chunk of one row"]
    return table(header, lines)


def check_table(report: Row) -> str:
    """What the model says of the clusters here, and what they took."""
    lines = [
        [
            f"`{name}`", str(workers), f"{cores_of(report['fits'][name], report['cores']):.1f}",
            seconds(found.seconds), spread(times),
            f"{error(found.seconds, median(times)):+.0%}", found.cause,
        ]
        for name, workers, found, times in checks(report)
    ]  # fmt: skip
    header = ["model", "workers", "cores free", "predicted", "measured (middle half)", "error"]
    return table([*header, "most besides computing"], lines)


def scaling_table(report: Row, rows: Callable[[int], int]) -> str:
    """Time per step and speed-up for more workers, where a batch for `workers` has `rows`."""
    lines = []
    for name, row in report["fits"].items():
        for gigabits in GIGABITS:
            network = network_of(row, gigabits)
            found = [predict(training_of(row), network, w, rows(w)) for w in MORE_WORKERS]
            cells = [f"{seconds(one.seconds)}, {one.speedup:.2g}" for one in found]
            lines.append([f"`{name}`", f"{gigabits}", *cells, found[-1].cause])
    header = ["model", "Gbit/s", *map(str, MORE_WORKERS), f"what limits {MORE_WORKERS[-1]}"]
    return table(header, lines)


def paying_table(report: Row) -> str:
    """The smallest batches that a cluster does faster than one machine."""
    counts = (2, 4, 16, 64)
    lines = []
    for name, row in report["fits"].items():
        for gigabits in GIGABITS:
            network = network_of(row, gigabits)
            found = [rows_to_pay(training_of(row), network, count) for count in counts]
            cells = ["never" if one is None else f"{one:,}" for one in found]
            lines.append([f"`{name}`", f"{gigabits}", *cells])
    return table(["model", "Gbit/s", *(f"{count} workers" for count in counts)], lines)


def network_table(report: Row) -> str:
    """What Dask takes, as it was measured in turns with each model."""
    lines = []
    for name, row in report["fits"].items():
        found = network_of(row)
        costs = (found.step, found.per_worker, found.level, found.message, found.per_message)
        lines.append([f"`{name}`", *map(seconds, costs), f"{found.copying / 1e6:.0f}"])
    header = ["in turns with", "a step of messages alone", "each further worker"]
    more = ["a level of a tree", "a question to a worker", "each further one at once", "MB/s"]
    return table([*header, *more], lines)


def page(report: Row) -> str:
    """All tables, with what they say."""
    parts = [
        f"{report['cpu']}, {report['cores']} cores, Python {report['python']}, Dask "
        f"{report['dask']}, {report['when']}, {report['rounds']} rounds, load "
        f"{report['load_before']:.1f} before and {report['load_after']:.1f} after.",
        "### Training, a batch of 128 rows",
        fit_table(report),
        f"### A map over {report['maps']['bytes'] / 1e6:.0f} MB in {report['maps']['chunks']} "
        "chunks that lie on the workers",
        map_table(report),
        "### The model, checked here",
        network_table(report),
        check_table(report),
        f"The median error of the predictions is {median_error(report):.0%}; above "
        f"{MAX_MEDIAN_ERROR:.0%} they are not believed.",
        "### Predicted: 128 rows for each worker",
        "Time of a step, and the speed-up over one machine with the threads of one worker.",
        scaling_table(report, lambda workers: BATCH * workers),
        f"### Predicted: a batch of {LARGE_BATCH:,} rows, whoever shares it",
        scaling_table(report, lambda workers: LARGE_BATCH),
        "### Predicted: rows of a batch from which a cluster is faster",
        paying_table(report),
    ]
    return "\n\n".join(parts)


# ------------------------------------------------------------------ the command


def add_options(parser: argparse.ArgumentParser) -> None:
    """The option of `kbench bench` that is for this alone."""
    parser.add_argument(
        "--cluster", action="store_true", help="workers of Dask, beside one process"
    )


def run_cluster(
    options: Any, names: Sequence[str], turns: AbstractContextManager[None], cpu: str
) -> int:
    """Measure these, print the tables, write the files; 1 when the model does not hold here."""
    before = os.getloadavg()[0]
    report: Row = {
        "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "dask": importlib.metadata.version("distributed"),
        "when": time.strftime("%Y-%m-%d"), "rounds": options.rounds,
        "load_before": before, **_measure_all(options, names, turns),
        "load_after": os.getloadavg()[0],
    }  # fmt: skip
    text = page(report)
    print("\n" + text)
    for file, content in ((options.json, json.dumps(report)), (options.markdown, text)):
        if file:
            Path(file).write_text(content + "\n", encoding="utf-8")
    return int(median_error(report) > MAX_MEDIAN_ERROR)
