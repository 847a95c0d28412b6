"""Time until the value pane shows an array of (1000000, 64), and after each jump within it.

python benchmarks/grid.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

from keystroke import Key, percentile
from startup import START, Terminal

ROWS, COLUMNS = 1_000_000, 64
FIRST = 100_000_000  # so that every number has nine digits and is on the screen but once
CELL = f"import numpy as np; aa = np.arange({FIRST}, {FIRST + ROWS * COLUMNS}, dtype=np.int32)"
CELL += f"; aa = aa.reshape({ROWS}, {COLUMNS}); zz = 1"
ENTER, ESCAPE, F2, F3 = "\r", "\x1b", "\x1bOQ", "\x1bOR"
PAUSE = 0.25  # seconds between jumps, in which the screen comes to rest


def number(row: int) -> bytes:
    """What the grid shows in the first column."""
    return str(FIRST + row * COLUMNS).encode()


def timed(terminal: Terminal, keys: str, wanted: bytes) -> Key:
    """Press keys and wait for a number."""
    time.sleep(PAUSE)
    terminal.drain()
    held_up, began = terminal.held_up(), time.perf_counter()
    terminal.type(keys)
    terminal.wait_for(wanted)
    taken = (time.perf_counter() - began) * 1000
    return Key(taken, terminal.held_up() - held_up)


def measure(terminal: Terminal, rounds: int) -> dict[str, list[Key]]:
    """Milliseconds by what was done, in a workbench that has run nothing before."""
    terminal.type(CELL + "\r")
    terminal.wait_for(b"idle")
    time.sleep(1.0)
    terminal.type(F3)
    time.sleep(PAUSE)
    table: dict[str, list[Key]] = {"open": []}
    for _ in range(rounds):  # the value pane follows the cursor in the variables
        terminal.type("j")
        table["open"].append(timed(terminal, "k", number(2)))
    terminal.type(ENTER)
    jumps: dict[str, Callable[[int], tuple[str, bytes]]] = {
        "to the end": lambda _at: ("G", number(ROWS - 1)),
        "to the beginning": lambda _at: ("g", number(1)),
    }
    for name in jumps:
        table[name] = []
    for at in range(rounds):
        for name, jump in jumps.items():
            table[name].append(timed(terminal, *jump(at)))
    table["to an index"] = []
    for at in range(rounds):
        row = 5_003 + at * 40_009
        terminal.type(":")
        time.sleep(PAUSE)  # until the question stands there
        terminal.type(str(row))
        table["to an index"].append(timed(terminal, ENTER, number(row)))
    terminal.type(F2)
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = max(parser.parse_args().rounds, 2)
    with tempfile.TemporaryDirectory(prefix="kbench-grid-") as home:
        terminal = Terminal([sys.executable, "-c", START], home)
        try:
            terminal.wait_for(b"idle")
            table = measure(terminal, rounds)
        finally:
            terminal.close()
    for name, found in table.items():
        taken = [one.taken for one in found]
        worst = percentile(taken) if len(taken) > 1 else taken[0]
        print(f"{name:<18} median {median(taken):6.1f} ms   95 % below {worst:6.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
