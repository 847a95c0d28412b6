"""What the author of a lesson is told: of pictures, and of words for the other front end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons import lesson_author, lesson_files
from kbench.workbench.lessons.lesson_files import Lesson

DRAW = 'from kbench import charts\ncharts.lines({"loss": [4.0, 2.0, 1.0]}, title="Loss")'
PROSE = "# 1. A\n\nRun it. `kbench.PlanTable()`\nshows the plan. Then go on."
SIDECAR = """
[[terminal]]
step = "title"
notebook = "`kbench.PlanTable()` shows the plan."
terminal = "The Plan pane shows it."
"""


def lesson(
    folder: Path, prose: str = PROSE, sidecar: str = SIDECAR, code: str = DRAW, outputs: object = ()
) -> Lesson:
    """A lesson of two cells: prose, and a picture."""
    cells: list[JsonObject] = [
        {"cell_type": "markdown", "metadata": {"kbench": {"id": "title"}}, "source": prose},
        {
            "cell_type": "code",
            "metadata": {"kbench": {"id": "draw", "role": "demo", "picture": True}},
            "source": code,
            "outputs": outputs,
        },
    ]
    path = folder / "01-a.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    path.with_suffix(".toml").write_text(sidecar, encoding="utf-8")
    lesson_files._read.cache_clear()  # files of one moment look alike
    return lesson_files.read(path)


def output(data: JsonObject) -> list[JsonObject]:
    return [{"output_type": "execute_result", "data": data, "metadata": {}}]


def test_the_terminal_has_words_of_its_own(tmp_path: Path) -> None:
    made = lesson(tmp_path)
    assert made.steps[0].text == "# 1. A\n\nRun it. The Plan pane shows it. Then go on."
    changed = lesson(tmp_path, prose=PROSE.replace("shows the plan", "is new"))
    assert "kbench.PlanTable" in changed.steps[0].text  # a learner's words stay


def test_words_for_the_terminal_do_not_restart_a_lesson(tmp_path: Path) -> None:
    assert lesson(tmp_path).key == lesson(tmp_path, sidecar="").key
    other = '[exercise.b]\nhints=[]\nsolution=""\ncheck=""'
    with pytest.raises(lesson_files.LessonError, match="its sidecar holds"):
        lesson(tmp_path, sidecar=other)


@pytest.mark.parametrize(
    "prose, sidecar, fault",
    [
        (PROSE.replace("shows", "told"), SIDECAR, "title: the notebook does not say"),
        (f"{PROSE} The Plan pane.", SIDECAR, "title: a notebook has no 'pane'"),
        (f"{PROSE} In the terminal.", SIDECAR, "title: a notebook has no 'terminal'"),
        (f"{PROSE} `:hint` helps.", SIDECAR, "title: a notebook has no '`:hint`'"),
        (PROSE, "", "title: a terminal has no 'kbench.PlanTable'"),
        ("# 1. A\n\nA widget.", "", "title: a terminal has no 'widget'"),
        ("# 1. A\n\nIt is `n\n- k`.", "", "title: code is cut by the end of a line"),
    ],
)
def test_each_front_end_speaks_of_itself(
    prose: str, sidecar: str, fault: str, tmp_path: Path
) -> None:
    found = lesson_author.faults(lesson(tmp_path, prose, sidecar))
    assert any(one.startswith(fault) for one in found), found


def test_a_picture_is_stored_as_the_cell_draws_it(tmp_path: Path) -> None:
    bundle = lesson_author.pictures(lesson(tmp_path))["draw"]
    assert lesson_author.faults(lesson(tmp_path, outputs=output(bundle))) == []
    svg = bundle[lesson_author.SVG]
    near = svg.replace("L304.0 ", "L304.1 ")
    assert near != svg
    stored = {**bundle, lesson_author.SVG: near.splitlines(keepends=True)}
    assert lesson_author.faults(lesson(tmp_path, outputs=output(stored))) == []


@pytest.mark.parametrize(
    "change, code, fault",
    [
        (lambda _: [], DRAW, "draw: the stored picture is another one"),
        (lambda svg: output({lesson_author.SVG: svg}), DRAW, "draw: the stored picture is another"),
        (
            lambda svg: output({lesson_author.SVG: svg.replace("Loss", "Gain"), "text/plain": ""}),
            DRAW,
            "draw: the stored picture is another one",
        ),
        (
            lambda svg: output(
                {lesson_author.SVG: svg.replace("L304.0 ", "L324.0 "), "text/plain": ""}
            ),
            DRAW,
            "draw: the stored picture is another one",
        ),
        (lambda _: [], "x = 3", "draw: the last line shows no chart"),
        (
            lambda _: [],
            'from kbench import charts\ncharts.lines({"n": [n % 7 for n in range(2000)]})',
            "draw: the picture has ",
        ),
    ],
)
def test_a_picture_that_is_not_what_it_should_be(
    change: object, code: str, fault: str, tmp_path: Path
) -> None:
    svg = lesson_author.pictures(lesson(tmp_path))["draw"][lesson_author.SVG]
    outputs = change(svg)  # type: ignore[operator]
    found = lesson_author.faults(lesson(tmp_path, code=code, outputs=outputs))
    assert any(one.startswith(fault) for one in found), found
