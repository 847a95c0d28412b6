"""Time from a key to its character on the screen, in a pseudo-terminal, with the kernel connected.

Keys are typed one at a time into the prompt of a workbench that has some cells and variables, so
that highlighting, suggestion, completion and the panes are all at work.

    python benchmarks/keystroke.py [--keys 120] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from startup import START, Terminal

CELLS = (
    "import numpy as np; a = np.random.randn(64, 64); b = a @ a",
    "w = K.variable(a); x = K.placeholder((None, 64)); y = K.dot(x, w)",
)
# Greek letters stand nowhere else on the screen, so what is seen is what was typed.
TEXT = "αβ = γδε(ζη + θ) * ικλ - μν / ξο ** πρσ "
PAUSE = 0.03  # seconds between keys, as a fast typist


def once(keys: int, home: str) -> list[float]:
    """Milliseconds of each key."""
    terminal = Terminal([sys.executable, "-c", START], home)
    taken = []
    try:
        terminal.wait_for(b"idle")
        for cell in CELLS:
            terminal.type(cell + "\r")
            terminal.wait_for(b"idle")
            time.sleep(0.5)
        for index in range(keys):
            character = TEXT[index % len(TEXT)]
            if character.isascii():
                terminal.type(character)
                time.sleep(PAUSE)
                continue
            time.sleep(PAUSE)
            terminal.drain()
            began = time.perf_counter()
            terminal.type(character)
            terminal.wait_for(character.encode())
            taken.append((time.perf_counter() - began) * 1000)
            if index % len(TEXT) == len(TEXT) - 2:
                terminal.type("\x03")  # clear the line
                time.sleep(0.2)
    finally:
        terminal.close()
    return taken


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=120)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kbench-keystroke-") as home:
        taken = once(options.keys, home)
    worst = quantiles(taken, n=20)[-1]
    print(
        f"key to screen  median {median(taken):.1f} ms   95 % below {worst:.1f} ms   "
        f"longest {max(taken):.1f} ms   ({len(taken)} keys)"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(taken), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
