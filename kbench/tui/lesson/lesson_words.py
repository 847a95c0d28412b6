"""What a lesson says besides its own prose: commands, states, lists; no state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content

from kbench.tui.panes.rows import shape_text
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import coloured
from kbench.workbench.protocol.names import VariableRow

if TYPE_CHECKING:
    from kbench.workbench.lessons.lesson_files import Lesson, LessonError
    from kbench.workbench.lessons.lesson_pages import Page
    from kbench.workbench.lessons.lesson_progress import Progress

GOOD, BAD = "$text-success", "bold $text-error"
COMMANDS: dict[str, str] = {
    "next": "go on; Enter on the empty prompt does the same",
    "back": "the step before",
    "check": "judge the exercise",
    "hint": "the next hint",
    "solution": "an answer, after two failed checks or when you insist",
    "skip": "enter the answer, and count the exercise as done",
    "again": "the step's code into the prompt, as it was at first",
    "play": "free play: try what you like, :next comes back",
    "list": "all steps of the lesson, to go to one",
    "reset": "restart the lesson",
    "fold": "fold the lesson to one line, or unfold it",
    "lessons": "all lessons, to take another",
    "leave": "close the lesson; your place is kept",
    "help": "this list",
    "quit": "leave the workbench",
}


class PageState(Struct, frozen=True):
    """How things stand on a page."""

    exercise: str | None
    code: bool
    written: bool = False  # something stands in the prompt
    blank: bool = False  # with a blank in it
    passed: bool = False
    failures: int = 0
    unmet: bool = False  # the last check has failed, and nothing was run since
    tried: bool = False  # something was run since the last check
    ran: bool = False
    running: bool = False
    checking: bool = False
    playing: bool = False
    last: bool = False
    clear: str = ""  # the key that empties the prompt


def state(now: PageState) -> tuple[str, str]:
    """The line below the lesson, and its style; the words say what the colour says."""
    name = now.exercise
    if now.checking:
        return f"checking {name} ...", "$text-warning"
    if now.running:
        return "running ...", "$text-warning"
    if now.playing:
        return "free play: try what you like; Enter comes back", "$text-accent"
    going = "the end of the lesson, Enter goes on" if now.last else "Enter goes on"
    waits = now.code and not now.ran
    empty = "Enter brings the code back" if waits else going
    if name is None:
        clears = f", {now.clear} clears it" if now.clear else ""
        return (f"Enter runs the code in the prompt{clears}" if now.written else empty), ""
    enter = "Enter runs it" if now.written else empty
    if now.passed:
        return f"[x] {name}: passed. {enter if now.written and not now.blank else going}", GOOD
    if now.unmet:
        times = "" if now.failures < 2 else f", {now.failures} checks failed"
        again = "Enter runs it" if now.written else "Enter brings it back"
        return f"[!] {name}: not yet{times}. {again}", BAD
    if now.blank and now.written:
        return f"[ ] {name}: fill in the ___, Enter runs it", "$text-accent"
    if now.tried and not now.written:
        return f"[ ] {name}: Enter checks it", "$text-accent"
    return f"[ ] {name}: {enter}", "$text-accent"


def commands() -> list[Content]:
    """`:help`."""
    rows = [
        Content.assemble((f"  :{name:<10}", "$text-accent"), f" {words}")
        for name, words in COMMANDS.items()
    ]
    first = "Whatever does not begin with a colon is Python; try what you like at any step. "
    first += "Commands work wherever you type them; your input comes back."
    return [Content(first), Content(""), *rows]


def solution(name: str, code: str) -> list[Content]:
    """An answer, to be read."""
    head = Content.styled(f"{name}: an answer; :skip enters it", MUTED)
    return [head, *(Content("  ") + line for line in coloured(code))]


def verdict(message: str, passed: bool) -> list[Content]:
    """What the check says, its outcome in words of another weight."""
    return [Content.styled(safe(line), GOOD if passed else BAD) for line in message.split("\n")]


def created(names: Sequence[str], rows: Iterable[VariableRow]) -> str:
    """`means: tensor (2,) float32, ...`: what entering an answer has made.

    A class or a plain function is no variable: the inspector has no row for it but "gone".
    """
    known = {row.name: row for row in rows}
    found = []
    for name in names:
        row = known.get(name)
        facts = ""
        if row is not None and row.shape is not None:
            facts = f", {row.kind} {shape_text(row.shape)} {row.dtype}"
        found.append(f"`{name}`{facts}")
    return "; ".join(found)


def where(at: int, pages: Sequence[Page], done: int, exercises: int) -> str:
    """`step 5 of 18, 2 of 6 done`."""
    return f"step {at + 1} of {len(pages)}, {done} of {exercises} done"


def step_rows(pages: Sequence[Page], passed: set[str], at: int) -> list[str]:
    """The lines of `:list`."""
    rows = []
    for number, page in enumerate(pages):
        name = page.exercise
        mark = "   " if name is None else "[x]" if name in passed else "[ ]"
        words = page.heading or (page.code or page.prose).strip().splitlines()[0]
        here = ">" if number == at else " "
        exercise = f"   {name}" if name else ""
        rows.append(f"{here}{number + 1:>3} {mark} {words}{exercise}")
    return rows


def lesson_row(number: int, lesson: Lesson | LessonError, progress: Progress) -> str:
    """One lesson in the list of all."""
    if isinstance(lesson, Exception):
        return f"{number:>3}  cannot be read: {lesson}"
    done, exercises = len(progress.passed(lesson)), len(lesson.exercises)
    words = "all done" if done == exercises else f"{done} of {exercises}"
    changed = ", changed since you took it" if progress.changed(lesson) else ""
    return f"{number:>3}  {words:<8}  {lesson.title}{changed}"
