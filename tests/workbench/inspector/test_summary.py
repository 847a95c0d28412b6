"""Statistics, windows and the one-line summary, on every kind of array and on hostile objects."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import kbench
import kbench as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe, slice_view, statistics
from kbench.notebook.html import html, views
from kbench.tui.panes import rows
from kbench.workbench.analysis import compare
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.namespace import View
from kbench.workbench.watches.value_text import value_text

RANDOM = np.random.default_rng(7)
NORMAL = RANDOM.normal(size=(12, 34))


class Hostile:
    """Raises from everything that a summary could be tempted to touch."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")


class HostileList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise RuntimeError("len")


def hostile_array() -> np.ndarray:
    values = np.empty(1, object)
    values[0] = Hostile()
    return values


def with_holes(dtype: str) -> np.ndarray:
    values = NORMAL.astype(dtype)
    values[1, 2], values[3, 4], values[5, 6] = np.nan, np.inf, -np.inf
    return values


LAYOUTS = {
    "plain": NORMAL,
    "transposed": NORMAL.T,
    "strided": NORMAL[::2, ::-3],
    "fortran": np.asfortranarray(NORMAL),
    "big endian": NORMAL.astype(">f8"),
    "single": NORMAL.astype("float32"),
    "half": NORMAL.astype("float16"),
    "bool": NORMAL > 0,
    "int8": (NORMAL * 30).astype("int8"),
    "uint64": np.arange(40, dtype="uint64") + 2**63,
    "int64": np.array([-(2**63), 2**63 - 1]),
    "scalar": np.float32(2.5),
    "one": np.array([7.0]),
    "huge": np.array([1e308, -1e308, 5.0]),
    "tiny": np.array([1e-300, 3e-300]),
    "holes": with_holes("float32"),
    "half holes": with_holes("float16"),
    "many blocks": RANDOM.normal(size=200_001) + 1e6,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_statistics_agree_with_numpy(name: str) -> None:
    values = LAYOUTS[name]
    row = describe.array(values)
    wide = np.asarray(values).astype(np.longdouble).reshape(-1)
    finite = wide[np.isfinite(wide)]
    assert row["min"] == finite.min() and row["max"] == finite.max()
    least = float(abs(finite).max()) * 1e-15
    assert row["mean"] == pytest.approx(float(finite.mean()), rel=1e-9, abs=least)
    spread = (finite - finite.min()).std()
    assert row["std"] == pytest.approx(float(spread), rel=1e-6)
    assert row["zeros"] == int((wide == 0).sum())
    assert (row["nan"], row["inf"]) == (np.isnan(wide).sum(), np.isinf(wide).sum())
    assert sum(describe.array(values, exact=True)["histogram"]) == finite.size
    assert json.loads(json.dumps(row, allow_nan=False)) == row


@given(
    arrays(
        st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]),
        array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
    )
)
def test_any_array_has_a_row_a_line_and_a_window(values: np.ndarray) -> None:
    row = describe.array(values)
    json.dumps(row, allow_nan=False)
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    assert row["nan"] == int(np.isnan(wide).sum()) and row["finite"] == finite.size
    if finite.size:
        assert float(row["min"]) == finite.min() and float(row["max"]) == finite.max()
        slack = 1e-9 * max(abs(finite.min()), abs(finite.max()))
        with np.errstate(over="ignore"):  # the largest number has no room above it
            assert finite.min() - slack <= row["mean"] <= finite.max() + slack
        assert row["std"] >= 0 and sum(row["histogram"]) == finite.size
    assert values.dtype.name in summary.line(values)
    assert summary.line(values, ascii=True).isascii()
    assert summary.text(values)
    if values.size:
        window = slice_view.window(values)
        assert np.shape(window["heat"]) == np.shape(window["cells"])


def test_first_index_of_nan_and_infinity() -> None:
    row = describe.array(with_holes("float64"))
    assert (row["first_nan"], row["first_inf"]) == ([1, 2], [3, 4])
    assert (row["positive_inf"], row["negative_inf"]) == (1, 1)
    assert describe.array(with_holes("float64").T)["first_nan"] == [2, 1]


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_sampled_and_exact_on_request(order: str) -> None:
    values = np.zeros((1000, statistics.MAX_EXACT_ELEMENTS // 1000 + 1), np.int8, order=order)  # type: ignore[call-overload]
    values[987, 3999] = 5
    row = describe.array(values)
    assert row["sampled"] and row["count"] < 300_000 and row["max"] == 0
    assert summary.line(values).count("~") == 1
    exact = describe.array(values, exact=True)
    assert not exact["sampled"] and exact["max"] == 5 and exact["count"] == values.size


def test_sampled_index_points_at_a_nan() -> None:
    values = np.zeros((2500, 2000), np.float32)
    values[1200:1300] = np.nan
    found = describe.array(values)["first_nan"]
    assert np.isnan(values[tuple(found)])


@pytest.mark.parametrize(
    "values",
    [hostile_array(), np.array(["a"]), np.array([1j]), np.zeros(2, "M8[s]")],
    ids=["object", "text", "complex", "time"],
)
def test_other_dtypes_are_refused_politely(values: np.ndarray) -> None:
    row = describe.array(values)
    assert "no statistics" in row["refused"]
    assert "no statistics" in summary.line(np.repeat(values, 9))
    cells = slice_view.window(values)["cells"]
    assert len(cells[0]) == values.size and all(isinstance(one, str) for one in cells[0])


LINES = [
    (np.zeros((32, 64), "float32"), "float32[32, 64] 8 kB  all zero"),
    (np.full(9, 2.5), "float64[9] 72 B  all 2.5"),
    (np.arange(3), "int64[3] 24 B  [0, 1, 2]"),
    (np.float32(3), "float32[] 4 B  3"),
    (np.zeros((0, 3)), "float64[0, 3] 0 B  empty"),
    (np.full(9, np.nan), "float64[9] 72 B  no finite value  NaN 9!"),
    (np.array([1.0, np.inf, -np.inf, np.nan]), "[1, Inf, -Inf, NaN]  NaN 1! Inf 1! -Inf 1!"),
    (np.repeat([0.0, 1.0], 8), "float64[16] 128 B  [0 |█      █| 1] mean 0.5 sd 0.5"),
    (Hostile(), "Hostile"),
    (HostileList([1]), "HostileList of 1"),
    ([1, 2], "list of 2"),
    ("secret", "str of 6"),
    (3.5, "float 3.5"),
    (None, "NoneType None"),
]


@pytest.mark.parametrize(("value", "wanted"), LINES, ids=[text for _, text in LINES])
def test_line(value: object, wanted: str) -> None:
    assert wanted in summary.line(value)


def test_ascii_line_is_ascii() -> None:
    shown = summary.line(NORMAL, ascii=True)
    assert shown.isascii() and "|" in shown and summary.text(NORMAL, ascii=True).isascii()


@pytest.mark.parametrize(
    ("room", "shown"),
    [(75, "0 1 2 3 … 396 397 398 399"), (34, "0 1 … 398 399"), (20, "0 … 399"), (5, "0 … 399")],
)
def test_rows_of_a_table_fit_the_width_of_a_line(room: int, shown: str) -> None:
    """A front end says to NumPy how wide its lines are."""
    with np.printoptions(linewidth=room):
        lines = summary.text(np.arange(4000.0).reshape(10, 400)).splitlines()
    assert len(lines) == 10 and lines[1].split() == shown.split()
    assert len({len(line) for line in lines[1:]}) == 1
    assert max(map(len, lines[1:])) <= max(room, 16)


def test_text_shows_the_corners() -> None:
    lines = summary.text(np.arange(400.0).reshape(20, 20)).splitlines()
    assert len(lines) == 10 and lines[1].split()[0] == "0" and lines[-1].split()[-1] == "399"
    assert summary.text(np.zeros((2, 2, 9))).count("\n") == 0


def test_hostile_type_names_cannot_carry_control_characters() -> None:
    hostile = type("a\x1b[31m\u202eb\n", (), {})()
    assert summary.line(hostile) == r"a\x1b[31m\u202eb\n"
    assert len(describe.printable("x" * 500)) == describe.MAX_NAME_CHARACTERS


WINDOWS = [
    ((4, 5, 6, 7), {"index": [1, 2, 0, 0], "rows": (0, 3), "cols": (2, 4)}, (3, 4)),
    ((4, 5, 6, 7), {"row_axis": 3, "col_axis": 0, "index": [0, 1, 2, 0]}, (7, 4)),
    ((9,), {}, (1, 9)),
    ((9,), {"row_axis": 0, "col_axis": None, "rows": (4, 50)}, (5, 1)),
    ((), {}, (1, 1)),
    ((0, 3), {}, (0, 3)),
    ((3, 0), {"rows": (-5, 2), "cols": (99, 2)}, (2, 0)),
]


@pytest.mark.parametrize(("shape", "options", "wanted"), WINDOWS)
def test_window_shape_and_cells(
    shape: tuple[int, ...], options: dict, wanted: tuple[int, int]
) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)
    row = slice_view.window(values, **options)
    assert (len(row["cells"]), row["cols"][1] - row["cols"][0]) == wanted
    assert np.shape(row["heat"]) == np.shape(row["cells"])
    for i, line in enumerate(row["cells"]):
        for j, cell in enumerate(line):
            key = list(row["index"])
            for axis, start, step in (
                (row["row_axis"], row["rows"][0], i),
                (row["col_axis"], row["cols"][0], j),
            ):
                if axis is not None:
                    key[axis] = start + step
            assert cell == describe.number(values[tuple(key)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row_axis": 3}, "axis 3 is out of range for rank 3"),
        ({"row_axis": 1, "col_axis": -2}, "both axis 1"),
        ({"index": [0, 0]}, "needs 3 entries"),
        ({"index": [9, 0, 0]}, "index 9 is out of range for axis 0 of size 2"),
        ({"rows": (0, 300), "cols": (0, 300)}, "at most"),
    ],
)
def test_window_refuses(options: dict, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        slice_view.window(np.zeros((2, 300, 300)), **options)


def test_heat_marks_what_is_not_finite_and_takes_limits() -> None:
    values = np.array([[0.0, np.nan, 1e308, -1e308]])
    assert slice_view.window(values)["heat"] == [[5, None, 9, 0]]
    assert slice_view.window(values, limits=(0.0, 1.0))["heat"] == [[0, None, 9, 0]]


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (0, "0 B"),
        (8, "8 B"),
        (8192, "8 kB"),
        (31360, "31 kB"),
        (3_250_000, "3.1 MB"),
        (1023.9 * 1024, "1 MB"),
        (5 * 2**40, "5 TB"),
        (9 * 2**60, "9437184 TB"),
    ],
)
def test_size(count: int, wanted: str) -> None:
    assert describe.size(int(count)) == wanted


@pytest.mark.parametrize("value", [2**31, 2**40, -(2**53) - 1, 2**53 + 1, 2**63 - 1, -(2**63)])
def test_integers_are_told_in_all_their_digits(value: int) -> None:
    low = value if value < 0 else value - 99
    array = (np.arange(100, dtype=np.int64) + low).reshape(10, 10)
    found = array.reshape(-1)[99 if value > 0 else 0]
    assert int(found) == value
    row = describe.array(array)
    assert value in (row["min"], row["max"]) and row["max"] - row["min"] == 99
    assert max(row["histogram"]) <= 7 and sum(row["histogram"]) == 100  # even, as the values are
    assert describe.array(np.full(3, value))["mean"] == value
    whole = K.constant([value, 1], dtype="int64")
    seen = [
        summary.line(array),
        summary.text(array),
        summary.line(value),
        summary.line(np.array([value, 1])),
        summary.line(K.variable([value], dtype="int64")),
        summary.line(K.constant(value, dtype="int64")),
        summary.text(K.constant(np.full((3, 2), value), dtype="int64")),
        value_text(value),
        value_text(found),
        value_text(array),
        value_text([value]),
        str(slice_view.window(array, None, (0, 10), (0, 10))["cells"]),
        rows.number_text(value),
        html.show(array),
        html.show(K.constant(value, dtype="int64")),
        views.names_table(View({"a": array}).rows(None, True)[0]),
        views.names_table(View({"a": value}).rows(None, True)[0]),
        "\n".join(compare.lines(kbench.compare(lambda K: whole, repeats=0), 100)),
    ]
    assert [text for text in seen if str(value) not in text] == []


@pytest.mark.parametrize(
    "array, low, high",
    [
        (np.array([0, 2**64 - 1], np.uint64), 0, 2**64 - 1),
        (np.arange(2**64 - 100, 2**64 - 1, dtype=np.uint64), 2**64 - 100, 2**64 - 2),
        (np.array([-(2**63), 2**63 - 1]), -(2**63), 2**63 - 1),
        (np.array([-128, 127], np.int8), -128, 127),
        (np.array([True, False]), False, True),
    ],
)
def test_ranges_of_integers_are_exact(array: Any, low: int, high: int) -> None:
    row = describe.array(array)
    assert (row["min"], row["max"]) == (low, high) and sum(row["histogram"]) == array.size
    assert row["histogram"][0] and row["histogram"][-1]
