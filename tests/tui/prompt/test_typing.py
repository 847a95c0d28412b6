"""What is typed is input, wherever the focus is: no letter runs, deletes or overwrites unasked."""

from __future__ import annotations

from pathlib import Path
from string import ascii_letters, digits, punctuation
from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of, until
from fake_session import FakeSession
from learner import enter, silent, taught
from sampling import every
from textual import events

from kbench.engine.runtime import config
from kbench.tui.dialogs import dialogs
from kbench.tui.dialogs.dialogs import ChoiceDialog
from kbench.tui.keys import keys
from kbench.tui.panes.registry import FOCUS_ORDER
from kbench.tui.panes.watch.controller import WatchController

TYPED = ("result", "export = 3", "y = 2", "count", "train", "jump", "kept", "g, G", "[1]", "%who")
RUNS = ("compute", "evaluate", "remove", "drop", "turn(", "edit", "run", "quit", "restart", "save",
        "interrupt", "screen.learn")  # fmt: skip


def codes(session: FakeSession) -> list[str]:
    return [one.code for one in session.cells.values()]


@pytest.mark.parametrize("way", every(3, ["escape", "pane", "click"]))
async def test_a_line_typed_in_the_transcript_is_the_line_that_runs(way: str) -> None:
    async with bench((120, 40)) as (app, pilot, session):
        await submit(pilot, "first = 1")
        for text in TYPED if way == "escape" else TYPED[:3]:
            if way == "click":
                await pilot.click("#transcript", offset=(4, 2))
            elif way == "pane":
                app.screen.action_pane("transcript")
            else:
                await pilot.press(way)
            assert app.screen.arrangement.focused_pane() == "transcript"
            before = codes(session)
            await pilot.press(*[NAMES.get(one, one) for one in text], "enter")
            await settle(pilot, 1)
            assert codes(session) == [*before, text], text_of(app)
            assert app.query_one("#prompt").text == ""  # type: ignore[attr-defined]


NAMES = {" ": "space", "\n": "enter"}


@at_each_size
async def test_a_draft_is_typed_on_and_a_paste_goes_to_the_prompt(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        await submit(pilot, "old = 1")
        await pilot.press(*"tot", "escape", *"al", "escape")
        await settle(pilot)
        assert prompt.text == "total" and app.screen.arrangement.focused_pane() == "transcript"
        await pilot.press("escape")
        assert app.screen.arrangement.focused_pane() == "prompt"
        for pane in ("transcript", "variables", "settings"):
            app.screen.action_pane(pane)
            await settle(pilot)
            app.post_message(events.Paste("(1)"))
            await settle(pilot)
        assert prompt.text == "total(1)(1)(1)" and prompt.has_focus


async def test_an_old_cell_takes_no_drafts_place_for_good() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        prompt: Any = app.query_one("#prompt")
        await submit(pilot, "old = 1")
        await pilot.press(*"draft", "escape", "alt+w")
        await settle(pilot)
        assert prompt.text == "old = 1"
        assert [one.message for one in app._notifications] == ["^Z restores your input"]
        await pilot.press("ctrl+z")
        assert prompt.text == "draft"
        prompt.put("")
        await pilot.press("up")
        assert prompt.text == "draft" and codes(session) == ["old = 1"]


def test_no_letter_of_a_pane_runs_or_deletes() -> None:
    """In the panes to type on no letter is bound; elsewhere none to what does more than show."""
    for key in keys.TABLE:
        letters = [one for one in key.keys.split(",") if len(one) == 1 or one == "space"]
        if key.where in ("transcript", "lesson", "main", "prompt"):
            assert not letters, key
        if key.where not in ("axis", "axes", "trace") and letters:
            assert not any(key.action.startswith(one) for one in RUNS) or key.id in ASKING, key


ASKING = ("watch_edit",)  # opens a line to type
LETTERS = ascii_letters + digits + punctuation + " "


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, pane",
    list(enumerate(one for one in FOCUS_ORDER if one not in ("prompt", "lesson"))),
)
async def test_any_letter_in_any_pane_is_harmless(number: int, pane: str, tmp_path: Path) -> None:
    """Panes take turns at letters that no key of any pane is, as each takes a fifth of a second."""
    bound = {key for one in keys.TABLE for key in one.keys.split(",")}
    free = [one for one in LETTERS if NAMES.get(one, one) not in bound]
    letters = [one for one in LETTERS if one not in free] + free[number % 3 :: 3]
    session = FakeSession()
    async with bench((200, 50), session, tmp_path) as (app, pilot, _):
        await submit(pilot, "define")
        app.screen.panes.controller(WatchController).add("lr * 2")
        prompt: Any = app.query_one("#prompt")
        settings, ran, names = config.snapshot(), codes(session), dict(session.names)
        for one in letters:
            app.screen.action_pane(pane)
            await pilot.press(NAMES.get(one, one))
            await settle(pilot, 1)
            while len(app.screen_stack) > 1:
                await pilot.press("escape")
                await settle(pilot, 1)
            assert codes(session) == ran and config.snapshot() == settings, one
            assert (
                app.screen.panes.controller(WatchController).expressions == ["lr * 2"] or one in "w"
            ), one
            app.screen.panes.controller(WatchController)._set(["lr * 2"])
            assert prompt.text in ("", one, "h", "lr"), (one, prompt.text)
            prompt.put("")
        assert session.names == names
        if pane != "transcript":
            app.screen.action_pane(pane)
            await pilot.press("underscore")
            await until(app, pilot, "or Esc goes to the prompt")


@pytest.mark.slow
async def test_escape_leads_from_every_pane_to_the_prompt() -> None:
    async with bench((200, 50)) as (app, pilot, _):
        await submit(pilot, "define")
        for pane in FOCUS_ORDER:
            if pane in ("prompt", "lesson"):
                continue
            app.screen.action_pane(pane)
            await settle(pilot)
            assert app.screen.arrangement.focused_pane() == pane
            await pilot.press("escape")
            await settle(pilot)
            assert app.screen.arrangement.focused_pane() == "prompt", pane


@pytest.mark.slow
async def test_an_answer_typed_in_a_lessons_text_is_an_answer() -> None:
    session = silent()
    async with taught(1, (120, 40), session) as (app, pilot, controller):
        await enter(pilot)
        prompt: Any = app.query_one("#prompt")
        before, at = len(session.cells), controller.model.at
        prompt.put("")
        for letter in "nbchosrplRq":
            app.screen.action_pane("lesson")
            await settle(pilot, 1)
            await pilot.press(letter)
            await settle(pilot, 1)
            assert prompt.has_focus, letter
        assert prompt.text == "nbchosrplRq" and controller.model.at == at and controller.model.open
        assert len(session.cells) == before


async def test_a_question_nobody_asked_for_is_not_answered_by_typing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogs, "UNASKED_QUIET_SECONDS", 0.7)
    now = [100.0]
    monkeypatch.setattr(dialogs, "monotonic", lambda: now[0])
    answers: list[str | None] = []
    async with bench((120, 40)) as (app, pilot, _):
        app.push_screen(
            ChoiceDialog("?", [("a", "run all"), ("n", "none")], unasked=True), answers.append
        )
        await settle(pilot)
        for letter in "aband":
            now[0] += 0.3
            await pilot.press(letter)
        assert answers == []
        now[0] += 0.8
        await pilot.press("a")
        await settle(pilot)
        assert answers == ["a"]
        app.push_screen(ChoiceDialog("?", [("a", "asked for")]), answers.append)
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        assert answers == ["a", "a"]
