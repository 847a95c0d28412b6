"""Lessons: notebooks in `tutorials/`, read as steps, with a sidecar of checks, hints and solutions.

A lesson is one notebook `NN-name.ipynb` and beside it `NN-name.toml`. The notebook is what a
learner sees; what would spoil it (check, hints, solution of every exercise) lies in the sidecar.
The prose is the notebook's; where the terminal has something else to speak of, the sidecar has its
words for it. Both front ends walk the same `Lesson`; how far a learner came is `lesson_progress`'
business, what a check may ask is `lesson_checks`'. This module knows no user interface and runs no
code.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kbench.engine.runtime import paths as known_paths
from kbench.workbench.core_types import JsonObject

ROLES = ("explain", "setup", "demo", "predict", "exercise", "check")
BLANK = "___"


class LessonError(Exception):
    """A lesson that cannot be found or read, or is written against the rules of this module."""


class Verdict(Struct, frozen=True):
    """The outcome of one check."""

    passed: bool
    stage: str
    message: str


class Exercise(Struct, frozen=True):
    """What belongs to one exercise and is not shown in the notebook."""

    name: str
    hints: tuple[str, ...]
    solution: str
    check: str


class Retelling(Struct, frozen=True):
    """Words of a step's prose in the notebook, and what the terminal says in their place."""

    step: str
    notebook: str
    terminal: str

    def applied(self, text: str) -> tuple[str, int]:
        """The prose with the terminal's words, and how often the notebook's were found."""
        pattern = r"\s+".join(map(re.escape, self.notebook.split()))
        told, count = re.subn(pattern, lambda _: self.terminal.strip(), text)
        return (re.sub(r"\n{3,}", "\n\n", told).strip() if count else text), count


class Step(Struct, frozen=True):
    """One cell of a lesson: prose to read, code to run, or an exercise to solve."""

    name: str
    role: str
    text: str
    of: str | None = None
    may_fail: bool = False
    is_picture: bool = False

    @property
    def is_code(self) -> bool:
        """Whether the text is Python to run, not prose to read."""
        return self.role != "explain"

    @property
    def plain(self) -> str:
        """The code without lines for IPython, for front ends that run Python alone."""
        lines = self.text.splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith("%"))

    @property
    def is_exercise(self) -> bool:
        """Whether the learner has to fill something in; a prediction counts."""
        return self.role in ("exercise", "predict")


class Lesson(Struct, frozen=True):
    """A whole lesson, in order."""

    name: str
    number: int
    title: str
    path: Path
    digest: str
    steps: tuple[Step, ...]
    exercises: dict[str, Exercise]
    retellings: tuple[Retelling, ...] = ()

    @property
    def key(self) -> str:
        """What progress is filed under; a lesson whose checks changed starts anew.

        The notebook does not count: learners write their answers into it, and Jupyter the outputs.
        Nor do the words for the terminal.
        """
        return f"{self.name}@{self.digest}"

    def exercise(self, name: str) -> Exercise:
        """The exercise called `name`, or a LessonError that lists those there are."""
        if name not in self.exercises:
            known = ", ".join(self.exercises)
            raise LessonError(f"lesson {self.number} has no exercise {name!r}; it has: {known}")
        return self.exercises[name]

    def starter(self, name: str) -> str:
        """The code with blanks that a learner finds for exercise `name`."""
        self.exercise(name)
        return next(step.text for step in self.steps if step.is_exercise and step.name == name)


def folder() -> Path:
    """Where the lessons lie: inside an installed package, or beside the package in a clone."""
    package = Path(__file__).resolve().parents[2]
    for place in (package / "tutorials", package.parent / "tutorials"):
        if any(place.glob("[0-9][0-9]-*.ipynb")):
            return place
    raise LessonError(f"no lessons beside {package.name}; reinstall kbench to get them back")


def catalogue() -> list[Lesson]:
    """Every lesson, in order of its number."""
    return [read(path) for path in sorted(folder().glob("[0-9][0-9]-*.ipynb"))]


def shelf() -> dict[int, Lesson | LessonError]:
    """Every lesson by its number; in place of one that cannot be read, the reason."""
    found: dict[int, Lesson | LessonError] = {}
    for number, path in _numbered().items():
        try:
            found[number] = read(path)
        except LessonError as error:
            found[number] = error
    return found


def load(number: int) -> Lesson:
    """Lesson `number`, or a LessonError that lists those there are."""
    paths = _numbered()
    if number in paths:
        return read(paths[number])
    known = ", ".join(str(number) for number in paths)
    raise LessonError(f"there is no lesson {number!r}; there are: {known}")


def _numbered() -> dict[int, Path]:
    """The notebooks by their numbers, in order."""
    return {int(path.stem[:2]): path for path in sorted(folder().glob("[0-9][0-9]-*.ipynb"))}


def read(path: Path) -> Lesson:
    """Read the notebook at `path` and its sidecar; LessonError names the file and what is wrong."""
    sidecar = path.with_suffix(".toml")
    try:
        stamp = path.stat().st_mtime_ns, sidecar.stat().st_mtime_ns
    except OSError as error:
        raise LessonError(f"{error.filename}: {error.strerror}") from error
    return _read(path, sidecar, stamp)


@cache
def _read(path: Path, sidecar: Path, stamp: tuple[int, int]) -> Lesson:
    """`read`, remembered for as long as neither file changes (`stamp`)."""
    try:
        notebook_text, sidecar_text = _text(path), _text(sidecar)
        cells = _ours(json.loads(notebook_text)["cells"])
        sidecar_table = tomllib.loads(sidecar_text)
        table = sidecar_table.get("exercise", {})
        exercises = {name: _exercise(name, entry) for name, entry in table.items()}
        retellings = tuple(Retelling(**entry) for entry in sidecar_table.get("terminal", []))
        steps = tuple(_told(_step(cell, index), retellings) for index, cell in enumerate(cells))
    except UnicodeDecodeError as error:
        raise LessonError(f"{path.name} or its sidecar is not UTF-8 ({error})") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LessonError(f"{path.name} or its sidecar is broken: {error!r}") from error
    lesson = Lesson(
        name=path.stem,
        number=int(path.stem[:2]),
        title=_title(steps, path),
        path=path,
        digest=hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12],
        steps=steps,
        exercises=exercises,
        retellings=retellings,
    )
    _agree(lesson)
    return lesson


def _ours(cells: list[JsonObject]) -> list[JsonObject]:
    """The lesson's own cells, each once: a learner adds cells to the notebook, and copies some.

    What tells how to use a notebook, and says so by `only`, is no step.
    """
    found: dict[str, JsonObject] = {}
    for index, cell in enumerate(cells):
        facts = cell["metadata"].get("kbench")
        if facts is not None and facts.get("only") != "notebook":
            found.setdefault(facts.get("id", f"step-{index}"), cell)
    return list(found.values())


def _text(path: Path) -> str:
    """A file's text; a lesson is UTF-8 wherever it is read."""
    return known_paths.read_text(path)


def _exercise(name: str, entry: JsonObject) -> Exercise:
    """One table of the sidecar."""
    hints, solution, check = entry["hints"], entry["solution"].strip(), entry["check"].strip()
    return Exercise(name, tuple(hint.strip() for hint in hints), solution, check)


def _step(cell: JsonObject, index: int) -> Step:
    """One cell of the notebook; markdown is prose, code says its role in its metadata."""
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    facts = cell["metadata"].get("kbench", {})
    role = "explain" if cell["cell_type"] == "markdown" else facts["role"]
    if role not in ROLES:
        raise ValueError(f"cell {index} has the role {role!r}; roles are {', '.join(ROLES)}")
    may_fail = "raises-exception" in cell["metadata"].get("tags", [])
    name, picture = facts.get("id", f"step-{index}"), bool(facts.get("picture"))
    return Step(name, role, text, facts.get("of"), may_fail, picture)


def _told(step: Step, retellings: tuple[Retelling, ...]) -> Step:
    """A step as the terminal tells it; words that a learner has changed stay."""
    text = step.text
    for one in retellings:
        if one.step == step.name and step.role == "explain":
            text, _ = one.applied(text)
    return replace(step, text=text)


def _title(steps: tuple[Step, ...], path: Path) -> str:
    """The heading of the first cell, without its number."""
    first = steps[0].text.splitlines()[0] if steps and steps[0].text else ""
    if not first.startswith("# "):
        raise LessonError(f"{path.name} does not begin with a heading")
    return first.removeprefix("# ").lstrip("0123456789. ")


def _agree(lesson: Lesson) -> None:
    """The notebook and its sidecar speak of the same exercises."""
    shown = [step.name for step in lesson.steps if step.is_exercise]
    if sorted(shown) != sorted(lesson.exercises):
        raise LessonError(
            f"{lesson.path.name} shows the exercises {shown}, "
            f"its sidecar holds {list(lesson.exercises)}; an unchanged copy has them all"
        )
