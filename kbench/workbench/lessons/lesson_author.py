"""For those who write lessons: everything a lesson must hold to, checked by running it.

Every starter must fail its own check, every solution must pass it, no hint may contain what the
solution fills in, and the notebook must be stored without outputs. Tests run this on every lesson.
"""

from __future__ import annotations

import difflib
import json

from kbench.engine.runtime import paths
from kbench.workbench.lessons.lesson_checks import judge
from kbench.workbench.lessons.lesson_files import BLANK, Exercise, Lesson, Step

_HINT_COUNTS = range(2, 4)
"""How many hints an exercise may have."""


def faults(lesson: Lesson) -> list[str]:
    """What is wrong with `lesson`; an empty list is what CI wants."""
    return [*_stored_faults(lesson), *_hint_faults(lesson), *_run_faults(lesson)]


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
    """The notebook file itself: no outputs, no counts, names, exercises that have blanks."""
    cells = json.loads(paths.read_text(lesson.path))["cells"]
    found = [
        f"cell {index} is stored with output"
        for index, cell in enumerate(cells)
        if cell.get("outputs") or cell.get("execution_count") is not None
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
    return found


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
    """Walk the lesson as a learner does: starter, check, solution, check, next."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = []
    for step in lesson.steps:
        if step.role == "check" or not step.is_code:
            continue
        failure = _run(step, namespace)
        if step.is_exercise:
            found += _exercise_faults(lesson.exercises[step.name], namespace)
        elif failure and not step.may_fail:
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


def _run(step: Step, namespace: dict[str, object]) -> str | None:
    """Run one cell without its magics; what it raised, or None."""
    try:
        exec(compile(step.plain, f"<{step.name}>", "exec"), namespace)
    except Exception as error:  # a starter raises by design; the caller judges
        return f"{type(error).__name__}: {error}"
    return None
