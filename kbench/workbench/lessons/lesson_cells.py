"""Where answers are judged: in the kernel that holds the learner's names, between cells.

A front end that has the kernel in another process sends `call(...)` as a cell that is forgotten;
the verdict comes back as what the kernel tells of kind KIND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.workbench.kernel import pane_channel

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell


PUSH_KIND = "lesson"
"""The kind of the push that brings a verdict."""
CLOSING_CODE = "%lesson off"


def judging_code(number: int, exercise: str, ticket: int) -> str:
    """The cell that judges one exercise; it leaves no name and no value behind."""
    module = f"__import__({__name__!r}, fromlist=['judge_here'])"
    return f"{module}.judge_here(get_ipython(), {number}, {exercise!r}, {ticket});"


def opening_code(number: int) -> str:
    """The cell that gives the shell the magics that lessons use, and refuses blanks."""
    return f"%load_ext kbench\n%lesson {number}"


def judge_here(shell: Shell, number: int, exercise: str, ticket: int) -> None:
    """Judge an exercise on the shell's names and tell the front end, under its `ticket`."""
    from kbench.workbench.lessons.lesson_checks import judge
    from kbench.workbench.lessons.lesson_files import LessonError, load
    from kbench.workbench.protocol import messages  # in the kernel only

    channel = pane_channel.of(shell)
    assert channel is not None  # the kernel of a workbench
    data = {"exercise": exercise, "ticket": ticket}
    try:
        with channel.inspector.recorder.ignoring_runs():
            verdict = judge(load(number).exercise(exercise), shell.user_ns)
    except LessonError as error:
        channel.publish(messages.push(PUSH_KIND, {**data, "problem": str(error)}))
        return
    data |= {"stage": verdict.stage, "message": verdict.message}
    channel.publish(messages.push(PUSH_KIND, {**data, "passed": verdict.passed}))
