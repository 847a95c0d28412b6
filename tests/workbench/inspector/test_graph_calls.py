"""Which nodes of a graph are one call: of a function of K, of a scope; never in a circle."""

from __future__ import annotations

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.graph.tensor import Tensor
from kbench.engine.inspect import describe
from kbench.workbench.analysis.graph_fold import composed, members_of
from kbench.workbench.inspector import graph_calls
from kbench.workbench.inspector.graph_calls import calls
from kbench.workbench.protocol.graphs import GraphNode


def found(*outputs: Tensor) -> list[str]:
    """The calls of a graph by what they are called, each as often as it was made."""
    numbers = dict(calls(describe.nodes(list(outputs))).values())
    return sorted(numbers.values())


def norm(x: Tensor) -> Tensor:
    one = K.variable(np.ones(3))
    return K.batch_normalization(x, one, one, one, one)


def scoped(x: Tensor) -> Tensor:
    with K.name_scope("block"):
        return K.tanh(x) * 2.0


def circle(x: Tensor) -> Tensor:
    """Operations of one scope, between which others stand."""
    with K.name_scope("around"):
        first = K.tanh(x)
    outside = K.exp(first)
    with K.name_scope("around"):
        return first * outside


@pytest.mark.parametrize(
    "build, expected",
    [
        (K.tanh, []),
        (norm, ["batch_normalization"]),
        (lambda x: norm(K.tanh(norm(x))), ["batch_normalization"] * 2),
        (scoped, ["block"]),
        (lambda x: scoped(norm(x)), ["batch_normalization", "block"]),
        (circle, []),
        (lambda x: circle(norm(x)), ["batch_normalization"]),
    ],
)
def test_calls(build: object, expected: list[str]) -> None:
    x = K.placeholder((None, 3), name="x")
    assert found(build(x)) == expected  # type: ignore[operator]


def test_a_large_graph_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    y = norm(K.placeholder((None, 3)))
    monkeypatch.setattr(graph_calls, "MAX_NODES", 5)
    assert found(y) == []


def row(key: int, *inputs: int, call: int | None = None, kind: str = "tensor") -> GraphNode:
    called = "" if call is None else f"call{call}"
    return GraphNode(
        id=key, inputs=list(inputs), kind=kind, name=f"n{key}", call=call, called=called
    )


ROWS = [
    row(0, 1, 2, call=0),
    row(1, 2, 5, call=0),
    row(2, 3, call=1),
    row(3, 4, call=1),
    row(4, kind="placeholder"),
    row(5, kind="constant"),
]


@pytest.mark.parametrize(
    "opened, expected",
    [
        (set(), {"n0": ["n2"], "n2": ["n4"], "n4": []}),
        ({0}, {"n0": ["n1", "n2"], "n1": ["n2", "n5"], "n2": ["n4"], "n4": [], "n5": []}),
        ({1}, {"n0": ["n2"], "n2": ["n3"], "n3": ["n4"], "n4": []}),
    ],
)
def test_composites_take_what_their_parts_take(
    opened: set[int], expected: dict[str, list[str]]
) -> None:
    rows = composed(ROWS, opened)
    names = {row.id: row.name for row in rows}
    assert {row.name: [names[source] for source in row.inputs] for row in rows} == expected
    assert [row.op for row in rows if row.kind == "composite"] == [
        f"call{call}" for call in members_of(ROWS) if call not in opened
    ]
