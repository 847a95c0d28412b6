"""A training step of each program in examples/keras: its time, and where the time goes.

Each program works in a process of its own: it builds its model and takes the same batch again and
again. The first step, which plans and binds, is timed apart; then steps run until every kernel is
there, and the rest is timed one by one. The share outside kernels is what is left of a step when
the time within its NumPy calls and compiled kernels is taken away, those in the loops of recurrent
layers too: Keras, feeding, and kbench's own Python. "taped" are kernels called together.

    python benchmarks/keras_steps.py --only lstm --json out.json --markdown out.md
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest import mock

import numpy as np
from process import users_environment

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "keras"
SEED = 20261120
WATCHED = 31  # steps whose calls are timed one by one

Batch = tuple[Any, Any, Any]  # a compiled model, its inputs, its targets


def _text(m: Any, numbers: np.random.Generator) -> Batch:
    long, short = m.dates(numbers, 50)
    inputs = [m.codes(long, m.LONG), m.codes(m.shifted(short), m.SHORT)]
    return m.build(), inputs, m.codes(short, m.SHORT)[..., None]


def _films(m: Any, numbers: np.random.Generator) -> Batch:
    film = m.films(numbers, 20)
    return m.build(), film[:, :-1], film[:, 1:]


# The batches that the programs themselves take.
STEPS: dict[str, Callable[[Any, np.random.Generator], Batch]] = {
    "mlp": lambda m, numbers: (m.build(), *m.spiral(numbers, 100)),
    "cnn": lambda m, numbers: (m.build(), *m.digits(numbers, 64)),
    "resnet": lambda m, numbers: (m.build(), *m.pictures(numbers, 50)),
    "lstm_text": lambda m, numbers: (m.build(), *m.pieces(numbers, 50)),
    "bilstm": lambda m, numbers: (m.build(), *m.arrays([m.example(numbers) for _ in range(50)])),
    "seq2seq_attention": _text,
    "vae": lambda m, numbers: (m.build()[0], m.digits(numbers, 100)[0], None),
    "siamese": lambda m, numbers: (m.build(), *m.pairs(numbers, m.DIGITS, 50)),
    "ctc_lines": lambda m, numbers: (m.build()[1], *m.batch(*m.lines(numbers, 50))),
    "convlstm": _films,
}


# ------------------------------------------------------------------ in the process of one program


def measure(name: str, seconds: float) -> dict[str, Any]:
    """The row of one program."""
    sys.path.insert(0, str(EXAMPLES))
    module = importlib.import_module(name)  # puts Keras on kbench
    from kbench.engine.jit.service import service

    np.random.seed(SEED)
    model, inputs, targets = STEPS[name](module, np.random.default_rng(SEED))

    def step() -> float:
        begun = time.perf_counter()
        model.train_on_batch(inputs, targets)
        return time.perf_counter() - begun

    first = step()
    for _ in range(3):  # a kernel that comes late may ask for the next
        step()
        service.wait_idle(60)
    end = time.perf_counter() + seconds
    times = [step() for _ in range(5)]
    while time.perf_counter() < end:
        times.append(step())
    low, middle, high = quantiles(times, n=4)
    samples = len(inputs[0] if isinstance(inputs, list) else inputs)
    inside, outside = _watched(step)
    return {
        "first": first,
        "median": middle,
        "low": low,
        "high": high,
        "best": min(times),
        "steps": len(times),
        "samples": samples,
        "samples_per_second": samples / middle,
        "inside": inside,
        "outside": outside,
    }


def _watched(step: Callable[[], float]) -> tuple[dict[str, dict[str, float]], float]:
    """Seconds and calls of one step by form, and the share of a step that they leave.

    Watched steps alternate with others, whose time is what counts: watching takes some, too.
    """
    from kbench.engine.execute import replay
    from kbench.engine.execute.executable import Executable
    from kbench.engine.jit.launch import LaunchGraph

    make, clock = LaunchGraph.run, time.perf_counter
    forms: dict[str, dict[str, float]] = {}

    def note(form: str, run: Callable[[], object], calls: int = 1) -> None:
        begun = clock()
        run()
        spent = clock() - begun
        if form != "loop":  # which is the sum of its steps
            row = forms.setdefault(form, {"seconds": 0.0, "calls": 0})
            row["seconds"] += spent
            row["calls"] += calls

    def plain(self: Executable, runners: Any, registers: Any, buffers: Any) -> None:
        for step, run in zip(self.steps, runners, strict=False):
            note(step.form(), functools.partial(run, registers, buffers))

    def step_between(plan: Executable, number: int, registers: Any, buffers: Any) -> None:
        run = functools.partial(plan.runners[number], registers, buffers)
        note(plan.steps[number].form(), run)

    def together(self: LaunchGraph) -> None:
        note("taped", functools.partial(make, self), len(self.launches))

    found: list[dict[str, dict[str, float]]] = []
    others: list[float] = []
    for _ in range(WATCHED):
        others.append(step())
        forms = {}
        with (
            mock.patch.object(Executable, "_run_plain", plain),
            mock.patch.object(replay, "_run_step", step_between),
            mock.patch.object(LaunchGraph, "run", together),
        ):
            step()
        found.append(forms)
    within = [sum(row["seconds"] for row in one.values()) for one in found]
    typical = sorted(range(WATCHED), key=lambda at: within[at])[WATCHED // 2]
    return found[typical], max(0.0, 1 - within[typical] / median(others))


# ------------------------------------------------------------------ all of them


def _asked(name: str, seconds: float) -> dict[str, Any]:
    """The row of one program, measured in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, "--seconds", str(seconds)],
            capture_output=True,
            text=True,
            env={**users_environment(), "KERAS_HOME": home, "PYTHONWARNINGS": "ignore"},
        )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def _time(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _line(name: str, row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [f"`{name}`", f"!! {row['error']}", *[""] * 6]
    calls = sum(one["calls"] for one in row["inside"].values())
    within = sum(one["seconds"] for one in row["inside"].values())
    forms = sorted(row["inside"].items(), key=lambda item: -item[1]["seconds"])
    return [
        f"`{name}`",
        _time(row["first"]),
        f"{_time(row['median'])} ({_time(row['low'])} to {_time(row['high'])})",
        _time(row["best"]),
        f"{row['samples_per_second']:.0f}",
        f"{row['outside']:.0%}",
        f"{calls}",
        ", ".join(f"{form} {one['seconds'] / within:.0%}" for form, one in forms if within),
    ]


def markdown(report: dict[str, Any]) -> str:
    """The report as a page."""
    before, after = report["load_before"][0], report["load_after"][0]
    header = ["program", "first step", "time per step (middle half)", "best", "samples/s"]
    header += ["outside kernels", "calls", "within them"]
    rows = [header, ["---"] * len(header)]
    rows += [_line(name, row) for name, row in report["rows"].items()]
    return (
        f"{report['cores']} cores, Python {report['python']}, {report['when']}, "
        f"load {before:.1f} before and {after:.1f} after. One training step of each program.\n\n"
        + "\n".join("| " + " | ".join(row) + " |" for row in rows)
    )


def main() -> int:
    """Measure, print the table, write the files; 1 when a program fails."""
    parser = argparse.ArgumentParser(description="a training step of each program in examples")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--seconds", type=float, default=5.0, help="of steps for each program")
    parser.add_argument("--json", help="file for the numbers")
    parser.add_argument("--markdown", help="file for the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print("\n" + json.dumps(measure(options.one, options.seconds)))
        return 0
    names = [name for name in STEPS if options.only in name]
    if not names:
        parser.error(f"no program's name contains {options.only!r}")
    report: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "load_before": os.getloadavg(),
        "rows": {name: _asked(name, options.seconds) for name in names},
    }
    report["load_after"] = os.getloadavg()
    report["median_outside"] = median(
        [row["outside"] for row in report["rows"].values() if "outside" in row] or [0.0]
    )
    text = markdown(report)
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(text + "\n")
    return int(any("error" in row for row in report["rows"].values()))


if __name__ == "__main__":
    sys.exit(main())
