"""Values that are no arrays in the value pane: opened, paged, followed inwards and back."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from bench_screen import at_each_size, settle, submit, text_of
from value_helpers import pane, press, showing

LAYERS = np.array([{"w": np.arange(6.0).reshape(2, 3)}, None], object)


@dataclass
class Net:
    layers: Any
    name: str = "net"

    @property
    def size(self) -> int:
        raise AssertionError("a property was evaluated")


@pytest.mark.slow
async def test_a_dict_of_lists_of_arrays_of_objects_opens_step_by_step_and_back() -> None:
    values = {"first": 1, "nets": [LAYERS, Net([1, 2])]}
    async with showing(values) as (app, pilot, _):
        screen = text_of(app)
        assert "x dict of 2" in screen and "['nets']" in screen and "[object[2], Net(" in screen
        screen = await press(pilot, "down", "enter")
        assert "x > ['nets'] list of 2" in screen and "entry 0 of 2  Backspace back" in screen
        screen = await press(pilot, "enter")  # the array of objects is the grid of arrays
        assert "x > ['nets'] > [0] (2,)  object" in screen and "<dict>" in screen
        screen = await press(pilot, "enter")
        assert "x > ['nets'] > [0] > [0] dict of 1" in screen and "(2,3)" in screen
        screen = await press(pilot, "enter")
        assert "['w'] (2, 3)  float64" in screen and "rows 0 cols 1" in screen and "mean" in screen
        assert pane(app).shown == "x['nets'][0][0]['w']" and pane(app).grid.has_focus
        for shown in ("x['nets'][0][0]", "x['nets'][0]", "x['nets']", "x"):
            await press(pilot, "backspace")
            assert pane(app).shown == shown
        assert pane(app).entries.at == 1 and pane(app).entries.has_focus
        screen = await press(pilot, "enter", "down", "enter")  # the object
        assert ".layers" in screen and ".size" in screen and "a property, not evaluated" in screen
        assert "not evaluated by looking" in await press(pilot, "end", "enter")
        await press(pilot, "h", "h")
        assert pane(app).shown == "x"


KINDS: list[tuple[Any, list[str]]] = [
    ([1, 2.5, None, "a"], ["x list of 4", "[0]", "int", "None", "'a'"]),
    ((), ["x tuple of 0", "empty"]),
    ({3, 1}, ["x set of 2", "{0}", "{1}"]),
    ("a\nb\x1b[0m", ["x str of 7", "row 1 of 2", "b\\x1b[0m"]),
    (b"Az" * 20, ["x bytes of 40", "41 7a 41 7a", "AzAz"]),
    (10**30, ["x int", "1" + "0" * 30]),
    (types.SimpleNamespace(a=[1]), ["x SimpleNamespace", ".a", "[1]"]),
    (object(), ["object has no attributes to show"]),
]


@pytest.mark.parametrize(("value", "words"), KINDS)
@at_each_size
async def test_values_of_every_kind_are_opened(
    value: Any, words: list[str], size: tuple[int, int]
) -> None:
    async with showing(value, size) as (app, pilot, _):
        screen = text_of(app)
        assert [word for word in words if word not in screen] == [], screen
        assert pane(app).entries.has_focus


async def test_a_million_entries_are_paged_by_keys() -> None:
    async with showing(list(range(1_000_000))) as (app, pilot, session):
        assert "entry 999999 of 1000000" in await press(pilot, "G")
        assert "[999999]" in text_of(app)
        assert "entry 0 of" in await press(pilot, "g")
        await press(pilot, "pagedown")
        assert 5 < pane(app).entries.at < 60
        assert "entry 500000 of" in await press(pilot, "colon", *"500000", "enter")
        assert "[500000]" in text_of(app) and "[499990]" in text_of(app)
        assert "a number from 0 to 999999" in await press(pilot, "colon", *"x", "enter")
        await press(pilot, "escape")
        assert session.asked.count("open") < 12
        await press(pilot, "enter")
        assert pane(app).shown == "x[500000]"
        assert "entry 500000 of" in await press(pilot, "backspace")
        assert "[500000]" in text_of(app)


async def test_what_leads_to_an_entry_is_inserted_watched_and_copied() -> None:
    async with showing({"a": {1, 2}}) as (app, pilot, _):
        assert "watching x['a']" in await press(pilot, "w")
        copied: list[str] = []
        app.copy_to_clipboard = copied.append
        await press(pilot, "y")
        assert copied and copied[0].startswith("['a']  set  len 2")
        screen = await press(pilot, "enter", "w")  # an entry of a set
        assert "no expression leads to this entry" in screen
        await press(pilot, "backspace", "i")
        assert "x['a']" in app.screen_stack[0].query_one("#prompt").text


@pytest.mark.slow
async def test_what_changes_inside_a_value_is_read_again() -> None:
    values: dict[str, Any] = {"a": [np.zeros(3), 1]}
    async with showing(values) as (app, pilot, session):
        await press(pilot, "enter", "down")
        session.script["more"] = lambda it, cell: (values["a"].append("new"), it.finish(cell))
        await submit(pilot, "more")
        await settle(pilot)
        assert "'new'" in text_of(app) and "entry 1 of 3" in text_of(app)
        await press(pilot, "f4", "up", "enter")
        session.script["fill"] = lambda it, cell: (values["a"][0].fill(7.25), it.finish(cell))
        await submit(pilot, "fill")
        await settle(pilot)
        assert "7.25" in text_of(app) and "mean 7.25" in text_of(app)
        session.script["less"] = lambda it, cell: (values.clear(), it.finish(cell))
        await submit(pilot, "less")
        await settle(pilot)
        assert "is gone" in text_of(app)


async def test_lines_are_cut_for_the_width_of_the_pane() -> None:
    async with showing("word " * 100) as (app, pilot, _):
        narrow = pane(app).entries.page.total
        await press(pilot, "f10")
        wide = pane(app).entries.page.total
        assert 1 < wide < narrow and f"row 1 of {wide}" in text_of(app)


async def test_a_table_of_pandas_has_its_names() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"price": [1.5, 2.5], "who": ["ann", None]}, index=["first", "second"])
    async with showing({"t": frame}) as (app, pilot, _):
        screen = await press(pilot, "enter")
        assert "x > ['t'] (2, 2)" in screen and "price" in screen and "second" in screen
        assert "ann" in screen
        assert "is of type DataFrame, not an array" in await press(pilot, "i")
        await press(pilot, "right", "y")
