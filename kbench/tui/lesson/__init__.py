"""A lesson beside the live panes. Main entry: `lesson_controller`."""

from __future__ import annotations

from kbench.tui.keys.key import UNBOUND, Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("lesson", "step_leave_text", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("lesson", "step_next", "enter,right", "screen.learn('next')", "go on"),
    Key("lesson", "step_back", "left", "screen.learn('back')", "the step before"),
    Key("lesson", "step_check", UNBOUND, "screen.learn('check')", "check the exercise"),
    Key("lesson", "step_hint", UNBOUND, "screen.learn('hint')", "the next hint"),
    Key("lesson", "step_solution", UNBOUND, "screen.learn('solution')", "the solution"),
    Key("lesson", "step_skip", UNBOUND, "screen.learn('skip')", "enter the answer"),
    Key("lesson", "step_again", UNBOUND, "screen.learn('again')", "the code, back in the prompt"),
    Key("lesson", "step_play", UNBOUND, "screen.learn('play')", "free play, until you go on"),
    Key("lesson", "step_list", UNBOUND, "screen.learn('list')", "all steps, to go to one"),
    Key("lesson", "step_reset", UNBOUND, "screen.learn('reset')", "restart the lesson"),
    Key("lesson", "step_leave", UNBOUND, "screen.learn('leave')", "close the lesson"),
    Key("lesson", "step_up", "up", "scroll_up", "line up"),
    Key("lesson", "step_down", "down", "scroll_down", "line down"),
    Key("lesson", "step_page_up", "pageup", "page_up", "a page up"),
    Key("lesson", "step_page", "pagedown", "page_down", "a page down"),
    Key("lesson", "step_first", "home", "scroll_home", "the beginning"),
    Key("lesson", "step_last", "end", "scroll_end", "the end"),
)
SPEC = PaneSpec(
    id="lesson",
    title="Lesson",
    letter="s",
    about="A step of the lesson. Its code stands in the prompt: change it, Enter runs it.",
    region="lesson",
    shares={"compact": 50, "two": 40, "three": 36},
    view="kbench.tui.lesson.lesson:LessonPane",
    takers=(
        Taker(
            "lesson-text",
            ("lesson",),
            {
                "step_next": "on", "step_back": "back", "lesson_check": "check",
                "lesson_hint": "hint", "lesson_fold": "fold", "step_leave_text": "prompt",
            },
        ),
    ),
    keys=KEYS,
)  # fmt: skip
