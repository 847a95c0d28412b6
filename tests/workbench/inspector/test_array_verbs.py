"""Questions about one array: searches, exact cells, files; all through the inspector."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask, refused

from kbench.engine.inspect import slice_view
from kbench.workbench.analysis import array_search, conditions
from kbench.workbench.export import export
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol import verbs

# ------------------------------------------------------------------ searches

FLOATS = np.array([[0.1, 3.0, -20.0], [np.nan, np.inf, 0.1234], [-np.inf, 2.0, 3.0]])
SEARCHES = [
    ("3", [0, 1]), ("3.0", [0, 1]), ("== 0.1", [0, 0]), ("= 3", [0, 1]), ("> 2.5", [0, 1]),
    (">= inf", [1, 1]), ("< -20", [2, 0]), ("<= -20", [0, 2]), ("!= 0.1", [0, 1]),
    ("abs > 10", [0, 2]), ("0.11 .. 0.13", [1, 2]), ("0.12", [1, 2]), ("1.2e-1", [1, 2]),
    ("0.123", [1, 2]), ("0.124", None), ("nan", [1, 0]), ("NaN", [1, 0]), ("inf", [1, 1]),
    ("-inf", [2, 0]), ("bad", [1, 0]), ("finite", [0, 0]), ("99", None), ("1e999", [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), SEARCHES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_find_in_floats(text: str, wanted: Any, dtype: str, order: Any) -> None:
    inspector = Inspector({"x": np.array(FLOATS, dtype, order=order)})
    found = ask(inspector, "find", name="x", what=text)
    assert found["index"] == wanted and found["rest"] is None
    assert found["words"].startswith("is ")


WHOLE = np.array([[5, -3, 0], [127, -128, 7]], np.int8)
IN_WHOLE = [
    (WHOLE, "5", [0, 0]), (WHOLE, "> 5", [1, 0]), (WHOLE, "< -100.5", [1, 1]),
    (WHOLE, "abs > 127.5", [1, 1]), (WHOLE, "300", None), (WHOLE, "< 300", [0, 0]),
    (WHOLE, "nan", None), (WHOLE, "finite", [0, 0]), (WHOLE, "4.0 .. 7.5", [0, 0]),
    (WHOLE > 0, "false", [0, 1]), (WHOLE > 0, "true", [0, 0]), (WHOLE > 0, "> 0.5", [0, 0]),
    (np.array([2**62, 2**62 + 1]), str(2**62 + 1), [1]),
    (np.array([2**64 - 1, 7], np.uint64), "< 0", None),
    (np.array([2**64 - 1, 7], np.uint64), str(2**64 - 1), [0]),
    (np.float32(2.5), "2.5", []), (np.float32(2.5), "> 3", None), (np.zeros((0, 3)), "0", None),
    (np.float16([1.0, np.inf]), "== 1e6", None),
]  # fmt: skip


@pytest.mark.parametrize(("values", "text", "wanted"), IN_WHOLE)
def test_find_in_what_else_there_is(values: Any, text: str, wanted: Any) -> None:
    assert ask(Inspector({"x": values}), "find", name="x", what=text)["index"] == wanted


def test_a_search_goes_on_behind_the_cursor_and_from_the_start_again() -> None:
    inspector = Inspector({"x": FLOATS})
    at: Any = [0, 1]
    for wanted in ([2, 2], [0, 1]):
        at = ask(inspector, "find", name="x", what="3", after=at)["index"]
        assert at == wanted


def test_a_long_search_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_search, "MAX_CHUNK_ELEMENTS", 10)
    monkeypatch.setattr(array_search, "_BLOCK_ELEMENTS", 4)
    values = np.zeros((5, 9))
    values[0, 2] = 1
    inspector = Inspector({"x": values})
    found = ask(inspector, "find", name="x", what="1", after=[0, 5])
    lefts = []
    while found["rest"]:
        start, left = found["rest"]
        lefts.append(left)
        found = ask(inspector, "find", name="x", what="1", start=start, left=left)
    assert found["index"] == [0, 2] and lefts == [35, 25, 15, 5]
    values[0, 2] = 0
    found, pieces = ask(inspector, "find", name="x", what="1"), 1
    while found["rest"]:
        start, left = found["rest"]
        found, pieces = (
            ask(inspector, "find", name="x", what="1", start=start, left=left),
            pieces + 1,
        )
    assert found["index"] is None and pieces == 5


WRONG = [
    ("", "write a value"), ("   ", "write a value"), ("x > 3", "'x > 3' is not a number"),
    ("> ", "write a value"), ("> nan", "nothing compares with NaN"), ("5 .. 2", "is empty"),
    ("nan .. 2", "is empty"), ("1 ..", "is not a number"),
    ("__import__('os')", "not a number"), ("9" * 81, "write a value"),
    ("> 0.5j", "is not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_what_is_no_condition(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="."):
        conditions.parse(text)
    inspector = Inspector({"x": FLOATS})
    assert words in refused(inspector, "find", name="x", what=text)["reason"]


def test_where_nothing_can_be_found() -> None:
    names = {
        "o": np.array(["a", None], object),
        "s": np.array(["a"]),
        "c": np.array([1j]),
        "x": FLOATS,
    }
    inspector = Inspector(names)
    for name in "osc":
        assert "no numbers" in refused(inspector, "find", name=name, what="1")["reason"]
    for after in ([0], [9, 9], [0, -1], ["a", 0], [0.5, 0]):
        assert refused(inspector, "find", name="x", what="1", after=after)["kind"] == "argument"


# ------------------------------------------------------------------ exact cells and full replies


def test_exact_texts_read_back_as_the_same_number() -> None:
    source = np.random.default_rng(0)
    for dtype in ("float16", "float32", "float64"):
        values = source.standard_normal((6, 5)).astype(dtype) * np.array(1e-3, dtype)
        cells = slice_view.window(values, exact=True)["cells"]
        np.testing.assert_array_equal(np.array(cells).astype(dtype), values)
    assert slice_view.window(np.array([[2**62 + 1]]), exact=True)["cells"] == [[str(2**62 + 1)]]
    assert slice_view.window(np.array([True, False]), exact=True)["cells"] == [["True", "False"]]
    long = np.array([["x" * 100, "a\tb"]])
    assert slice_view.window(long, exact=True)["cells"] == [["x" * 100, "a\\tb"]]


def test_windows_fit_a_reply_and_say_what_they_hold() -> None:
    names = {
        "x": np.random.default_rng(0).standard_normal((3000, 3000)) * 1e-9,
        "t": np.full((4, 900), "é" * 500),
    }
    inspector = Inspector(names)
    found = ask(inspector, "window", name="x", rows=[10, 200], cols=[5, 100])
    start, stop, total = found["rows"]
    assert start == 10 and total == 3000 and 10 < stop < 210 and found["cols"] == [5, 105, 3000]
    assert len(found["cells"]) == len(found["heat"]) == stop - start
    assert all(len(line) == 100 for line in [*found["cells"], *found["heat"]])
    wide = ask(inspector, "window", name="t", cols=[0, 900], exact=True)
    assert wide["rows"] == [0, 1, 4] and len(wide["cells"][0]) == wide["cols"][1] < 900
    assert "truncated" not in found and "truncated" not in wide


# ------------------------------------------------------------------ files


def test_a_part_of_an_array_is_written(tmp_path: Path) -> None:
    values = np.arange(120).reshape(2, 3, 4, 5)
    inspector = Inspector({"x": values})
    path = str(tmp_path / "part.npy")
    found = ask(inspector, "export", name="x", path=path, index=[1, 0, 0, 2], axes=[2, 1])
    assert found["bytes"] == Path(path).stat().st_size
    np.testing.assert_array_equal(np.load(path), values[1, :, :, 2].T)
    for wrong in (
        {"axes": [0, 0]},
        {"axes": [4]},
        {"axes": [1], "index": [2, 0, 0, 0]},
        {"axes": [1], "index": [0]},
    ):
        assert refused(inspector, "export", name="x", path=path, **wrong)["kind"] == "value"


def test_a_file_that_is_there_is_kept_unless_replaced(tmp_path: Path) -> None:
    inspector = Inspector({"x": np.ones(3)})
    path = tmp_path / "x.json"
    path.write_text("mine")
    assert ask(inspector, "export", name="x", path=str(path), replace=False)["exists"] == str(path)
    assert path.read_text() == "mine"
    ask(inspector, "export", name="x", path=str(path), replace=True)
    assert json.loads(path.read_text())["values"] == [1, 1, 1]


def finished(inspector: Inspector, found: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """The last reply about an export, whatever it is."""
    for _ in range(6000):
        reply = inspector.handle({"id": 1, "verb": "exporting", "job": found["job"], **arguments})
        if not reply["ok"] or reply["data"]["done"]:
            return reply
        time.sleep(0.01)
    raise AssertionError("the export has not ended")


def test_a_long_export_goes_on_beside_and_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write = threading.Event(), export.value

    def value(*arguments: Any, progress: export.Progress, **options: Any) -> Path:
        while not (gate.is_set() or progress.stop):
            time.sleep(0.001)
        return write(*arguments, progress=progress, **options)

    monkeypatch.setattr(export, "value", value)
    inspector = Inspector({"x": np.zeros((100, 10))})
    found = ask(inspector, "export", name="x", path=str(tmp_path / "a.csv"), wait=False)
    assert found["done"] is False
    assert ask(inspector, "window", name="x")["cells"][0][0] == "0"
    gate.set()
    reply = finished(inspector, found)
    assert reply["data"]["bytes"] == (tmp_path / "a.csv").stat().st_size
    gone = refused(inspector, "exporting", job=found["job"])
    assert "no file is being written" in gone["reason"]
    gate.clear()
    found = ask(inspector, "export", name="x", path=str(tmp_path / "b.csv"), wait=False)
    reply = finished(inspector, found, stop=True)
    assert reply["error"] == {"kind": "stopped", "reason": "cancelled; nothing is written"}
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]


def test_a_failing_export_beside_is_told(tmp_path: Path) -> None:
    inspector = Inspector({"x": np.zeros(3), "c": np.zeros(2, complex)})
    for name, path, words in (
        ("x", tmp_path / "no" / "x.npy", "No such file"),
        ("x", tmp_path / "x.xyz", "must end in"),
        ("c", tmp_path / "c.json", "use .npy"),
    ):
        reply = inspector.handle(
            {"id": 1, "verb": "export", "name": name, "path": str(path), "wait": False}
        )
        if reply["ok"]:
            reply = finished(inspector, reply["data"])
        assert words in reply["error"]["reason"]
    assert list(tmp_path.iterdir()) == []


def test_every_verb_is_served() -> None:
    assert set(Inspector({}).answers) == set(verbs.QUESTIONS)
