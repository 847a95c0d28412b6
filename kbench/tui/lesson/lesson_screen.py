"""The part of the main screen that belongs to lessons: their pane, their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kbench.tui.arrangement import PaneScreen
from kbench.tui.lesson.lesson_controller import LessonController
from kbench.tui.panes.registry import LESSON
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.signal import Signal

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen


class LessonScreen(PaneScreen):
    """Panes, of which the lesson's comes and goes with the lesson."""

    def __init__(self) -> None:
        super().__init__()
        self.signal = Signal()
        self.lesson_controller = LessonController(cast("MainScreen", self), self.signal)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of lessons are free for others while none is open."""
        if action == "learn":
            return self.choices.lesson
        return super().check_action(action, parameters)

    def offers(self, action: str) -> bool:
        """Whether the palette should offer an action now."""
        lesson = action.startswith("learn(") or action == f"pane('{LESSON}')"
        return self.choices.lesson or not lesson

    def action_pane(self, pane: str) -> None:
        """Bring a pane to the front; where there is no lesson yet, one is chosen."""
        if not self.choices.has(pane):
            self.lesson_controller.choose()
            return
        if pane == LESSON:
            self.lesson_controller.unfold()
        super().action_pane(pane)

    def action_learn(self, what: str) -> None:
        """A command of the lesson."""
        self.lesson_controller.command(what)

    def turn(self, way: str) -> None:
        """A page up or down, asked for at the prompt: of the lesson where one is on the screen."""
        if self.shows(LESSON):
            self.lesson_controller.pane.turn(way)
        elif way == "up":
            self.query_one(Prompt).action_cursor_page_up()
        else:
            self.query_one(Prompt).action_cursor_page_down()

    def action_lessons(self) -> None:
        """All lessons, to take one."""
        self.lesson_controller.choose()
