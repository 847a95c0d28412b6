"""What names were after earlier cells: copies, what counts as a change, what is dropped."""

from __future__ import annotations

import collections
import datetime
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inspector_helpers import Hostile, Loud, ask
from scipy import sparse

import kbench as K
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.kernel import value_magic
from kbench.workbench.snapshots import copies, snapshots
from kbench.workbench.snapshots.copies import Copier, NotKeptError
from kbench.workbench.snapshots.snapshots import Snapshots


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x


class Slots:
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = [1]


def loop() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


MASKED = np.ma.masked_array([1.0, 2.0], [False, True])
# (makes a value, changes it in place)
VALUES: list[tuple[str, Callable[[], Any], Callable[[Any], Any] | None]] = [
    ("number", lambda: 3, None),
    ("text", lambda: "abc", None),
    ("date", lambda: datetime.date(2024, 5, 1), None),
    ("nan", lambda: float("nan"), None),
    ("array", lambda: np.array([1.0, np.nan]), lambda it: it.fill(3)),
    ("strided", lambda: np.arange(12).reshape(3, 4)[:, ::2], lambda it: it.fill(3)),
    ("odd bytes", lambda: np.array([1, 2, 3], np.int8), lambda it: it.fill(3)),
    ("odd texts", lambda: np.array(["abc", "d"]), lambda it: it.fill("e")),
    ("12 bytes each", lambda: np.zeros(2, "f4,f8"), lambda it: it["f0"].fill(3)),
    ("texts of no length", lambda: np.array(["", ""]), None),
    ("zero", lambda: np.array([0.0]), lambda it: it.__imul__(-1)),
    ("scalar array", lambda: np.array(2.0), lambda it: it.fill(3)),
    ("empty", lambda: np.zeros((0, 3)), None),
    ("masked", lambda: MASKED.copy(), lambda it: it.mask.fill(False)),
    ("objects", lambda: np.array([[1], {"a": 2}], object), lambda it: it[0].append(2)),
    ("list", lambda: [1, [2.5, "x"]], lambda it: it[1].append(3)),
    ("one", lambda: [1], lambda it: it.__setitem__(0, True)),
    ("minus", lambda: [-1], lambda it: it.__setitem__(0, -2)),
    ("dict", lambda: {"a": np.ones(2), (1, None): 2}, lambda it: it["a"].fill(0)),
    ("keys", lambda: {"a": 1}, lambda it: it.update(b=2)),
    ("counter", lambda: collections.Counter("aab"), lambda it: it.update("b")),
    ("set", lambda: {1, "a"}, lambda it: it.add(2)),
    ("deque", lambda: collections.deque([1]), lambda it: it.append(2)),
    ("bytearray", lambda: bytearray(b"a"), lambda it: it.extend(b"b")),
    ("object", lambda: Point([1]), lambda it: it.x.append(2)),
    ("slots", Slots, lambda it: it.x.append(2)),
    ("loop", loop, lambda it: it.append(2)),
    ("matrix", lambda: sparse.csr_matrix([[0.0, 1.0]]), lambda it: it.data.fill(3)),
    ("tuple", lambda: (1, [2]), lambda it: it[1].append(3)),
]


@pytest.mark.parametrize(
    ("make", "change"), [row[1:] for row in VALUES], ids=[v[0] for v in VALUES]
)
def test_a_copy_stays_and_tells_a_change(make: Any, change: Any) -> None:
    value = make()
    kept = Copier().copy(value)
    again = Copier().copy(value)
    assert copies.same(kept, again) and copies.same(again, kept)
    if change is None:
        return
    change(value)
    assert copies.same(kept, again), "the copy has changed with the original"
    other = Copier().copy(value)
    assert not copies.same(kept, other) and not copies.same(other, kept)


def test_a_copy_runs_nothing_and_holds_nothing_of_the_users() -> None:
    import gc
    import weakref

    point = Point({Point(1): Loud()})
    gone = weakref.ref(point)
    kept = Copier().copy([point, Hostile(), print, iter([1]), Point])
    assert Loud.touched == [] and type(kept[0]).__name__ == "Point"
    del point
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(copies.MAX_VALUE_BYTES // 8 + 1), "too large to keep"),
        ([np.zeros(copies.MAX_VALUE_BYTES // 16)] * 3 + [np.zeros(600_000)], "too large to keep"),
        ("x" * (copies.MAX_VALUE_BYTES + 1), "too large to keep"),
        (list(range(copies.MAX_VALUE_OBJECTS + 1)), "too many to keep"),
        (sparse.lil_matrix((2, 2)), "a sparse matrix of this format"),
        (np.zeros(2, [("a", object)]), "its fields are objects"),
    ],
)
def test_what_is_not_kept_says_why(value: Any, words: str) -> None:
    with pytest.raises(NotKeptError, match=words):
        Copier().copy(value)


# ------------------------------------------------------------------ states


def kept(budget: int = 1 << 20) -> tuple[Snapshots, Callable[..., None]]:
    found = Snapshots(budget)

    def cell(number: int, **values: Any) -> None:
        found.take(number, values, lambda: 0.0)

    return found, cell


def test_a_state_holds_until_the_next() -> None:
    found, cell = kept()
    a = np.zeros(3)
    cell(1, a=a)
    cell(2, a=a, b=1)
    a[1] = 5
    cell(4, a=a, b=1)
    cell(5, b=2)
    assert [found.at("a", n).state.missing for n in (1, 3, 4, 5)] == ["", "", "", snapshots.GONE]
    assert found.at("a", 3).state.value.tolist() == [0, 0, 0] and found.at("a", 3).until == 3
    assert found.at("a", 4).state.value[1] == 5 and found.at("a", 4).until == 4
    assert found.at("b", 1).state.missing == snapshots.GONE and found.at("b", 1).until == 1
    assert found.at("b", 5).state.value == 2 and found.first("b") == 2 and found.last == 5
    assert "no cell has ended since it exists" in found.at("c", 1).state.missing
    cell(1, a=a)  # the count began again
    assert found.last == 1 and found.at("b", 1).state.missing


def test_the_oldest_replaced_states_are_dropped_first_and_told() -> None:
    found, cell = kept(budget=100_000)
    still = np.zeros(5_000)
    for number in range(1, 6):
        cell(number, still=still, a=np.full(3_000, number, float))
    assert found.bytes <= 100_000
    assert found.at("still", 5).state.value is not None
    assert "dropped to stay within" in found.at("a", 1).state.missing
    assert found.at("a", 5).state.value[0] == 5 and found.at("a", 4).state.value[0] == 4
    found, cell = kept(budget=10)
    cell(1, a=np.zeros(100))
    assert "dropped to stay within 10 B" in found.at("a", 1).state.missing and found.bytes == 0
    found, cell = kept(budget=0)
    cell(1, a=3)
    assert found.last == 0


def test_a_variable_is_told_by_its_version_and_by_which_it_is() -> None:
    found, cell = kept()
    w = K.variable([1.0, 2.0], name="w")
    cell(1, w=w)
    K.set_value(w, [3.0, 4.0])
    cell(2, w=w)
    other = K.variable([5.0, 6.0], name="w")
    K.set_value(other, [7.0, 8.0])
    assert other.version == w.version
    cell(3, w=other)
    cell(4, w=other)
    assert [found.at("w", n).state.value.tolist() for n in (1, 2, 3)] == [[1, 2], [3, 4], [7, 8]]
    assert found.at("w", 4).state.cell == 3


def test_one_cell_adds_no_more_than_its_share_of_bytes_and_time() -> None:
    found, _ = kept(1 << 30)
    big = {f"a{at}": np.zeros(copies.MAX_VALUE_BYTES // 8 - 100) for at in range(6)}
    found.take(1, big, lambda: 0.0)
    assert found.bytes <= snapshots.MAX_CELL_BYTES
    assert [bool(found.at(name, 1).state.missing) for name in big] == [False] * 3 + [True] * 3 or (
        sum(bool(found.at(name, 1).state.missing) for name in big) == 2
    )
    ticks = iter(range(1000))
    found.take(2, {"x": 1, "y": 2}, lambda: float(next(ticks)))
    assert "took too long" in found.at("y", 2).state.missing


# ------------------------------------------------------------------ the verb


def test_values_of_the_past_are_asked_like_names() -> None:
    names: dict[str, Any] = {"d": {"a": [np.zeros((2, 2)), 1]}, "w": K.variable([1.0], name="w")}
    inspector = Inspector(names)
    inspector.cell_ended(1)
    assert "no value is kept yet" in str(inspector.handle({"verb": "past", "name": "w"}))
    ask(inspector, "hello", push=False)
    for number in (2, 3, 4):
        inspector.cell_started()
        if number == 3:
            names["d"]["a"][0][0, 1] = 7
            K.set_value(names["w"], [2.0])
        inspector.cell_ended(number)
    found = ask(inspector, "past", name="d['a'][0]", step=-1)
    assert (found["name"], found["cell"], found["until"], found["last"]) == (
        "d@2['a'][0]", 2, 2, 4,
    )  # fmt: skip
    assert found["row"]["shape"] == [2, 2] and found["row"]["max"] == 0
    window = {"rows": [0, 2], "cols": [0, 2]}
    assert ask(inspector, "window", name="d@2['a'][0]", **window)["cells"][0] == ["0", "0"]
    assert ask(inspector, "window", name="d@4['a'][0]", **window)["cells"][0] == ["0", "7"]
    assert ask(inspector, "open", name="d@2")["rows"][0]["key"] == "d@2['a']"
    assert ask(inspector, "past", name="d@2['a'][0]", step=1)["name"] == "d['a'][0]"
    assert ask(inspector, "past", name="w", cell=2)["row"]["max"] == 1
    assert ask(inspector, "past", name="w", cell=9)["name"] == "w"
    assert ask(inspector, "past", name="d['b']", cell=2)["words"] == "d['b'] did not exist"
    for request, words in (
        ({"name": "d@2", "step": -1}, "nothing older is kept of d"),
        ({"name": "d", "step": 1}, "d is shown as it is now"),
        ({"name": "d", "cell": 0}, "the first is 1"),
    ):
        assert words in str(inspector.handle({"verb": "past", **request}))
    assert "has not ended yet" in str(inspector.handle({"verb": "open", "name": "d@9"}))
    assert "it does not exist" in ask(inspector, "past", name="d", cell=1)["words"]
    inspector.cell_ended(0)  # one of the front end's own
    assert ask(inspector, "past", name="d", cell=4)["last"] == 4
    inspector.close()


def test_the_magic_gives_a_copy() -> None:
    magics: dict[str, Any] = {}

    class Shell:
        def register_magic_function(self, func: Any, kind: str, name: str) -> None:
            magics[name] = func

    names: dict[str, Any] = {"x": np.zeros(2)}
    inspector = Inspector(names)
    ask(inspector, "hello", push=False)
    inspector.cell_ended(1)
    names["x"] = np.ones(2)
    inspector.cell_ended(2)
    value_magic.install(Shell(), inspector.past.copy_of)  # type: ignore[arg-type]
    first = magics["value"]("x 1")
    assert first.tolist() == [0, 0] and magics["value"](" x[1] 2 ") == 1
    first.fill(9)
    assert magics["value"]("x 1").tolist() == [0, 0]
    for line, words in (("x", "%value NAME CELL"), ("x 7", "has not ended"), ("y 1", "not kept")):
        with pytest.raises(Exception, match=words):
            magics["value"](line)
    inspector.close()


@pytest.mark.slow
def test_a_cell_with_a_hundred_small_names_costs_below_5_ms() -> None:
    names: dict[str, Any] = {}
    for at in range(20):
        names |= {
            f"n{at}": at, f"a{at}": np.random.rand(32, 32), f"l{at}": list(range(20)),
            f"d{at}": {"loss": [0.5] * 10}, f"w{at}": K.variable(np.ones((16, 16))),
        }  # fmt: skip
    found = Snapshots(64 << 20)
    best = 1.0
    for number in range(1, 30):
        names["a3"] = names["a3"] + 1
        names["d4"]["loss"].append(number)
        began = time.perf_counter()
        found.take(number, names, time.perf_counter)
        best = min(best, time.perf_counter() - began)
    assert best < 0.005, best
