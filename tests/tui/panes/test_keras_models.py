"""Keras models in the terminal: unfolded rows, live ranges, values of weights, graphs, progress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import keras_loaded
import numpy as np
import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession

from kbench import backend as K
from kbench.tui.panes.rows import NameRow
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.text.outline import Outline
from kbench.workbench.protocol.names import VariableRow
from kbench.workbench.session import events

SCREENS = Path(__file__).parents[1] / "screens"
pytestmark = keras_loaded.OWN_WARNINGS
BAR = "{0:2}/32 [{1:.<30}] - {2} - loss: {3:.4f}"


def build(session: FakeSession, cell: Any) -> None:
    session.inspector.handle({"verb": "trace", "on": False})  # times differ from run to run
    session.names["model"] = keras_loaded.residual()
    session.names["rate"] = 0.5
    session.finish(cell)


def large(session: FakeSession, cell: Any) -> None:
    session.names["deep"] = keras_loaded.deep(300)
    session.finish(cell)


def fit(session: FakeSession, cell: Any) -> None:
    """Three batches with the bar that Keras prints."""
    width = 0
    session._emit(events.Stream(cell.ident, "stdout", "Epoch 1/1\n"))
    for step in (1, 2, 3, 4):
        model = session.names["model"]
        model.layers[1].set_weights([one + step for one in model.layers[1].get_weights()])
        rest = "ETA: 1s" if step < 4 else "0s 2ms/step"
        bar = BAR.format(8 * step, "=" * (7 * step) + ">", rest, 1 / step)
        session._emit(events.Stream(cell.ident, "stdout", "\b" * width))
        session._emit(events.Stream(cell.ident, "stdout", "\r" + bar))
        width = len(bar)
    session._emit(events.Stream(cell.ident, "stdout", "\n"))
    session.finish(cell)


@asynccontextmanager
async def workbench(size: tuple[int, int], **options: Any) -> AsyncIterator[Any]:
    """A workbench in whose kernel a model was made; the variables have the focus."""
    session = FakeSession()
    session.script.update(build=build, fit=fit, large=large)
    try:
        async with bench(size, session, clock=lambda: 0.0, **options) as (app, pilot, _):
            await submit(pilot, "build")
            await press(pilot, "f3")
            yield app, pilot, session
    finally:
        K.clear_session()


async def press(pilot: Any, *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def compare(name: str, drawn: str, accept: bool) -> None:
    path = SCREENS / f"{name}.txt"
    if accept:
        path.write_text(drawn + "\n", encoding="utf-8")
    assert drawn + "\n" == path.read_text(encoding="utf-8"), f"{path} differs: --accept-screens"


def keys(app: Any) -> list[str]:
    found: list[str] = app.query_one(VariablesTable).keys()
    return found


# ------------------------------------------------------------------ screens


@pytest.mark.slow
@at_each_size
async def test_model_screen(size: tuple[int, int], accept: bool) -> None:
    async with workbench(size) as (app, pilot, _):
        await press(pilot, "right", "right")
        await submit(pilot, "fit")
        await pilot.pause(1.1)  # rows that have changed are no longer marked
        await press(pilot, "f3")
        compare(f"model-{size[0]}x{size[1]}", text_of(app), accept)
        await press(pilot, "j", "j", "j", "j", "j", "j", "j", "j", "o")
        compare(f"model-graph-{size[0]}x{size[1]}", text_of(app), accept)


async def test_ascii_graph() -> None:
    async with workbench((120, 40), ascii=True) as (app, pilot, _):
        await press(pilot, "o")
        drawn = text_of(app)
        assert drawn.isascii() and "+-\\" in drawn and "* | " not in drawn.split("sum")[0]


# ------------------------------------------------------------------ unfolding


@pytest.mark.slow
async def test_rows_unfold_and_fold() -> None:
    async with workbench((120, 40)) as (app, pilot, _):
        assert keys(app) == ["model", "rate"]
        await press(pilot, "enter")
        assert keys(app) == ["model", *(f"model/{at}" for at in range(7)), "rate"]
        await press(pilot, "down", "down", "enter")
        assert keys(app)[3:5] == ["model/1/w0", "model/1/w1"]
        await press(pilot, "down", "left", "left")
        assert keys(app) == ["model", *(f"model/{at}" for at in range(7)), "rate"]
        assert app.query_one(VariablesTable).current_key == "model/1"
        await press(pilot, "left", "left")
        assert keys(app) == ["model", "rate"]


@pytest.mark.slow
async def test_enter_on_a_weight_shows_its_values_and_follows_them() -> None:
    async with workbench((120, 40)) as (app, pilot, session):
        await press(pilot, "right", "right", "down", "down", "down", "enter")
        assert app.screen.arrangement.focused_pane() == "value"
        assert "model.layers[1].weights[0] kernel" in text_of(app)
        kernel = session.names["model"].layers[1].get_weights()[0]
        assert f"{kernel[0, 0]:.4g}" in text_of(app)
        await submit(pilot, "fit")
        assert f"{kernel[0, 0] + 10:.4g}" in text_of(app)
        app.query_one(VariablesTable).outline.fold("model")  # folded, and still followed
        await submit(pilot, "fit")
        assert keys(app) == ["model", "rate"]
        assert f"{kernel[0, 0] + 20:.4g}" in text_of(app)


@pytest.mark.slow
async def test_ranges_on_the_screen_follow_training() -> None:
    async with workbench((200, 50)) as (app, pilot, session):
        await press(pilot, "right", "right")
        before = app.query_one(VariablesTable).find("model/1/w0")
        await submit(pilot, "fit")
        after = app.query_one(VariablesTable).find("model/1/w0")
        assert after.stats.low == pytest.approx(before.stats.low + 10, rel=1e-4)


@pytest.mark.slow
async def test_only_what_is_on_the_screen_is_asked_for() -> None:
    async with workbench((120, 40)) as (app, pilot, session):
        await submit(pilot, "large")
        await press(pilot, "f3", "home", "right", "right")
        assert 302 < len(keys(app)) < 302 + 64  # the weights of layers on the screen
        session.asked.clear()
        await submit(pilot, "fit")  # of the other model
        assert "parts" not in session.asked
        table = app.query_one(VariablesTable)
        table.outline.changed(["deep"])
        assert len(table.outline.wanted(set(table.keys_shown()))) < 16
        await press(pilot, "f3", "G")
        assert table.current_key == "rate"


@pytest.mark.slow
async def test_a_model_that_goes_takes_its_rows_along() -> None:
    async with workbench((120, 40)) as (app, pilot, session):
        await press(pilot, "right", "right", "down", "down", "down", "enter")
        del session.names["model"]
        await submit(pilot, "1 + 1")
        assert keys(app) == ["rate"]
        assert "model.layers[1].weights[0] is gone" in text_of(app)
        session.restart(replay=False)
        await settle(pilot)
        await submit(pilot, "build")
        assert keys(app) == ["model", "rate"]


@pytest.mark.slow
async def test_what_is_inserted_is_an_expression() -> None:
    async with workbench((120, 40)) as (app, pilot, _):
        await press(pilot, "right", "right", "down", "down", "down", "i")
        assert app.query_one("#prompt").text == "model.layers[1].weights[0]"


@pytest.mark.slow
async def test_a_weight_is_written_to_a_file_of_its_name(tmp_path: Path) -> None:
    async with workbench((120, 40)) as (_, pilot, session):
        await press(pilot, "right", "right", "down", "down", "down", "enter", "e", "enter")
        kernel = K.get_value(session.names["model"].layers[1].weights[0])
        np.testing.assert_array_equal(np.load(tmp_path / "kernel.npy"), kernel)


@pytest.mark.slow
async def test_a_symbol_shows_its_graph() -> None:
    async with workbench((120, 40)) as (app, pilot, session):
        session.names["y"] = K.relu(K.dot(K.placeholder((None, 3), name="x"), K.ones((3, 2))))
        await submit(pilot, "1 + 1")
        await press(pilot, "f3", "G", "enter")
        drawn = text_of(app)
        assert app.screen.focused.id == "value-graph"
        assert "●  relu" in drawn and "●  x" in drawn and "with " in drawn


# ------------------------------------------------------------------ progress


@at_each_size
async def test_a_progress_bar_is_one_line(size: tuple[int, int]) -> None:
    async with workbench(size) as (app, pilot, session):
        await press(pilot, "f10")
        await submit(pilot, "fit")
        block = app.query_one("#transcript").blocks[-1]
        bar = BAR.format(32, "=" * 28 + ">", "0s 2ms/step", 0.25)
        assert block.output_text().split("\n") == ["Epoch 1/1", bar]
        kept = "".join(one.text for one in session.cells[2].outputs)
        assert kept == f"Epoch 1/1\n{bar}\n"


# ------------------------------------------------------------------ the outline


def row(key: str, parts: int = 0, **more: Any) -> VariableRow:
    parent, _, name = key.rpartition("/")
    known = {"key": key, "name": name, "kind": "layer", "label": name, "parent": parent}
    return VariableRow(**{**known, "parts": parts, **more})


def test_an_outline_keeps_no_row_that_is_gone() -> None:
    outline = Outline()
    outline.unfold("m")
    assert outline.wanted({"m"}) == ["m"] and outline.wanted({"x"}) == []
    assert outline.take(["m"], [row("m/0", 1), row("m/1"), row("other/1")]) == set()
    assert outline.wanted({"m"}) == []
    outline.unfold("m/0")
    outline.take(["m/0"], [row("m/0/w0")])
    root = NameRow("m", "model", None, "", parts=2)
    lines = [(depth, one.name) for depth, one in outline.lines([root])]
    assert lines == [(0, "m"), (1, "m/0"), (2, "m/0/w0"), (1, "m/1")]
    outline.changed(["m"])
    assert outline.wanted({"m/0/w0"}) == ["m/0"] and outline.wanted({"m/1"}) == ["m"]
    assert outline.take(["m"], [row("m/1", text="new")]) == {"m/1"}
    assert [one.name for _, one in outline.lines([root])] == ["m", "m/1"]
    assert outline.find("m/0") is None and "m/0" not in outline.unfolded
    outline.forget(["m"])
    assert outline.find("m/1") is None and outline.unfolded == set()


def test_sources_are_named_where_they_are_not_the_row_above() -> None:
    outline = Outline()
    rows = [
        row("m/0", label="a"),
        row("m/1", label="b", sources=["a"]),
        row("m/2", label="c", sources=["a", "b"], text="Add"),
    ]
    outline.take(["m"], rows)
    notes = [outline.find(f"m/{at}").note for at in range(3)]  # type: ignore[union-attr]
    assert notes == ["", "", "Add from a, b"]
