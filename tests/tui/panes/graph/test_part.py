"""A part of a graph: calls as one node, which open and close, and what a new reply keeps."""

from __future__ import annotations

import pytest

from kbench.tui.panes.graph.part import GraphPart
from kbench.workbench.analysis.graph_fold import composite_id
from kbench.workbench.protocol.graphs import GraphNode


def node(key: int, *inputs: int, call: int | None = None, op: str = "add") -> GraphNode:
    called = "" if call is None else f"call{call}"
    return GraphNode(
        id=key, inputs=list(inputs), kind="tensor", name=f"n{key}", op=op, call=call, called=called
    )


# n0 is made of n0 and n1, its input n2 of n2 and n3; n4 stands alone.
ROWS = [
    node(0, 1, 2, call=0),
    node(1, 2, call=0, op="square"),
    node(2, 3, call=1),
    node(3, 4, call=1, op="exp"),
    node(4, op="relu"),
]
FIRST, SECOND = composite_id(0), composite_id(1)


def shown(part: GraphPart) -> list[int]:
    return [row.id for row in part.folds.visible()]


def test_a_call_is_one_node_that_opens_and_closes() -> None:
    part = GraphPart(ROWS)
    assert shown(part) == [FIRST, SECOND, 4]
    assert [part.operations(key) for key in shown(part)] == [2, 2, 0]
    assert part.node(SECOND) is ROWS[2] and part.node(4).id == 4
    assert part.open(4) is None and part.open(SECOND) == 2
    assert shown(part) == [FIRST, 2, 3, 4]
    assert part.close(3) is None and part.close(4) is None  # not the result of a call
    assert part.close(2) == SECOND and shown(part) == [FIRST, SECOND, 4]
    part.open_all()
    assert shown(part) == [0, 1, 2, 3, 4]
    part.close_all()
    assert shown(part) == [FIRST, SECOND, 4]


def test_folds_stay_when_a_call_opens() -> None:
    part = GraphPart(ROWS)
    part.folds.toggle(SECOND)
    assert shown(part) == [FIRST, SECOND]
    part.open(FIRST)
    assert shown(part) == [0, 1, SECOND]
    part.close(0)
    assert shown(part) == [FIRST, SECOND]


FOUND = [  # words, nodes that have them, nodes on view once the first is revealed
    ("n0", [FIRST], [FIRST, SECOND, 4]),
    ("call1", [SECOND], [FIRST, SECOND, 4]),
    ("exp", [3], [FIRST, 2, 3, 4]),
    ("square", [1], [0, 1, SECOND, 4]),
    ("relu", [4], [FIRST, SECOND, 4]),
    ("nothing", [], [FIRST, SECOND, 4]),
]


@pytest.mark.parametrize(("words", "keys", "then"), FOUND)
def test_what_is_inside_a_call_is_found(words: str, keys: list[int], then: list[int]) -> None:
    part = GraphPart(ROWS)
    assert part.matches(words) == keys
    for key in keys[:1]:
        part.reveal(key)
    assert shown(part) == then


def test_a_new_reply_keeps_what_is_open_and_folded() -> None:
    before = GraphPart(ROWS)
    before.open(SECOND)
    before.folds.toggle(3)
    assert shown(before) == [FIRST, 2, 3]
    again = GraphPart([*ROWS[:4], node(4, 5, op="relu"), node(5)])
    again.take_over(before)
    assert shown(again) == [FIRST, 2, 3]
    other = GraphPart([node(7, 8, call=0), node(8, call=0)])
    other.take_over(before)
    assert shown(other) == [composite_id(0)]
