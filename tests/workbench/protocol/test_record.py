"""Records: typed, frozen, as JSON and back; another version's JSON; what a type checker sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbench.workbench.protocol.record import MissingFieldError, Record

ROOT = Path(__file__).resolve().parents[3]


class Inner(Record):
    at: int
    note: str = ""


class Outer(Record):
    name: str
    one: Inner | None = None
    many: list[Inner] | None = None
    named: dict[str, Inner] | None = None


class Longer(Outer):
    more: bool


def test_a_record_has_its_fields_and_defaults() -> None:
    made = Longer(name="a", more=True, one=Inner(at=3))
    assert (made.name, made.more, made.many) == ("a", True, None)
    assert made.one is not None and made.one.note == ""
    assert made == Longer(more=True, one=Inner(at=3), name="a")
    assert made != made.replaced(name="b") and made.name == "a"
    assert repr(Inner(at=3)) == "Inner(at=3)"
    assert list(made.given()) == ["name", "more", "one"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "needs ['at']"),
    ({"note": ""}, "needs ['at']"),
    ({"at": 1, "notes": ""}, "has no ['notes']"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_wrong_fields_are_an_error(given: dict[str, Any], words: str) -> None:
    for make in (lambda: Inner(**given), lambda: Inner.built(given)):
        with pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value) == f"Inner {words}"


def test_a_record_is_frozen() -> None:
    made = Inner(at=1)
    with pytest.raises(AttributeError, match="frozen"):
        made.at = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del made.at
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


ROWS: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "a", "one": {"at": 1}},
    {"name": "a", "one": None, "many": None},
    {"many": [{"at": 1, "note": "x"}, {"at": 2}], "name": "a"},
    {"name": "a", "named": {"k": {"at": 1}}},
]


@pytest.mark.parametrize("row", ROWS)
def test_json_becomes_a_record_and_is_the_same_again(row: dict[str, Any]) -> None:
    from kbench.workbench.protocol import messages

    read = Outer.from_json(row)
    assert messages.plain(read) == row and list(messages.plain(read)) == list(row)
    assert messages.size(read) == messages.size(row)
    assert Outer.built(row) == read


def test_a_newer_kernel_may_say_more() -> None:
    read = Outer.from_json({"name": "a", "new": 1, "one": {"at": 1, "new": {}}})
    assert read == Outer(name="a", one=Inner(at=1))


OTHERS = [
    ([], "Outer is list, not an object"),
    ({}, "Outer lacks name"),
    ({"name": "a", "one": {}}, "Inner lacks at"),
    ({"name": "a", "one": 7}, "Inner is int, not an object"),
    ({"name": "a", "many": {}}, "dict in place of a list"),
    ({"name": "a", "many": [None]}, "Inner is NoneType, not an object"),
    ({"name": "a", "named": []}, "list in place of an object"),
]


@pytest.mark.parametrize(("row", "words"), OTHERS)
def test_what_lacks_is_named(row: object, words: str) -> None:
    with pytest.raises(MissingFieldError) as caught:
        Outer.from_json(row)
    assert str(caught.value) == words


CHECKED = """
from kbench.workbench.protocol.names import Summary, SummaryReply
from kbench.tui.panes.bench import Bench

async def wrong(bench: Bench) -> None:
    Summary(name=["w"])
    Summary(names=3)
    reply = await bench.ask(Summary(names=["w"]))
    reply.row
    reply.rows[0].shap
    reply.rows[0].key = "v"
    SummaryReply(rows=[], total=0, epoch=0)
    good: int = reply.total
"""


@pytest.mark.slow
def test_a_type_checker_sees_wrong_fields_on_both_sides(tmp_path: Path) -> None:
    file = tmp_path / "asking.py"
    file.write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seen = [line.partition(": error: ") for line in done.stdout.splitlines() if str(file) in line]
    lines = [int(place.rpartition(":")[2]) for place, _, _ in seen]
    assert lines == [6, 7, 9, 10, 11, 12], done.stdout + done.stderr
