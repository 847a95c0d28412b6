"""All figures of the terminal workbench in one run of less than four minutes, as Markdown.

    python benchmarks/workbench.py [--write docs/terminal_figures.md] [--only keys,grid]

Every part is a program of its own that measures more exactly: startup.py, keystroke.py, grid.py,
inspector.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import grid
import inspector
import keystroke
import startup
from keystroke import Key, percentile
from page_parts import Lines, commit, load, machine, table

import kbench

GOAL = 30.0  # milliseconds of a key, 95 of 100
ROUNDS = 3
KEYS = 80
_INTRO = """# How quick the terminal workbench is

A program types into a workbench of 120 by 40 cells in a pseudo-terminal and waits for what it
typed, or asked for, to be drawn. "With a core at once" leaves out the time for which the
workbench's main thread was ready to run while other programs, and the kernel's own work, had every
core of the machine. `python benchmarks/workbench.py` writes this page; figures of another machine
are no promise for it."""


def starts() -> Lines:
    """From the command to the first frame, to an echo, to a kernel with the engine."""
    with tempfile.TemporaryDirectory(prefix="kbench-startup-") as home:
        startup.once(home)
        found = [startup.once(home) for _ in range(ROUNDS)]
    rows = []
    for name in found[0]:
        values = [one[name] for one in found]
        rows.append([name, f"{median(values):.2f} s", f"{min(values):.2f} .. {max(values):.2f}"])
    return [f"## Start ({load()})", "", *table(["until", "median", "range"], rows)]


def _times(name: str, found: list[Key]) -> list[str]:
    taken, own = [one.taken for one in found], [one.own for one in found]
    row = [name, *(f"{how(taken):.1f}" for how in (median, percentile, max))]
    missed = " !" if percentile(own) > GOAL else ""
    return [*row, f"{median(own):.1f}", f"{percentile(own):.1f}{missed}", str(len(found))]


_HEADER = ["median ms", "95 % below", "longest", "with a core at once: median", "95 % below"]


def keys() -> Lines:
    """A key while the kernel works, and what memory that takes."""
    rows, sizes = [], []
    with tempfile.TemporaryDirectory(prefix="kbench-keystroke-") as home:
        terminal = keystroke.opened(home)
        try:
            for name, work in keystroke.WORK.items():
                if name in ("idle", "long line"):
                    sizes.append((name, terminal.memory()))
                words = f"{name}: `{work}`" if work else name
                rows.append(_times(words, keystroke.measure(terminal, KEYS, work)))
            sizes.append(("after all", terminal.memory()))
        finally:
            terminal.close()
    memory = [
        [when, *(f"{sizes[who][kind]:.0f}" for who in sizes for kind in ("Rss", "Pss"))]
        for when, sizes in sizes
    ]
    columns = ["MB", "workbench RSS", "PSS", "kernel RSS", "PSS"]
    words = f"Typed while the kernel runs. Beyond the goal of {GOAL:.0f} ms: !."
    return [
        f"## A key until its character is on the screen ({load()})",
        "",
        words,
        "",
        *table(["meanwhile", *_HEADER, "keys"], rows),
        "## Memory",
        "",
        *table(columns, memory),
    ]


def grids() -> Lines:
    """The value pane on an array of many rows."""
    with tempfile.TemporaryDirectory(prefix="kbench-grid-") as home:
        terminal = startup.Terminal([sys.executable, "-c", startup.START], home)
        try:
            terminal.wait_for(b"idle")
            found = grid.measure(terminal, 20)
        finally:
            terminal.close()
    rows = [_times(name, one) for name, one in found.items()]
    title = f"## An array of ({grid.ROWS}, {grid.COLUMNS}) in the value pane ({load()})"
    return [title, "", *table(["jump", *_HEADER, "times"], rows)]


def questions() -> Lines:
    """The inspector in a kernel."""
    with tempfile.TemporaryDirectory(prefix="kbench-inspector-") as folder:
        found = inspector.measure(Path(folder))
    rows = [
        [name, *(f"{row[key]:.1f}" if key in row else "" for key in ("median", "p95", "worst"))]
        for name, row in found.items()
    ]
    header = ["milliseconds, or bytes", "median", "95 % below", "worst"]
    return [f"## What panes wait for ({load()})", "", *table(header, rows)]


PARTS: dict[str, Callable[[], Lines]] = {
    "start": starts,
    "keys": keys,
    "grid": grids,
    "inspector": questions,
}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--only", metavar="PARTS", help=", ".join(PARTS))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(names) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    told = f"{machine()}, kbench {kbench.__version__}{commit()}"
    lines = [_INTRO, "", f"{time.strftime('%Y-%m-%d')}; {told}.", ""]
    print("\n".join(lines), flush=True)
    for name in names:
        part = PARTS[name]()
        print("\n".join(part), flush=True)
        lines += part
    if options.write:
        Path(options.write).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
