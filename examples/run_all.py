"""Run the programs of `examples/keras`, each in a process and a terminal of its own.

Where Keras 3 is installed those of `examples/keras3` are run. With `--write`, put what they print
into the folder's page. Exit code 1 when an assertion fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import pty
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
START = """\
# Examples

Ten programs for unmodified Keras 2.3.1, in [keras](keras). Each makes its own data, prints Keras'
progress bar and ends in an assertion on what it has reached. Two lines put Keras on kbench, before
it is imported:

```python
import os

os.environ["KERAS_BACKEND"] = "kbench"
```

They need `pip install 'kbench[keras]'` and nothing else:

    python examples/keras/mlp.py
    python examples/run_all.py

[keras3](keras3/README.md) has ten others, for Keras 3.

`python benchmarks/keras_steps.py` times one training step of each.

What follows is their real output, written by `python examples/run_all.py --write`
on {machine}.
"""
START_3 = """\
# Examples for Keras 3

Ten programs for unmodified Keras 3. Each makes its own data and ends in an assertion on what it has
reached. Keras 3 knows its own backends only; so three lines come before it is imported:

```python
import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench
```

They need `pip install 'kbench[keras3]'` and nothing else:

    python examples/keras3/mlp.py
    python examples/run_all.py

[Keras 3 on kbench](../../docs/keras3.md) says what is there and what is not.

What follows is their real output, written by `python examples/run_all.py --write`
on {machine}.
"""


@dataclass(frozen=True)
class Examples:
    """A folder of programs, in the order of its page: from the simplest on."""

    folder: Path
    order: tuple[str, ...]
    page: Path
    start: str

    def programs(self) -> dict[str, Path]:
        """The programs by their names; `drawing` is what some of them import."""
        found = sorted(self.folder.glob("*.py"))
        return {one.stem: one for one in found if one.stem != "drawing"}


KERAS_2 = Examples(
    HERE / "keras",
    ("mlp", "cnn", "resnet", "lstm_text", "bilstm", "seq2seq_attention", "vae", "siamese")
    + ("ctc_lines", "convlstm"),
    HERE / "README.md",
    START,
)
KERAS_3 = Examples(
    HERE / "keras3",
    ("mlp", "cnn", "resnet", "two_outputs", "lstm_text", "timeseries", "gpt", "vae", "contrastive")
    + ("quantized",),
    HERE / "keras3" / "README.md",
    START_3,
)


@dataclass
class Run:
    """One program that has run: what its terminal showed, its errors, its exit code."""

    program: Path
    shown: str
    errors: str
    code: int
    seconds: float


def screen(text: str) -> str:
    """What a terminal shows in the end: a progress bar goes back and writes over itself.

    Colours are left out.
    """
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    lines: list[list[str]] = [[]]
    column = 0
    for one in text:
        if one == "\n":
            lines.append([])
            column = 0
        elif one == "\r":
            column = 0
        elif one == "\b":
            column = max(0, column - 1)
        else:
            line = lines[-1]
            line.extend(" " * (column + 1 - len(line)))
            line[column] = one
            column += 1
    return "\n".join("".join(line).rstrip() for line in lines).strip("\n")


def run(program: Path) -> Run:
    """Run a program as in a terminal, so that it draws its bar in one line."""
    near, far = pty.openpty()
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, program.name],
        cwd=program.parent,
        stdin=subprocess.DEVNULL,
        stdout=far,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    os.close(far)
    parts = []
    while True:
        try:
            part = os.read(near, 65536)
        except OSError:  # the far end is closed
            part = b""
        if not part:
            break
        parts.append(part)
    os.close(near)
    assert process.stderr is not None
    errors = process.stderr.read().decode("utf-8", "replace")
    process.stderr.close()
    code = process.wait()
    text = b"".join(parts).decode("utf-8", "replace")
    return Run(program, screen(text), errors, code, time.perf_counter() - begun)


def page(runs: list[Run], examples: Examples) -> str:
    """A page: its start, then each program with its first words and its output."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = f"Python {platform.python_version()} and {cores} cores"
    parts = [examples.start.format(machine=machine)]
    for one in runs:
        words = one.program.read_text("utf-8").split('"""')[1]
        place = one.program.relative_to(examples.page.parent).as_posix()
        link = f"[{place}]({place})"
        parts.append(
            f"## {one.program.stem}\n\n{words}\n\n{link}, {one.seconds:.0f} s:\n\n"
            f"```text\n{one.shown}\n```\n"
        )
    return "\n".join(parts)


def main() -> int:
    """Run, tell, write; 1 when a program fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs without .py; all when none is named")
    parser.add_argument("--write", action="store_true", help="write the page of the folder")
    options = parser.parse_args()
    examples = KERAS_3 if version("keras").startswith("3.") else KERAS_2
    known = examples.programs()
    unknown = [name for name in options.names if name not in known]
    if unknown or (options.write and options.names):
        parser.error(f"no program {unknown[0]!r}" if unknown else "--write goes with all of them")
    runs = []
    for name in options.names or examples.order:
        runs.append(run(known[name]))
        last = runs[-1].shown.splitlines()[-1:] or [""]
        state = "" if runs[-1].code == 0 else f"FAILED with code {runs[-1].code}: "
        print(f"{name:<20}{runs[-1].seconds:6.1f} s  {state}{last[0]}", flush=True)
        if runs[-1].code:
            print(runs[-1].errors, file=sys.stderr)
    failed = any(one.code for one in runs)
    if options.write and not failed:
        examples.page.write_text(page(runs, examples), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
