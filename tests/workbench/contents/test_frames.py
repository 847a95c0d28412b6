"""Tables, columns and indexes of pandas as cells with names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask

from kbench.workbench.contents import frames
from kbench.workbench.inspector.inspector import Inspector

pd = pytest.importorskip("pandas")


def table(rows: int = 4) -> Any:
    days = pd.date_range("2024-01-01", periods=rows)
    return pd.DataFrame(
        {
            "price": np.arange(rows) / 3,
            "name": ["a", None, "x" * 90, "d"] * (rows // 4),
            3: pd.Categorical(["u", "v"] * (rows // 2)),
            "held": [[1], {"k": 2}, pd.NaT, np.ones(2)] * (rows // 4),
        },
        index=days,
    )


def window(value: Any, **asked: Any) -> dict[str, Any]:
    inspector = Inspector({"d": {"t": value}})
    try:
        return ask(
            inspector, "window", **{"name": "d['t']", "rows": [0, 9], "cols": [0, 9], **asked}
        )
    finally:
        inspector.close()


def test_a_table_has_the_names_of_its_rows_and_columns() -> None:
    found = window(table())
    assert found["col_names"] == ["price", "name", "3", "held"] and found["dtype"] == "mixed"
    assert found["row_names"][1] == "2024-01-02" and found["shape"] == [4, 4]
    assert found["cells"][0] == ["0", "a", "u", "[1]"]
    assert found["cells"][1] == ["0.3333", found["cells"][1][1], "v", "{'k': 2}"]
    assert found["cells"][2][3] == "NaT" and found["cells"][3][3] == "float64[2]"
    part = window(table(), rows=[2, 1], cols=[1, 2])
    assert (part["row_names"], part["col_names"]) == (["2024-01-03"], ["name", "3"])
    exact = window(table(), rows=[1, 1], cols=[0, 1], exact=True)
    assert exact["cells"] == [["0.3333333333333333"]]


COLUMNS: list[tuple[Any, list[str], list[str], list[list[str]]]] = [
    (pd.Series([1.5, np.nan], name="s"), ["0", "1"], ["s"], [["1.5"], ["NaN"]]),
    (pd.Series([True], index=["k"]), ["k"], [""], [["True"]]),
    (pd.Series([], dtype=float), [], [""], []),
    (pd.Index(["a", "b"], name="i"), [], ["i"], [["a"], ["b"]]),
    (pd.MultiIndex.from_tuples([(1, "a")]), [], [""], [["(1, 'a')"]]),
    (pd.DataFrame(), [], [], []),
    (pd.DataFrame({("a", 1): [1]}), ["0"], ["('a', 1)"], [["1"]]),
    (pd.Series([pd.Timestamp("2024-05-01"), pd.NaT]), ["0", "1"], [""],
     [["2024-05-01"], ["NaT"]]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "rows", "cols", "cells"), COLUMNS)
def test_columns_and_indexes(
    value: Any, rows: list[str], cols: list[str], cells: list[list[str]]
) -> None:
    found = window(value)
    assert (found["row_names"], found["col_names"], found["cells"]) == (rows, cols, cells)


def test_a_table_of_a_million_rows_is_read_where_it_is_looked_at() -> None:
    big = pd.DataFrame({"a": np.arange(1_000_000), "b": 0.5})
    found = window(big, rows=[999_990, 50])
    assert found["rows"] == [999_990, 1_000_000, 1_000_000]
    assert found["row_names"][-1] == "999999" and found["cells"][-1] == ["999999", "0.5"]


def test_what_needs_an_array_says_how_to_get_one() -> None:
    inspector = Inspector({"t": table()})
    reply = inspector.handle({"id": 1, "verb": "stats", "name": "t"})
    assert "t is of type DataFrame, not an array; t.to_numpy() gives one" in str(reply)
    row = ask(inspector, "summary", names=["t"])["rows"][0]
    assert (row["kind"], row["type"], row["shape"]) == ("object", "DataFrame", [4, 4])
    assert frames.cells(np.ones(3)) is None
    inspector.close()
