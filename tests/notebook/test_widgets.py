"""Widgets: bound both ways, quiet while hidden, and each with a static picture of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from kbench import backend as K
from kbench.engine import config, variables
from kbench.engine.errors import ArgumentError
from kbench.notebook import ConfigPanel, TensorView, VariableTable, explorer, live
from kbench.notebook.heatmap import PIXELS, thinned, unit_range
from kbench.notebook.slicing import Slice, first, parse


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    yield
    for name, value in (
        ("epsilon", 1e-7), ("floatx", "float32"), ("image_data_format", "channels_last")
    ):  # fmt: skip
        config.assign(name, value)
    K.clear_session()


@pytest.fixture
def panel() -> Iterator[ConfigPanel]:
    made = ConfigPanel()
    yield made
    made.close()


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    "name, typed, value",
    [
        ("epsilon", "1e-3", 1e-3),
        ("epsilon", " 0.5 ", 0.5),
        ("floatx", "float64", "float64"),
        ("image_data_format", "channels_first", "channels_first"),
        ("num_threads", 1, 1),
    ],
)
def test_control_sets_engine(panel: ConfigPanel, name: str, typed: Any, value: Any) -> None:
    before = config.snapshot()[name]
    panel.fields[name].value = typed
    assert config.snapshot()[name] == value
    assert "not changed" not in panel.message
    config.assign(name, before)
    assert panel.fields[name].value in (before, f"{before}")


@pytest.mark.parametrize("typed", ["abc", "nan", "inf", "-1", "", "1e400"])
def test_refusal_puts_control_back(panel: ConfigPanel, typed: str) -> None:
    panel.fields["epsilon"].value = typed
    assert K.epsilon() == 1e-7
    assert panel.fields["epsilon"].value == "1e-07"
    assert panel.message.startswith("epsilon was not changed: ")
    panel.fields["epsilon"].value = "1e-6"
    assert "not changed" not in panel.message


def test_refusal_message_is_escaped(panel: ConfigPanel) -> None:
    panel.fields["epsilon"].value = "<script>alert(1)</script>"
    assert "<script" not in panel._message.value
    assert "&lt;script" in panel._message.value


def test_engine_moves_control(panel: ConfigPanel) -> None:
    K.set_floatx("float16")
    K.set_epsilon(0.25)
    assert (panel.fields["floatx"].value, panel.fields["epsilon"].value) == ("float16", "0.25")


def test_a_change_is_made_once(panel: ConfigPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    other, calls = ConfigPanel(), []
    assign = config.assign
    monkeypatch.setattr(config, "assign", lambda *pair: (calls.append(pair), assign(*pair)))
    panel.fields["floatx"].value = "float64"
    K.set_floatx("float16")
    assert calls == [("floatx", "float64")]
    assert other.fields["floatx"].value == "float16"
    other.close()


def test_closed_panel_follows_no_more(panel: ConfigPanel) -> None:
    panel.close()
    K.set_floatx("float16")
    assert panel.fields["floatx"].value == "float32"


def test_two_panels_and_many_threads_agree(panel: ConfigPanel) -> None:
    other = ConfigPanel()

    def work(one: ConfigPanel, values: list[str]) -> None:
        for _ in range(30):
            for value in values:
                one.fields["floatx"].value = value
                K.set_epsilon(0.5 if value == "float16" else 0.25)

    workers = [
        threading.Thread(target=work, args=(one, ["float16", "float64"])) for one in (panel, other)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
        assert not worker.is_alive()
    panel._pull()
    other._pull()
    assert panel.fields["floatx"].value == other.fields["floatx"].value == K.floatx()
    other.close()


def test_every_control_has_a_label_and_a_tooltip(panel: ConfigPanel) -> None:
    view = TensorView(np.zeros((2, 3, 4)))
    controls = [*panel.fields.values(), view.rows, view.cols, view.index, *view.steppers]
    table = VariableTable({})
    for control in [*controls, table.filter, table.sort]:
        assert control.description and control.tooltip


# ------------------------------------------------------------------ the table of names


def test_table_follows_variables_once_shown() -> None:
    w = K.variable(np.zeros((2, 2)), name="w")
    table = VariableTable({"w": w, "text": "hidden", "_w": w})
    assert table.html == "" and not table.live.running
    bundle = table._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert ">w<" in bundle["text/html"] and ">v0<" in table.html
    assert bundle["text/plain"] == "2 names: text, w" and "hidden" not in table.html
    K.set_value(w, np.ones((2, 2)))
    wait_for(lambda: ">v1<" in table.html)
    table.close()
    K.set_value(w, np.ones((2, 2)))
    time.sleep(2 * live.INTERVAL)
    assert ">v1<" in table.html


def test_hidden_table_does_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    w, calls = K.variable(1.0), []
    table = VariableTable({"w": w})
    monkeypatch.setattr(table, "_rows", lambda: calls.append(1) or [])
    K.set_value(w, 2.0)
    time.sleep(2 * live.INTERVAL)
    assert calls == [] and not variables.changed


def test_redraws_are_throttled() -> None:
    calls: list[float] = []
    throttle = live.Throttle(lambda: calls.append(time.monotonic()))
    end = time.monotonic() + 5.5 * live.INTERVAL
    while time.monotonic() < end:
        throttle.ask()
        time.sleep(0.001)
    time.sleep(2 * live.INTERVAL)
    assert 3 <= len(calls) <= 8
    assert all(b - a > 0.9 * live.INTERVAL for a, b in zip(calls, calls[1:], strict=False))


@pytest.mark.parametrize(
    "pattern, order, names",
    [
        ("*", "name", ["a", "b", "big"]),
        ("b*", "name", ["b", "big"]),
        ("*", "size", ["big", "a", "b"]),
        ("", "kind", ["a", "big", "b"]),
        ("[", "name", []),
    ],
)
def test_filter_and_order(pattern: str, order: str, names: list[str]) -> None:
    values = {"b": K.variable([1.0, 2.0]), "a": np.ones(1), "big": np.ones(100)}
    table = VariableTable(values, pattern)
    table.sort.value = order
    assert [row["name"] for row in table._rows()] == names


def test_statistics_are_kept_per_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbench.engine import describe

    w, calls = K.variable(np.ones(3)), []
    array = describe.array
    monkeypatch.setattr(describe, "array", lambda *one: calls.append(1) or array(*one))
    table = VariableTable({"w": w})
    for _ in range(3):
        table.refresh()
    assert len(calls) == 1
    K.set_value(w, np.zeros(3))
    table.refresh()
    assert len(calls) == 2


# ------------------------------------------------------------------ looking into arrays


@pytest.mark.parametrize(
    "text, shape, expected",
    [
        ("[0, :, :]", (2, 3, 4), Slice((0, 0, 0), 1, 2)),
        ("1,:,2", (2, 3, 4), Slice((1, 0, 2), None, 1)),
        (":, -1, :", (2, 3, 4), Slice((0, 2, 0), 0, 2)),
        ("..., 0", (3, 4, 2), Slice((0, 0, 0), 0, 1)),
        ("1, 2", (2, 3), Slice((1, 2), None, None)),
        ("[]", (), Slice((), None, None)),
    ],
)
def test_parse(text: str, shape: tuple[int, ...], expected: Slice) -> None:
    assert parse(text, shape) == expected
    assert parse(str(expected), shape) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("0, :", "3 entries are needed"),
        (":, :, :", "at most two axes"),
        ("2, :, :", "index 2 is out of range for axis 0 of size 2"),
        ("x, :, :", "axis 0: 'x' is neither"),
        ("__import__('os'), :, :", "neither an index nor a colon"),
        ("..., ..., 0", "neither"),
    ],
)
def test_parse_refuses(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=None) as caught:
        parse(text, (2, 3, 4))
    assert message in caught.value.reason


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_slice_is_what_numpy_gives(shape: tuple[int, ...]) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    shown = first(shape).of(array)
    assert np.array_equal(shown, array.reshape((-1, *shown.shape))[0])
    if len(shape) > 1:
        turned = Slice((0,) * len(shape), len(shape) - 1, len(shape) - 2)
        assert np.array_equal(turned.of(array), shown.T)


def test_controls_agree_with_each_other() -> None:
    view = TensorView(np.arange(24.0).reshape(2, 3, 4), "a")
    assert view.index.value == "[0, :, :]" and "a[0, :, :]" in view._body.value
    view.steppers[0].value = 1
    assert view.index.value == "[1, :, :]" and ">23<" in view._body.value
    view.rows.value = 0
    assert str(view.slice) == "[:, 0, :]" and "a[:, 0, :]" in view._body.value
    view.rows.value = 2
    assert (view.rows.value, view.cols.value) == (2, 0)
    view.index.value = "0, 1, :"
    assert (view.rows.value, view.cols.value, view.steppers[1].value) == (None, 2, 1)
    view.index.value = "0, 9, :"
    assert "out of range" in view._message.value and view.index.value == "[0, 1, :]"
    view.cols.value = None
    assert str(view.slice) == "[0, 1, 0]"


def test_view_follows_its_variable_only() -> None:
    w, other = K.variable(np.zeros((2, 2))), K.variable(0.0)
    view = TensorView(w)
    view._repr_mimebundle_()
    drawn = []
    view.observe(lambda _change: drawn.append(1), "children")
    view._body.observe(lambda _change: drawn.append(1), "value")
    K.set_value(other, 1.0)
    time.sleep(2 * live.INTERVAL)
    assert drawn == []
    K.set_value(w, np.full((2, 2), 7.0))
    wait_for(lambda: ">7<" in view._body.value)
    view.close()


def test_one_figure_is_used_again() -> None:
    view = TensorView(np.random.default_rng(0).normal(size=(2, 30, 40)), mode="heat map")
    picture, before = view._picture, view.picture
    assert before.startswith(b"\x89PNG")
    view.steppers[0].value = 1
    assert view._picture is picture and view.picture != before
    assert len(picture._figure.axes) == 2
    assert 'alt="heat map of array[1, :, :]"' in view._body.value
    view.mode.value = "numbers"
    assert view.picture == b"" and "<table>" in view._body.value


@pytest.mark.parametrize(
    "data_format, shape, drawn",
    [
        ("channels_last", (2, 8, 6, 3), True),
        ("channels_first", (2, 3, 8, 6), True),
        ("channels_last", (8, 6), True),
        ("channels_last", (2, 3, 8, 6), False),
        ("channels_first", (2, 8, 6, 3), False),
        ("channels_last", (8,), False),
        ("channels_last", (0, 8, 3), False),
    ],
)
def test_images_go_by_the_data_format(
    data_format: str, shape: tuple[int, ...], drawn: bool
) -> None:
    K.set_image_data_format(data_format)
    view = TensorView(np.zeros(shape), mode="image")
    assert bool(view.picture) == drawn
    assert ("kb-bad" in view._message.value) != drawn


@pytest.mark.parametrize("array", [np.array([["a", "b"]]), np.zeros((0, 3)), np.array([[None]])])
def test_nothing_to_draw(array: np.ndarray) -> None:
    view = TensorView(array, mode="heat map")
    assert "no numbers to draw" in view._message.value


@pytest.mark.parametrize(
    "values",
    [
        np.full((3, 3), np.nan),
        np.array([[np.inf, -np.inf]]),
        np.ones((1, 1)),
        np.ones((2, 2), bool),
    ],
)
def test_heat_map_of_anything(values: np.ndarray) -> None:
    assert TensorView(values, mode="heat map").picture.startswith(b"\x89PNG")


def test_large_slices_are_thinned() -> None:
    thin, step = thinned(np.zeros((5000, 100)))
    assert thin.shape[0] <= PIXELS and step == (10, 1)
    view = TensorView(np.zeros((3000, 3000), np.float32), mode="heat map")
    assert len(view.picture) < 100_000


@pytest.mark.parametrize(
    "values, low, high",
    [
        (np.array([0, 255], np.uint8), 0.0, 1.0),
        (np.array([0.25, 0.5]), 0.25, 0.5),
        (np.array([-3.0, 5.0]), 0.0, 1.0),
        (np.array([np.nan, 2.0]), 0.0, 1.0),
        (np.array([-300, 300]), 0.0, 1.0),
        (np.array([2.0, 2.0]), 0.0, 0.0),
        (np.array([-1e308, 1e308]), 0.0, 1.0),
    ],
)
def test_unit_range(values: np.ndarray, low: float, high: float) -> None:
    pixels = unit_range(values)
    assert (pixels.min(), pixels.max()) == (low, high)


def test_symbolic_tensors_are_not_looked_into() -> None:
    with pytest.raises(ArgumentError, match="has no value of its own"):
        TensorView(K.placeholder((2,), name="x"))


# ------------------------------------------------------------------ all together


def test_only_the_open_tab_works() -> None:
    w = K.variable(np.zeros((2, 2)))
    whole = explorer({"w": w, "x": K.placeholder((2,)), "a": np.ones(3)})
    assert not whole.table.live.running
    bundle = whole._repr_mimebundle_()
    assert "epsilon" in bundle["text/html"] and ">w<" in bundle["text/html"]
    assert whole.table.live.running
    whole.selected_index = 1
    assert not whole.table.live.running and whole.view is not None and whole.view.live.running
    assert whole.chosen.options == ("a", "w")
    whole.chosen.value = "w"
    assert "w[:, :]" in whole.view._body.value
    whole.selected_index = 2
    assert not whole.view.live.running
    whole.close()
    assert not variables.changed


def test_twins_follow_in_a_saved_notebook(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook()
    for code in (
        "%load_ext kbench\nfrom kbench import backend as K\nimport time\n"
        "from kbench.notebook import explorer, TensorView, VariableTable",
        "%config_k",
        "explorer()",
        "w = K.variable([1.0, 2.0])\nVariableTable(pattern='w')",
        "TensorView(w, 'w')",
        "K.set_epsilon(0.25)\nK.set_value(w, [7.5, 8.5])",
        "time.sleep(1.5)",
    ):
        book.cells.append(nbformat.v4.new_code_cell(code))
    NotebookClient(book, timeout=60, kernel_name="python3").execute(cwd=str(tmp_path))
    for cell, word in zip(book.cells[1:5], ("0.25", "0.25", "7.5", ">7.5<"), strict=True):
        live, twin = (one["data"] for one in cell.outputs)
        assert "application/vnd.jupyter.widget-view+json" in live and "text/html" not in live
        assert word in twin["text/html"] and "kb-twin" in twin["text/html"]
