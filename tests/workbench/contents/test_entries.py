"""What is inside values of every kind, and how each entry is found again."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import functools
import pathlib
import time
import types
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from inspector_helpers import Hostile, Loud, ask

from kbench.workbench.contents import address, attributes, entries, preview
from kbench.workbench.inspector.inspector import Inspector


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: Any


@dataclass(unsafe_hash=True)
class Point:
    x: int = 1
    y: Any = None

    @property
    def length(self) -> float:
        raise AssertionError("a property was evaluated")

    @functools.cached_property
    def slow(self) -> float:
        raise AssertionError("a property was evaluated")


class Slots:
    __slots__ = ("filled", "unfilled")

    def __init__(self) -> None:
        self.filled = [1]


class Odd(list):  # type: ignore[type-arg]
    """A list that says nothing true of itself, and has an attribute."""

    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.mark = "m"

    def __len__(self) -> int:
        raise AssertionError("the class's own length was asked for")

    def __getitem__(self, at: Any) -> Any:
        raise AssertionError("the class's own items were asked for")

    __iter__ = None  # type: ignore[assignment]


class Keyed:
    """A key that may not be compared."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        return 7


KEYED, POINT = Keyed(), Point(2, {"a": [3]})
LOOP: list[Any] = [1]
LOOP.append(LOOP)

# (value, labels of its entries, steps where they are others than the labels)
VALUES: list[tuple[Any, list[str], dict[int, str]]] = [
    ([4, 5], ["[0]", "[1]"], {}),
    ((4, 5), ["[0]", "[1]"], {}),
    (Pair(1, [2]), [".left", ".right"], {}),
    (collections.deque([4, 5]), ["[0]", "[1]"], {}),
    (range(4, 6), ["[0]", "[1]"], {}),
    (array.array("d", [4, 5]), ["[0]", "[1]"], {}),
    ({"a": 1, 2: 3, None: 4}, ["['a']", "[2]", "[None]"], {}),
    ({"it's": 1, 'a"]': 2, "a\\": 3, "é": 4}, ['["it\'s"]', "['a\"]']", "['a\\\\']", "['é']"], {}),
    ({(1, "z"): 1, True: 2, 1.5: 3, b"b": 4}, ["[(1, 'z')]", "[True]", "[1.5]", "[b'b']"], {}),
    ({KEYED: 1, "k": 2}, ["[Keyed]", "['k']"], {0: "{0}"}),
    ({"x" * 300: 1}, [f"['{'x' * 58}…]"], {0: "{0}"}),
    (collections.Counter("aab"), ["['a']", "['b']"], {}),
    (collections.OrderedDict(z=1), ["['z']"], {}),
    (types.MappingProxyType({"a": 1}), ["['a']"], {}),
    ({7}, ["{0}"], {}),
    (frozenset({7}), ["{0}"], {}),
    ({"a": 1}.items(), ["{0}"], {}),
    (np.array([[{"a": 1}, None]], object), ["[0, 0]", "[0, 1]"], {}),
    (np.array({"a": 1}, object), ["[]"], {}),
    (POINT, [".x", ".y", ".length", ".slow"], {}),
    (Slots(), [".filled"], {}),
    (types.SimpleNamespace(b=1, _a=2, c=3), [".b", ".c", "._a"], {}),
    (Odd(4, 5), ["[0]", "[1]", ".mark"], {}),
    (LOOP, ["[0]", "[1]"], {}),
    (ValueError("wrong"), [], {}),
    (object(), [], {}),
    ("text", [], {}),
    (b"bytes", [], {}),
    (3, [], {}),
    (np.ones(3), [], {}),
    (Hostile(), [], {}),
    (iter([1]), [], {}),
]


@pytest.mark.parametrize(("value", "labels", "steps"), VALUES, ids=lambda one: type(one).__name__)
def test_entries_are_listed_in_pages_and_found_again(
    value: Any, labels: list[str], steps: dict[int, str]
) -> None:
    found = entries.page(value, 0, 100)
    assert [entry.label for entry in found] == labels and entries.count(value) == len(labels)
    assert [entry.step for entry in found] == [
        steps.get(at, label) for at, label in enumerate(labels)
    ]
    by_one = [entry for at in range(len(labels)) for entry in entries.page(value, at, at + 1)]
    assert [entry.step for entry in by_one] == [entry.step for entry in found]
    for entry in found:
        parsed = address.parse(f"v{entry.step}")
        assert parsed == ("v", (entry.step,), "")
        if entry.kind == entries.PROPERTY:
            with pytest.raises(LookupError, match="property"):
                entries.child(value, entry.step)
            continue
        again = entries.child(value, entry.step)
        assert again is entry.value or again == entry.value


@pytest.mark.parametrize(
    ("value", "step"),
    [
        ([1], "[1]"), ([1], "[-1]"), ([1], "['a']"), ([1], ".append"), ([1], "{0}"),
        ({"a": 1}, "['b']"), ({"a": 1}, "[[]]"), ({"a": 1}, "{1}"), ({1}, "{1}"), ({1}, "[1]"),
        (POINT, ".z"), (POINT, ".__dict__"), (POINT, "['x']"), (Pair(1, 2), "[2]"),
        (np.array([None, 1]), "[2]"), (np.array([None, 1]), "[0, 0]"), ("text", "[0]"),
    ],
)  # fmt: skip
def test_a_step_that_leads_nowhere_is_refused(value: Any, step: str) -> None:
    with pytest.raises(LookupError):
        entries.child(value, step)


ADDRESSES: list[tuple[str, tuple[str, tuple[str, ...], str] | None]] = [
    ("d", ("d", (), "")),
    ("d['a'][3].w", ("d", ("['a']", "[3]", ".w"), "")),
    ("d['a/b[0]'].x/2/w0", ("d", ("['a/b[0]']", ".x"), "/2/w0")),
    ("m/2/w0", ("m", (), "/2/w0")),
    (r"d['it\'s'][0]", ("d", (r"['it\'s']", "[0]"), "")),
    ("d{3}.x", ("d", ("{3}", ".x"), "")),
    ("d[0", None),
    ("d['a]", None),
    ("d.", None),
    ("d.3", None),
    ("d{x}", None),
    ("[0]", None),
    ("", None),
    ("d" + "[0]" * 1000, None),
]


@pytest.mark.parametrize(("text", "parts"), ADDRESSES)
def test_an_address_is_read_without_being_evaluated(text: str, parts: Any) -> None:
    assert address.parse(text) == parts
    if parts is not None:
        assert address.root_of(text) == parts[0]
        assert address.is_code(text) == (not parts[2] and "{" not in text)


# ------------------------------------------------------------------ previews


PREVIEWS: list[tuple[Any, str]] = [
    ([], "[]"),
    (set(), "set()"),
    ((1,), "(1,)"),
    ({"a": [1, {"b": [2]}]}, "{'a': [1, {…}]}"),
    (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, …]"),
    ([1 / 3, np.float32(0.1), "x"], "[0.3333, 0.1, 'x']"),
    ([np.ones((3, 4)), np.array(2.5)], "[float64[3, 4], 2.5]"),
    (POINT, "Point(x=2, y={'a': […]})"),
    (LOOP, "[1, [1, […]]]"),
    (2**200_00, "0x1"),
    (Colour.RED, "Colour.RED"),
    (datetime.date(2024, 5, 1), "2024-05-01"),
    (decimal.Decimal("1.50"), "1.50"),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    (np, "module numpy"),
    (Point, "class Point"),
    (len, "function len"),
    ([].append, "function list.append"),
    (Colour, "class Colour"),
    (Hostile(), "Hostile"),
    (Loud(), "Loud"),
    ("a\x1b[31m\nb", r"'a\x1b[31m\nb'"),
    (b"\x00a", r"b'\x00a'"),
]


@pytest.mark.parametrize(("value", "words"), PREVIEWS, ids=[words[:20] for _, words in PREVIEWS])
def test_a_preview_is_one_short_line_that_runs_nothing(value: Any, words: str) -> None:
    found = preview.text(value)
    assert found == words if words != "0x1" else found.startswith("0x1000")
    assert len(found) <= preview.MAX_CHARACTERS and found.isprintable()
    assert Loud.touched == []


def test_attributes_are_read_behind_the_back_of_a_class() -> None:
    class Sly:
        seen = 0

        def __init__(self) -> None:
            self.real = 1

        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise AssertionError

    assert attributes.held(Sly()) == {} and attributes.properties(Sly()) == []
    assert attributes.held(types.SimpleNamespace(a=1)) == {"a": 1}
    module = types.ModuleType("m")
    module.__dict__["x"] = 3
    assert attributes.held(module) == {"x": 3}


# ------------------------------------------------------------------ the verb


def test_what_is_nested_opens_to_any_depth() -> None:
    inner = np.arange(6.0).reshape(2, 3)
    table = np.array([{"w": inner}, None, Point(y=[inner])], object)
    inspector = Inspector({"d": {"layers": [table, {"deep": (inner,)}]}, "loop": LOOP})
    at = "d['layers'][0]"
    assert ask(inspector, "open", name="d")["rows"][0]["key"] == "d['layers']"
    row = ask(inspector, "open", name="d['layers']")["rows"][0]
    assert (row["kind"], row["dtype"], row["shape"]) == ("array", "object", [3])
    found = ask(inspector, "open", name=at)["rows"]
    assert [row["text"] for row in found] == [
        "{'w': float64[2, 3]}", "None", "Point(x=1, y=[float64[2, 3]])",
    ]  # fmt: skip
    for name in (f"{at}[0]['w']", f"{at}[2].y[0]", "d['layers'][1]['deep'][0]"):
        window = ask(inspector, "window", name=name, rows=[0, 2], cols=[0, 3])
        assert window["cells"] == [["0", "1", "2"], ["3", "4", "5"]]
        assert ask(inspector, "stats", name=name)["max"] == 5
        row = ask(inspector, "summary", names=[name])["rows"][0]
        assert (row["key"], row["shape"], row["max"]) == (name, [2, 3], 5.0)
        assert ask(inspector, "find", name=name, what="> 3")["index"] == [1, 1]
    name = "loop" + "[1]" * 300
    assert ask(inspector, "open", name=name)["total"] == 2
    inspector.close()


def test_what_cannot_be_opened_is_told() -> None:
    inspector = Inspector({"p": POINT, "d": {}, "n": None})
    for name, words in (
        ("p.length", "length is a property, which is not evaluated by looking"),
        ("p.z", "no name p.z: there is no entry .z"),
        ("d['a", "no name d['a"),
        ("q[0]", "no name q[0]"),
        ("d" + "[0]" * 2000, "no name"),
    ):
        reply = inspector.handle({"id": 1, "verb": "open", "name": name})
        assert not reply["ok"] and words in reply["error"]["reason"], reply
    assert ask(inspector, "open", name="d")["words"] == "empty"
    assert ask(inspector, "open", name="n")["rows"][0]["text"] == "None"
    inspector.close()


def test_a_page_fits_a_message_whatever_stands_in_it() -> None:
    long = ["é\u202e" * 5000, {"k" * 150: "v" * 300}, b"\x00" * 5000]
    inspector = Inspector({"x": long * 400, "t": "é" * 400_000, "b": bytes(100_000)})
    for name in ("x", "t", "b"):
        data = ask(inspector, "open", name=name, start=100, count=500, width=400)
        assert data["start"] == 100 and 20 < len(data["rows"]) <= 500
        assert data["truncated"] is None if "truncated" in data else True
    inspector.close()


@pytest.mark.slow
def test_a_page_of_a_large_value_takes_50_ms_of_a_core() -> None:
    values: dict[str, Any] = {
        "items": list(range(10**7)),
        "keys": {number: str(number) for number in range(10**6)},
        "parts": set(range(10**6)),
        "text": "a line of text\n" * 10**6,
        "nested": [{"a": [1, 2, 3], "b": np.ones(100)} for _ in range(10**5)],
    }
    inspector = Inspector(values)
    for name, value in values.items():
        total = len(value) if name != "text" else 10**6
        best = 1.0
        question = {"id": 1, "verb": "open", "name": name, "start": total - 60, "count": 100}
        for _ in range(5):
            began = time.thread_time()
            reply = inspector.handle(question)
            best = min(best, time.thread_time() - began)
        assert len(reply["data"]["rows"]) == 60 and best < 0.05, (name, best)
    inspector.close()
