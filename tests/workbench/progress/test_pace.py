"""How far a loop is and what is left: read from frames, from Keras' counters, from `progress`."""

from __future__ import annotations

import linecache
import threading
from typing import Any

import numpy as np
import pytest

import kbench
import kbench as K
from kbench.engine.runtime import profile
from kbench.tui.session import status
from kbench.workbench.progress import loops, pace
from kbench.workbench.progress.loops import Loop

LOOPS: list[tuple[str, list[tuple[str, int, int]]]] = [
    ("for i in range(10):\n    if i == 4: look()", [("i", 4, 10)]),
    ("for i in range(2, 12, 2):\n    if i == 6: look()", [("i", 2, 5)]),
    ("for i in range(n):\n    if i == 4: look()", [("i", 4, 7)]),
    ("for i in range(len(xs) * 2 - 1):\n    if i == 4: look()", [("i", 4, 5)]),
    ("for i in range(5, 0, -1):\n    if i == 4: look()", [("i", 1, 5)]),
    ("for i, x in enumerate(xs):\n    if i == 1: look()", [("i", 1, 3)]),
    ("for i, x in enumerate(zip(xs, range(2))):\n    if i == 1: look()", [("i", 1, 2)]),
    ("for i, x in enumerate(array):\n    if i == 1: look()", [("i", 1, 4)]),
    (
        "for epoch in range(3):\n    for j in range(5):\n        if epoch == j == 1: look()",
        [("epoch", 1, 3), ("j", 1, 5)],
    ),
    (
        "def train(steps):\n    for step in range(steps):\n        if step == 2: look()\ntrain(9)",
        [("step", 2, 9)],
    ),
    ("try:\n    for i in range(4):\n        if i == 1: look()\nfinally:\n    pass", [("i", 1, 4)]),
    ("for x in kbench.progress(xs, name='row'):\n    if x == 5: look()", [("row", 1, 3)]),
    ("for x in kbench.progress(iter(xs), total=3):\n    if x == 5: look()", [("step", 1, 3)]),
    # what cannot be known is not told
    ("for x in xs:\n    if x == 5: look()", []),
    ("for i in iter(range(9)):\n    if i == 5: look()", []),
    ("for i in range(n):\n    i += 1\n    if i == 4: look()", []),
    ("for i in range(n):\n    n = n + 1\n    if i == 4: look()", []),
    ("range = list\nfor i in range((1, 2)):\n    if i == 2: look()", []),
    ("for i in range(own):\n    if i == 1: look()", []),
    ("while True:\n    look()\n    break", []),
    ("for i in range(3): pass\nlook()", []),
]


class Own:
    """A length that is the user's code, which no other thread may run."""

    asked: list[str] = []

    def __index__(self) -> int:
        self.asked.append(threading.current_thread().name)
        return 3


def seen_by(code: str) -> list[Loop]:
    """The loops that another thread sees when the code calls `look`."""
    found: list[list[Loop]] = []
    main = threading.get_ident()

    def look() -> None:
        thread = threading.Thread(target=lambda: found.append(loops.running(main)), name="looker")
        thread.start()
        thread.join()

    name = f"<loop {abs(hash(code))}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names: dict[str, Any] = {
        "look": look,
        "n": 7,
        "xs": [4, 5, 6],
        "array": np.zeros((4, 2)),
        "kbench": kbench,
        "own": Own(),
    }
    Own.asked.clear()
    exec(compile(code, name, "exec"), names)
    assert "looker" not in Own.asked
    return found[0]


@pytest.mark.parametrize(("code", "wanted"), LOOPS, ids=[code for code, _ in LOOPS])
def test_loops_are_seen_from_another_thread(code: str, wanted: list[tuple[str, int, int]]) -> None:
    assert [(one.name, one.done, one.total) for one in seen_by(code)] == wanted


def test_progress_gives_the_items_and_ends_with_the_loop() -> None:
    rows = kbench.progress(range(3))
    assert len(rows) == 3 and list(rows) == [0, 1, 2] and rows.done == 3
    for _ in kbench.progress([1, 2]):
        break
    assert not loops._declared_loops()
    with pytest.raises(TypeError):
        len(kbench.progress(iter([1])))


@pytest.mark.parametrize(("iterable", "total"), [(3, None), ([1], -1), ([1], 2.5), ([1], True)])
def test_progress_refuses(iterable: Any, total: Any) -> None:
    with pytest.raises(K.ArgumentError, match="progress: "):
        kbench.progress(iterable, total)


def test_calls_are_counted() -> None:
    x = K.placeholder((None,))
    double = K.function([x], [x * 2], name="double")
    before = profile.calls.count
    for _ in range(5):
        double([[1.0]])
    assert (profile.calls.count - before, profile.calls.name) == (5, "double")


def test_rates_and_time_left() -> None:
    estimate = pace.Estimate()
    told = [estimate.sample(0.5 * at, 10 * at, "f", [Loop("i", at, 100)]) for at in range(5)]
    assert told[0]["rate"] is None and told[1]["left"] is None
    assert told[4]["rate"] == pytest.approx(20.0)
    assert told[4]["left"] == pytest.approx(96 / 2)


def test_another_loop_begins_a_new_estimate() -> None:
    estimate = pace.Estimate()
    for at in range(5):
        estimate.sample(float(at), at, "f", [Loop("i", at, 10)])
    assert estimate.sample(5.0, 5, "f", [Loop("j", 1, 20)])["left"] is None
    told = [estimate.sample(6.0 + at, 6, "f", [Loop("j", 2 + at, 20)]) for at in range(3)]
    assert told[-1]["left"] == pytest.approx(16.0)


def test_inner_loops_count_for_the_outer() -> None:
    assert loops.fraction([Loop("a", 1, 2), Loop("b", 1, 4)]) == pytest.approx(0.625)
    assert loops.fraction([]) == 0.0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, ""),
        ({"calls": 1234, "rate": 182.4, "loops": []}, "1,234 calls, 182 calls/s"),
        (
            {"calls": 9, "rate": 4.25, "loops": [["epoch", 2, 10], ["batch", 44, 60]], "left": 80},
            "epoch 3 of 10, batch 45 of 60, 4.2 calls/s, 1:20 left",
        ),
        ({"calls": 0, "rate": 0.0, "loops": [["i", 0, 3]], "left": 7325}, "i 1 of 3, 2:02:05 left"),
        ({"calls": 3, "rate": 0.25, "loops": [], "left": None}, "3 calls, 4.0 s a call"),
    ],
)
def test_words(told: dict[str, Any], words: str) -> None:
    assert status.pace_words(told, 60) == words


def test_keras_counters_are_read() -> None:
    code = (
        "def fit_loop(look, epochs, batches, steps_per_epoch=None):\n"
        "    for epoch in range(epochs):\n"
        "        for batch_index, _ in enumerate(batches):\n"
        "            if epoch == 2 and batch_index == 1: look()\n"
    )
    found: list[list[Loop]] = []
    main = threading.get_ident()

    def look() -> None:
        thread = threading.Thread(target=lambda: found.append(loops.running(main)))
        thread.start()
        thread.join()

    names: dict[str, Any] = {}
    exec(compile(code, "/site-packages/keras/engine/training_arrays.py", "exec"), names)
    names["fit_loop"](look, 4, [(0, 8), (8, 16), (16, 20)])
    assert found == [[Loop("epoch", 2, 4), Loop("batch", 1, 3)]]
