"""Values to files and back; the session as a script that runs and a notebook that validates."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import kbench as K
from kbench.engine.core.errors import ArgumentError
from kbench.workbench.export import export
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

VALUES = np.array([[1.5, np.nan, -np.inf], [0.1, 2.0, 3.0]], np.float32)


def test_npy_round_trip_of_a_variable(tmp_path: Path) -> None:
    path = export.value(K.variable([[1.0, 2.0]]), tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(path), [[1.0, 2.0]])


def test_csv_of_a_matrix_reads_back_exactly(tmp_path: Path) -> None:
    path = export.value(VALUES, tmp_path / "a.csv")
    read = np.genfromtxt(path, delimiter=",", dtype=np.float64)
    np.testing.assert_array_equal(read.astype(np.float32), VALUES)


def test_csv_of_rank_3_names_the_index(tmp_path: Path) -> None:
    path = export.value(np.arange(8).reshape(2, 2, 2), tmp_path / "a.csv")
    rows = list(csv.reader(path.read_text().splitlines()))
    assert rows[0] == ["axis 0", "axis 1", "axis 2", "value"] and rows[6] == ["1", "0", "1", "5"]


def test_json_is_strict_and_names_what_json_lacks(tmp_path: Path) -> None:
    path = export.value(VALUES, tmp_path / "a.json")
    read = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert read["shape"] == [2, 3] and read["values"][0] == [1.5, "NaN", "-Inf"]


PICTURES = [(4, 6), (4, 6, 1), (4, 6, 3), (4, 6, 4)]


@pytest.mark.parametrize("shape", PICTURES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_png_has_one_pixel_an_element(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    from matplotlib.image import imread

    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    assert imread(export.value(values, tmp_path / "a.png")).shape[:2] == (4, 6)


REFUSED = [
    (VALUES, "a.txt", "a.txt: its name must end in .npy, .csv, .json or .png"),
    (VALUES.reshape(-1), "a.png", "cannot be shown as a picture; it needs rows"),
    (np.zeros((0, 3)), "a.png", "cannot be shown as a picture"),
    (np.array(["a"]), "a.png", "texts cannot be shown as a picture; use .npy"),
    (np.zeros(2, "i4, f8"), "a.json", "records are not written as JSON"),
    (np.zeros((2, 5000)), "a.png", "pixels"),
    (np.zeros(export.MAX_JSON_ELEMENTS + 1), "a.json", "use .npy"),
    (np.array([1j]), "a.json", "complex numbers are not written as JSON; use .npy"),
    (np.array([object()], object), "a.npy", "Python objects"),
    ("text", "a.npy", "holds no array"),
]


@pytest.mark.parametrize(("held", "name", "words"), REFUSED)
def test_refused_and_nothing_left_behind(tmp_path: Path, held: Any, name: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        export.value(held, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("before")
    with pytest.raises(ArgumentError):
        export.value(VALUES.reshape(-1), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == "before"


def cells() -> list[Cell]:
    shown = [
        events.Stream(2, "stdout", "two\nlines\n"),
        events.Stream(2, "notice", "cut\n"),
        events.Result(2, "4", {"text/plain": "4"}, 2),
        events.Result(2, "pic", {"text/plain": "pic", "image/png": "AAAA"}, None),
        events.Error(2, "ValueError", "no", ["frame"]),
    ]
    return [
        Cell(1, "x = 1", "past", 1),
        Cell(2, "x + 3", "ok", 2, outputs=shown),
        Cell(3, "%time x", "ok", 3),
        Cell(4, "1/0", "error", 4),
        Cell(5, "never ran", "queued"),
        Cell(6, "x = 1", "ok", 1, replay_of=1),
    ]


def test_the_script_runs_and_marks_what_is_no_python(tmp_path: Path) -> None:
    text = export.script(cells(), tmp_path / "s.py").read_text()
    names: dict[str, Any] = {}
    exec(compile("x = 0\n" + text + "\nnp.ones(1)", "s.py", "exec"), names)
    assert names["x"] == 1 and "# 1/0" in text
    assert "# %time x" in text and "(error)" in text and "never ran" not in text
    assert text.count("x = 1") == 1


def test_the_notebook_is_valid_and_holds_the_outputs(tmp_path: Path) -> None:
    path = export.notebook(cells(), tmp_path / "n.ipynb")
    read = nbformat.read(path, as_version=4)
    nbformat.validate(read)
    assert [one.source for one in read.cells][1:] == ["x + 3", "%time x", "1/0", "x = 1"]
    tags = [one.metadata.get("tags", []) for one in read.cells]
    assert [bool(one) for one in tags] == [one.source == "1/0" for one in read.cells]
    kinds = [one.output_type for one in read.cells[1].outputs]
    assert kinds == ["stream", "stream", "execute_result", "display_data", "error"]
