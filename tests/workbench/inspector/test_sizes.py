"""The memory of values: against what Python and the libraries count, without running user code."""

from __future__ import annotations

import array
import collections
import sys
import time
import types
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from inspector_helpers import Hostile, Loud

import kbench as K
from kbench.workbench.inspector import sizes, variable_rows


def deep(*parts: Any) -> int:
    return sum(sys.getsizeof(one) for one in parts)


class Holder:
    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept: Any) -> None:
        self.kept = kept


class Named(dict[str, Any]):
    """A dictionary with attributes of its own."""


THOUSAND = np.zeros(1000)
CASES: list[tuple[Any, float, float]] = [  # value, its bytes, what the answer may be off by
    ([], deep([]), 0),
    ([0.5, 1.5], deep([0.5, 1.5], 0.5, 1.5), 0),
    (THOUSAND, 8000, 0),
    ([THOUSAND, THOUSAND], deep([0, 0]) + 8000, 0),  # one array at two places
    ({"a": [THOUSAND]}, deep({"a": 0}, "a", [0]) + 8000, 0),
    ({"a": {"b": {"c": THOUSAND}}}, 3 * deep({"a": 0}) + 3 * deep("a") + 8000, 0),
    ("a" * 5000, deep("a" * 5000), 0),
    (b"a" * 5000, deep(b"a" * 5000), 0),
    ({1000, 2000}, deep({1000, 2000}, 1000, 2000), 0),
    (collections.deque([THOUSAND]), deep(collections.deque([1])) + 8000, 0),
    ({"a": THOUSAND}.values(), 8000, 600),
    (array.array("d", range(1000)), 8000, 400),
    (memoryview(bytearray(5000)), 5000, 500),
    (Holder(a=THOUSAND, b=[THOUSAND.copy()]), 16000, 600),
    (Slotted(THOUSAND), 8000, 200),
    (Named(x=THOUSAND), 8000, 900),
    (Holder(inner=Holder(inner=Holder(inner=THOUSAND))), 8000, 900),
    (types.SimpleNamespace(a=THOUSAND), 8000, 500),
    (np.array(["x" * 1000, "y" * 1000], dtype=object), 2 * 8 + 2 * deep("x" * 1000), 0),
    ([i + 0.5 for i in range(100_000)], 100_000 * 32, 1000),
    (dict.fromkeys(range(1000, 101_000), 0.5), 100_000 * 28 + 5_242_960, 400_000),
    ([THOUSAND] * 100_000, 8000 + 800_056, 1000),
    ([np.zeros(1000) for _ in range(300)], 300 * 8000 + 2456, 20_000),
    (scipy.sparse.eye(1000, format="csr"), 1000 * 12 + 1001 * 4, 0),
    (scipy.sparse.eye(1000, format="lil"), 1000 * 200, 60_000),
    (scipy.sparse.eye(1000, format="dia"), 8000, 2000),
    (K.variable(np.zeros((10, 10))), 400, 0),
    ([K.variable(np.zeros((10, 10)))], 400 + deep([0]), 0),
]


@pytest.mark.parametrize("value, wanted, off", CASES)
def test_memory_with_all_that_is_held(value: Any, wanted: float, off: float) -> None:
    found, mark = sizes.of(value)
    assert abs(found - wanted) <= off
    assert mark in (sizes.EXACT, sizes.ABOUT) and (mark == sizes.ABOUT or found > 0)


def test_an_estimate_says_so() -> None:
    assert sizes.of([i + 0.5 for i in range(1000)])[1] == sizes.ABOUT
    many = [[[0.5 + i + j] for i in range(100)] for j in range(100)]
    assert sizes.of(many)[1] == sizes.LEAST


def test_looking_is_quick_however_large_a_value_is() -> None:
    long = [[float(i)] for i in range(200_000)]
    values = [long, {"a": long, "b": dict(enumerate(long))}, Holder(a=[long] * 1000), sys.modules]
    for value in values:
        best = min(_seconds(value) for _ in range(5))
        assert best < 0.05, (type(value), best)


def _seconds(value: Any) -> float:
    began = time.perf_counter()
    sizes.of(value)
    return time.perf_counter() - began


class Sized(list[int]):
    def __sizeof__(self) -> int:
        raise RuntimeError("asked")

    def __iter__(self) -> Any:
        raise RuntimeError("asked")

    def __len__(self) -> int:
        raise RuntimeError("asked")

    @property
    def nbytes(self) -> int:
        raise RuntimeError("asked")


class Asked:
    def __init__(self) -> None:
        self.kept = THOUSAND

    def __sizeof__(self) -> int:
        raise RuntimeError("asked")

    @property
    def nbytes(self) -> int:
        raise RuntimeError("asked")

    def memory_usage(self, deep: bool = False) -> int:
        raise RuntimeError("asked")


def test_no_code_of_the_users_runs() -> None:
    Loud.touched.clear()
    assert sizes.of([Loud(), Hostile()])[0] > 0 and Loud.touched == []
    assert sizes.of(Asked())[0] > 8000
    assert sizes.of(Sized([1000, 2000]))[0] > deep([1, 2])


def test_a_value_within_itself_is_counted_once() -> None:
    ring: list[Any] = [THOUSAND]
    ring.append(ring)
    assert sizes.of(ring)[0] < 9000


def test_tables_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": np.zeros(1000), "b": ["x" * 50] * 1000})
    assert sizes.of(table) == (int(table.memory_usage(deep=True).sum()), sizes.EXACT)
    row = variable_rows.facts(table)
    assert (row["shape"], row["type"], row["bytes"] > 8000) == ([1000, 2], "DataFrame", True)
    assert variable_rows.facts(table["a"])["shape"] == [1000]
    assert sizes.of(table["a"])[0] == table["a"].memory_usage(deep=True)
    assert abs(sizes.of([table])[0] - sizes.of(table)[0]) < 100
    long = pandas.DataFrame(
        {"b": pandas.Series([f"text {i}" for i in range(60_000)], dtype=object)}
    )
    found, mark = sizes.of(long)
    right = int(long.memory_usage(deep=True).sum())
    assert mark == sizes.ABOUT and abs(found - right) < 0.05 * right


@pytest.mark.parametrize(
    "value, change",
    [
        ([], lambda value: value.append(1)),
        ([[]], lambda value: value[0].append(1)),
        ([1, 2], lambda value: value.__setitem__(0, "a" * 1000)),
        ({}, lambda value: value.update(a=1)),
        ({"a": []}, lambda value: value["a"].append(1)),
        (set(), lambda value: value.add(1)),
        (bytearray(b"a"), lambda value: value.extend(b"b" * 100)),
        (collections.deque(), lambda value: value.append(1)),
        (collections.defaultdict(list), lambda value: value["a"].append(1)),
        (collections.Counter(), lambda value: value.update("ab")),
        (Holder(a=[]), lambda value: value.a.append(1)),
        (Holder(), lambda value: setattr(value, "b", THOUSAND)),
        (Slotted([]), lambda value: value.kept.append(1)),
        (([],), lambda value: value[0].append(1)),
        (scipy.sparse.lil_matrix((5, 5)), lambda value: value.__setitem__((0, 0), 1.0)),
    ],
)
def test_a_changed_value_has_another_row(value: Any, change: Any) -> None:
    """Whatever changes within a value, its row tells it; what is fixed is never looked at."""
    assert not variable_rows.fixed(value)
    before = variable_rows.facts(value)
    assert variable_rows.facts(value) == before
    change(value)
    assert variable_rows.facts(value) != before
