"""Time from a key to its character on the screen, in a pseudo-terminal, with the kernel connected.

Keys are typed one at a time into the prompt of a workbench that has some cells and variables, so
that highlighting, suggestion, completion and the panes are all at work. `--while` keeps the kernel
busy meanwhile, in one of the ways of `WORK` or in all of them one after the other.

    python benchmarks/keystroke.py [--keys 120] [--while all] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from startup import START, Terminal

CELLS = (
    "import numpy as np; a = np.random.randn(64, 64); b = a @ a",
    "w = K.variable(a); x = K.placeholder((None, 64)); y = K.dot(x, w)",
    "import itertools, sys, numba; f = K.function([x], [y])",
)
WORK = {
    "idle": "",
    "python": "while True: pass",
    "compute": "while True: b = a @ a",
    "calls": "while True: f([a])",
    "compile": "while True: numba.njit(lambda v: v * 2.0 + 1.0)(1.0)",
    "lines": "for i in itertools.count(): print(i)",
    "errors": "for i in itertools.count(): print(i, file=sys.stderr)",
    "text": "for i in itertools.count(): print(('y' * 99 + '\\n') * 1000)",
    "long line": "for i in itertools.count(): print('y' * 10_000_000, end='')",
    "returns": "for i in itertools.count(): print(i, end='\\r')",
    "bars": "for i in itertools.count(): print('\\x1b[32m' + '#' * (i % 70), end='\\r')",
}
# Greek letters stand nowhere else on the screen, so what is seen is what was typed.
TEXT = "αβ = γδε(ζη + θ) * ικλ - μν / ξο ** πρσ "
PAUSE = 0.03  # seconds between keys, as a fast typist
CLEAR = "\x15"  # ctrl+U


@dataclass(frozen=True)
class Key:
    """Milliseconds from a key to its character, and how many of them the process had no core."""

    taken: float
    held_up: float

    @property
    def own(self) -> float:
        """What the workbench itself took."""
        return max(self.taken - self.held_up, 0.0)


def opened(home: str) -> Terminal:
    """A workbench that has run some cells."""
    terminal = Terminal([sys.executable, "-c", START], home)
    terminal.wait_for(b"idle")
    for cell in CELLS:
        terminal.type(cell + "\r")
        terminal.wait_for(b"idle")
        time.sleep(0.5)
    return terminal


def measure(terminal: Terminal, keys: int, work: str = "") -> list[Key]:
    """Type that many characters while the kernel runs `work`; half of them are timed."""
    taken = []
    if work:
        terminal.type(work + "\r")
        time.sleep(2.0)
    for index in range(keys):
        character = TEXT[index % len(TEXT)]
        time.sleep(PAUSE)
        if character.isascii():
            terminal.type(character)
            continue
        terminal.drain()
        held_up, began = terminal.held_up(), time.perf_counter()
        terminal.type(character)
        terminal.wait_for(character.encode())
        milliseconds = (time.perf_counter() - began) * 1000
        taken.append(Key(milliseconds, terminal.held_up() - held_up))
        if index % len(TEXT) == len(TEXT) - 2:
            terminal.type(CLEAR)
            time.sleep(0.2)
    terminal.type(CLEAR)
    if work:
        terminal.type("\x03")
        terminal.wait_for(b"idle")
    return taken


def percentile(values: list[float]) -> float:
    """What 95 of 100 values are below."""
    return quantiles(values, n=20)[-1]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=120)
    parser.add_argument("--while", dest="work", choices=[*WORK, "all"], default="idle")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    table = {}
    for name in WORK if options.work == "all" else [options.work]:
        with tempfile.TemporaryDirectory(prefix="kbench-keystroke-") as home:
            terminal = opened(home)
            try:
                found = measure(terminal, options.keys, WORK[name])
            finally:
                terminal.close()
        taken, own = [one.taken for one in found], [one.own for one in found]
        table[name] = {"taken": taken, "own": own}
        print(
            f"{name:<10} key to screen  median {median(taken):6.1f} ms   95 % below "
            f"{percentile(taken):6.1f} ms   longest {max(taken):6.1f} ms;   with a core at once "
            f"{median(own):5.1f}, {percentile(own):5.1f}, {max(own):5.1f}   ({len(taken)} keys)",
            flush=True,
        )
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
