"""The lessons: what their author must hold to, and what a learner meets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras_loaded
import lesson_runs
import nbformat
import numpy as np
import pytest
from run_book import run_book
from sampling import every

from kbench import backend as K
from kbench.engine.runtime import config
from kbench.workbench.lessons import lesson_author, lesson_files
from kbench.workbench.lessons.lesson_checks import Unmet, judge
from kbench.workbench.lessons.lesson_coach import Coach
from kbench.workbench.lessons.lesson_files import Exercise, Lesson, LessonError, Verdict
from kbench.workbench.lessons.lesson_progress import Progress

LESSONS = lesson_files.catalogue()
NAMES = [lesson.name for lesson in LESSONS]
HERE = lesson_runs.here()
pytestmark = keras_loaded.OWN_WARNINGS


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A state folder of its own and the default settings, before and after."""
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))  # Keras writes its file there
    monkeypatch.setenv("KERAS_BACKEND", "")  # put back, whatever a lesson chooses
    monkeypatch.delenv("KERAS_BACKEND")
    yield
    for name, value in (("epsilon", 1e-7), ("floatx", "float32")):
        config.assign(name, value)
    K.set_image_data_format("channels_last")
    K.clear_session()


def test_lessons_are_numbered_from_one() -> None:
    assert [lesson.number for lesson in LESSONS] == list(range(1, len(LESSONS) + 1))
    assert len(LESSONS) >= 2


@pytest.mark.parametrize("lesson", every(3, HERE), ids=[one.name for one in HERE])
def test_author_rules(lesson: Lesson) -> None:
    if any("import keras" in step.text for step in lesson.steps):
        keras_loaded.load()  # what Python warns of in its modules is not the lesson's business
    assert lesson_author.faults(lesson) == []


@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_notebook_is_valid(lesson: Lesson) -> None:
    nbformat.validate(nbformat.read(lesson.path, as_version=4))


QUICK = (1, 4)  # the lessons that run in every notebook test; the others are slow together
RUNS = [
    pytest.param(one, id=one.name, marks=() if one.number in QUICK else pytest.mark.slow)
    for one in HERE
]
SECONDS = 20  # of processor time, which tells of the lesson and not of what else the machine does
CLOCK = "import time\nprint(time.process_time())"


@pytest.mark.parametrize("solved", every(2, [True, False]), ids=["solutions", "starters"])
@pytest.mark.parametrize("lesson", RUNS)
def test_in_a_notebook(lesson: Lesson, solved: bool, tmp_path: Path) -> None:
    book = nbformat.read(lesson.path, as_version=4)
    checked = {}
    for cell in book.cells:
        facts = cell.metadata["kbench"]
        if solved and facts["role"] in ("exercise", "predict"):
            cell.source = lesson.exercises[facts["id"]].solution
            cell.metadata["tags"] = []
        if facts["role"] == "check":
            checked[facts["of"]] = cell
    book.cells.append(nbformat.v4.new_code_cell(CLOCK))
    run_book(book, tmp_path, timeout=120)
    said = "".join(one["text"] for one in book.cells[-1].outputs)  # in one piece or several
    assert float(said) < SECONDS
    assert sorted(checked) == sorted(lesson.exercises)
    for name, cell in checked.items():
        text = cell.outputs[-1]["data"]["text/plain"]
        assert text.startswith(f"{name}: {'passed' if solved else 'not yet'}"), text
        assert "text/html" in cell.outputs[-1]["data"]


# ------------------------------------------------------------------ checks


def outcome(check: str, **names: Any) -> str:
    """The message of a check on some names; empty when it passes."""
    verdict = judge(Exercise("e", (), "", check), names)
    return "" if verdict.passed else f"{verdict.stage}: {verdict.message}"


@pytest.mark.parametrize(
    "check, message",
    [
        ("expect('z')", "exists: `z` does not exist yet"),
        ("expect('x').kind('variable')", "kind: `x` is a placeholder; it should be a variable"),
        ("expect('y').shape(3)", "shape: `y` has 2 axes, (None, 2); it should have 1"),
        ("expect('y').shape(None, 3)", "(None, 2): axis 1 is 2, it should be 3"),
        ("expect('y').shape(4, 2)", "axis 0 is open (None), it should be 4"),
        ("expect('y').dtype('float64')", "dtype: `y` is float32; it should be float64"),
        ("expect('y').close(lambda x, w: x @ w + 1)", "values: `y` is "),
        ("expect('y').close(lambda x, w: x[:1] @ w)", "it should give (1, 2)"),
        ("expect('f').returns(lambda x, w: x @ w * 2)", "values: `f` is "),
        ("expect('f').returns(lambda w: w)", "takes other inputs than the exercise asks for"),
        ("expect('x').returns(lambda x: x)", "it should be made by K.function"),
        ("expect('f').changes('w', lambda x, w: w + 9)", "is right (after one call of `f`, on"),
        ("expect('n').shape(1)", "is a number; it should be a tensor"),
        ("expect('n').equals(4)", "is not right"),
        ("expect('n').equals((3,))", "`n` is a number; it should be a tuple"),
        ("expect('yes').equals(1)", "`yes` is a truth value; it should be a number"),
        ("expect('y').uses('v')", "values: `y` does not use `v`"),
        ("expect('open').number", "kind: `open` is a tuple; it should be a number"),
        ("expect('n').numbers(2)", "kind: `n` is a number; it should be a tuple"),
        ("expect('open').numbers(2)", "`open` holds None; expected numbers"),
        ("expect('pair').numbers(3)", "`pair` has 2 entries; it should have 3"),
        ("expect('w').holds([[1., 2.], [3., 5.]])", "is 4 at index (1, 1) where 5 is right"),
        ("expect('g').kind('function')", "kind: `g` is a Python function; it should be a function"),
        ("expect('y').gradient('w', lambda x, w: x @ w * 2)", "gradient: `y` is "),
        ("expect('y').gradient('v', lambda x, v: x @ v)", "does not depend on `v`"),
        (
            "expect('y').made_of('convolve', 'depthwise')",
            "but its graph is dot; there should be convolve or depthwise in it.",
        ),
        (
            "expect('y').made_of('dot', without=['dot', 'pool_max'])",
            "but its graph is dot; there should be no dot in it.",
        ),
        ("require(False, 'no')", "values: no"),
        ("expect('y').close(lambda x, w: x / 0 @ [w])", "values: Running it raised"),
        ("expect('v').shape(2)", "`v` has 2 axes, (2, 2); it should have 1"),
        ("expect('b').shape(2, 2)", "`b` has 1 axis, (2,); it should have 2"),
        ("expect('none').kind('variable')", "`none` is None; it should be a variable"),
        ("expect('none').equals(3)", "`none` is not right"),
        ("expect('none').holds(3.0)", "`none` is None, not numbers"),
        ("expect('b').holds([True, True])", "is False at index (1,) where True is right"),
        ("expect('pair').equals((3, 5))", "`pair` is not right"),
        ("expect('kinds').equals(('a', 'b'))", "is a class at index 1; it should be a string"),
        ("expect('open').equals((3, 4))", "`open` is not right"),
        ("expect('pair').equals((3, 5))", "is not right: entry 0 is right, entry 1 is wrong; look"),
        (
            "expect('pair').equals((5, 5))",
            "is not right: entry 0 and entry 1 are wrong; look again",
        ),
        (
            "expect('pair').equals((3, 5), parts=('the size', 'the step'), advice='try it')",
            "`pair` is not right: the size is right, the step is wrong; try it.",
        ),
        ("expect('pair').equals((3, 4.1), tolerance=0.01)", "entry 1 is wrong"),
        (
            "expect('nested').equals(((3, 4), 6))",
            "is not right: entry 0 is right, entry 1 is wrong",
        ),
        ("expect('nested').equals(((3, 5), 5))", "is not right at index 0"),
        ("expect('open').equals((3, 4, 5))", "`open` has 2 entries; it should have 3"),
    ],
)
def test_first_unmet_demand(check: str, message: str) -> None:
    x = K.placeholder((None, 2), name="x")
    w = K.variable([[1.0, 2.0], [3.0, 4.0]])
    v, y = K.ones_like(w), K.dot(x, w)
    names = {"x": x, "w": w, "v": K.variable(K.eval(v)), "y": y, "n": 3, "g": lambda: None}
    names |= {"yes": True}
    names["nested"] = ((3, 4), 5)
    names |= {"none": None, "pair": [3, 4], "kinds": ("a", str), "open": (None, 4)}
    names["b"] = K.variable([True, False], dtype="bool")
    assert message in outcome(check, f=K.function([x], [y]), **names)


def test_a_long_error_is_told_by_its_first_line() -> None:
    x, wrong = K.placeholder((None, 2)), K.placeholder((None, 3))
    message = outcome(
        "expect('y').close(lambda x: x)", x=x, y=K.sum(x, axis=1) + K.sum(wrong, axis=1)
    )
    assert message.startswith("values: Running it raised ") and "\n" not in message


def test_met_demands() -> None:
    x = K.placeholder((None, 2))
    w = K.variable([[1.0, 2.0], [3.0, 4.0]])
    y, total = K.dot(x, w), K.variable(0.0)
    names = {"x": x, "w": w, "y": y, "total": total, "f": K.function([x], [y])}
    names["cube"] = x**3
    names["step"] = K.function([x], [], updates=[K.update_add(total, K.sum(x))])
    for check in (
        "expect('y').kind('tensor').shape(None, 2).dtype('float32').close(lambda x, w: x @ w)",
        "expect('f').kind('function').returns(lambda x, w: x @ w)",
        "expect('step').changes('total', lambda x, total: total + x.sum())",
        "expect('w').holds([[1., 2.], [3., 4.]])",
        "expect('y').close(lambda x, w: x @ w).gradient('w', lambda x, w: x @ w)",
        "expect('y').made_of('dot', without=['add'])",
        "expect('cube').gradient('x', lambda x: x**3)",
    ):
        assert outcome(check, **names) == "", check
    assert K.get_value(w).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert K.get_value(total) == 0.0


def test_a_check_leaves_variables_and_last_values_as_they_were() -> None:
    x, total = K.placeholder((None, 2)), K.variable(1.0)
    hidden = K.variable([0.0, 0.0])
    updates = [K.update_add(total, K.sum(x)), K.update_add(hidden, x[0])]
    step = K.function([x], [K.sum(x)], updates=updates)
    step([np.ones((3, 2))])
    names = {"x": x, "total": total, "steps": [step]}
    names["step"] = step
    before = (total.version, hidden.version, x.last, step.outputs[0].last)
    right = "expect('step').changes('total', lambda x, total: total + x.sum())"
    assert outcome(right, **names) == ""
    assert outcome("expect('total').holds(7.0)", **names) == ""
    assert outcome(right.replace(" + x.sum()", ""), **names) != ""
    assert (total.version, hidden.version, x.last, step.outputs[0].last) == before
    assert K.get_value(total) == 7.0 and K.get_value(hidden).tolist() == [1.0, 1.0]


def test_answer_written_in_by_hand_does_not_pass() -> None:
    x = K.placeholder((None,))
    w = K.variable([1.0, 2.0])
    cheat = K.constant([2.0, 4.0]) + 0 * K.sum(x)
    assert outcome("expect('y').close(lambda x, w: w * 2)", x=x, w=w, y=cheat) != ""


def test_demands_out_of_order_are_the_authors_fault() -> None:
    with pytest.raises(LessonError, match="asks for shape after values"):
        outcome("expect('n').equals(3).shape()", n=3)


def test_unmet_names_its_stage() -> None:
    assert Unmet("shape", "no").stage == "shape"


# ------------------------------------------------------------------ the coach and the progress


def test_coach_walks_through_a_lesson() -> None:
    lesson, names = lesson_files.load(2), {}
    exec("import numpy as np\nfrom kbench import backend as K", names)
    coach = Coach(lesson, names)
    assert coach.current == "set-value"
    verdict = coach.check()
    assert not verdict.passed and verdict.stage == "exists"
    assert "0 failed" not in coach.solution() and "1 failed" in coach.solution()
    assert coach.hint() != coach.hint() == coach.hint()
    coach.check()
    assert coach.solution() == lesson.exercises["set-value"].solution
    names["guess"] = (None,)
    assert coach.check("guess-shape").message.endswith("7 left in this lesson.")
    assert coach.skip() == lesson.exercises["set-value"].solution
    assert coach.current == "feed"
    for name in ("feed", "affine", "kinds", "counter", "train"):
        coach.skip(name)
    last = Verdict(True, "", "")
    assert coach.take("guess-rate", last).message.endswith("That was the last one of this lesson.")
    assert coach.take("guess-rate", last).message.endswith("All of this lesson is done.")
    assert "[x] guess-shape" in Coach(lesson_files.load(2), {}).overview()
    with pytest.raises(LessonError, match="no exercise 'nope'; it has: set-value"):
        coach.check("nope")


def test_reset_forgets_one_lesson() -> None:
    progress, (first, second) = Progress(), LESSONS[:2]
    for lesson in (first, second):
        progress.record_pass(lesson, next(iter(lesson.exercises)))
        progress.record_step(lesson, 3)
    progress.reset(first)
    assert (progress.passed(first), progress.step(first)) == (set(), 0)
    assert len(Progress().passed(second)) == 1 and progress.step(second) == 3
    progress.reset()
    assert progress.passed(second) == set()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 99}',
        '{"format": 1, "lessons": {"a": 3}}',
        '{"format": 1, "lessons": {"a": {"failures": {"b": "c"}}}}',
        "\x00\xff",
        "[" * 100_000,
    ],
)
def test_broken_progress_is_put_aside(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lessons.json"
    path.write_text(text, encoding="latin-1")
    progress = Progress()
    assert progress.passed(LESSONS[0]) == set()
    progress.record_failure(LESSONS[0], "row-means")
    assert json.loads(path.read_text(encoding="utf-8"))["format"] == 1
    assert (tmp_path / "lessons.broken.json").read_text(encoding="latin-1") == text


def test_unwritable_progress_stays_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    progress = Progress(blocked / "lessons.json")
    progress.record_pass(LESSONS[0], "row-means")
    assert progress.passed(LESSONS[0]) == {"row-means"}
    assert "this session only" in str(progress.note)


# ------------------------------------------------------------------ reading lessons


def test_unknown_lesson_lists_the_known() -> None:
    with pytest.raises(LessonError, match="no lesson 99; there are: 1, 2"):
        lesson_files.load(99)


@pytest.mark.parametrize(
    "notebook, sidecar, message",
    [
        ("{", "", "01-x.ipynb or its sidecar is broken"),
        ('{"cells": 3}', "", "is broken"),
        ('{"cells": []}', "exercise = 3", "is broken"),
        ("[" * 100_000, "", "is broken"),
        ("{}", "a = " + "[" * 5000, "is broken"),
        (b'{"cells": "\xff"}', "", "01-x.ipynb or its sidecar is not UTF-8"),
        ("{}", b"a = '\xff'", "is not UTF-8"),
        ('{"cells": []}', "", "does not begin with a heading"),
        (
            '{"cells": [{"cell_type": "markdown", "source": "# T", "metadata": {"kbench": {}}}]}',
            '[exercise.a]\nhints=[]\nsolution=""\ncheck=""',
            "shows the exercises",
        ),
    ],
)
def test_broken_lessons_say_so(
    notebook: str | bytes, sidecar: str | bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "01-x.ipynb"
    for one, content in ((path, notebook), (path.with_suffix(".toml"), sidecar)):
        one.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LessonError, match=message):
        lesson_files.read(path)


def test_a_notebook_that_was_worked_in_is_the_same_lesson(tmp_path: Path) -> None:
    first = LESSONS[0]
    path = tmp_path / first.path.name
    path.with_suffix(".toml").write_bytes(first.path.with_suffix(".toml").read_bytes())
    book = nbformat.read(first.path, as_version=4)
    at = next(i for i, cell in enumerate(book.cells) if cell.metadata["kbench"]["role"] == "check")
    answer = book.cells[at - 1]
    answer.update(source="means = 3", execution_count=7)
    answer.outputs.append(nbformat.v4.new_output("stream", text="3"))
    book.cells.insert(at, nbformat.v4.new_code_cell("%hint"))
    book.cells.insert(at, nbformat.v4.new_markdown_cell("My note."))
    book.cells.insert(at, nbformat.from_dict({**answer, "id": "copied", "source": "means = 4"}))
    nbformat.write(book, path)
    worked = lesson_files.read(path)
    assert worked.key == first.key
    assert [step.name for step in worked.steps] == [step.name for step in first.steps]
    assert worked.starter(answer.metadata["kbench"]["id"]) == "means = 3"


def test_missing_sidecar_is_named(tmp_path: Path) -> None:
    path = tmp_path / "01-x.ipynb"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(LessonError, match=r"01-x\.toml"):
        lesson_files.read(path)


def test_magics_are_left_out_of_plain_code() -> None:
    setup = next(step for step in LESSONS[0].steps if step.role == "setup")
    assert "%lesson 1" in setup.text
    assert "%" not in setup.plain and "import numpy as np" in setup.plain


@pytest.mark.slow
@pytest.mark.parametrize("lesson", HERE, ids=[one.name for one in HERE])
def test_on_the_command_line(lesson: Lesson, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kbench", "learn", str(lesson.number)],
        input=lesson_runs.walked(lesson),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(lesson.path.parents[1])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in lesson.exercises:
        assert f"{name}: not yet. " in done.stdout
        assert f"{name}: passed. " in done.stdout, done.stdout
        assert f"[x] {name}" in done.stdout
