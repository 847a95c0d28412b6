"""What notebooks of kbench cost: time and bytes of a repr, of a widget's message, of a notebook.

    python benchmarks/notebook.py [--write docs/notebook_figures.md] [--only reprs,moves,lessons]

Goals: a repr in 30 ms and 12 kB; nothing sent while hidden; a lesson's notebook with all outputs in
less than 1 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import ipywidgets
import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from page_parts import Lines, commit, load, machine, table

import kbench
from kbench import backend as K
from kbench.notebook import GraphView, TensorView, VariableTable, WatchList, explorer
from kbench.notebook.base.redraw import REDRAW_SECONDS
from kbench.notebook.html import html
from kbench.workbench.lessons.lesson_files import Lesson, catalogue

ROUNDS = 7
DRAW = np.random.default_rng(0)
_INTRO = """# What notebooks of kbench cost

Figures of one machine, made by `python benchmarks/notebook.py --write docs/notebook_figures.md`;
those of another machine are no promise for it. What the widgets show is told in
[notebook.md](notebook.md)."""
_NOTE = """Images are sent in their true colours, one pixel for each element; the page enlarges
them. Noise cannot be made smaller: 128 x 128 pixels of it are 49 kB, and 65 kB as text. With a
palette of 256 colours they were half as long, and not those of the array. A histogram of a large
slice reads all of it for the ends of its axis, which takes a third of the time, and counts 262,144
elements."""


def kilobytes(count: float) -> str:
    return f"{count / 1000:.1f} kB"


# ------------------------------------------------------------------ reprs


def values() -> dict[str, Any]:
    """What is shown, from a scalar to arrays far larger than what is read of them."""
    draw = np.random.default_rng(0)
    x = K.placeholder((None, 784), name="x")
    deep = x
    for _ in range(200):
        deep = K.tanh(deep + 1.0)
    large = draw.normal(size=(4096, 4096)).astype(np.float32)
    broken = large.copy()
    broken[17, 4] = np.nan
    whole = draw.normal(size=(2000, 2000))  # the largest of which every element is read
    kinds = ("float16", "float64", "int32", "bool")
    read = {name: (whole * 1000).astype(name) for name in ("float16", "float32", "int64", "bool")}
    sampled = {f"the same as {name}": large.astype(name) for name in kinds}
    return {
        "array (4096, 4096) float32": large,
        "the same as a variable": K.variable(large),
        "the same with a NaN": broken,
        **sampled,
        "array (2000, 2000) float64, read whole": whole,
        **{f"{name}, read whole": one for name, one in read.items()},
        "float16, columns first, read whole": read["float16"].T,
        "array (8,) * 7": draw.normal(size=(8,) * 7),
        "scalar": np.float32(3.0),
        "tensor over 400 operations": deep,
    }


def reprs() -> Lines:
    """Milliseconds and bytes of what a cell shows of a value."""
    rows = []
    for name, value in values().items():
        seconds = []
        for _ in range(ROUNDS):
            began = time.process_time()
            bundle = html.bundle(value)
            seconds.append(time.process_time() - began)
        texts = [bundle["text/html"], bundle["text/plain"]]
        sizes = [kilobytes(len(one.encode())) for one in texts]
        rows.append([name, f"{median(seconds) * 1e3:.1f}", f"{max(seconds) * 1e3:.1f}", *sizes])
    return table(["value", "median ms of a core", "longest", "HTML", "text"], rows)


# ------------------------------------------------------------------ messages of widgets


@contextmanager
def heard() -> Iterator[list[int]]:
    """The bytes of each message that widgets send within the block."""
    sizes: list[int] = []
    send = ipywidgets.Widget._send

    def count(_widget: Any, message: Any, buffers: Any = None) -> None:
        whole = json.dumps(message, default=str)
        sizes.append(len(whole.encode()) + sum(len(one) for one in buffers or ()))

    ipywidgets.Widget._send = count
    try:
        yield sizes
    finally:
        ipywidgets.Widget._send = send


def moves() -> Lines:
    """What one step of an axis sends, by what is looked at and how; noise, which packs worst."""
    draw = np.random.default_rng(0)
    arrays = {
        "(16, 4096, 4096) float16": draw.normal(size=(4096, 4096))
        .astype(np.float16)[None]
        .repeat(16, 0),
        "(64, 128, 128, 3) float32": draw.random(size=(64, 128, 128, 3), dtype=np.float32),
        "(9, 12, 12)": draw.normal(size=(9, 12, 12)),
    }
    rows = []
    for name, array in arrays.items():
        for mode in ("numbers", "heat map", "image", "histogram"):
            if mode == "image" and array.shape[-1] != 3:
                continue
            rows.append([name, mode, *_moved(TensorView(array, "x", mode))])
    head = ["array", "as", "messages a move", "bytes a move", "most", "ms of a core a move"]
    return [*table(head, rows), *_NOTE.splitlines(), ""]


def _moved(view: TensorView) -> list[str]:
    sizes, counts, seconds = [], [], []
    for place in range(1, 8):
        time.sleep(REDRAW_SECONDS)
        with heard() as found:
            began = time.process_time()
            view.steppers[0].value = place
            seconds.append(time.process_time() - began)
        sizes.append(sum(found))
        counts.append(len(found))
    view.close()
    middle = f"{median(seconds) * 1e3:.0f}"
    whole = [kilobytes(median(sizes)), kilobytes(max(sizes))]
    return [f"{median(counts):.0f}", *whole, middle]


def updates() -> Lines:
    """What a store to a variable sends: nothing while hidden, one drawing while shown."""
    w = K.variable(np.zeros((64, 64)), name="w")
    names = {"w": w, "y": K.sum(w * 2.0), **{f"a{number}": w for number in range(50)}}
    makers: dict[str, Callable[[], Any]] = {
        "VariableTable, 52 names": lambda: VariableTable(names),
        "TensorView of the variable": lambda: TensorView(w, "w"),
        "WatchList of 3": lambda: WatchList(["K.sum(w)", "K.mean(w)", "y"], names),
        "GraphView": lambda: GraphView("y", names),
        "explorer, names open": lambda: explorer(names),
    }
    rows = []
    for name, make in makers.items():
        part = make()
        hidden = _told(w)
        part._repr_mimebundle_()
        time.sleep(5 * REDRAW_SECONDS)
        shown = _told(w)
        part.close()
        rows.append([name, str(len(hidden)), f"{len(shown)}", kilobytes(sum(shown))])
    return table(["widget", "messages hidden", "messages shown", "bytes shown"], rows)


def _told(w: Any) -> list[int]:
    with heard() as found:
        K.set_value(w, DRAW.normal(size=(64, 64)))
        time.sleep(5 * REDRAW_SECONDS)
    return found


# ------------------------------------------------------------------ notebooks


def lessons() -> Lines:
    """The file of each lesson as it is shipped, and with the outputs of all its cells."""
    rows = []
    for lesson in catalogue():
        began = time.perf_counter()
        title = f"{lesson.number} {lesson.title}"
        stored = kilobytes(lesson.path.stat().st_size)
        try:
            size = len(nbformat.writes(_executed(lesson)).encode())
        except CellExecutionError as error:  # Keras 2 and Keras 3 exclude each other
            if error.ename != "ImportError":
                raise
            rows.append([title, stored, "needs another environment", ""])
            continue
        seconds = time.perf_counter() - began
        rows.append([title, stored, kilobytes(size), f"{seconds:.1f}"])
    return table(["lesson", "stored", "executed with solutions", "seconds"], rows)


def _executed(lesson: Lesson) -> Any:
    """A lesson's notebook as a learner has it at the end."""
    book = nbformat.read(lesson.path, as_version=4)
    for cell in book.cells:
        facts = cell.metadata["kbench"]
        if facts["role"] in ("exercise", "predict"):
            cell.source = lesson.exercises[facts["id"]].solution
            cell.metadata["tags"] = []
    with tempfile.TemporaryDirectory(prefix="kbench-lesson-") as home:
        os.environ["KBENCH_STATE_DIR"] = home
        NotebookClient(book, timeout=120, kernel_name="python3").execute(cwd=home)
    return book


PARTS: dict[str, tuple[str, list[Callable[[], Lines]]]] = {
    "reprs": ("What a cell shows (goal: 30 ms, 12 kB)", [reprs]),
    "moves": ("What widgets send", [moves, updates]),
    "lessons": ("Notebooks of the lessons", [lessons]),
}


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    reader.add_argument("--write", type=Path, help="a file to write")
    reader.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    options = reader.parse_args()
    wanted = [one for one in options.only.split(",") if one] or list(PARTS)
    lines = [_INTRO, "", f"{machine()}, kbench {kbench.__version__}{commit()}.", ""]
    for name in wanted:
        title, measures = PARTS[name]
        began = load()
        made = [line for one in measures for line in one()]
        lines += [f"## {title} ({began})", "", *made]
        print("\n".join(lines[-len(made) - 2 :]), file=sys.stderr, flush=True)
    text = "\n".join(lines).rstrip() + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
