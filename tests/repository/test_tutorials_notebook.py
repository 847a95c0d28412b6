"""The notebooks beside the lessons: their size, their run, and what they claim."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from run_book import run_book

BOOK = Path(__file__).resolve().parents[2] / "tutorials" / "kbench-in-300-lines.ipynb"
LINES = 300
SECONDS = 20  # of processor time

# Run in the notebook's own kernel after its last cell, each group a claim of its prose.
CLAIMS = """
import random
import time

def refused(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"{words} was not refused")

# shapes and dtypes are known, and checked, before there is a value
open_one, two = placeholder((None, 3)), placeholder((2, 1), "float64")
assert (open_one + constant([[1.0, 2.0, 3.0]])).shape == (None, 3)
assert (placeholder((None, 1)) * placeholder((4, 1))).shape == (4, 1)
assert (placeholder((1,)) - placeholder((None,))).shape == (None,)
refused(ValueError, lambda: placeholder((2, 3)) + placeholder((2, 4)), "add", "axis -1", "[2, 4]")
refused(ValueError, lambda: dot(variable(np.ones((2, 3))), variable(np.ones((2, 3)))), "dot")
refused(ValueError, lambda: dot(constant(1.0), constant([1.0])), "dot")
refused(TypeError, lambda: open_one + two, "float64[2, 1]")
refused(TypeError, lambda: exp(placeholder((), "int32")), "exp", "int32")
refused(ValueError, lambda: Function([open_one], [open_one])([np.ones(3)]), "(3,)")
refused(ValueError, lambda: Function([], [open_one + 1])(), "was not fed")
a, b = placeholder((None,)), placeholder((None,))
refused(ValueError, lambda: Function([a, b], [a * b])([np.ones(1), np.ones(4)]), "needed (4,)")

# deeper than Python's recursion; stored all at once
deep = a
for _ in range(5000):
    deep = deep + 1.0
assert Function([a], [deep])([[1.0]])[0] == [5001.0]
left, right = variable(1.0), variable(2.0)
Function([], [], [(left, right), (right, left)])()
assert (left.attrs["value"], right.attrs["value"]) == (2.0, 1.0)

# gradients of every rule against kbench's, first and second, with what is stretched folded back
def expressions(ns, p, q, m):
    yield ns.exp(p) + q
    yield ns.log(q) / p - 2.0
    yield ns.tanh(ns.dot(p, m)) * 0.5
    yield -ns.dot(ns.transpose(q * p), p - 1)
    yield p * total_of(ns, q * q)

def total_of(ns, value):
    return total(value) if ns is ours_ns else K.sum(value)

class ours_ns:
    exp, log, tanh, dot, transpose = exp, log, tanh, dot, transpose

values = [rng.uniform(0.5, 2.0, size) for size in ((3, 4), (4,), (4, 2))]
mine = [variable(value, "float64") for value in values]
theirs = [K.variable(value, dtype="float64") for value in values]
count = 0
for one, other in zip(expressions(ours_ns, *mine), expressions(K, *theirs)):
    for order in (1, 2):
        slopes, kslopes = gradients(one, mine), K.gradients(K.sum(other), theirs)
        assert [slope is None for slope in slopes] == [slope is None for slope in kslopes]
        for slope, kslope in zip(slopes, kslopes):
            if slope is not None:
                assert np.allclose(Function([], [slope])()[0], K.eval(kslope), atol=1e-9)
                count += 1
        if order == 1:
            one, other = slopes[0] * slopes[0], kslopes[0] * kslopes[0]
assert count == 18

# fused and not, on graphs made at random: equal, and never more steps
for seed in range(20):
    draw = random.Random(seed)
    pool = [variable(rng.uniform(0.5, 1.5, (3, 4))), variable(rng.uniform(0.5, 1.5, (4,)))]
    for _ in range(12):
        p, q = draw.choice(pool), draw.choice(pool)
        pool.append(draw.choice([lambda: p + q, lambda: tanh(p), lambda: p * q, lambda: -p,
                                 lambda: p / total(q), lambda: exp(-p)])())
    roots = [pool[-1], draw.choice(pool)]
    single, joined = Function([], roots), Function([], roots, planner=fused(by_exec))
    assert len(joined.steps) <= len(single.steps)
    for wanted, found in zip(single(), joined()):
        assert np.allclose(wanted, found, rtol=1e-5)
row, table = variable(np.ones(4)), variable(np.ones((3, 4)))
assert len(Function([], [exp(row) + table * 2.0], planner=fused(by_exec)).steps) == 2  # by shape
assert compiler is by_numba
assert [len(way.steps) for way in list(ways.values())[:3]] == [6, 1, 1] and len(runs[0].steps) == 1
assert len(train.steps) < len(one_by_one(train.roots))

# trained, as kbench is
assert np.allclose(*np.array(history[:100], "float64").T, rtol=1e-2)
assert np.mean((Function([x], [score])([points])[0] > 0) == labels) > 0.97
print("seconds", time.process_time())
"""


@pytest.fixture(scope="module")
def book() -> nbformat.NotebookNode:
    return nbformat.read(BOOK, as_version=4)


def test_it_has_at_most_300_lines(book: nbformat.NotebookNode) -> None:
    nbformat.validate(book)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    lines = [line for cell in cells for line in cell.source.splitlines() if line.strip()]
    assert LINES * 0.8 < len(lines) <= LINES
    assert max(map(len, lines)) <= 100
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


def test_files_that_it_names_exist(book: nbformat.NotebookNode) -> None:
    prose = "".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    named = [word for word in prose.split("`")[1::2] if word.startswith("kbench/")]
    assert len(named) == 5
    assert [name for name in named if not (BOOK.parents[1] / name).is_file()] == []


@pytest.mark.slow
def test_it_runs_and_does_what_it_says(book: nbformat.NotebookNode, tmp_path: Path) -> None:
    cells = [*book.cells, nbformat.v4.new_code_cell(CLAIMS)]
    ran = nbformat.v4.new_notebook(cells=cells, metadata=book.metadata)
    run_book(ran, tmp_path, timeout=120)
    seconds = float(ran.cells[-1].outputs[-1]["text"].split()[-1])
    assert seconds < SECONDS
    pictures = [one for cell in ran.cells for one in cell.get("outputs", []) if "data" in one]
    assert any("image/png" in one["data"] for one in pictures)


@pytest.mark.slow
def test_the_walk_through_the_other_functions(tmp_path: Path) -> None:
    """It compares with NumPy by itself: `same` raises where the two differ."""
    walk = nbformat.read(BOOK.with_name("the-other-functions.ipynb"), as_version=4)
    nbformat.validate(walk)
    cells = [cell for cell in walk.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    run_book(walk, tmp_path, timeout=120)
    assert sum("same(" in cell.source for cell in cells) >= 8
    errors = [one for cell in cells for one in cell.outputs if one.get("name") == "stderr"]
    assert errors == []
