"""What makes the workbench fit its user: keys, presets, palette, jumps, motion, files, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import SIZES, bench, settle, submit, text_of
from fake_session import FakeSession
from sampling import every

import kbench as K
from kbench.cli import exit_codes, main
from kbench.engine.core.errors import ShapeError
from kbench.tui import layout as pane_layout
from kbench.tui.keys import keys
from kbench.tui.panes.registry import LESSON, NUMBERS, SIDE_PANES
from kbench.tui.prompt import typed_code
from kbench.tui.session import ui_state
from kbench.tui.transcript.examples import EXAMPLES


@pytest.mark.slow
async def test_the_palette_offers_the_focused_panes_actions_first() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "ctrl+p")
        await settle(pilot)
        assert "Variables: sort by name" in text_of(app)
        await pilot.press(*"sort by name", "down", "enter")
        await settle(pilot)
        assert "by kind" in text_of(app) and app.screen.arrangement.focused_pane() == "variables"
        await pilot.press("f2", "ctrl+p")
        await settle(pilot)
        assert "Variables:" not in text_of(app) and "Prompt: " in text_of(app)
        await pilot.press(*"sort by name", "down", "enter")
        await settle(pilot)
        assert "by size" in text_of(app) and app.screen.arrangement.focused_pane() == "variables"


async def test_every_action_is_found_in_the_palette() -> None:
    from kbench.tui.keys.commands import BenchCommands

    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        found = {one.ident for one in BenchCommands(app.screen).commands()}  # type: ignore[arg-type]
        elsewhere = {"picture", "graph", "workers", "entries"}
        elsewhere |= {one for places in keys.DIALOGS for one in places}
        rows = [key for key in keys.TABLE if key.where not in elsewhere]
        of_lessons = {key.id for key in rows if not app._main.offers(key.action)}
        of_lessons |= {key.id for key in rows if key.where == "lesson"}
        assert {key.id for key in rows} - found == {"palette", *of_lessons}
        assert "lessons" in found and "lesson_hint" in of_lessons


async def test_the_number_of_a_tab_opens_it_from_a_pane_and_is_typed_elsewhere() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        where = app.screen.arrangement.focused_pane
        await pilot.press("f5")
        for number, pane in NUMBERS.items():
            await pilot.press(number)
            await settle(pilot)
            assert where() == (pane if pane != LESSON else SIDE_PANES[-2])
        await pilot.press("f2", "1")
        assert (where(), app.screen.bench.prompt.text) == ("prompt", "1")
        await pilot.press("backspace")
        app.screen.action_pane("transcript")
        await pilot.press("3")
        await settle(pilot)
        assert (where(), app.screen.bench.prompt.text) == ("prompt", "3")


@pytest.mark.parametrize(("words", "code"), EXAMPLES, ids=[words for words, _ in EXAMPLES])
def test_examples_run(words: str, code: str) -> None:
    names: dict[str, Any] = {"K": K}
    if "error" in words:
        with pytest.raises(ShapeError):
            exec(code, names)
    else:
        exec(code, names)
    if "XOR" in words:
        assert names["losses"][-1] < 0.1 < names["losses"][0]
    assert typed_code.completeness(code) == "complete"


@pytest.mark.parametrize("size", every(3, [(size,) for size in (*SIZES, (40, 10))]))
async def test_an_empty_session_says_how_to_begin(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        await settle(pilot)
        assert "K is the backend" in text_of(app) and "alt+T examples" in text_of(app)
        await pilot.press("alt+t")
        await settle(pilot)
        await pilot.press("down", "down", "down", "enter")
        await settle(pilot)
        field: Any = app.query_one("#prompt")
        assert field.text == EXAMPLES[3][1] and field.has_focus
        await pilot.press("enter")
        await settle(pilot)
        assert "K is the backend" not in text_of(app) and field.text == ""


@pytest.mark.parametrize("size", every(3, [(size,) for size in (*SIZES, (40, 10))]))
async def test_jump_letters_stand_on_their_panes(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("ctrl+o")
        await settle(pilot)
        drawn = text_of(app)
        assert "t Session" in drawn and "v Variables" in drawn
        await pilot.press("t")
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "transcript" and len(app.screen_stack) == 1
        await pilot.press("ctrl+o", "f9")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        await pilot.press("ctrl+o")
        await settle(pilot)
        await pilot.resize_terminal(size[0] + 20, size[1] + 5)
        await settle(pilot)
        assert len(app.screen_stack) == 1


async def test_a_jump_label_is_clicked() -> None:
    async with bench((200, 50)) as (app, pilot, _):
        await pilot.press("ctrl+o")
        await settle(pilot)
        await pilot.click("#jump-plan", offset=(2, 0))
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "plan"


async def test_diagnostics_name_what_a_report_needs_and_every_key(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[keys]\nhelp = "f2"\n', "utf-8")
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f12")
        await settle(pilot)
        drawn = text_of(app)
        for words in (
            "kbench ",
            "textual ",
            "terminal ",
            "120x40",
            "Kitty",
            "kernel idle",
            "first frame",
            "journal",
            "keys file",
            "f2 is both help and prompt",
        ):
            assert words in drawn, words
        await pilot.press("ctrl+y")
        await settle(pilot)
        assert "key: ctrl+y: redo (prompt)" in text_of(app)
        await pilot.press("f2")
        await settle(pilot)
        assert "help (everywhere), prompt (everywhere)" in text_of(app)
        await pilot.press("escape")
        await settle(pilot)
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize(
    ("asked", "variable", "moves"),
    [(None, "", True), ("none", "", False), (None, "none", False), ("full", "none", True)],
)
def test_motion(asked: str, variable: str, moves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_MOTION", variable)
    assert exit_codes.motion(asked) is moves


async def test_without_motion_nothing_spins_or_blinks() -> None:
    async with bench((120, 40), motion=False) as (app, pilot, session):
        await submit(pilot, "forever")
        assert "* busy" in text_of(app) and app.animation_level == "none"
        await pilot.press("alt+s")
        await settle(pilot)
        field: Any = app.screen.query_one("Input")
        assert field.cursor_blink is False
        await pilot.press("escape")
        session.interrupt()


@pytest.mark.slow
async def test_ascii_mode_is_ascii_in_every_dialog() -> None:
    async with bench((80, 24), ascii=True) as (app, pilot, _):
        await submit(pilot, "define")
        for _ in range(30):
            await submit(pilot, "print_much")
        for key in ("f1", "ctrl+p", "ctrl+o", "f8", "f12", "alt+s", "alt+r"):
            await pilot.press(key)
            await settle(pilot)
            drawn = text_of(app)
            assert len(app.screen_stack) == 2, key
            assert drawn.isascii(), (key, [one for one in drawn.split("\n") if not one.isascii()])
            await pilot.press("escape")
            await settle(pilot)


@pytest.mark.parametrize(
    ("border", "size"),
    [
        ("two variables", (120, 40)),
        ("three watch", (200, 50)),
        ("three value", (200, 50)),
        ("three left", (200, 50)),
    ],
)
async def test_borders_between_the_panes_are_dragged(
    border: str, size: tuple[int, int], tmp_path: Path
) -> None:
    async with bench(size, FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        layout = app.screen.arrangement.layout_now
        places = [
            (x, y)
            for x in range(3, size[0], 7)
            for y in range(1, size[1] - 1)
            if pane_layout.border_at(layout, x, y) == border
        ] or [(x, 20) for x in range(size[0]) if pane_layout.border_at(layout, x, 20) == border]
        x, y = places[0]
        to = (x - 6, y) if border == "three left" else (x, y - 4)
        await pilot.mouse_down(offset=(x, y))
        await pilot.hover(offset=to)
        await pilot.mouse_up(offset=to)
        await settle(pilot)
        assert pane_layout.border_at(app.screen.arrangement.layout_now, *to) == border
        app.save_state()
        assert border in ui_state.load(tmp_path)[0].shares


async def test_borders_are_moved_by_keys() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        before = app.query_one("#variables").region.height
        await pilot.press("f3", "alt+down")
        await settle(pilot)
        assert app.query_one("#variables").region.height > before
        await pilot.press("alt+up", "alt+up")
        await settle(pilot)
        assert app.query_one("#variables").region.height < before


@pytest.mark.slow
@pytest.mark.parametrize("size", [(400, 120), (1000, 300), (3, 2), (2, 100), (500, 1)])
async def test_very_large_and_very_small_terminals(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        await submit(pilot, "define")
        await pilot.press("f3", "enter", "f1", "escape", "ctrl+o", "escape", "f12", "escape")
        await settle(pilot)
        assert app.is_running and session.cells[1].status == "ok"


@pytest.mark.slow
async def test_a_storm_of_resizes_leaves_a_whole_screen() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        expected = text_of(app)
        for step in range(60):
            width, height = 20 + step * 37 % 200, 4 + step * 11 % 60
            await pilot.resize_terminal(width, height)
        await pilot.resize_terminal(120, 40)
        await pilot.pause(1.1)
        await settle(pilot)
        assert text_of(app).replace("*", " ") == expected.replace("*", " ")


async def test_broken_files_are_told_and_the_workbench_opens(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text("[[[", "utf-8")
    (tmp_path / ui_state.FILE).write_text("no json", "utf-8")
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        told = " ".join(app.problems)
        assert "kept as keys.broken" in told and "kept as workbench.broken" in told
        assert (tmp_path / "keys.broken").exists() and (tmp_path / "workbench.broken").exists()
        await submit(pilot, "1 + 1")
        assert "Out[1]" in text_of(app)


@pytest.mark.parametrize("name", ["light", "contrast", "ansi", "dark"])
async def test_themes_have_short_names(name: str) -> None:
    async with bench((80, 24), theme=name) as (app, pilot, _):
        assert app.theme.endswith(name) or (name, app.theme) == ("ansi", "ansi-dark")


def test_an_unknown_theme_on_the_command_line_gives_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "terminal_refusal", lambda: None)
    assert main.main(["--theme", "nonsense"]) == 2
    assert "unknown theme 'nonsense'; choose from dark, light" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TERM": "dumb"}, "TERM is unset or dumb"),
        ({"TERM": ""}, "TERM is unset or dumb"),
        ({"CI": "true"}, "CI is set"),
        ({}, ""),
    ],
)
def test_where_the_full_screen_cannot_open(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    assert (exit_codes.terminal_refusal() or "") == words
