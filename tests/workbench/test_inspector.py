"""The inspector over a namespace in this process: rows, changes, windows, settings, hostility."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.engine import config, statistics
from kbench.workbench import protocol
from kbench.workbench.inspector import Inspector


class Hostile:
    """Raises from everything."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")


class Loud:
    """Notes every access to what only its own code may touch."""

    touched: list[str] = []

    def __repr__(self) -> str:
        Loud.touched.append("repr")
        return "loud"

    @property
    def shape(self) -> tuple[int, ...]:
        Loud.touched.append("shape")
        return (1,)

    @property
    def dtype(self) -> str:
        Loud.touched.append("dtype")
        return "float32"


@pytest.fixture
def names() -> dict[str, Any]:
    x = K.placeholder((None, 4), name="x")
    return {
        "x": x,
        "w": K.variable(np.arange(12.0).reshape(4, 3), name="w"),
        "y": x + 1.0,
        "f": K.function([x], [x + 1.0], name="plus_one"),
        "data": np.array([[1.0, np.nan], [np.inf, 4.0]], np.float32),
        "count": 3,
        "rate": 0.5,
        "text": "secret words",
        "items": [1, 2, 3],
        "loud": Loud(),
        "hostile": Hostile(),
        "np": np,
        "Loud": Loud,
        "print": print,
        "_private": 1,
        "In": [],
    }


@pytest.fixture
def inspector(names: dict[str, Any]) -> Iterator[Inspector]:
    made = Inspector(names)
    yield made
    made.close()


def ask(inspector: Inspector, verb: str, **arguments: Any) -> dict[str, Any]:
    reply = inspector.handle({"id": 1, "verb": verb, **arguments})
    assert json.loads(json.dumps(reply, allow_nan=False)) == reply
    assert protocol.size(reply) <= protocol.LIMIT
    assert reply["ok"], reply["error"]
    return reply["data"]


def refused(inspector: Inspector, verb: str, **arguments: Any) -> dict[str, Any]:
    reply = inspector.handle({"id": 1, "verb": verb, **arguments})
    assert not reply["ok"]
    return reply["error"]


def rows(inspector: Inspector, **arguments: Any) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in ask(inspector, "summary", **arguments)["rows"]}


def test_rows_say_what_each_name_is(inspector: Inspector) -> None:
    found = rows(inspector)
    kinds = {name: row["kind"] for name, row in found.items()}
    assert kinds == {
        "x": "placeholder",
        "w": "variable",
        "y": "tensor",
        "f": "function",
        "data": "array",
        "count": "scalar",
        "rate": "scalar",
        "text": "sequence",
        "items": "sequence",
        "loud": "object",
        "hostile": "object",
    }
    w = found["w"]
    assert (w["shape"], w["dtype"], w["bytes"], w["version"]) == ([4, 3], "float32", 48, 0)
    assert (w["min"], w["max"], sum(w["histogram"])) == (0.0, 11.0, 12)
    assert found["x"]["shape"] == [None, 4] and found["x"]["place"].startswith("test_inspector.py:")
    assert found["data"]["flags"] == "NaN 1! Inf 1!"
    assert (found["count"]["text"], found["rate"]["text"]) == ("3", "0.5")
    assert found["text"]["length"] == 12 and "secret" not in json.dumps(found["text"])


def test_no_code_of_the_users_objects_runs(inspector: Inspector) -> None:
    Loud.touched.clear()
    rows(inspector)
    refused(inspector, "window", name="loud")
    refused(inspector, "stats", name="hostile")
    ask(inspector, "help", code="loud.shape(", position=11)
    assert Loud.touched == []


def test_last_fed_shape_appears_after_a_run(
    inspector: Inspector, names: dict[str, Any]
) -> None:
    assert rows(inspector)["x"]["last"] is None
    names["f"]([np.zeros((7, 4))])
    assert rows(inspector, names=["x"])["x"]["last"]["shape"] == [7, 4]


def test_changes_name_what_was_made_stored_rebound_and_removed(
    inspector: Inspector, names: dict[str, Any]
) -> None:
    epoch = ask(inspector, "changes")["epoch"]
    assert ask(inspector, "changes", since=epoch)["names"] == []
    K.set_value(names["w"], np.ones((4, 3)))
    names["count"] = 4
    names["new"] = 1
    del names["items"]
    changed = ask(inspector, "changes", since=epoch)
    assert set(changed["names"]) == {"w", "count", "new", "items"}
    assert changed["epoch"] > epoch and "items" not in changed["all"]
    assert rows(inspector, names=["items"])["items"]["kind"] == "gone"


def test_what_the_user_deletes_is_let_go(names: dict[str, Any], inspector: Inspector) -> None:
    rows(inspector)
    held = [weakref.ref(names[name]) for name in ("w", "data", "loud")]
    inspector.began()
    for name in ("w", "data", "loud"):
        del names[name]
    assert held[0]() is None and held[1]() is None
    inspector.ended()
    assert held[2]() is None


def test_statistics_are_computed_once_per_version(
    inspector: Inspector, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    original = statistics.statistics

    def counted(array: Any, exact: bool = False) -> dict[str, Any]:
        calls.append(1)
        return original(array, exact)

    monkeypatch.setattr(statistics, "statistics", counted)
    for _ in range(3):
        rows(inspector, names=["w"])
    assert len(calls) == 1
    for _ in range(3):
        rows(inspector, names=["data"])
    assert len(calls) == 2
    K.set_value(names["w"], np.full((4, 3), 5.0))
    assert rows(inspector, names=["w"])["w"]["max"] == 5.0
    assert len(calls) == 3


def test_arrays_changed_in_place_are_read_again_after_a_cell(
    inspector: Inspector, names: dict[str, Any]
) -> None:
    assert rows(inspector, names=["data"])["data"]["nan"] == 1
    inspector.began()
    names["data"][0, 1] = 2.0
    assert rows(inspector, names=["data"])["data"]["nan"] == 0
    names["data"][0, 0] = np.nan
    inspector.ended()
    assert rows(inspector, names=["data"])["data"]["nan"] == 1


def test_windows_of_variables_and_arrays(inspector: Inspector) -> None:
    found = ask(inspector, "window", name="w", rows=[1, 2], cols=[0, 3])
    assert found["cells"] == [["3", "4", "5"], ["6", "7", "8"]]
    assert ask(inspector, "window", name="data")["cells"] == [["1", "NaN"], ["Inf", "4"]]


def test_items_of_a_list_are_told_and_shown(
    inspector: Inspector, names: dict[str, Any]
) -> None:
    names["out"] = names["f"]([np.ones((2, 4))])
    row = rows(inspector, names=["out"])["out"]
    assert row["text"] == "list of 1: float32[2, 4]"
    assert row["items"] == [{"item": 0, "spec": "float32[2, 4]"}]
    assert ask(inspector, "window", name="out[0]")["cells"][1] == ["2", "2", "2", "2"]
    assert ask(inspector, "stats", name="out[0]")["max"] == 2.0
    for name in ("out[1]", "out[-1]", "w[0]", "[0]", "zz[0]"):
        assert "no name" in refused(inspector, "stats", name=name)["reason"]


def test_windows_of_what_has_no_value_are_refused(inspector: Inspector) -> None:
    assert "is fed at evaluation" in refused(inspector, "window", name="x")["reason"]
    assert "is symbolic" in refused(inspector, "window", name="y")["reason"]
    assert "no name zz" in refused(inspector, "window", name="zz")["reason"]
    assert "no array" in refused(inspector, "window", name="items")["reason"]
    assert "out of range" in refused(inspector, "window", name="w", row_axis=5)["reason"]
    assert "two numbers" in refused(inspector, "window", name="w", rows=[1])["reason"]
    assert "integers" in refused(inspector, "window", name="w", index=["a", 0])["reason"]


FIND = [
    ("nan", None, [0, 1]),
    ("nan", [0, 1], [0, 1]),
    ("inf", [0, 0], [1, 0]),
    ("bad", [0, 1], [1, 0]),
]


@pytest.mark.parametrize(("what", "after", "wanted"), FIND)
def test_find_next(
    inspector: Inspector, what: str, after: list[int] | None, wanted: list[int]
) -> None:
    arguments = {} if after is None else {"after": after}
    assert ask(inspector, "find", name="data", what=what, **arguments)["index"] == wanted
    assert ask(inspector, "find", name="w", what=what)["index"] is None


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
        inspector.began()
        assert ask(inspector, "config", set={"epsilon": 0.5})["queued"] == ["epsilon"]
        assert config.epsilon() == before
        inspector.ended()
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
        inspector.began()
        ask(inspector, "config", set={"floatx": "float99"})
        inspector.ended()
        deadline = time.monotonic() + 2.0
        while not pushed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "float99" in pushed[0]["data"]["refused"]["floatx"]
    finally:
        inspector.close()


def test_the_plan_shows_the_last_recorded_run(
    inspector: Inspector, names: dict[str, Any]
) -> None:
    assert ask(inspector, "plan") == {"recording": False, "functions": [], "run": None}
    ask(inspector, "plan", record=True)
    names["f"]([np.zeros((2, 4))])
    found = ask(inspector, "plan", function="plus_one")
    assert found["functions"] == ["plus_one"] and found["run"]["seconds"] > 0
    row = found["run"]["rows"][0]
    assert row["form"] in ("numpy", "library", "fused", "blas", "view") and row["seconds"] >= 0
    ask(inspector, "trace", on=False)
    names["f"]([np.zeros((3, 4))])
    assert ask(inspector, "plan")["run"]["seconds"] == found["run"]["seconds"]


def test_graph_rows_stand_after_their_inputs(inspector: Inspector) -> None:
    for name in ("y", "f"):
        found = ask(inspector, "graph", name=name)
        assert found["cut"] == 0 and found["total"] == len(found["rows"]) >= 3
        for row in found["rows"]:
            assert all(one is not None and one < row["id"] for one in row["inputs"])
    assert "no tensor" in refused(inspector, "graph", name="items")["reason"]


def test_a_long_graph_is_cut_at_the_far_end(names: dict[str, Any]) -> None:
    value = names["x"]
    for _ in range(3000):
        value = value + 1.0
    names["deep"] = value
    inspector = Inspector(names)
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


def test_hundred_names_fit_in_one_reply(names: dict[str, Any]) -> None:
    names.update({f"weights_{i}": K.variable(np.random.rand(20, 20)) for i in range(100)})
    inspector = Inspector(names)
    data = ask(inspector, "summary")
    inspector.close()
    assert "truncated" not in data and data["total"] == 111


def test_export_writes_where_it_is_told(inspector: Inspector, tmp_path: Any) -> None:
    found = ask(inspector, "export", name="w", path=str(tmp_path / "w.npy"))
    assert np.load(found["path"]).shape == (4, 3)
    error = refused(inspector, "export", name="w", path=str(tmp_path / "no" / "w.npy"))
    assert error["kind"] == "file"
    assert "must end in" in refused(inspector, "export", name="w", path="w.xyz")["reason"]
