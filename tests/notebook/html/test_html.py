"""Static HTML: what it tells of every kind of value, in markup that machines can read, too."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from seen import read, text_of_value

from kbench import backend as K
from kbench.engine.inspect import describe, statistics
from kbench.notebook import show
from kbench.notebook.drawing import graph_rows
from kbench.notebook.html import html, views


def raised(action: Any) -> Exception:
    """The error that an action ends in."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("no error")


def recorded() -> list[Any]:
    """The records of one small evaluation."""
    with K.record() as runs:
        K.eval(K.constant(1.0) + K.variable(2.0))
    return list(runs)


def nested_in_itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: K.variable([[1.0, 2.0]], name="w"), ["variable", "w", "float32[1, 2]", "version"]),
        (lambda: K.placeholder((None, 3), name="x"), ["placeholder", "float32[?, 3]", "until"]),
        (lambda: K.constant([4.0, 5.0]), ["constant", "float32[2]", "values", "mean"]),
        (lambda: K.placeholder((2,)) + 1, ["tensor", "not evaluated", "graph", "add"]),
        (lambda: K.function([K.placeholder((2,), name="x")], []), ["function", "x", "outputs"]),
        (lambda: np.zeros((0, 3)), ["float64[0, 3]", "no elements"]),
        (lambda: np.float16(3.0), ["float16[]", "3"]),
        (lambda: np.array([np.nan, np.inf]), ["NaN: 1, first at [0]", "Inf: 1, first at [1]"]),
        (lambda: np.array([3 + 4j, 0]), ["complex128[2]", "|x|", " 5", "3+4j", "0+0j"]),
        (
            lambda: np.array(["a", None, 2, object()], dtype=object),
            ["'a'", "None", "2", "<object>"],
        ),
        (lambda: np.array(["one", "two"]), ["<U3[2]", "one", "two"]),
        (lambda: np.array([b"one"]), ["|S3[1]", "b'one'"]),
        (lambda: np.array([(1, 0.5)], [("n", int), ("x", float)]), ["(1, 0.5)"]),
        (
            lambda: np.array(["2020-03-01", "NaT", "2019-05-06"], "M8[D]"),
            ["from", "2019-05-06", "to", "2020-03-01", "NaT"],
        ),
        (lambda: np.array([5, 60], "m8[s]"), ["5 seconds", "60 seconds"]),
        (
            lambda: np.ma.array([1.0, 50.0, np.nan, 3.0], mask=[0, 1, 0, 0]),
            ["mean", "2", "1 of 4", "--", "NaN: 1, first at [2]"],
        ),
        (lambda: np.ma.array([[1, 2]], mask=True), ["masked", "2 of 2", "--"]),
        (lambda: np.array([np.longdouble(1.5)]), ["1.5"]),
        (lambda: object(), ["object"]),
        (
            lambda: raised(lambda: K.dot(K.zeros((2, 3)), K.zeros((2, 3)))),
            ["ShapeError", "dot", "float32[2, 3]", "2 operands", "try", "transpose"],
        ),
        (lambda: recorded()[0], ["run", "eval", "1 step", "form", "GB/s"]),
        (lambda: recorded(), ["list", "1 entry", "[0]"]),
        (
            lambda: K.gradients(K.sum(K.variable([1.0], name="w") ** 2), [K.variable(1.0)]),
            ["[0]", "None"],
        ),
        (
            lambda: {"w": K.variable([1.0, 2.0]), 3: None, (1,): np.ones(9)},
            ["dict", "['w']", "variable", "1, 2", "[3]", "[<tuple>]", "float64[9]"],
        ),
        (lambda: [np.zeros((3, 3))] * 99, ["the first", "of 99 entries", "all zero"]),
        (
            lambda: {"a": [1, (2, np.eye(2))], "b": {"c": [1, "x"], "d": [0] * 99}},
            ["2 entries", "['a'][1][1]", "float64[2, 2]", "['b']['c']", "[1, 'x']", "87 more"],
        ),
        (lambda: nested_in_itself(), ["[0][0][0][0]", "1 entry"]),
        (lambda: [np.ones(4_000_000, np.int8)] * 3, ["all 1", "int8[4000000] 3.8 MB"]),
        (lambda: (), ["tuple", "0 entries"]),
    ],
)
def test_says_what_there_is_to_say(make: Any, words: list[str]) -> None:
    text = text_of_value(make())
    assert [word for word in words if word not in text] == []


def test_symbolic_tensors_are_not_evaluated() -> None:
    total = K.variable(0.0)
    drawn = K.update_add(total, 1.0)
    html.bundle(drawn)
    html.bundle(K.sum(total))
    assert K.get_value(total) == 0.0


def test_last_run_is_told() -> None:
    x = K.placeholder((None,), name="x")
    y = x * 2
    K.function([x], [y])([np.array([1.0, 2.0])])
    assert "last run [2]: 2, 4" in text_of_value(y)
    assert "last fed [2]" in text_of_value(x)


def test_table_is_readable_by_machines() -> None:
    reader = read(html.show(np.arange(12.0).reshape(3, 4)))
    scopes = [attrs.get("scope") for tag, attrs in reader.tags if tag == "th"]
    assert scopes.count("col") == 5 and scopes.count("row") == 3
    assert "caption" in [tag for tag, _ in reader.tags]
    bars = [attrs for _, attrs in reader.tags if attrs.get("role") == "img"]
    assert len(bars) == 1 and "16 bins" in str(bars[0]["aria-label"])


@pytest.mark.parametrize("shape", [(3, 40, 50), (1000, 1000), (2,) * 8, (1, 100_000), (11, 11)])
def test_only_edges_are_shown(shape: tuple[int, ...]) -> None:
    reader = read(html.show(np.full(shape, -1.2345e-30)))
    cells = [tag for tag, _ in reader.tags if tag == "td"]
    assert 0 < len(cells) <= 11 * 11


def test_caption_names_the_slice() -> None:
    assert "w[0, :, :], 5 from each edge" in text_of_value(
        K.variable(np.zeros((2, 20, 30)), name="w")
    )


def test_show_without_values_tells_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    assert "floatx  float32" in capsys.readouterr().out


def test_long_chains_are_cut() -> None:
    x = K.placeholder((2,), name="n" * 200)
    for _ in range(3000):
        x = x + 1
    assert "6001 nodes, the nearest 12 shown" in text_of_value(x)


def test_graphs_are_not_walked_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    x = y = K.placeholder((2,), name="x")
    for _ in range(100):
        y = K.relu(y)
    last = y * x
    assert "102 nodes, the nearest 12 shown" in text_of_value(last)
    monkeypatch.setattr(graph_rows, "MAX_WALKED_NODES", 50)
    monkeypatch.setattr(describe, "graph", None)
    reader = read(html.show(last))
    assert "more than 50 nodes, the nearest 12 shown" in "".join(reader.text)
    lines = [tag for tag, _ in reader.tags].count("tr") - 1
    assert lines == 12 and reader.text.count("relu") == 10


def test_bundle_goes_through_json() -> None:
    bundle = K.variable([1.0, 2.0], name="w")._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("variable w")
    assert json.loads(json.dumps(bundle)) == bundle


def test_settings_table() -> None:
    shown = "".join(read(views.settings()).text)
    assert "epsilon" in shown and "1e-07" in shown and "channels_last" in shown


def test_a_value_is_read_once_for_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    scan = statistics.statistics
    monkeypatch.setattr(
        statistics, "statistics", lambda *given: reads.append(given) or scan(*given)
    )
    values = np.ones((300, 40), np.float16)
    html.bundle(values)
    assert len(reads) == 1
    with describe.reading_once():
        rows = [describe.array(one) for one in (values, values[:], values[1:], values.T)]
    assert [row["shape"] for row in rows] == [[300, 40], [300, 40], [299, 40], [40, 300]]
    assert len(reads) == 4 and rows[0] == rows[1]
    values[0, 0] = 0
    assert describe.array(values)["zeros"] == 1


def test_html_loads_no_jupyter() -> None:
    code = (
        "import sys; from kbench import backend as K; K.variable([1.0])._repr_mimebundle_();"
        "print([one for one in ('IPython', 'ipywidgets', 'traitlets', 'matplotlib', 'textual')"
        " if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
