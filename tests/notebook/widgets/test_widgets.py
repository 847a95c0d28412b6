"""Widgets: bound both ways, quiet while hidden, and each with a static picture of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
from run_book import run_book
from waiting import wait_for

from kbench import backend as K
from kbench.engine.graph import variables
from kbench.engine.runtime import config, profile
from kbench.notebook import ConfigPanel, TensorView, VariableTable, explorer
from kbench.notebook.base import redraw
from kbench.notebook.base.dropdown import Dropdown


@pytest.fixture
def panel() -> Iterator[ConfigPanel]:
    made = ConfigPanel()
    yield made
    made.close()


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


def test_learning_phase_is_set_and_made_symbolic_again(panel: ConfigPanel) -> None:
    assert "learning_phase symbolic" in panel._static_text()
    panel.fields["learning_phase"].value = 1
    assert K.learning_phase() == 1
    panel.fields["learning_phase"].value = None
    assert config.snapshot()["learning_phase"] is None
    K.set_learning_phase(0)
    assert panel.fields["learning_phase"].value == 0
    K.clear_session()
    assert panel.fields["learning_phase"].value is None


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
    table = VariableTable({"w": w, "text": "a secret", "_w": w})
    assert table.html == "" and not table.redraws.running
    bundle = table._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert ">w<" in bundle["text/html"] and ">v0<" in table.html
    assert bundle["text/plain"] == "2 names: text, w" and "a secret" not in table.html
    K.set_value(w, np.ones((2, 2)))
    wait_for(lambda: ">v1<" in table.html)
    table.close()
    K.set_value(w, np.ones((2, 2)))
    time.sleep(2 * redraw.REDRAW_SECONDS)
    assert ">v1<" in table.html


def test_hidden_table_does_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    w, calls = K.variable(1.0), []
    table = VariableTable({"w": w})
    monkeypatch.setattr(table, "_rows", lambda: calls.append(1) or [])
    K.set_value(w, 2.0)
    time.sleep(2 * redraw.REDRAW_SECONDS)
    assert calls == [] and not variables.changed


class Clock:
    """Time that goes by only when it is told to, and timers that go off in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Clock.Timer] = []
        clock = self

        class Timer(Clock.Timer):
            def start(self) -> None:
                self.due = clock.now + self.wait
                clock.timers.append(self)

            def cancel(self) -> None:
                clock.timers.remove(self)

        self.made = SimpleNamespace(Timer=Timer, Lock=threading.Lock)

    class Timer:
        def __init__(self, wait: float, action: Callable[[], None]) -> None:
            self.wait, self.action, self.due, self.daemon = wait, action, 0.0, False

    def monotonic(self) -> float:
        return self.now

    def go_on(self, seconds: float) -> None:
        """Let time go by; what is due on the way is done at its time."""
        end = self.now + seconds
        while due := [one for one in self.timers if one.due <= end]:
            first = min(due, key=lambda one: one.due)
            self.timers.remove(first)
            self.now = max(self.now, first.due)
            first.action()
        self.now = end


def test_redraws_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = Clock(), []
    monkeypatch.setattr(redraw, "time", clock)
    monkeypatch.setattr(redraw, "threading", clock.made)
    throttle = redraw.Throttle(lambda: calls.append(clock.now), 0.1)
    for _ in range(550):
        throttle.request()
        clock.go_on(0.001)
    clock.go_on(1.0)
    assert calls == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    throttle.request_now()  # a user's move after a rest is drawn at once, the next ones together
    assert calls[-1] == clock.now
    for _ in range(5):
        throttle.request_now()
    throttle.request()
    assert len(calls) == 8
    clock.go_on(0.1)
    assert len(calls) == 9 and clock.timers == []
    throttle.request()
    throttle.stop()
    clock.go_on(1.0)
    assert len(calls) == 9 and clock.timers == []


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
    assert [row.name for row in table._rows()] == names


def test_of_many_names_the_number_is_told_and_all_are_ordered() -> None:
    """The table shows the first few; the largest of a thousand is the first by size."""
    values: dict[str, Any] = {f"v{at:04d}": [at] for at in range(1000)}
    values["z"] = np.ones(1000)
    table = VariableTable(values)
    table.refresh()
    assert "1,001 names, 1-25" in table.html and table._static_text().startswith("1001 names")
    table.sort.value = "size"
    table.refresh()
    assert table._rows()[0].name == "z" and "1,001 names, 1-25" in table.html
    table.filter.value = "v00*"
    table.refresh()
    assert "100 names" in table.html and table._rows().total == 100


def test_what_was_changed_in_place_is_shown() -> None:
    values: dict[str, Any] = {"a": np.zeros(3), "hist": [], "kept": {}}
    table = VariableTable(values)
    table.refresh()
    assert "list of 0" in table.html
    values["a"][0] = 7.5
    values["hist"].append(1)
    values["kept"]["x"] = np.zeros(1000)
    table.refresh()
    rows = {row.name: row for row in table._rows()}
    assert "list of 1" in table.html and rows["a"].max == 7.5
    assert (rows["kept"].bytes or 0) > 8000


def test_statistics_are_kept_per_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbench.engine.inspect import describe

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


# ------------------------------------------------------------------ all together


def test_only_the_open_tab_works() -> None:
    w = K.variable(np.zeros((2, 2)))
    whole = explorer({"w": w, "x": K.placeholder((2,)), "a": np.ones(3)})
    assert not whole.tabs["names"].redraws.running
    bundle = whole._repr_mimebundle_()
    assert "epsilon" in bundle["text/html"] and ">w<" in bundle["text/html"]
    assert whole.tabs["names"].redraws.running
    whole.selected_index = 1
    assert (
        not whole.tabs["names"].redraws.running
        and whole.view is not None
        and whole.view.redraws.running
    )
    assert [name for name, _ in whole.chosen.options] == ["a", "w"]
    whole.chosen.value = "w"
    assert "w[:, :]" in whole.view._body.value
    for at, part in enumerate(whole._parts):
        whole.selected_index = at
        assert [one.redraws.running for one in whole._parts] == [
            one is part for one in whole._parts
        ]
    whole.selected_index = len(whole._parts)
    assert not any(one.redraws.running for one in whole._parts) and not whole.view.redraws.running
    whole.close()
    assert not variables.changed and not config.changed and not profile.fed_value_sources


def test_twins_follow_in_a_saved_notebook(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook()
    for code in (
        "%load_ext kbench\nfrom kbench import backend as K\nimport time\n"
        "from kbench.notebook import explorer, TensorView, VariableTable",
        "panel = %config_k\npanel",
        "whole = explorer()\nwhole",
        "w = K.variable([1.0, 2.0])\ntable = VariableTable(pattern='w')\ntable",
        "view = TensorView(w, 'w')\nview",
        "sent = {}\n"
        "def hear(part):\n"
        "    send = part._handle.update\n"
        "    def update(data, raw):\n"
        "        send(data, raw=raw)\n"
        "        sent[part] = data['text/html']\n"
        "    part._handle.update = update\n"
        "for part in (panel, whole, table, view): hear(part)\n"
        # One cell: nbclient drops updates that follow another cell than the running one.
        "K.set_epsilon(0.25)\nK.set_value(w, [7.5, 8.5])\n"
        "end = time.monotonic() + 60\n"
        "def told(part, word): return word in sent.get(part, '')\n"
        "while time.monotonic() < end and not (told(panel, '0.25') and told(whole, '0.25')\n"
        "    and told(table, '7.5') and told(view, '7.5')): time.sleep(0.05)",
    ):
        book.cells.append(nbformat.v4.new_code_cell(code))
    run_book(book, tmp_path)
    for cell, word in zip(book.cells[1:5], ("0.25", "0.25", "7.5", ">7.5<"), strict=True):
        live, twin = (one["data"] for one in cell.outputs)
        assert "application/vnd.jupyter.widget-view+json" in live and "text/html" not in live
        assert word in twin["text/html"] and "kb-twin" in twin["text/html"]


def test_widgets_are_names_of_the_package() -> None:
    import kbench

    assert kbench.explorer is explorer and kbench.TensorView is TensorView
    assert "explorer" not in kbench.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = kbench.nonsense


def test_a_dropdown_shows_the_choice_of_none() -> None:
    made = Dropdown(options=[("nothing", None), ("one", 1)])
    for value, index in ((None, 0), (1, 1), (None, 0)):
        made.value = value
        assert (made.index, made.value) == (index, value)
    for index, value in ((1, 1), (0, None)):
        made.index = index
        assert (made.index, made.value, made.label) == (index, value, made.options[index][0])
    made.options = [("two", 2), ("nothing", None)]
    assert (made.index, made.value) == (0, 2)
    made.value = None
    assert (made.index, made.label) == (1, "nothing")
    made.options = [("two", 2)]
    made.index = None
    assert made.value is None
    made.close()


def test_the_table_of_names_turns_pages() -> None:
    values: dict[str, Any] = {f"v{at:03d}": [at] for at in range(120)}
    table = VariableTable(values)
    table.refresh()
    _, _, later = table.table.pager.children
    later.click()
    table.refresh()
    assert "120 names, 26-50" in table.html and table.chosen.options[0][0] == "v025"
    table.choose("v110")
    table.refresh()
    assert table.chosen.value == "v110" and "101-120" in table.html and later.disabled
    assert "object" in table._details.value or "list" in table._details.value
    table.filter.value = "v00*"
    table.refresh()
    assert table.table.start == 0 and "10 names<" in table.html
    assert len(table._static_html().encode()) <= 12_000
    table.close()
