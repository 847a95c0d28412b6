"""The panes on a fake kernel: what is shown, and that keys do what the help page says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench_screen import SIZES, at_each_size, bench, settle, submit, text_of, until
from fake_session import FakeSession

from kbench.engine.runtime import config
from kbench.tui.panes.registry import BY_ID, FOCUS_ORDER
from kbench.tui.panes.variables.view import VariablesTable


@at_each_size
async def test_a_session_shows_input_output_and_names(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        await submit(pilot, "define")
        await submit(pilot, "40 + 2")
        screen = text_of(app)
        assert "In [1]: define" in screen
        assert "Out[2]: 40 + 2" in screen
        assert "NaN 1!" in screen
        assert "idle 12.0 ms" in screen and "channels_last" in screen


@pytest.mark.slow
async def test_value_pane_walks_slices_axes_and_nan() -> None:
    async with bench((140, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "enter")
        await settle(pilot)
        assert "Value: h" in text_of(app)
        assert "[0, 0, :, :]" in text_of(app)
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert "[0, 1, :, :]" in text_of(app)
        await pilot.press("n")
        await settle(pilot)
        assert "at (2, 3, 1, 2)" in text_of(app) and "NaN!" in text_of(app)
        await pilot.press("a")
        await settle(pilot)
        assert "axes of h" in text_of(app)
        await pilot.press("r", "enter")
        await settle(pilot)
        assert "rows 0 cols 3" in text_of(app)
        await pilot.press("colon", *"5,1", "enter")
        await settle(pilot)
        assert "at (5, " in text_of(app)
        await pilot.press("colon", *"99,0", "enter")
        await settle(pilot)
        assert "99 is outside axis 0, whose size is 6" in text_of(app)


async def test_a_large_array_is_read_by_windows_only() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        await submit(pilot, "big")
        await pilot.press("f3", "enter")
        await settle(pilot)
        for key in ("G", "pageup", "end", "g", "home", "down", "down"):
            await pilot.press(key)
        await settle(pilot)
        assert "at (2, 0)" in text_of(app)
        await pilot.press("G")
        await settle(pilot)
        assert "999999" in text_of(app)
        assert session.asked.count("window") <= 8


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_setting_is_edited_in_its_row(size: tuple[int, int]) -> None:
    def row(app: Any, name: str) -> str:
        return next(line for line in text_of(app).split("\n") if f"{name}  " in line)

    async with bench(size) as (app, pilot, _):
        await pilot.press("f7", "enter")
        await settle(pilot)
        field: Any = app.query_one("#settings-input")
        assert field.has_focus and field.value == "1e-07"
        await pilot.press("end", *(["backspace"] * 5), *"-2", "enter")
        await settle(pilot)
        assert "-2" in row(app, "epsilon") and field.has_focus  # to be mended
        below = text_of(app).split("\n")
        at = below.index(row(app, "epsilon"))
        assert "epsilon must be a finite number" in below[at + 1]
        assert "floatx" in text_of(app) and config.epsilon() == 1e-7
        await pilot.press("escape")
        await settle(pilot)
        assert "[1e-07" in row(app, "epsilon") and not field.display
        assert "must be" not in text_of(app)
        assert app.focused.id == "settings-list"
        await pilot.press("down", "down", "down", "down", "enter", "end", "backspace", "1", "enter")
        await settle(pilot)
        assert "[1" in row(app, "num_threads") and not field.display
        await pilot.press("enter", "f2")  # who leaves does not type any more
        await settle(pilot)
        assert not field.display and app.focused.id == "prompt"


async def test_settings_are_changed_and_refused_in_place() -> None:
    async with bench((200, 50)) as (app, pilot, session):
        await pilot.press("f7", "down", "right")
        await settle(pilot)
        assert config.floatx() == "float64"
        assert "(float64*)" in text_of(app) and "│ float64 │" in text_of(app)
        await pilot.press("up", "enter")
        await settle(pilot)
        field: Any = app.query_one("#settings-input")
        field.value = "-1"
        await pilot.press("enter")
        await settle(pilot)
        assert "epsilon must be a finite number" in text_of(app)
        assert config.epsilon() == 1e-7
        field.value = ""
        await pilot.press("enter")
        await settle(pilot)
        field.value = "1e-3"
        await pilot.press("enter")
        await settle(pilot)
        assert config.epsilon() == 1e-3 and "eps 0.001" in text_of(app)


async def test_a_change_in_the_kernel_shows_at_once() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        config.set_image_data_format("channels_first")
        await settle(pilot, 12)
        assert "channels_first" in text_of(app).split("\n")[0]


async def test_a_shape_error_is_drawn_in_the_users_expression() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "K.dot(w, x)")
        lines = text_of(app).split("\n")
        at = next(index for index, line in enumerate(lines) if "K.dot(w, x)" in line[8:30])
        drawn = [line for line in lines if "└" in line[:40] and "float32[" in line]
        assert len(drawn) == 2 and at
        source = next(line for line in lines if line.startswith("│   ") and "K.dot(w, x)" in line)
        assert drawn[0].index("└") == source.index("x)") and "'x', In [2]" in drawn[0]
        assert drawn[1].index("└") == source.index("w,") and "'w', In [1]" in drawn[1]
        await pilot.press("escape", "alt+e")
        await settle(pilot)
        assert "Traceback" in text_of(app) and "try K.dot(x, w)" in text_of(app)


def names_shown(app: Any) -> set[str]:
    return set(app.screen.query_one(VariablesTable).known)


def cell(change: Callable[[dict[str, Any]], object]) -> Callable[[FakeSession, Any], None]:
    """What a cell does to the names."""

    def act(session: FakeSession, one: Any) -> None:
        change(session.names)
        session.finish(one)

    return act


@pytest.mark.slow
async def test_ten_thousand_names_are_all_there_and_go_again() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        many = {f"v{at:04d}": [at] for at in range(10_000)}
        session.script["many"] = cell(lambda names: names.update(many))
        session.script["%reset -f"] = cell(lambda names: names.clear())
        session.script["grow"] = cell(lambda names: names["v0999"].append(1))
        await submit(pilot, "define")
        await submit(pilot, "many")
        await until(app, pilot, "Variables (10002)")
        assert names_shown(app) == set(session.names)
        await pilot.press("f3", "slash", *"v0999", "enter")
        await settle(pilot)
        assert "Variables (1 of 10002)" in text_of(app) and "list of 1" in text_of(app)
        await submit(pilot, "grow")
        await until(app, pilot, "list of 2")
        await submit(pilot, "%reset -f")
        await until(app, pilot, "No variables yet")
        assert names_shown(app) == set()


@pytest.mark.slow
async def test_of_thousands_of_arrays_the_names_come_before_the_ranges() -> None:
    async with bench((200, 50)) as (app, pilot, session):
        many = {f"v{at:04d}": np.full(3, float(at)) for at in range(8000)}
        session.script["many"] = cell(lambda names: names.update(many))
        session.script["write"] = cell(lambda names: names["v7999"].fill(0.25))
        await submit(pilot, "many")
        await until(app, pilot, "Variables (8000)")
        table = app.screen.query_one(VariablesTable)
        await submit(pilot, "write")
        while any(row.stats is None for row in table.known.values()):
            await pilot.pause(0.05)
        # The ranges of thousands are told again piece by piece, and a busy machine takes its time.
        deadline = time.monotonic() + 60
        while table.known["v7999"].stats.low != 0.25 and time.monotonic() < deadline:
            await pilot.pause(0.05)
        await settle(pilot)
        assert table.known["v7999"].stats.low == 0.25 and table.known["v0007"].stats.low == 7.0


async def test_what_is_deleted_or_lost_has_no_row() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        session.script["del h"] = cell(lambda names: names.pop("h"))
        await submit(pilot, "define")
        await submit(pilot, "del h")
        assert names_shown(app) == {"lr"}
        session.restart(replay=False)
        await settle(pilot)
        assert names_shown(app) == set()


@at_each_size
async def test_a_filter_is_left_by_escape_and_by_a_restart(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        table = app.screen.query_one(VariablesTable)
        await submit(pilot, "define")
        await pilot.press("f3", "slash", *"nothing", "enter")
        await settle(pilot)
        assert "no name contains 'nothing'" in text_of(app) and table.keys() == []
        await pilot.press("escape")
        await settle(pilot)
        assert table.keys() == ["h", "lr"] and app.screen.arrangement.focused_pane() == "variables"
        await pilot.press("escape")
        assert app.screen.arrangement.focused_pane() == "prompt"
        await pilot.press("f3", "slash", *"h", "enter")
        await settle(pilot)
        assert table.keys() == ["h"]
        session.restart(replay=False)
        await submit(pilot, "define")
        await settle(pilot)
        assert table.keys() == ["h", "lr"] and table.filter_text == ""


@pytest.mark.slow
async def test_filter_sort_and_follow() -> None:
    async with bench((200, 50)) as (app, pilot, session):
        await submit(pilot, "define")
        await submit(pilot, "big")
        assert "Variables (3)" in text_of(app)
        await pilot.press("f3", "slash", *"bi")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert "Variables (1 of 3)" in text_of(app)
        await pilot.press("slash", "backspace", "backspace", "enter")
        await settle(pilot)
        await pilot.press("s", "s")
        await settle(pilot)
        assert "by size" in text_of(app)
        session.names.pop("h")
        await submit(pilot, "1")
        assert "Variables (2)" in text_of(app)


async def test_hidden_panes_ask_nothing() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        await pilot.press("f9")
        await settle(pilot)
        session.asked.clear()
        await submit(pilot, "define")
        await submit(pilot, "2")
        assert session.asked == []
        await pilot.press("f9")
        await settle(pilot)
        assert "summary" in session.asked and "NaN 1!" in text_of(app)


@pytest.mark.slow
async def test_an_idle_workbench_asks_nothing() -> None:
    async with bench((200, 50)) as (app, pilot, session):
        await submit(pilot, "define")
        await settle(pilot, 12)
        session.asked.clear()
        await pilot.pause(0.6)
        assert session.asked == []


async def test_completion_by_tab_and_by_itself() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        prompt: Any = app.query_one("#prompt")
        await pilot.press(*"K", "full_stop", *"do")
        await settle(pilot, 10)
        assert "K.dropout" not in text_of(app).split("\n")[1] and "K.dot" in text_of(app)
        await pilot.press("tab")
        await settle(pilot)
        assert prompt.text == "K.dot"
        prompt.put("K.d")
        await pilot.press("tab")
        await settle(pilot)
        assert "K.dropout" in text_of(app)
        await pilot.press("down", "down", "enter")
        await settle(pilot)
        assert prompt.text == "K.dtype"
        prompt.put("")
        await pilot.press("tab")
        assert prompt.text == "    "


async def test_history_by_arrows_prefix_and_search() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        for code in ("alpha = 1", "beta = 2", "alpha + 1"):
            await submit(pilot, code)
        await pilot.press("up", "up")
        assert prompt.text == "beta = 2"
        await pilot.press("down", "down")
        assert prompt.text == ""
        await pilot.press(*"al", "up", "up")
        assert prompt.text == "alpha = 1"
        prompt.put("")
        await pilot.press("ctrl+r", *"beta")
        await settle(pilot)
        assert "History of all sessions" in text_of(app)
        await pilot.press("enter")
        await settle(pilot)
        assert prompt.text == "beta = 2" and prompt.has_focus


@pytest.mark.slow
async def test_every_pane_is_reached_and_has_a_help_page() -> None:
    for size in SIZES:
        async with bench(size) as (app, pilot, _):
            await submit(pilot, "define")
            seen = []
            for _step in FOCUS_ORDER[:-1]:  # no lesson is open
                seen.append(app.screen.arrangement.focused_pane())
                await pilot.press("f1")
                await pilot.pause()
                assert f"Help: {BY_ID[seen[-1]].title}" in text_of(app)
                await pilot.press("escape", "f6")
                await pilot.pause()
            assert sorted(seen) == sorted(FOCUS_ORDER[:-1])


async def test_zoom_side_jump_diagnostics_and_palette() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "f10")
        await settle(pilot)
        assert "Session" not in text_of(app)
        await pilot.press("f10", "ctrl+o", "c")
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "settings"
        await pilot.press("f12")
        await settle(pilot)
        assert "textual" in text_of(app) and "kernel idle" in text_of(app)
        await pilot.press("escape", "ctrl+p")
        await settle(pilot)
        assert "restart" in text_of(app) or "Search" in text_of(app)
        await pilot.press("escape")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (1, 1), (59, 16), (60, 15), (30, 8)])
async def test_small_terminals_keep_prompt_and_transcript(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, session):
        await submit(pilot, "1 + 1")
        assert session.cells[1].status == "ok"
        if size[0] >= 20:
            assert "Out[1]" in text_of(app)


@pytest.mark.slow
async def test_the_mouse_reaches_tabs_keys_examples_settings_and_cells() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        example = next(at for at, row in enumerate(text_of(app).split("\n")) if "w = K.var" in row)
        await pilot.click(offset=(80, example))
        await settle(pilot)
        assert prompt.text.startswith("w = K.variable") and prompt.has_focus
        prompt.put("")
        tabs = next(row for row in text_of(app).split("\n") if "2 Value" in row)
        start = app.query_one("#tabs").region.x
        await pilot.click("#tabs", offset=(tabs.index("Config") - start, 0))
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "settings"
        line = next(one for one in text_of(app).split("\n") if "(float16)" in one)
        at = line.index("(float16)") + 2
        row = text_of(app).split("\n").index(line)
        await pilot.click(offset=(at, row))
        await settle(pilot)
        assert config.floatx() == "float16" and "(float16*)" in text_of(app)
        await pilot.click("#keybar", offset=(2, 0))
        await settle(pilot)
        assert "Help: Config" in text_of(app)
        await pilot.press("escape")
        await submit(pilot, "[1, 2, 3]")
        await pilot.click("#transcript", offset=(12, 1), times=2)
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "transcript"
        await pilot.press("alt+w")
        await settle(pilot)
        assert prompt.text == "[1, 2, 3]"


async def test_the_border_is_dragged_and_remembered(tmp_path: Any) -> None:
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        right = app.query_one("#transcript").region.right
        await pilot.mouse_down(offset=(right - 1, 10))
        await pilot.hover(offset=(right - 21, 10))
        await pilot.mouse_up(offset=(right - 21, 10))
        await settle(pilot)
        assert abs(app.query_one("#transcript").region.right - (right - 20)) <= 2
        moved = app.query_one("#transcript").region.right
        await pilot.press("alt+right")
        await settle(pilot)
        assert app.query_one("#transcript").region.right > moved
        app.save_state()
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        assert app.query_one("#transcript").region.right > moved


async def test_cells_are_walked_folded_and_copied() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "print_much")
        await submit(pilot, "'second'")
        await pilot.press("escape", "up", "up")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert "1999 more rows" in text_of(app)
        await pilot.press("end", "alt+y")
        await settle(pilot)
        assert app.clipboard.strip().endswith("'second'")


@at_each_size
async def test_a_copied_variable_has_nothing_shortened(size: tuple[int, int]) -> None:
    session = FakeSession()
    session.names["w"] = np.arange(24.0).reshape(4, 6)
    async with bench(size, session) as (app, pilot, _):
        await pilot.press("f3", "home", "y")
        await settle(pilot)
        assert app.clipboard == "w  array  (4, 6)  float64  192 B  [0 .. 23]"


async def test_selected_text_is_copied_by_ctrl_c() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        await submit(pilot, "'to be copied'")
        line = next(at for at, one in enumerate(text_of(app).split("\n")) if "Out[1]" in one)
        await pilot.mouse_down(offset=(10, line))
        await pilot.hover(offset=(25, line))
        await pilot.mouse_up(offset=(25, line))
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert "to be" in app.clipboard


@pytest.mark.slow
async def test_resizing_keeps_focus_and_text() -> None:
    async with bench((200, 50)) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        prompt.put("half")
        for size in ((20, 5), (80, 24), (120, 40), (1, 1), (200, 50)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
        assert prompt.text == "half" and prompt.has_focus
        assert "half" in text_of(app)


async def test_ascii_mode_draws_only_ascii() -> None:
    async with bench((120, 40), ascii=True) as (app, pilot, _):
        await submit(pilot, "define")
        await submit(pilot, "K.dot(w, x)")
        assert text_of(app).isascii()
