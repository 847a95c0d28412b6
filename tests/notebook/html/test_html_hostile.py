"""Static HTML is escaped, small, and never a reason to fail, whatever it is shown."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seen import read, text_of_value

from kbench import backend as K
from kbench.engine.core import errors
from kbench.engine.inspect import describe
from kbench.engine.runtime.profile import RunRecord
from kbench.notebook import show
from kbench.notebook.base.redraw import rows
from kbench.notebook.html import html, views
from kbench.workbench.inspector.namespace import View

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "</style><img src=x onerror=alert(1)>",
    "]]><!--",
    "a\u202eb\u2066c",
    "\x00\x1b[31mred\x07",
    "&lt;&amp;",
    "x" * 5000,
    "{}%s%(a)s$x",
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    x = K.placeholder((2,), name=name)
    for value in (x, x + 1, K.function([x], [x], name=name), K.variable([1.0], name=name)):
        reader = read(html.show(value))
        assert "not shown" not in "".join(reader.text)
    read(views.names_table(rows(View({name: x, name + "2": np.ones(3)}))))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_name(name: str) -> None:
    key = f"n{name}"
    shown = "".join(read(views.names_table(rows(View({key: np.ones(3)})))).text)
    assert describe.printable(key) in shown
    assert all(one.isprintable() for one in shown.replace("\u00a0", " "))  # of empty bins


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=100), max_size=60))
def test_many_names_stay_within_the_limit(names: list[str]) -> None:
    read(views.names_table(rows(View({f"n{name}": np.ones(3) for name in names}))))


def test_a_sampled_range_is_marked() -> None:
    large = np.arange(4_000_001, dtype=np.int32)
    for value, marked in ((large, True), (large[1:], False)):
        shown = views.names_table(rows(View({"a": value})))
        assert ("~" in "".join(read(shown).text)) == marked


class Broken:
    """An object that raises from everything that a repr might touch."""

    kind = "tensor"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("<b>no</b>")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __len__ = __repr__  # type: ignore[assignment]


class Liar(np.ndarray):
    """An array that tells nothing true of itself and raises when it is asked for more."""

    shape = property(lambda self: Broken())  # type: ignore[assignment]
    dtype = size = ndim = nbytes = shape  # type: ignore[assignment]
    __repr__ = __str__ = __len__ = __array__ = Broken.__repr__  # type: ignore[assignment]


class Sly(list):  # type: ignore[type-arg]
    """A list that raises when it is looked into."""

    __iter__ = __len__ = __getitem__ = __repr__ = Broken.__repr__  # type: ignore[assignment]


HOLDER = np.empty(3, object)
HOLDER[0], HOLDER[1] = Broken, type("<b>bad</b>", (), {})()
WEIRD = [
    Broken(),
    Broken,
    np.zeros(3).view(Liar),
    Sly([1]),
    [Broken(), Sly([1])],
    {Broken: Broken()},
    type("<b>bad</b>", (), {})(),
    errors.ShapeError("<b>no</b>" * 200, function="<i>", suggestion="<u>" * 99),
    errors.ShapeError(Broken()),  # type: ignore[arg-type]
    RunRecord("<b>" * 99, float("nan"), -1, [None]),  # type: ignore[list-item]
    np.zeros(2, [("<b>", "f4"), ("b", "i8")]),
    np.ma.masked_all((2, 2)),
    np.array(["<b>x</b>", "\u202e"]),
    np.array(b"<b>"),
    np.datetime64("2020-01-01"),
    HOLDER,
]


@pytest.mark.parametrize("value", WEIRD, ids=range(len(WEIRD)))
def test_anything_can_be_shown(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = html.bundle(value)
    read(bundle["text/html"])
    assert bundle["text/plain"].replace("\n", "").isprintable()
    show(value)
    assert capsys.readouterr().out == bundle["text/plain"] + "\n"


CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
    | st.integers(0, len(WEIRD) - 1).map(lambda at: WEIRD[at]),
    lambda inner: st.lists(inner, max_size=8)
    | st.dictionaries(st.text(max_size=20) | st.integers(), inner, max_size=8),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(CONTENTS, max_size=6))
def test_any_collection(value: Any) -> None:
    bundle = html.bundle(value)
    assert "not shown" not in "".join(read(bundle["text/html"]).text)
    json.dumps(bundle)


def test_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    read(html.show(Broken()))

    def refuse(value: Any) -> None:
        raise RuntimeError("<b>broken</b>" * 100)

    monkeypatch.setattr(describe, "tensor", refuse)
    assert "not shown: RuntimeError" in text_of_value(K.variable(1.0))
