"""The inspector over a namespace in this process: rows, changes, windows, lists, hostility."""

from __future__ import annotations

import json
import weakref
from typing import Any

import numpy as np
import pytest
from inspector_helpers import Loud, ask, refused, rows

import kbench as K
from kbench.engine import statistics
from kbench.workbench.inspector import Inspector


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
    assert found["x"]["shape"] == [None, 4] and found["x"]["place"].startswith("conftest.py:")
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


def test_last_fed_shape_appears_after_a_run(inspector: Inspector, names: dict[str, Any]) -> None:
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


def test_items_of_a_list_are_told_and_shown(inspector: Inspector, names: dict[str, Any]) -> None:
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
