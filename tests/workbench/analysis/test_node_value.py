"""The value of a node of a graph, on what was fed last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask

import kbench as K
from kbench.workbench.inspector.inspector import Inspector


@pytest.fixture
def session() -> Any:
    x = K.placeholder((None, 2), name="x")
    w = K.variable([[1.0, -2.0], [3.0, 4.0]], name="w")
    hidden = K.relu(K.dot(x, w))
    loss = K.mean(K.square(hidden))
    step = K.function([x], [loss], updates=[K.update(w, w * 0.5)], name="step")
    names: dict[str, Any] = {"x": x, "w": w, "loss": loss, "step": step, "h": hidden}
    names["noise"] = K.dropout(x, 0.5)
    names["stored"] = K.update_add(w, K.ones_like(w))
    inspector = Inspector(names)
    ask(inspector, "hello", push=False, record=True)
    yield inspector, names
    inspector.close()


def node(inspector: Inspector, name: str, called: str) -> dict[str, Any]:
    rows = ask(inspector, "graph", name=name, start=0)["rows"]
    found = next(row for row in rows if row["name"].startswith(called))
    return inspector.handle(
        {"verb": "node", "name": name, "number": found["id"], "node": found["name"]}
    )


FED = np.array([[1.0, 1.0], [2.0, 0.0], [0.5, 1.0]], np.float32)
# (of which graph, the node, what its value is while w is what it is, where that comes from)
NODES: list[tuple[str, str, Any, str]] = [
    ("loss", "x", lambda w: FED, "as it was fed last"),
    ("loss", "w", lambda w: w, "its value now"),
    ("loss", "dot", lambda w: FED @ w, "on the last feed, variables as now"),
    ("step", "relu", lambda w: np.maximum(FED @ w, 0), "on the last feed"),
    ("h", "relu", lambda w: np.maximum(FED @ w, 0), "on the last feed"),
]


@pytest.mark.parametrize(("name", "called", "expected", "words"), NODES)
def test_a_node_has_its_value_on_the_last_feed(
    session: Any, name: str, called: str, expected: Any, words: str
) -> None:
    inspector, names = session
    names["step"]([FED])
    before, last = K.get_value(names["w"]), names["h"].last
    runs = len(inspector.recorder.runs())
    reply = node(inspector, name, called)
    assert reply["ok"], reply
    assert reply["data"]["words"].startswith(words)
    at = reply["data"]["name"]
    cells = ask(inspector, "window", name=at, rows=[0, 9], cols=[0, 9], exact=True)["cells"]
    np.testing.assert_allclose(np.array(cells, float), expected(before), rtol=1e-6)
    assert ask(inspector, "stats", name=at)["size"] == np.size(expected(before))
    assert np.array_equal(K.get_value(names["w"]), before) and names["h"].last is last
    assert len(inspector.recorder.runs()) == runs


def test_the_last_result_of_a_run_is_shown_as_it_was(session: Any) -> None:
    inspector, names = session
    (result,) = names["step"]([FED])
    reply = node(inspector, "loss", "mean")["data"]
    assert reply["words"] == "of the last run"
    assert float(reply["row"]["max"]) == pytest.approx(float(result), rel=1e-3)


def test_what_is_not_known_says_how_to_have_it_known(session: Any) -> None:
    inspector, names = session
    for name, called, words in (
        ("loss", "x", "x was not fed yet: call the K.function, or K.eval"),
        ("loss", "relu", "x was not fed yet"),
        ("stored", "", "stores to a variable"),
    ):
        assert words in node(inspector, name, called)["error"]["reason"]
    asked = {"verb": "node", "name": "loss", "number": 0, "node": "other:0"}
    assert "is gone from the graph" in str(inspector.handle(asked))
    names["step"]([FED])
    inspector.cell_started()
    assert "a cell runs" in str(node(inspector, "loss", "relu"))
    inspector.cell_ended()


def test_the_last_few_values_stay(session: Any) -> None:
    inspector, names = session
    names["step"]([FED])
    at = [
        node(inspector, "loss", called)["data"]["name"]
        for called in ("x", "w", "dot", "relu", "square")
    ]
    assert "no name" in str(inspector.handle({"verb": "stats", "name": at[0]}))
    for name in at[1:]:
        assert ask(inspector, "stats", name=name)["size"]
