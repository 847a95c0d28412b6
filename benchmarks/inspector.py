"""What a pane waits for: the inspector's round trip in a real kernel, idle, busy and loaded.

    python benchmarks/inspector.py            a table
    python benchmarks/inspector.py --json     one JSON object

Budgets (UI.md): 10 ms median for a summary with 100 variables, 2 s from start to ready, 100 ms
from an interrupt to the end of a running `K.function`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from msgspec.structs import asdict

from kbench.workbench.history.journal import Journal
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.arrays import Window
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import Summary
from kbench.workbench.protocol.question import Question
from kbench.workbench.protocol.session import Changes
from kbench.workbench.session import events
from kbench.workbench.session.kernel_session import KernelSession

ROUNDS = 100
SMALL = """
import numpy as np
for number in range(100):
    globals()[f"weights_{number}"] = K.variable(np.random.rand(64, 64), name=f"weights_{number}")
"""
MANY = """
for number in range(1000):
    globals()[f"many_{number}"] = K.variable(np.random.rand(8, 8), name=f"many_{number}")
"""
LARGE = """
large = K.variable(np.random.rand(16_000_000).astype("float32"))
for number in range(100):
    globals()[f"weights_{number}"] = K.variable(np.zeros(1))
    globals()[f"weights_{number}"].store(large.peek())
"""
ROLLING = "import time\nend = time.time() + 60\nwhile time.time() < end: sum(range(1000))"
FUNCTION = """
long_x = K.variable(np.random.rand(2000, 2000))
long_y = long_x
for _ in range(400):
    long_y = K.tanh(K.dot(long_y, long_x))
run = K.function([], [long_y])
run([])
"""


class Bench:
    """A kernel session with the helpers that the measurements share."""

    def __init__(self, folder: Path) -> None:
        self.done: dict[int, threading.Event] = {}
        self.session = KernelSession(Journal.create(folder))
        self.changes: list[int] = []  # bytes of what the kernel told of changed names
        self.session.events.subscribe(self._heard)
        began = time.perf_counter()
        self.session.start()
        if not self.session.ready(60.0):
            raise SystemExit("the kernel did not start")
        self.ready_seconds = time.perf_counter() - began

    def _heard(self, event: Any) -> None:
        if isinstance(event, events.CellDone):
            self.done.setdefault(event.cell, threading.Event()).set()
        elif isinstance(event, events.Changed):
            data = asdict(event)
            self.changes.append(messages.size(messages.push("changed", data)))

    def change(self, code: str) -> float:
        """Bytes of the change that a cell is followed by."""
        self.changes.clear()
        self.run(code)
        while not self.changes:
            time.sleep(0.01)
        return float(self.changes[0])

    def send(self, code: str) -> threading.Event:
        cell = self.session.execute(code)
        return self.done.setdefault(cell, threading.Event())

    def run(self, code: str) -> None:
        if not self.send(code).wait(120.0):
            raise SystemExit("a cell did not end")

    def ask(self, question: Question[Any]) -> None:
        try:
            self.session.ask(question, timeout=30.0)
        except ProtocolError as error:
            raise SystemExit(f"{question.verb}: {error.reason}") from None

    def stop(self, ended: threading.Event) -> float:
        began = time.perf_counter()
        self.session.interrupt()
        if not ended.wait(60.0):
            raise SystemExit("the interrupt had no effect")
        return time.perf_counter() - began


def timed(ask: Callable[[], None], rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds: median, 95th percentile, worst."""
    ask()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1000)
    return {"median": median(taken), "p95": quantiles(taken, n=20)[-1], "worst": max(taken)}


def measure(folder: Path) -> dict[str, dict[str, float]]:
    bench = Bench(folder)
    rows: dict[str, dict[str, float]] = {"ready": {"median": bench.ready_seconds * 1000}}
    try:
        bench.run(SMALL)
        rows["summary, 100 variables"] = timed(lambda: bench.ask(Summary()))
        rows["window 40x12"] = timed(
            lambda: bench.ask(Window(name="weights_7", rows=[0, 40], cols=[0, 12]))
        )
        rows["changes"] = timed(lambda: bench.ask(Changes(since=0)))
        rows["a change of one name, bytes"] = {"median": bench.change("one = 1")}
        ended = bench.send(ROLLING)
        time.sleep(0.3)
        rows["summary while Python runs"] = timed(lambda: bench.ask(Summary()), 30)
        rows["interrupt of a Python loop"] = {"median": bench.stop(ended) * 1000}
        ended = bench.send(FUNCTION)
        time.sleep(1.0)
        rows["summary while a function runs"] = timed(lambda: bench.ask(Summary()), 30)
        rows["interrupt of a function"] = {"median": bench.stop(ended) * 1000}
        bench.run(MANY)
        rows["summary, 1,000 variables"] = timed(lambda: bench.ask(Summary()), 30)
        code = "for number in range(1000): globals()[f'many_{number}'].store(np.zeros((8, 8)))"
        rows["a change of 1,000 names, bytes"] = {"median": bench.change(code)}
        bench.run("for number in range(1000): del globals()[f'many_{number}']")
        bench.run(LARGE)
        first = time.perf_counter()
        bench.ask(Summary())
        rows["first summary, 100 x 16 M"] = {"median": (time.perf_counter() - first) * 1000}
        rows["summary, 100 x 16 M"] = timed(lambda: bench.ask(Summary()), 30)
    finally:
        bench.session.shutdown()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder))
    if as_json:
        print(json.dumps(rows))
        return
    print(f"{'milliseconds':32}{'median':>10}{'p95':>10}{'worst':>10}")
    for name, row in rows.items():
        cells = "".join(
            f"{row[key]:10.1f}" if key in row else " " * 10 for key in ("median", "p95", "worst")
        )
        print(f"{name:32}{cells}")


if __name__ == "__main__":
    main()
