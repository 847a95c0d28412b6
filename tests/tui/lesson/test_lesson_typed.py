"""Commands as learners type them: over a blank, between lines, by a notebook's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_screen import bench, settle, text_of
from learner import BLANK_CODE, enter, foot, go_to, said, silent, taught, told, typed

from kbench.tui.lesson import lesson_typed
from kbench.tui.panes.watch.controller import WatchController
from kbench.tui.prompt.prompt import Prompt
from kbench.workbench.lessons.lesson_progress import Progress

FEED = "run = K.function([___], [___])"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("text", "given", "starter", "found"),
    [
        (":hint|", "", "", ("hint", "")),
        (":  Solution   sure |", "", "", ("solution sure", "")),
        (":nonsense|", "", "", ("nonsense", "")),
        (BLANK_CODE.replace("___", ":hint|"), BLANK_CODE, BLANK_CODE, ("hint", BLANK_CODE)),
        ("f(:hint|)", "f(0)", "f(___)", ("hint", "f(0)")),
        ("run = K.function([x], [:skip|])", FEED, FEED, ("skip", FEED[:18] + "x], [___])")),
        ("run = K.function([:skip|], [___])", FEED, FEED, ("skip", FEED)),
        ("def f(x):\n    :hint|", "", "", ("hint", "def f(x):")),
        ("f(\n:next|", "", "", ("next", "f(")),
        (":list|\nx = 1", "", "", ("list", "x = 1")),
        ("f(%hint|)", "f(0)", "f(___)", ("hint", "f(0)")),
        ("f(%again|)", "f(0)", "f(___)", ("again", "f(0)")),
        ("x %hint|", "", "", None),
        ("%hint|", "", "", None),  # a magic; another rule is for it
        ("x = 1:check|", "", "", ("check", "x = 1")),
        ("y = f(x:hint|", "y = f(x", "", ("hint", "y = f(x")),  # behind what the lesson gave
        ("y:leave|", "y", "", ("leave", "y")),
        ("y = f(x:hint|", "", "", None),
        ("x:hint|", "", "", None),  # an annotation
        ("{'a':list|", "", "", None),
        ("for i in x:list|", "", "", None),
        ("x = 1 :check|", "", "", ("check", "x = 1 ")),
        ("x[:next|", "", "", None),
        ("x[:next|]", "", "", None),
        ("x[1\n:next|]", "", "", None),
        ("x = 1\n:nonsense|", "", "", None),
        ("print(':hint|", "", "", None),
        ("x = 1  # :hint|", "", "", None),
        ("lambda: hint|", "", "", None),
    ],
)
def test_what_is_a_command(
    text: str, given: str, starter: str, found: tuple[str, str] | None
) -> None:
    position = text.index("|")
    made = lesson_typed.command_in(text.replace("|", ""), position, given, starter)
    assert (made and (made.command, made.rest)) == found


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("%hint", "hint"),
        ("  %check a ", "check"),
        ("%check other", None),
        ("%solution", "solution"),
        ("%solution --sure a", "solution sure"),
        ("%skip --sure", None),
        ("%hints", None),
        ("%again", "again"),
        ("%again b", None),
        ("%lesson reset", "reset"),
        ("%lesson  reset ", "reset"),
        ("%lesson resets", None),
        ("x = 1\n%hint", None),
    ],
)
def test_magics_of_notebooks_are_commands(text: str, command: str | None) -> None:
    assert lesson_typed.magic_in(text, "a") == command


@pytest.mark.parametrize(
    ("text", "starter", "meant"),
    [
        ("y = f(y = f(1))\nz", "y = f(___)\nz", "y = f(1)\nz"),
        ("y = f(y = f(1)\nz", "y = f(___)\nz", "y = f(1)\nz"),
        ("run = K.function([run = K.function([x], [y])], [___])", FEED, FEED[:18] + "x], [y])"),
        ("c = K.c = K.variable([1])([1])", "c = K.___([1])", "c = K.variable([1])"),
        ("y = f(g)\nz", "y = f(___)\nz", None),
        ("y", "y", None),
    ],
)
def test_a_line_typed_into_its_own_blank(text: str, starter: str, meant: str | None) -> None:
    assert lesson_typed.retyped(text, starter) == meant


async def type_text(pilot: object, text: str) -> None:
    """Key by key, as a learner does."""
    keys = {" ": "space", ":": "colon", "%": "percent_sign", "=": "equals_sign", ".": "full_stop"}
    keys |= {"(": "left_parenthesis", ")": "right_parenthesis", "\n": "enter", ",": "comma"}
    await pilot.press(*[keys.get(one, one) for one in text])  # type: ignore[attr-defined]
    await settle(pilot)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_command_typed_over_the_blank_leaves_it() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await type_text(pilot, ":hint\n")
        assert "hint 1 of 2" in said(app) and typed(app) == BLANK_CODE
        assert app.query_one(Prompt).selected_text == "___"
        await type_text(pilot, ":check\n")
        assert "line 1 still has a ___" in said(app)
        assert Progress().failures(controller.model.lesson, "row-means") == 0
        await type_text(pilot, "%hint\n")
        assert "hint 2 of 2" in said(app) and typed(app) == BLANK_CODE


async def test_a_command_in_an_unfinished_cell_keeps_it() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await enter(pilot, ":play")
        await type_text(pilot, "f(1,\n:hint\n")
        assert "no exercise on this step" in said(app)
        await enter(pilot, ":next")
        assert controller.model.at == 0


async def test_a_whole_line_over_the_blank_is_the_line() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await type_text(pilot, "means = K.mean(y, axis=0\n")
        cells = [one.code for one in app.link.session.cells.values()]
        assert BLANK_CODE.replace("___", "0") in cells


async def test_a_pasted_answer_replaces_the_starter() -> None:
    from textual import events

    answer = BLANK_CODE.replace("___", "1")
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        app.post_message(events.Paste(answer))
        await settle(pilot)
        assert typed(app) == answer
        await go_to(pilot, controller, "safe-log")
        app.post_message(events.Paste("K.epsilon()"))
        await settle(pilot)
        assert typed(app).startswith("safe = -p * K.log(p + K.epsilon())\n")


async def test_magics_act_on_the_step_that_is_shown() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await enter(pilot, "%hint")
        assert "hint 1 of 2" in said(app) and typed(app) == BLANK_CODE
        await enter(pilot, "%skip")
        assert "row-means counts as done" in said(app) and "row-means: passed" in foot(app)
        await enter(pilot, "%lesson 2")
        assert controller.model.lesson.number == 2 and controller.model.at == 0


async def test_an_unfinished_cell_is_not_checked() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        app.query_one(Prompt).put("means = K.mean(y, axis=1")
        await pilot.press("alt+k")
        await settle(pilot)
        assert "not complete yet; nothing was checked" in said(app)
        assert Progress().failures(controller.model.lesson, "row-means") == 0


async def test_the_starter_is_to_be_had_again() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await enter(pilot, BLANK_CODE.replace("___", "0"))
        await enter(pilot, ":again")
        assert typed(app) == BLANK_CODE


async def test_a_begun_answer_is_there_when_its_step_is() -> None:
    begun = BLANK_CODE.replace("___", "len(y)")
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        app.query_one(Prompt).put(begun)
        await pilot.press("alt+p")
        await settle(pilot)
        assert controller.model.at == 2 and typed(app) == "K.eval(y)"
        await pilot.press("alt+o")
        await settle(pilot)
        assert typed(app) == begun


async def test_a_longer_answer_is_changed_at_its_end() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        prompt = app.query_one(Prompt)
        for answer, selected in (("12", "12"), ("K.epsilon(", "")):
            prompt.give(BLANK_CODE.replace("___", answer), BLANK_CODE)
            assert prompt.selected_text == selected
            assert prompt.cursor_location == (0, BLANK_CODE.index("___") + len(answer))


async def test_a_passed_step_is_left_by_enter() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        Progress().record_pass(controller.model.lesson, "row-means")
        await go_to(pilot, controller, "row-means")
        assert "___" in typed(app) and "passed. Enter goes on" in foot(app)
        await enter(pilot)
        assert controller.model.at == 4


async def test_the_state_follows_the_prompt() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        assert "fill in the ___" in foot(app)
        await pilot.press("1")
        await settle(pilot)
        assert "row-means: Enter runs it" in foot(app)
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert typed(app) == "" and "Enter brings the code back" in foot(app)
        await enter(pilot)
        assert typed(app) == BLANK_CODE


@pytest.mark.slow
async def test_blanks_mean_nothing_once_the_lesson_is_left() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await enter(pilot, ":leave")
        assert "lesson 1 is closed" in text_of(app)
        await enter(pilot, "_ = 1; ___ = 3; found = ___")
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert names["found"] == 3
        await pilot.press("alt+l", "enter")
        await settle(pilot)
        await enter(pilot, "found = ___ + 1")
        assert "line 1 still has a ___" in said(app) and names["found"] == 3


async def test_commands_of_lessons_without_a_lesson() -> None:
    async with bench((80, 24), silent()) as (app, pilot, _):
        await enter(pilot, ":hint")
        assert ":hint is for lessons" in told(app) and "A tour, and the four" in text_of(app)
        await pilot.press("escape")
        await enter(pilot, ":help")
        assert "Commands of a lesson" in text_of(app)
        await pilot.press("escape")
        await enter(pilot, ":other")  # Python's to refuse
        assert [one.code for one in app.link.session.cells.values()][-1] == ":other"


@pytest.mark.slow
async def test_watches_of_cells_come_to_the_pane() -> None:
    async with taught(1, (200, 50)) as (app, pilot, _):
        await enter(pilot, "import numpy as np; w = K.variable(np.ones(3))")
        await enter(pilot, "%watch K.sum(w)")
        watching = app._main.panes.controller(WatchController)
        assert watching.expressions == ["K.sum(w)"]
        await enter(pilot, "%watch K.sum(w)")
        assert watching.expressions == ["K.sum(w)"]
        watching.add("K.max(w)")  # and the other way round
        await enter(pilot, "%watch")
        assert "2  K.max(w)  1" in text_of(app)
        await enter(pilot, "%watch -d 1")
        await enter(pilot, "%watch -d 1")
        assert watching.expressions == []
