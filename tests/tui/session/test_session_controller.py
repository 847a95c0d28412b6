"""Running, waiting, interrupting, dying and coming back: nothing typed or shown is ever lost."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import SIZES, at_each_size, bench, settle, submit, text_of, until
from fake_session import FakeSession
from sampling import every
from textual.events import Paste

from kbench.tui.dialogs import overlays
from kbench.tui.prompt.typed_code import completeness, indent_after
from kbench.tui.session.link import Opened
from kbench.workbench.session import events


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("1 + 1", "complete"),
        ("for i in x:", "incomplete"),
        ("for i in x:\n    f(i)", "incomplete"),
        ("for i in x:\n    f(i)\n", "complete"),
        ("f(1,", "incomplete"),
        ("'''abc", "incomplete"),
        ("x = 1\ny = 2", "complete"),
        ("def f(:", "invalid"),
        ("%timeit x", "complete"),
        ("!ls", "complete"),
        ("K.dot?", "complete"),
        ("%%time\nx", "incomplete"),
        ("await f()", "complete"),
        ("", "complete"),
        ("x = (\n1,\n2)", "complete"),
        ("if x:\n    y\nelse:", "incomplete"),
    ],
)
def test_enter_knows_whether_input_is_complete(code: str, state: str) -> None:
    assert completeness(code) == state


@pytest.mark.parametrize(
    ("line", "indent"),
    [
        ("for i in x:", "    "),
        ("    if y:  # why", "        "),
        ("    return 1", ""),
        ("x = 1", ""),
        ("f(", "    "),
        ("    y = 2", "    "),
    ],
)
def test_a_new_line_is_indented(line: str, indent: str) -> None:
    assert indent_after(line) == indent


async def test_the_session_knows_the_width_of_its_transcript() -> None:
    """From the beginning, after a resize, and when the layout changes."""
    session = FakeSession()
    async with bench((120, 40), session) as (app, pilot, _):
        transcript: Any = app.query_one("#transcript")
        await settle(pilot)
        first = session.columns
        assert first == transcript.columns > 40
        app._main.arrangement.choices.side = False
        app._main.arrangement.relayout()
        await settle(pilot)
        alone = session.columns
        assert alone == transcript.columns > first
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert first < session.columns == transcript.columns < alone


async def test_what_is_typed_before_the_kernel_is_up_runs_in_order() -> None:
    session = FakeSession(auto_start=False)
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "first")
        await submit(pilot, "second")
        assert "kernel starting" in await until(app, pilot, "2 waiting")
        session.come_up()
        await settle(pilot)
        screen = text_of(app)
        assert screen.index("Out[1]: first") < screen.index("Out[2]: second")
        assert "idle" in screen


async def test_a_multi_line_block_is_entered_key_by_key() -> None:
    async with bench() as (app, pilot, session):
        await pilot.press(*"for i in x", "colon", "enter", *"f", "enter")
        assert app.query_one("#prompt").text == "for i in x:\n    f\n    "  # type: ignore[attr-defined]
        await pilot.press("enter")
        await settle(pilot)
        assert session.cells[1].code == "for i in x:\n    f"


async def test_alt_x_runs_and_other_alt_keys_type_nothing() -> None:
    async with bench() as (app, pilot, session):
        await pilot.press(*"f", "left_parenthesis", "alt+y", "alt+x")
        await settle(pilot)
        assert session.cells[1].code == "f("


@pytest.mark.parametrize("size", every(2, [(size,) for size in (*SIZES, (60, 16), (20, 5))]))
async def test_interrupt_ladder(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        await submit(pilot, "forever")
        prompt: Any = app.query_one("#prompt")
        prompt.put("half typed")
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert ("interrupt", None) in session.log
        assert prompt.text == "half typed"
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert prompt.text == ""
        await pilot.press("ctrl+c")
        assert app.is_running


async def test_a_dead_kernel_keeps_everything_and_restarts_with_replay() -> None:
    async with bench() as (app, pilot, session):
        await submit(pilot, "define")
        await submit(pilot, "forever")
        await submit(pilot, "later")
        prompt: Any = app.query_one("#prompt")
        prompt.put("not sent yet")
        session.die(-9)
        await settle(pilot)
        screen = text_of(app)
        assert "the kernel died (killed by SIGKILL) while it ran" in screen
        assert "In [1]: define" in screen and "kernel lost" in screen and "waiting" in screen
        assert prompt.text == "not sent yet"
        await pilot.press("alt+r")
        await settle(pilot)
        assert "Restart the kernel?" in text_of(app)
        await pilot.press("r")
        await settle(pilot)
        screen = text_of(app)
        assert ("restart", True) in session.log
        assert "new kernel, 1 cell run again" in screen
        assert "Out[2]: later" in screen
        assert "the kernel died" not in screen
        assert prompt.text == "not sent yet"


@at_each_size
async def test_input_of_a_cell_is_answered_at_the_prompt(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        prompt: Any = app.query_one("#prompt")
        await submit(pilot, "ask")
        screen = text_of(app)
        assert "name?" in screen and "Enter answers  ^C interrupts the cell" in screen
        assert "nswer" in screen.replace("Enter answers", "")  # the prompt's own label
        await pilot.press(*"Ada", "tab", "enter")
        await settle(pilot)
        assert ("answer", "Ada") in session.log
        assert "name? Ada" in text_of(app) and "hello Ada" in text_of(app)
        assert "In [2]" in text_of(app) and not prompt.answering and not prompt.text
        assert prompt.inputs == ["ask"]


async def test_what_stood_in_the_prompt_waits_for_the_answer() -> None:
    async with bench() as (app, pilot, session):
        prompt: Any = app.query_one("#prompt")
        await submit(pilot, "ask")
        await pilot.press(*"Ada", "enter")
        session.script["later"] = lambda session, cell: None
        await submit(pilot, "later")
        prompt.put("half of a line")
        session._emit(events.InputRequested(session.running().ident, "go on? ", False))
        await settle(pilot)
        assert prompt.text == "" and app.screen.unsent_input.text == "half of a line"
        await pilot.press("up")
        assert prompt.text == "Ada"  # earlier answers, not earlier code
        await pilot.press("ctrl+u", "enter")
        await settle(pilot)
        assert session.log[-1] == ("answer", "") and prompt.text == "half of a line"


WAITING = [
    (("ctrl+c",), ("interrupt", None), "KeyboardInterrupt"),
    (("a", "ctrl+c"), ("interrupt", None), "KeyboardInterrupt"),
    (("ctrl+d",), ("answer", "\x04"), "name?"),
]


@pytest.mark.slow
@pytest.mark.parametrize("password", [False, True])
@pytest.mark.parametrize(("keys", "logged", "shown"), WAITING)
async def test_a_cell_that_waits_for_input_can_be_left(
    keys: tuple[str, ...], logged: tuple[str, object], shown: str, password: bool
) -> None:
    if password and keys == ("ctrl+d",):
        keys, logged, shown = ("escape",), ("interrupt", None), "KeyboardInterrupt"
    async with bench() as (app, pilot, session):
        session.script["secret"] = lambda session, cell: session._emit(
            events.InputRequested(cell.ident, "name? ", password)
        )
        await submit(pilot, "secret")
        await pilot.press(*keys)
        await settle(pilot)
        assert session.log == [logged] and shown in text_of(app)
        await submit(pilot, "1 + 1")  # the session goes on
        assert session.cells[2].status == "ok" and "Out[2]: 1 + 1" in text_of(app)


async def test_pasted_lines_answer_one_after_the_other() -> None:
    def twice(session: FakeSession, cell: Any) -> None:
        asked = iter(("second? ", ""))

        def answer(text: str) -> None:
            session.log.append(("answer", text))
            if prompt := next(asked):
                session._emit(events.InputRequested(cell.ident, prompt, False))
            else:
                session.finish(cell)

        session.answer = answer  # type: ignore[method-assign]
        session._emit(events.InputRequested(cell.ident, "first? ", False))

    async with bench() as (app, pilot, session):
        session.script["twice"] = twice
        await submit(pilot, "twice")
        app.post_message(Paste("a\nb\nc"))
        await pilot.press("enter")
        await settle(pilot)
        assert session.log == [("answer", "a"), ("answer", "b")]
        assert "first? a" in text_of(app) and "second? b" in text_of(app)
        assert app.query_one("#prompt").text == "c"  # type: ignore[attr-defined]


async def test_a_session_that_cannot_start_says_why() -> None:
    from kbench.tui.app import WorkbenchApp

    def broken() -> Opened:
        raise OSError("no sockets today")

    app = WorkbenchApp(broken)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "no kernel: OSError: no sockets today" in text_of(app)
        await submit(pilot, "1 + 1")
        assert "In [*]: 1 + 1" in text_of(app)
        assert app.kernel_failed
    app.link.close()


async def test_quit_asks_while_a_cell_runs() -> None:
    async with bench() as (app, pilot, _):
        await submit(pilot, "forever")
        await pilot.press("ctrl+q")
        await settle(pilot)
        assert "A cell is still running" in text_of(app)
        await pilot.press("s")
        await settle(pilot)
        assert app.is_running
        await pilot.press("ctrl+q")
        await settle(pilot)
        await pilot.press("q")
        await settle(pilot)
        assert not app.is_running and app.return_value == 0


async def test_quit_does_not_ask_about_a_cell_that_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlays, "QUIT_GRACE_SECONDS", 0.2)
    async with bench() as (app, pilot, session):
        await submit(pilot, "forever")
        await pilot.press("ctrl+q")
        session.interrupt()
        await pilot.pause(0.6)
        assert not app.is_running and app.return_value == 0


async def test_ctrl_d_quits_only_on_an_empty_prompt() -> None:
    async with bench() as (app, pilot, _):
        await pilot.press(*"ab", "home", "ctrl+d")
        assert app.query_one("#prompt").text == "b"  # type: ignore[attr-defined]
        await pilot.press("delete", "ctrl+d")
        await settle(pilot)
        assert not app.is_running


async def test_long_output_scrolls_and_hostile_output_is_harmless() -> None:
    async with bench() as (app, pilot, _):
        await submit(pilot, "print_much")
        assert "line 1999" in text_of(app)
        await submit(pilot, "hostile")
        screen = text_of(app)
        assert "[bold]no[/bold]" in screen and "[red]x[/red]" in screen
        assert not any(ord(one) < 32 for one in screen.replace("\n", ""))
        assert "\u202e" not in screen and "\\u202e" in screen
