"""For those who write lessons: everything a lesson must hold to, checked by running it.

Every starter must fail its own check, every solution must pass it, and no hint may contain what the
solution fills in. The notebook is stored without outputs, except for pictures: those must be what
the cell draws. Its prose does not speak of the terminal, nor the terminal's of a notebook. Tests
run this on every lesson.
"""

from __future__ import annotations

import ast
import difflib
import json
import re

from kbench.engine.core import syntax
from kbench.engine.runtime import paths
from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons.lesson_checks import judge
from kbench.workbench.lessons.lesson_files import BLANK, Exercise, Lesson, Step

_HINT_COUNTS = range(2, 4)
"""How many hints an exercise may have."""
SVG = "image/svg+xml"
MAX_PICTURE_BYTES = 12_000
"""Of one stored picture: a lesson of five stays smaller than its text in Git's history."""
STORE = "`python .ci/lesson_pictures.py`"
_ROUNDING_PIXELS = 0.21
"""By which places may differ that processors have rounded differently: two units of 0.1."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TERMINAL_ONLY = re.compile(r"\bterminal\b|\b[Pp]anes?\b|`:\w+`|\bprompt\b")
_NOTEBOOK_ONLY = re.compile(
    r"\b[Nn]otebooks?\b|\b[Ww]idgets?\b|\bJupyter\w*|kbench\.(?:[A-Z]\w+|explorer)"
)


def faults(lesson: Lesson) -> list[str]:
    """What is wrong with `lesson`; an empty list is what CI wants."""
    return [
        *_stored_faults(lesson),
        *_told_faults(lesson),
        *_hint_faults(lesson),
        *_run_faults(lesson),
    ]


def pictures(lesson: Lesson) -> dict[str, JsonObject]:
    """What the cells of the lesson that draw a picture show, by the names of their steps.

    The lesson is run with its solutions. Each entry is a MIME bundle.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = {}
    for step in lesson.steps:
        if step.is_exercise:
            solution = lesson.exercises[step.name].solution
            exec(compile(solution, f"<solution {step.name}>", "exec"), namespace)
        elif step.is_picture:
            found[step.name] = _bundle(_shown(step, namespace))
        elif step.is_code and step.role != "check":
            _run(step, namespace)
    return found


def filled(starter: str, solution: str) -> list[str]:
    """What the solution puts where the starter has blanks, in order."""
    pieces = []
    for line in starter.splitlines():
        if BLANK in line and not line.lstrip().startswith("#"):
            near = difflib.get_close_matches(line, solution.splitlines(), n=1, cutoff=0.2)
            pieces += [_between(line, near[0])] if near else []
    return [piece for piece in pieces if piece]


def _between(line: str, answer: str) -> str:
    """The text of `answer` that stands where `line` has its first to last blank."""
    before, after = line.split(BLANK)[0], line.split(BLANK)[-1]
    if answer.startswith(before) and answer.endswith(after):
        return answer[len(before) : len(answer) - len(after)]
    return answer


def _stored_faults(lesson: Lesson) -> list[str]:
    """The notebook file: no counts, no outputs but pictures; names, exercises that have blanks."""
    cells = json.loads(paths.read_text(lesson.path))["cells"]
    found = [
        f"cell {index} is stored with output"
        for index, cell in enumerate(cells)
        if cell.get("execution_count") is not None
        or (cell.get("outputs") and not cell["metadata"].get("kbench", {}).get("picture"))
    ]
    names = [cell["metadata"].get("kbench", {}).get("id") for cell in cells]
    if None in names or len({*names}) < len(names):
        found.append("every cell needs an id of its own: reading leaves out the others")
    for step in lesson.steps:
        if step.is_exercise and BLANK not in step.text:
            found.append(f"{step.name}: the starter has no {BLANK}")
        if step.is_exercise and not step.may_fail:
            found.append(f"{step.name}: a starter must carry the tag raises-exception")
        if step.role == "explain" and "<" in step.text.replace("<=", "").replace(" < ", ""):
            found.append(f"{step.name}: prose must be plain CommonMark, without HTML")
        if step.role == "explain" and any(line.count("`") % 2 for line in step.text.splitlines()):
            found.append(
                f"{step.name}: code is cut by the end of a line; what follows may be a list"
            )
    return found


def _told_faults(lesson: Lesson) -> list[str]:
    """Each front end speaks of itself: the notebook of no pane, the terminal of no notebook."""
    cells = json.loads(paths.read_text(lesson.path))["cells"]
    prose = {
        cell["metadata"].get("kbench", {}).get("id"): "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    }
    found = [
        f"{one.step}: the notebook does not say {one.notebook!r}"
        for one in lesson.retellings
        if one.applied(prose.get(one.step, ""))[1] != 1
    ]
    for name, text in prose.items():
        found += [f"{name}: a notebook has no {word!r}" for word in _said(_TERMINAL_ONLY, text)]
    for step in lesson.steps:
        if step.role == "explain":
            words = _said(_NOTEBOOK_ONLY, step.text)
            found += [f"{step.name}: a terminal has no {word!r}" for word in words]
    return found


def _said(words: re.Pattern[str], text: str) -> list[str]:
    return [match.group() for match in words.finditer(text)]


def _hint_faults(lesson: Lesson) -> list[str]:
    """Two or three hints each, none of which gives the answer away."""
    found = []
    for name, exercise in lesson.exercises.items():
        if len(exercise.hints) not in _HINT_COUNTS:
            found.append(f"{name}: {len(exercise.hints)} hints; 2 or 3 are wanted")
        for piece in filled(lesson.starter(name), exercise.solution):
            for hint in exercise.hints:
                if len(piece) > 2 and piece in hint:
                    found.append(f"{name}: a hint contains {piece!r}")
    return found


def _run_faults(lesson: Lesson) -> list[str]:
    """Walk the lesson as a learner does: starter, check, solution, check, next.

    A step `of` an exercise goes on with its answer, so it may fail without it, and not with it.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = []
    for step in lesson.steps:
        if step.role == "check" or not step.is_code:
            continue
        failure = _run(step, namespace)
        if step.is_exercise:
            found += _exercise_faults(lesson.exercises[step.name], namespace)
        elif step.is_picture and not failure:
            found += _picture_faults(lesson, step, namespace)
        elif failure and (step.of or not step.may_fail):
            found.append(f"{step.name}: raised {failure}")
    return found


def _exercise_faults(exercise: Exercise, namespace: dict[str, object]) -> list[str]:
    """The starter has just run; now its check must fail, and pass after the solution."""
    found = []
    if judge(exercise, namespace).passed:
        found.append(f"{exercise.name}: the starter passes the check")
    exec(compile(exercise.solution, f"<solution {exercise.name}>", "exec"), namespace)
    verdict = judge(exercise, namespace)
    if not verdict.passed:
        found.append(f"{exercise.name}: the solution fails: {verdict.message}")
    return found


def _picture_faults(lesson: Lesson, step: Step, namespace: dict[str, object]) -> list[str]:
    """The stored picture is what the cell draws, but for the last digit of a place."""
    cells = json.loads(paths.read_text(lesson.path))["cells"]
    (cell,) = [one for one in cells if one["metadata"].get("kbench", {}).get("id") == step.name]
    bundle = _bundle(_shown(step, namespace))
    if SVG not in bundle:
        return [f"{step.name}: the last line shows no chart"]
    if len(bundle[SVG]) > MAX_PICTURE_BYTES:
        return [f"{step.name}: the picture has {len(bundle[SVG])} bytes; make it smaller"]
    outputs = cell.get("outputs", [])
    stored = outputs[0].get("data", {}) if len(outputs) == 1 else {}
    kept = "".join(stored.get(SVG, ""))
    if sorted(stored) != sorted(bundle) or not _same_drawing(kept, bundle[SVG]):
        return [f"{step.name}: the stored picture is another one; {STORE} stores it"]
    return []


def _same_drawing(one: str, other: str) -> bool:
    """Whether two drawings differ by rounding alone."""
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= _ROUNDING_PIXELS for a, b in pairs)


def _bundle(shown: object) -> JsonObject:
    """What is stored of a chart, for sites that show notebooks; nothing of what is none.

    Without its HTML: that is for live notebooks, and of the same SVG.
    """
    draw = getattr(shown, "_repr_mimebundle_", dict)
    return {kind: data for kind, data in draw().items() if kind != "text/html"}


def _shown(step: Step, namespace: dict[str, object]) -> object:
    """Run a cell; the value of its last line, which a front end shows."""
    tree = syntax.parse_module(step.plain)
    last = tree.body.pop()
    exec(compile(tree, f"<{step.name}>", "exec"), namespace)
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), f"<{step.name}>", "exec"), namespace)
        return None
    return eval(compile(ast.Expression(last.value), f"<{step.name}>", "eval"), namespace)


def _run(step: Step, namespace: dict[str, object]) -> str | None:
    """Run one cell without its magics; what it raised, or None."""
    try:
        exec(compile(step.plain, f"<{step.name}>", "exec"), namespace)
    except Exception as error:  # a starter raises by design; the caller judges
        return f"{type(error).__name__}: {error}"
    return None
