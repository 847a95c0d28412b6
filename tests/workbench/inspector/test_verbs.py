"""The inspector's settings, pushes, plan, graph, help and export."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask, refused, rows

import kbench as K
from kbench.engine.inspect import describe
from kbench.engine.runtime import config, profile
from kbench.engine.runtime.profile import RunRecord, StepRecord
from kbench.workbench.inspector.inspector import Inspector


def test_settings_are_read_set_and_refused(inspector: Inspector) -> None:
    before = config.epsilon()
    try:
        assert ask(inspector, "config")["config"]["epsilon"] == before
        assert ask(inspector, "config", set={"epsilon": 1e-3})["config"]["epsilon"] == 1e-3
        assert "finite" in refused(inspector, "config", set={"epsilon": "nan"})["reason"]
        assert "unknown setting" in refused(inspector, "config", set={"colour": 1})["reason"]
        assert config.epsilon() == 1e-3
    finally:
        config.set_epsilon(before)


def test_settings_wait_while_a_cell_runs(inspector: Inspector) -> None:
    before = config.epsilon()
    try:
        inspector.cell_started()
        assert ask(inspector, "config", set={"epsilon": 0.5})["queued"] == ["epsilon"]
        assert config.epsilon() == before
        inspector.cell_ended()
        assert config.epsilon() == 0.5
    finally:
        config.set_epsilon(before)


def test_changes_are_pushed_together_and_only_when_wanted(names: dict[str, Any]) -> None:
    pushed: list[dict[str, Any]] = []
    arrived = threading.Event()

    def publish(message: dict[str, Any]) -> None:
        pushed.append(message)
        arrived.set()

    inspector = Inspector(names, publish)
    try:
        K.set_value(names["w"], np.zeros((4, 3)))
        time.sleep(0.15)
        assert pushed == []
        ask(inspector, "hello", push=True)
        for step in range(200):
            K.set_value(names["w"], np.full((4, 3), float(step)))
        assert arrived.wait(2.0)
        time.sleep(0.25)
        assert 1 <= len(pushed) <= 3
        assert "w" in {name for one in pushed for name in one["data"]["names"]}
        ask(inspector, "push", on=False)
        count = len(pushed)
        K.set_value(names["w"], np.ones((4, 3)))
        time.sleep(0.25)
        assert len(pushed) == count
    finally:
        inspector.close()


def test_a_refused_queued_setting_is_told(names: dict[str, Any]) -> None:
    pushed: list[dict[str, Any]] = []
    inspector = Inspector(names, pushed.append)
    try:
        ask(inspector, "hello", push=True)
        inspector.cell_started()
        ask(inspector, "config", set={"floatx": "float99"})
        inspector.cell_ended()
        deadline = time.monotonic() + 2.0
        while not pushed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "float99" in pushed[0]["data"]["refused"]["floatx"]
    finally:
        inspector.close()


def test_the_plan_shows_the_last_recorded_run(inspector: Inspector, names: dict[str, Any]) -> None:
    told = ask(inspector, "plan")
    assert not told["recording"] and told["functions"] == told["runs"] == []
    assert told["run"] is None
    ask(inspector, "plan", record=True)
    names["f"]([np.zeros((2, 4))])
    found = ask(inspector, "plan", function="plus_one")
    assert found["functions"] == ["plus_one"] and found["run"]["seconds"] > 0
    row = found["run"]["rows"][0]
    assert row["form"] in ("numpy", "library", "fused", "blas", "view") and row["seconds"] >= 0
    assert describe.plan(names["f"])["rows"] == found["run"]["rows"]
    ask(inspector, "trace", on=False)
    names["f"]([np.zeros((3, 4))])
    assert ask(inspector, "plan")["run"]["seconds"] == found["run"]["seconds"]


def test_of_a_very_long_run_the_slowest_steps_are_told(inspector: Inspector) -> None:
    steps = [
        StepRecord(f"step{i}", "fused", (i % 1000) * 1e-6, 8, 1, (2,), "float32", None, "x" * 9_000)
        for i in range(2000)
    ]
    ask(inspector, "trace", on=True)
    profile.publish(RunRecord("long", 1.0, 16, steps))
    run = ask(inspector, "plan")["run"]
    shown = [row["step"] for row in run["rows"]]
    assert shown == sorted(shown) and len(shown) + run["cut"] == 2000
    assert 999 in shown and 1999 in shown and 0 not in shown
    assert run["forms"] == {"fused": 2000} and run["peak_bytes"] == 16
    assert run["rows"][0]["spec"] == "float32[2]" and run["rows"][0]["source"].endswith("cut")


def test_graph_rows_stand_after_their_inputs(inspector: Inspector) -> None:
    for name in ("y", "f"):
        found = ask(inspector, "graph", name=name)
        assert found["cut"] == 0 and found["total"] == len(found["rows"]) >= 3
        for row in found["rows"]:
            assert all(one is not None and one < row["id"] for one in row["inputs"])
    assert "is not a tensor" in refused(inspector, "graph", name="items")["reason"]


def test_a_long_graph_is_cut_at_the_far_end(names: dict[str, Any]) -> None:
    value = names["x"]
    for _ in range(3000):
        value = value + 1.0
    names["deep"] = value
    inspector = Inspector(names)
    found = ask(inspector, "graph", name="deep", limit=2000)
    assert 100 < len(found["rows"]) < 2000 and found["rows"][-1]["name"] == value.name
    found = ask(inspector, "graph", name="deep", limit=50)
    inspector.close()
    assert len(found["rows"]) == 50 and found["total"] > 3000
    assert found["cut"] == found["total"] - 50
    assert found["rows"][-1]["name"] == value.name


HELP = [
    ("K.dot(", "K.dot(x", 0),
    ("K.dot(x, ", "K.dot(x", 1),
    ("K.zeros(K.shape(x), ", "K.zeros(shape", 1),
    ("a = [K.sum(", "K.sum(x", 0),
    ("len", "len(obj", 0),
    ("K.dot(')', x)\nK.max(", "K.max(x", 0),
]


@pytest.mark.parametrize(("code", "start", "argument"), HELP)
def test_help_shows_the_signature_of_the_innermost_call(
    names: dict[str, Any], code: str, start: str, argument: int
) -> None:
    inspector = Inspector({**names, "K": K})
    found = ask(inspector, "help", code=code, position=len(code))
    inspector.close()
    assert found["text"].startswith(start) and found["argument"] == argument


def test_help_tells_the_shapes_of_what_was_typed(inspector: Inspector) -> None:
    code = "print(data, w, x.shape, data, "
    found = ask(inspector, "help", code=code, position=len(code))
    assert found["operands"] == ["data: float32[2, 2]", "w: float32[4, 3]", "x: float32[?, 4]"]


@pytest.mark.parametrize("code", ["", "(", "nothing_known(", "'", "x.y.z(", "1 + ", "loud.shape("])
def test_help_is_empty_where_there_is_nothing_to_say(inspector: Inspector, code: str) -> None:
    assert ask(inspector, "help", code=code, position=len(code))["text"] == ""


def test_hostile_names_are_shown_escaped_and_asked_by_key(names: dict[str, Any]) -> None:
    names["\u202ename\x1b[31m"] = np.zeros(3)
    names["n" * 500] = 1
    inspector = Inspector(names)
    found = rows(inspector)
    inspector.close()
    row = found["\u202ename\x1b[31m"]
    assert row["name"] == r"\u202ename\x1b[31m" and row["max"] == 0.0
    assert len(found["n" * 500]["name"]) == 80


class Sneaky(np.ndarray):
    """An array whose methods the inspector has no business with."""

    def __array_finalize__(self, source: object) -> None: ...

    def min(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError

    max = sum = astype = reshape = min


ODD = [
    (10**5000, "scalar", "2**16609…"),
    (-(10**12), "scalar", "-1000000000000"),
    (float("nan"), "scalar", "NaN"),
    (complex(1, 2), "scalar", "(1+2j)"),
    (None, "scalar", "None"),
    (np.float16(2.5), "scalar", None),
    (np.zeros(3).view(Sneaky), "array", None),
    (np.ma.masked_array([1.0, 2.0], [True, False]), "array", None),
    (np.zeros(2, dtype=[("a", "f4")]), "array", "no statistics for dtype void32"),
    ([1] * 10, "sequence", None),
    (range(10**12), "sequence", None),
    (iter([]), "object", None),
]


@pytest.mark.parametrize(("value", "kind", "text"), ODD, ids=[str(kind) for _, kind, _ in ODD])
def test_odd_values_have_a_row(value: Any, kind: str, text: str | None) -> None:
    inspector = Inspector({"odd": value})
    row = rows(inspector)["odd"]
    inspector.close()
    assert row["kind"] == kind and "problem" not in row
    assert text is None or row["text"] == text


def test_a_name_that_no_wire_carries_is_shown_escaped(names: dict[str, Any]) -> None:
    pushed: list[dict[str, Any]] = []
    inspector = Inspector(names, pushed.append)
    ask(inspector, "hello", push=True)
    names["bad\ud800"] = 1
    assert "bad\\ud800" in rows(inspector)
    inspector.cell_ended()
    deadline = time.monotonic() + 2.0
    while not pushed and time.monotonic() < deadline:
        time.sleep(0.01)
    inspector.close()
    json.dumps(pushed, ensure_ascii=False).encode("utf-8")
    assert "bad\\ud800" in pushed[0]["data"]["names"]


def test_hundred_names_fit_in_one_reply(names: dict[str, Any]) -> None:
    names.update({f"weights_{i}": K.variable(np.random.rand(20, 20)) for i in range(100)})
    inspector = Inspector(names)
    data = ask(inspector, "summary")
    inspector.close()
    assert data["next"] is None and data["total"] == 111 == len(data["rows"])


def test_more_names_are_had_page_by_page(names: dict[str, Any]) -> None:
    names.update({f"weights_{i}": K.variable([float(i)]) for i in range(600)})
    inspector = Inspector(names)
    found: list[str] = []
    start: int | None = 0
    while start is not None:
        data = ask(inspector, "summary", start=start)
        assert "truncated" not in data
        found += [row["key"] for row in data["rows"]]
        start = data["next"]
    inspector.close()
    assert len(found) == len(set(found)) == 611


@pytest.mark.slow
def test_no_page_leaves_a_name_out_that_stays() -> None:
    """Names are removed and made between the pages; those that stay all have a row, once."""
    names: dict[str, Any] = {f"v{at:04d}": at for at in range(3000)}
    inspector = Inspector(names)
    found: list[str] = []
    start: int | None = 0
    while start is not None:
        data = ask(inspector, "summary", start=start)
        found += [row["key"] for row in data["rows"]]
        start = data["next"]
        for name in found[-200:-100]:
            names.pop(name, None)
        names[f"new{len(found)}"] = 1
    inspector.close()
    shown = [name for name in found if name in names]
    assert len(found) == len(set(found))
    assert set(shown) >= {name for name in names if name.startswith("v")}


@pytest.mark.parametrize("made", [True, False])
def test_more_changes_than_a_message_holds_are_told_as_many(made: bool) -> None:
    """Ten thousand names made, or removed, by one cell: none is dropped without a word."""
    names: dict[str, Any] = {}
    many = {f"v{at:04d}": at for at in range(10_000)}
    if not made:
        names.update(many)
    heard: list[dict[str, Any]] = []
    inspector = Inspector(names, lambda message: heard.append(message["data"]))
    ask(inspector, "push", on=True)
    epoch = ask(inspector, "changes")["epoch"]
    inspector._view.pushed_epoch = epoch
    inspector.cell_started()
    if made:
        names.update(many)
    else:
        names.clear()
    inspector.cell_ended()
    deadline = time.monotonic() + 20
    while not heard and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (heard[0]["names"], heard[0]["many"]) == ([], True) and "truncated" not in heard[0]
    changes = ask(inspector, "changes", since=epoch)
    assert (changes["names"], changes["many"]) == ([], 10_000) and "truncated" not in changes
    inspector.close()


def test_export_writes_where_it_is_told(inspector: Inspector, tmp_path: Any) -> None:
    found = ask(inspector, "export", name="w", path=str(tmp_path / "w.npy"))
    assert np.load(found["path"]).shape == (4, 3)
    error = refused(inspector, "export", name="w", path=str(tmp_path / "no" / "w.npy"))
    assert error["kind"] == "file"
    assert "must end in" in refused(inspector, "export", name="w", path="w.xyz")["reason"]
