"""Every lesson walked in the terminal workbench on a real kernel, with its solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lesson_runs
import pytest
from bench_screen import text_of
from learner import foot, idle, said, taught, typed, wait

from kbench.tui.lesson.lesson_controller import LessonController
from kbench.tui.prompt.prompt import Prompt
from kbench.workbench.history.journal import Journal
from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_files import Lesson
from kbench.workbench.lessons.lesson_progress import Progress
from kbench.workbench.session.kernel_session import KernelSession

LESSONS = lesson_runs.here()
NAMES = [lesson.name for lesson in LESSONS]
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path / "state"))


async def answer(app: Any, pilot: Any, controller: LessonController, code: str) -> None:
    """Type an answer, and press the key that runs and checks it."""
    app.query_one(Prompt).put(code)
    await pilot.press("alt+x")
    await wait(pilot, lambda: typed(app) != code or not idle(controller), "the answer was taken")
    await wait(pilot, lambda: idle(controller) and said(app), "the answer was judged")


async def walk(app: Any, pilot: Any, controller: LessonController, lesson: Lesson) -> None:
    """From the first step to the last: Enter, and an answer where one is wanted."""
    await wait(pilot, lambda: idle(controller), "the kernel is there")
    for at, page in enumerate(controller.model.pages):
        assert controller.model.at == at
        if page.exercise:
            await pilot.press("enter")  # the starter
            await wait(pilot, lambda: f"still has a {lesson_files.BLANK}" in said(app), "blanks")
            await pilot.press("alt+k")
            await answer(app, pilot, controller, lesson.exercises[page.exercise].solution)
            assert f"{page.exercise}: passed." in said(app), text_of(app)
            assert foot(app).startswith(f" [x] {page.exercise}: passed")
        elif page.code:
            await pilot.press("enter")
            await wait(pilot, lambda at=at: at in controller.model.ran, f"step {at + 1} ran")
        if at + 1 < len(controller.model.pages):
            await wait(pilot, lambda: idle(controller), "the step is done")
            await pilot.press("enter")
            await wait(
                pilot, lambda at=at: controller.model.at == at + 1, f"step {at + 2} is shown"
            )


def failed_cells(app: Any, controller: LessonController) -> list[str]:
    """Cells of the session that raised although their step does not say that it may."""
    allowed = {page.code for page in controller.model.pages if page.step and page.step.may_fail}
    cells = app.link.session.cells.values()
    return [one.code for one in cells if one.status != "ok" and one.code not in allowed]


@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
async def test_a_lesson_is_walked_to_its_end(lesson: Lesson) -> None:
    session = KernelSession(Journal(None))
    async with taught(lesson.number, (120, 40), session) as (app, pilot, controller):
        await walk(app, pilot, controller, lesson)
        assert Progress().passed(lesson) == set(lesson.exercises)
        assert failed_cells(app, controller) == []
        await pilot.press("enter")
        await wait(pilot, lambda: "All exercises are done." in text_of(app), "the end")


@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
async def test_a_finished_lesson_is_made_again(lesson: Lesson) -> None:
    progress = Progress()
    for name in lesson.exercises:
        progress.record_pass(lesson, name)
    progress.record_step(lesson, len(lesson.steps) - 1)
    session = KernelSession(Journal(None))
    async with taught(lesson.number, (80, 24), session) as (app, pilot, controller):
        await wait(pilot, lambda: session.running() is None and not session.queued(), "made again")
        await wait(pilot, lambda: idle(controller), "the kernel is idle")
        notes = [
            part.text
            for one in app._main.session_controller.transcript.blocks
            for part in one.parts
        ]
        assert len(notes) == 1 and "runs unseen" in notes[0], notes


ENDLESS = """class Slow:
    @property
    def __class__(self):
        while True: pass
means = Slow()"""


async def test_a_check_is_interrupted_and_a_kernel_dies() -> None:
    Progress().record_step(lesson_files.load(1), 7)
    session = KernelSession(Journal(None))
    async with taught(1, (80, 24), session) as (app, pilot, controller):
        session_controller, prompt = app._main.session_controller, app.query_one(Prompt)
        await wait(pilot, lambda: idle(controller), "the kernel is there")
        assert controller.model.page.exercise == "row-means"
        prompt.put(ENDLESS)
        await pilot.press("alt+enter")
        await wait(pilot, lambda: controller.hidden_cells.checking, "it is checked")
        await wait(pilot, lambda: session_controller._unseen_runs, "the check runs")
        prompt.put("")
        await pilot.press("ctrl+c")
        await wait(pilot, lambda: "the check was stopped" in said(app), "it is stopped")
        prompt.put("import os; means = os._exit(3)")
        await pilot.press("alt+enter")
        await wait(pilot, lambda: session_controller.state == "dead", "the kernel dies")
        session.restart(replay=False)
        await wait(pilot, lambda: idle(controller) and not session.queued(), "another kernel")
        await answer(
            app, pilot, controller, controller.model.lesson.exercises["row-means"].solution
        )
        assert "row-means: passed" in said(app)
