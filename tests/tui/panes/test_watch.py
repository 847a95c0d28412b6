"""The watch pane on a fake kernel: adding, changing values, refusals, what is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_screen import at_each_size, bench, session_with, settle, submit, text_of, until
from textual.content import Content

import kbench as K
from kbench.tui.panes.watch import view
from kbench.tui.panes.watch.controller import WatchController
from kbench.tui.panes.watch.view import WatchTable
from kbench.tui.text import table
from kbench.tui.text.glyphs import UNICODE
from kbench.workbench.kernel import live_sampling
from kbench.workbench.protocol.findings import WatchRow
from kbench.workbench.watches import watches


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a quick watch slow."""
    monkeypatch.setattr(watches, "BUDGET_SECONDS", 20.0)


def shown_row(app: Any, expression: str) -> str:
    """The row of a watch as it is drawn."""
    table = app.screen.query_one(WatchTable)
    return str(table.row(table.keys().index(expression)).plain)


async def type_watch(pilot: Any, text: str) -> None:
    await pilot.press("a")
    await settle(pilot)
    pilot.app.screen.query_one("Input").value = text
    await pilot.press("enter")
    await settle(pilot)


@at_each_size
async def test_w_watches_a_variable_and_both_values_are_shown(size: tuple[int, int]) -> None:
    w = K.variable(2.5)
    async with bench(size, session_with(w=w)) as (app, pilot, session):
        await submit(pilot, "1")
        await pilot.press("f3", "w", "alt+3")
        await until(app, pilot, "(1)")
        await until(app, pilot, "2.5")
        session.script["change"] = lambda one, cell: (w.set_value(4.5), one.finish(cell))
        await submit(pilot, "change")
        assert "4.5" in await until(app, pilot, "▁█") and "2.5" in shown_row(app, "w")


async def test_a_cell_of_a_value_is_watched() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "enter")
        await settle(pilot)
        await pilot.press("right_square_bracket", "right", "down", "w", "alt+3")
        await until(app, pilot, "h[0, 1, 1, 1]")
        await until(app, pilot, "0.16")


@pytest.mark.slow
async def test_watches_are_added_edited_refused_copied_and_removed() -> None:
    async with bench((140, 40), session_with(items=[1, 2])) as (app, pilot, session):
        await pilot.press("alt+3")
        assert "press w on a variable" in await until(app, pilot, "No watches yet")
        await type_watch(pilot, "len(items) + 40")
        await until(app, pilot, "42")
        await type_watch(pilot, "items.append(3)")
        await until(app, pilot, "refused: append() may change something")
        await type_watch(pilot, "len(items) + 40")
        assert app.screen.panes.controller(WatchController).expressions == [
            "len(items) + 40",
            "items.append(3)",
        ]
        await pilot.press("G", "enter")
        await settle(pilot)
        app.screen.query_one("Input").value = "items[-1] / 0"
        await pilot.press("enter")
        await until(app, pilot, "ZeroDivisionError: division by zero")
        await pilot.press("g", "y")
        assert app.clipboard == "len(items) + 40  42"
        await pilot.press("space")
        assert "value   42" in await until(app, pilot, "took")
        await pilot.press("escape", "delete", "delete")
        assert "No watches yet" in await until(app, pilot, "No watches yet")
        assert session.names["items"] == [1, 2]


async def test_markup_and_control_characters_are_shown_as_they_are() -> None:
    async with bench((120, 40), session_with(text="[bold]\x1b[2J\u202e")) as (app, pilot, _):
        await pilot.press("alt+3")
        await type_watch(pilot, "text + '[/red]'")
        screen = await until(app, pilot, "text + '[/red]'")
        assert "[bold]" in screen and "\x1b" not in screen and "\u202e" not in screen


async def test_values_are_those_before_the_running_cell() -> None:
    async with bench((120, 40), session_with(n=41)) as (app, pilot, session):
        await pilot.press("alt+3")
        await type_watch(pilot, "n + 1")
        await until(app, pilot, "42")
        await submit(pilot, "forever")
        assert "values from before the running cell" in text_of(app)
        session.names["n"] = 50
        asked = session.asked.count("watch")
        await settle(pilot)
        assert session.asked.count("watch") == asked
        await pilot.press("f2", "ctrl+c")
        await until(app, pilot, "▁█")
        assert shown_row(app, "n + 1").split()[-3:] == ["51", "▁█", "42"]
        assert "values from before" not in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_new_value_is_never_cut_for_an_old_one(size: tuple[int, int]) -> None:
    long = {"it": "a" * 50}
    async with bench(size, session_with(long=long)) as (app, pilot, session):
        await pilot.press("alt+3")
        await type_watch(pilot, "long['it'] + '' + '' + '' + ''")
        await until(app, pilot, "aaaa")

        def change(one: Any, cell: Any) -> None:
            long["it"] = "new"
            one.finish(cell)

        session.script["change"] = change
        await submit(pilot, "change")
        assert "'aaaa" in await until(app, pilot, "'new'")


# (the row, cells, the words that are seen, those of columns that are left out whole)
SCALAR = WatchRow(
    expression="K.mean(w)", state="value", text="0.123", before="0.456", history=[3.0, 2.0, 1.0]
)
LONG = "float32[784, 128]  mean 0.01 [-0.2 .. 0.2]"
FED = WatchRow(expression="h", state="value", text=LONG, before=LONG + " ", note="as fed last")
FAILED = WatchRow(expression="K.mean(nothing) + 1", state="error", text="NameError: " + 60 * "n")
ARRAY = FED.replaced(histogram=[1, 4, 2] * 8, note="")
BESIDE = WatchRow(expression="h", state="value", text="0.25", history=[3.0, 2.0, 1.0])
WIDTHS: list[tuple[WatchRow, int, list[str], list[str]]] = [
    (SCALAR, 60, ["K.mean(w)", "0.123", "█▅▁", "0.456"], []),
    (SCALAR, 26, ["K.mean(w)", "0.123", "█▅▁"], ["0.456", "before"]),
    (SCALAR, 21, ["K.mean(w)", "0.123"], ["█", "history", "before"]),
    (FED, 130, ["h", LONG, "as fed last", LONG + " "], []),
    (FED, 70, ["h", LONG, "as fed last"], ["before"]),
    (SCALAR.replaced(history=None, before=""), 30, ["0.123"], ["history", "before", "note"]),
    (FED, 50, ["h", LONG], ["as fed", "note", "before"]),
    (ARRAY, 80, ["h", LONG, "█"], ["before"]),
    (ARRAY, 70, ["float32[784,… mean 0.01 [-0.2 .. 0.2]", "█"], ["before"]),
    (ARRAY, 58, ["… mean 0.01 [-0.2 .. 0.2]", "█"], ["before", "float"]),
    (ARRAY, 55, ["float32[7… [-0.2 .. 0.2]", "█"], ["before", "mean"]),
    (BESIDE, 30, ["h", "0.25", "█▅▁"], ["before"]),
    (FAILED, 44, ["K.mean", "NameError: nnnnnnnn", "…"], []),
]


@pytest.mark.parametrize(("row", "width", "seen", "gone"), WIDTHS)
def test_columns_are_left_out_whole(
    row: WatchRow, width: int, seen: list[str], gone: list[str]
) -> None:
    gap = 1 if width < table.NARROW_CELLS else table.GAP_CELLS
    drawn = view.cells(row, False, UNICODE, view.MAX_BARS)
    columns, kept = WatchTable.columns, view.wanted_lengths(drawn)
    widths = table.column_widths(columns, [kept], width, gap)
    titles = [Content(column.title) for column in columns]
    drawn = view.fitted(row, drawn, widths, "…")
    lines = [table.joined("", columns, widths, cells, gap, "…").plain for cells in (titles, drawn)]
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert all(words in text for words in seen) and not any(words in text for words in gone)


async def test_the_list_is_that_of_the_magic() -> None:
    session = session_with(n=41)
    watched = session.inspector._watch_verbs._watched
    watched.add("n + 2")  # before the workbench came, in a notebook say
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press("alt+3")
        await until(app, pilot, "43")
        await type_watch(pilot, "n + 1")
        await until(app, pilot, "42")
        assert watched.expressions == ["n + 2", "n + 1"]
        watched.remove(1)
        watched.add("n + 3")
        await until(app, pilot, "44")
        assert app.screen.query_one(WatchTable).keys() == ["n + 1", "n + 3"]
        await pilot.press("g", "delete")
        await settle(pilot)
        assert watched.expressions == ["n + 3"]


async def test_cheap_watches_are_live_while_a_cell_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sampling, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(watches, "LIVE_SECONDS", 20.0)
    monkeypatch.setattr(watches, "LIVE_BUDGET_SECONDS", 20.0)
    state = {"step": 1}
    names = session_with(state=state, own=lambda: 7)
    async with bench((120, 40), names) as (app, pilot, session):
        await pilot.press("alt+3")
        await type_watch(pilot, "state['step'] + 0")
        await type_watch(pilot, "own()")
        await until(app, pilot, "7")
        await submit(pilot, "forever")
        state["step"] = 5
        await until(app, pilot, "▁█")
        await until(app, pilot, "1 live, others older")
        assert shown_row(app, "state['step'] + 0").split()[-3:] == ["5", "▁█", "1"]
        session.interrupt()
        await until(app, pilot, "Watch (2)")
        assert "live" not in await until(app, pilot, "▁█")
        assert shown_row(app, "state['step'] + 0").split()[-3:] == ["5", "▁█", "1"]


@pytest.mark.slow
async def test_a_hidden_pane_asks_nothing() -> None:
    async with bench((120, 40), session_with(n=41)) as (app, pilot, session):
        await pilot.press("alt+3")
        await type_watch(pilot, "n + 1")
        await until(app, pilot, "42")
        await pilot.press("alt+2", "f2")
        session.asked.clear()
        session.names["n"] = 0
        await submit(pilot, "2")
        assert "watch" not in session.asked
        await pilot.press("alt+3")
        await until(app, pilot, "█▁")
        assert shown_row(app, "n + 1").split()[-3:] == ["1", "█▁", "42"]


async def test_a_slow_watch_says_so_and_enter_evaluates_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches, "BUDGET_SECONDS", 0.05)
    waits = {"on": True}
    session = session_with(slow=lambda: [1 for _ in iter(int, 1) if not waits["on"]] or 42)
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press("alt+3")
        await type_watch(pilot, "slow()")
        await until(app, pilot, "slow, over 50 ms: Enter evaluates it")
        monkeypatch.setattr(watches, "BUDGET_SECONDS", 20.0)
        session.names["slow"] = lambda: 42
        await pilot.press("enter")
        await until(app, pilot, "42")


@pytest.mark.slow
async def test_watches_survive_a_restart_and_the_workbench(tmp_path: Path) -> None:
    async with bench((120, 40), session_with(n=41), tmp_path) as (app, pilot, session):
        await pilot.press("alt+3")
        await type_watch(pilot, "n + 1")
        await until(app, pilot, "42")
        session.restart(replay=False)
        await submit(pilot, "1")
        await until(app, pilot, "NameError")
        stored = json.loads((tmp_path / "workbench.json").read_text(encoding="utf-8"))
        assert stored["watches"] == ["n + 1"]
    async with bench((120, 40), session_with(n=1), tmp_path) as (app, pilot, _):
        await pilot.press("alt+3")
        await until(app, pilot, "n + 1")
        assert "Watch (1)" in await until(app, pilot, " 2 ")


async def test_the_number_of_watches_has_a_bound() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await pilot.press("alt+3")
        for number in range(51):
            app.screen.panes.controller(WatchController).add(f"{number} + 1")
        assert len(app.screen.panes.controller(WatchController).expressions) == 50
        await until(app, pilot, "Watch (50)")


async def test_an_old_kernel_without_watches_says_so() -> None:
    session = session_with(n=1)
    serve = session.inspector.handle

    def without(raw: Any) -> Any:
        raw = {**raw, "verb": "unheard"} if raw.get("verb") == "watch" else raw
        return serve(raw)

    session.inspector.handle = without  # type: ignore[method-assign]
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press("alt+3")
        await type_watch(pilot, "n")
        await until(app, pilot, "unknown verb")
