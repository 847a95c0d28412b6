"""A lesson in a pseudo-terminal, by the keys of a learner; the notebooks' progress beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal import Terminal

from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_pages import pages
from kbench.workbench.lessons.lesson_progress import Progress

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_learner_takes_a_lesson(tmp_path: Path, size: tuple[int, int]) -> None:
    lesson = lesson_files.load(2)
    of, exercises = f"of {len(pages(lesson))}", len(lesson.exercises)
    with Terminal(tmp_path, "learn", size=size) as terminal:
        terminal.until("Lessons", f"0 of {exercises}    Variables, placeholders")
        terminal.press("down", "enter")
        terminal.until("Lesson 2: Variables", f"step 1 {of}", "idle")
        terminal.press("enter")
        terminal.until("Enter goes on")
        for step in (2, 3):
            terminal.press("enter")
            terminal.until(f"step {step} {of}", "Enter runs the code")
            terminal.press("enter")
            terminal.until("Enter goes on", gone="busy")
        terminal.press("enter")
        terminal.until(f"step 4 {of}", "set-value: fill in the ___")
        terminal.press("enter")
        terminal.until("line 1 still has a ___")
        terminal.put("start")
        terminal.press("enter")
        terminal.until("set-value: Enter checks it")
        terminal.press("enter")
        terminal.until("set-value: not yet. `w` is", ":hint helps")
        terminal.press("alt+i")
        terminal.until("hint 1 of")
        terminal.put("start * 2")
        terminal.press("alt+x")  # runs and checks
        terminal.until(f"set-value: passed. {exercises - 1} left")
        terminal.run("w_is_mine = 3")  # whatever it is, it runs
        terminal.until("Enter goes on", gone="busy")
        terminal.run(":quit")
        assert terminal.ended() == 0
    progress = Progress(tmp_path / "state" / "lessons.json")
    assert progress.passed(lesson) == {"set-value"}
    with Terminal(tmp_path, "learn", "2", size=size) as terminal:
        terminal.until(f"step 4 {of}", f"1 of {exercises} done", "steps 1 to 3 runs unseen", "idle")
        assert terminal.quit() == 0


def test_without_a_screen_the_lessons_are_lines(tmp_path: Path) -> None:
    first = f"[1/{len(lesson_files.load(1).steps)}]"
    with Terminal(tmp_path, "learn", "--list") as terminal:
        assert terminal.ended() == 0
        assert "0 of 6 exercises done" in terminal.screen
    with Terminal(tmp_path, "learn", "1", "--plain") as terminal:
        terminal.until("Lesson 1: A tour", first)
        terminal.type(":quit\r")
        assert terminal.ended() == 0
    with Terminal(tmp_path, "learn", "1", TERM="dumb") as terminal:
        terminal.until(first)
        terminal.type(":quit\r")
        assert terminal.ended() == 0
    with Terminal(tmp_path, "learn", "77") as terminal:
        assert terminal.ended() == 2
        assert "there is no lesson 77; there are: 1, 2" in terminal.screen
