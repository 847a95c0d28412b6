"""How calls would scale to more cores than this machine has, by what can be measured on two.

    kbench bench --scaling                          the usual choice of workloads
    kbench bench --scaling --only rnn,keras --rounds 9
    kbench bench --scaling --cores 2,8,64 --bandwidth 300

Each workload runs in turns on one thread and on two. A third process takes its call apart on one
thread: the seconds within each launch, how many threads may take part in it, and what is left to
Python. With the rates of this machine and the cost of waking threads, `scaling_model` makes of it
the time on more threads. What it says of two threads is compared with what two threads take.

Bytes are those of the arrays that a step reads and writes; those of a step with several launches
are shared out by their time. No launch is thought to move more than memory gives to one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cold import MODELS
from libraries import keras_version
from measuring import SEED
from process import Process
from scaling_model import Call, Machine, Prediction, call_of, error, predict
from tables import seconds, table
from workloads import WORKLOADS

CHOICE = (
    "elementwise.sigmoid_tanh", "elementwise.exp", "reduce.sum.all", "reduce.std.first",
    "rows.softmax", "rows.cross_entropy", "move.transpose", "move.nhwc_nchw", "dot.256",
    "dot.1024", "dot.batch", "conv.3x3", "conv.1x1", "conv.3x3.to_kernel", "pool.max",
    "norm.batch", "norm.layer.grad", "rnn.lstm", "rnn.gru.grad", "train.mlp", "train.cnn",
    "keras.mlp", "keras.cnn",
)  # fmt: skip
"""One or two workloads of each family, and steps of Keras; `--only` chooses among all."""
CORES = (2, 4, 8, 16)
BANDWIDTH = 200.0
"""GB/s of the memory of a machine of many cores, where none is given."""
MAX_MEDIAN_ERROR = 0.15
"""Median error of what is predicted for two threads, above which the model is not believed."""
_KERAS = "keras."
_PATIENCE = 170.0
_APART_SECONDS = 0.6

Row = dict[str, Any]
Rows = dict[str, Row]


# ------------------------------------------------------------------ measuring


def catalogue() -> dict[str, str]:
    """All that can be measured, and a note of each."""
    models = MODELS if keras_version().startswith("2.3.") else {}
    notes = {f"{_KERAS}{name}": str(model.__doc__) for name, model in models.items()}
    return {name: one.note for name, one in WORKLOADS.items()} | notes


def usual(names: Iterable[str]) -> list[str]:
    """Those of all names that are measured where none are asked for."""
    return [name for name in names if name in CHOICE]


class Processes:
    """kbench on one thread, on two, and on one to be taken apart, for a kind of workloads."""

    def __init__(self, home: str) -> None:
        environment = {"KBENCH_JIT": "wait", "KERAS_BACKEND": "kbench", "KERAS_HOME": home}
        self.one, self.two, self.apart = (
            Process(sys.executable, "kbench", 2, {**environment, "OMP_NUM_THREADS": blas}, label)
            for label, blas in (("one", "1"), ("two", "2"), ("apart", "1"))
        )
        self.one.ask("limit", threads=1)

    def machine(self) -> dict[str, Any]:
        """The machine's rates and what waking costs."""
        answer = self.two.ask("machine_rates", _PATIENCE)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def measure(self, name: str, cores: Sequence[int], rounds: int, length: float) -> Row:
        """The times of a workload on one and two threads, and its parts for each count."""
        for process in (self.one, self.two, self.apart):
            answer = _prepared(process, name)
            if "error" in answer:
                return answer
        row: Row = {"times": self._times(rounds, length), "cuts": {}}
        for threads in sorted({1, 2, *cores}):
            if _trains(name):
                _prepared(self.apart, name)
            cut = self.apart.ask("take_apart", _PATIENCE, threads=threads, seconds=_APART_SECONDS)
            if "error" in cut:
                return {"error": cut["error"]}
            row["cuts"][str(threads)] = cut
        for process in (self.one, self.two, self.apart):
            process.ask("forget")
        return row

    def _times(self, rounds: int, length: float) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"1": [], "2": []}
        pair = {"1": self.one, "2": self.two}
        for process in pair.values():
            process.ask("warm", _PATIENCE, seconds=max(length, 0.3))
        for number in range(rounds):
            for count in ("1", "2") if number % 2 == 0 else ("2", "1"):
                found = pair[count].ask("round", _PATIENCE, seconds=length, least=3)
                times[count] += found.get("times", [])
        return times

    def close(self) -> None:
        """End all of them."""
        for process in (self.one, self.two, self.apart):
            process.close()


def _trains(name: str) -> bool:
    """Whether calls change weights: after thousands of steps on one batch some numbers are so small
    that processors take many times as long for them."""
    return name.startswith(_KERAS) or WORKLOADS[name].mode == "train"


def _prepared(process: Process, name: str) -> Row:
    if name.startswith(_KERAS):
        return process.ask("prepare_model", _PATIENCE, name=name.removeprefix(_KERAS))
    return process.ask("prepare", _PATIENCE, workload=name, seed=SEED)


def spread(times: Sequence[float]) -> Row:
    """The median and the middle half."""
    low, _, high = quantiles(times, n=4)
    return {"median": median(times), "low": low, "high": high}


# ------------------------------------------------------------------ what follows from it


@dataclass(frozen=True)
class Judged:
    """A workload: its call, what two threads took, and what they should have taken."""

    call: Call
    one: Row
    two: Row
    predicted: Prediction

    @property
    def error(self) -> float:
        """By how much the prediction is too high."""
        return error(self.predicted.seconds, self.two["median"])


def machine_of(report: dict[str, Any], limit: float | None = None) -> Machine:
    """The machine as it was measured; `limit` is of the memory, in bytes per second."""
    found = report["machine_rates"]
    waking = found["waking"]
    return Machine(
        {int(count): [(size, rate) for size, rate in one] for count, one in found["rates"].items()},
        (waking["signal_awake"], waking["signal_asleep"]),
        (waking["late_awake"], waking["late_asleep"]),
        limit,
    )


def judged(row: Row, machine: Machine) -> Judged:
    """What the model says of a workload, and what was measured."""
    one, two = (spread(row["times"][count]) for count in ("1", "2"))
    call = call_of({int(count): cut for count, cut in row["cuts"].items()}, one["median"])
    return Judged(call, one, two, predict(call, 2, machine))


def median_error(rows: Rows, machine: Machine) -> float:
    """Of the predictions for two threads; none at all is no success."""
    errors = [abs(judged(row, machine).error) for row in rows.values() if "error" not in row]
    return median(errors) if errors else float("inf")


def _spread_cell(row: Row) -> str:
    return f"{seconds(row['median'])} ({seconds(row['low'])} to {seconds(row['high'])})"


def check_table(rows: Rows, machine: Machine) -> str:
    """One thread, and two as predicted and as measured."""
    lines = []
    for name, row in rows.items():
        if "error" in row:
            lines.append([f"`{name}`", f"!! {row['error']}", *[""] * 5])
            continue
        found = judged(row, machine)
        lines.append(
            [
                f"`{name}`",
                _spread_cell(found.one),
                f"{found.call.python / found.call.seconds:.1%}",
                seconds(found.predicted.seconds),
                _spread_cell(found.two),
                f"{found.error:+.0%}",
                f"{found.one['median'] / found.two['median']:.2f}",
            ]
        )
    header = ["workload", "1 thread (middle half)", "of it Python", "2 predicted"]
    return table([*header, "2 measured (middle half)", "error", "speed-up"], lines)


def _both(first: str, second: str) -> str:
    return first if first == second else f"{first} / {second}"


def speedup_table(rows: Rows, cores: Sequence[int], machines: Sequence[Machine]) -> str:
    """Speed-ups by cores, each in both scenarios, and what limits the last."""
    lines = []
    for name, row in rows.items():
        if "error" in row:
            continue
        call = judged(row, machines[0]).call
        found = [[predict(call, count, one) for one in machines] for count in cores]
        cells = [_both(*(f"{one.speedup:.1f}" for one in pair)) for pair in found]
        causes = _both(*(one.cause for one in found[-1]))
        worst = _both(*(one.worst for one in found[-1]))
        lines.append([f"`{name}`", *cells, causes, worst.replace("|", "\\|")])
    header = ["workload", *map(str, cores), f"what limits {cores[-1]}", "most of it in"]
    return table(header, lines)


def machine_text(report: dict[str, Any]) -> str:
    """The figures of the machine, in two sentences."""
    found = machine_of(report)
    sizes = {"1 MB": 1 << 20, "16 MB": 1 << 24, "256 MB": 1 << 28}
    rates = ", ".join(
        f"{found.rate(size, 1) / 1e9:.0f} and {found.rate(size, 2) / 1e9:.0f} GB/s of {text}"
        for text, size in sizes.items()
    )
    awake, asleep = (
        f"{1e6 * found.signal[at]:.1f} us for each and {1e6 * found.late[at]:.0f} us until it works"
        for at in (0, 1)
    )
    return (
        f"A copy moves with one and two threads {rates} that it touches. To wake a thread costs "
        f"{awake} while it looks for work, {asleep} once it sleeps."
    )


def page(report: dict[str, Any], bandwidth: float = BANDWIDTH) -> str:
    """All tables, with what they say."""
    machine = machine_of(report)
    machines = [machine, replace(machine, limit=bandwidth * 1e9)]
    failed = median_error(report["rows"], machine)
    return "\n\n".join(
        [
            f"{report['cpu']}, Python {report['python']}, {report['when']}, {report['rounds']} "
            f"rounds, load {report['load_before']:.1f} before and {report['load_after']:.1f} "
            f"after. {machine_text(report)}",
            check_table(report["rows"], machine),
            f"The median error of the predictions is {failed:.0%}; above {MAX_MEDIAN_ERROR:.0%} "
            "they are not believed.",
            "Speed-ups over one thread that the model predicts. Where there are two figures, memory"
            f" gives many threads no more than two in the first, and up to {bandwidth:.0f} GB/s in "
            "the second.",
            speedup_table(report["rows"], report["cores"], machines),
        ]
    )


def is_believed(report: dict[str, Any]) -> bool:
    """Whether the model holds on two threads, and every workload ran."""
    failed = any("error" in row for row in report["rows"].values())
    return not failed and median_error(report["rows"], machine_of(report)) <= MAX_MEDIAN_ERROR


# ------------------------------------------------------------------ the command


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kbench bench` that are for this alone."""
    parser.add_argument("--scaling", action="store_true", help="what more cores would give")
    parser.add_argument("--cores", default=CORES, type=_cores, help="with --scaling: 2,4,8,16")
    parser.add_argument(
        "--bandwidth", default=BANDWIDTH, type=float, help="GB/s of memory, with --scaling"
    )


def _cores(text: str) -> tuple[int, ...]:
    found = tuple(int(one) for one in text.split(","))
    if min(found) < 2:
        raise argparse.ArgumentTypeError("two cores or more")
    return found


def run_scaling(
    options: Any, names: Sequence[str], turns: AbstractContextManager[None], cpu: str
) -> int:
    """Measure these as `options` ask, each workload in a turn of its own, and print the tables; 1
    when the model does not hold on two threads, or a workload fails."""
    report: dict[str, Any] = {
        "cpu": cpu, "python": platform.python_version(), "when": time.strftime("%Y-%m-%d"),
        "rounds": options.rounds, "cores": options.cores, "rows": {},
        "load_before": os.getloadavg()[0],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        with turns:
            processes = Processes(home)
            report["machine_rates"] = processes.machine()
        for name in names:
            with turns:
                row = processes.measure(name, options.cores, options.rounds, options.seconds)
            report["rows"][name] = row
            print(check_table({name: row}, machine_of(report)).splitlines()[-1], flush=True)
        processes.close()
    report["load_after"] = os.getloadavg()[0]
    text = page(report, options.bandwidth)
    print("\n" + text)
    for file, content in ((options.json, json.dumps(report)), (options.markdown, text)):
        if file:
            Path(file).write_text(content + "\n", encoding="utf-8")
    return int(not is_believed(report))
