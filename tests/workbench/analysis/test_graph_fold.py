"""Folding of graphs: what is drawn, how much a fold hides, the way to a hidden node, searches."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.workbench.analysis import graph_text
from kbench.workbench.analysis.graph_fold import Folds
from kbench.workbench.protocol.graphs import GraphNode

# Two ways from 0 to 3, one of them through 4; 9 is a weight, told beside what takes it.
DIAMOND = {0: [1, 2], 1: [3, 9], 2: [4], 4: [3], 3: [5], 5: [], 9: []}


def rows_of(graph: dict[int, list[Any]]) -> list[GraphNode]:
    return [
        GraphNode(
            id=key,
            name=f"n{key}",
            op="relu" if key % 2 else "add",
            spec=f"float32[{key}]",
            kind="variable" if key == 9 else "tensor",
            inputs=inputs,
        )
        for key, inputs in graph.items()
    ]


def drawn(folds: Folds) -> list[int]:
    lines = graph_text.lines(folds.visible())
    return [line.row.id for line in lines if line.row is not None]


FOLDED = [  # folded, drawn, hidden by each
    ([], [0, 1, 2, 4, 3, 5], {}),
    ([1], [0, 1, 2, 4, 3, 5], {1: 0}),
    ([2], [0, 1, 3, 5, 2], {2: 1}),
    ([3], [0, 1, 2, 4, 3], {3: 1}),
    ([1, 2], [0, 1, 2], {1: 2, 2: 3}),
    ([0], [0], {0: 5}),
    ([5, 9, 77], [0, 1, 2, 4, 3, 5], {5: 0, 9: 0, 77: 0}),
]


@pytest.mark.parametrize(("folded", "shown", "hidden"), FOLDED)
def test_a_fold_hides_what_is_reached_through_it_alone(
    folded: list[int], shown: list[int], hidden: dict[int, int]
) -> None:
    folds = Folds(rows_of(DIAMOND))
    for key in folded:
        folds.toggle(key)
    assert drawn(folds) == shown
    assert {key: folds.hidden(key) for key in hidden} == hidden
    for key in folded:
        folds.toggle(key)
    assert drawn(folds) == [0, 1, 2, 4, 3, 5]


def test_weights_stay_beside_a_folded_node() -> None:
    folds = Folds(rows_of(DIAMOND))
    folds.toggle(1)
    beside = {line.row.id: line.beside for line in graph_text.lines(folds.visible()) if line.row}
    assert beside[1] == "n9 float32[9]" and beside[2] == ""


def test_everything_is_folded_and_unfolded() -> None:
    folds = Folds(rows_of(DIAMOND))
    folds.fold_all()
    assert drawn(folds) == [0]
    folds.toggle(0)
    assert drawn(folds) == [0, 1, 2]
    folds.unfold_all()
    assert drawn(folds) == [0, 1, 2, 4, 3, 5]


@pytest.mark.parametrize("key", [0, 1, 2, 3, 4, 5])
def test_a_hidden_node_is_revealed(key: int) -> None:
    folds = Folds(rows_of(DIAMOND))
    folds.fold_all()
    folds.reveal(key)
    assert key in drawn(folds)
    assert key == 5 or key in folds.folded  # what is below it stays folded


SEARCHES = [
    ("relu", [1, 3, 5]),
    ("RELU 32[3", [3]),
    ("n4", [4]),
    ("n9", []),
    ("", []),
    ("  ", []),
    ("nothing", []),
]


@pytest.mark.parametrize(("words", "found"), SEARCHES)
def test_nodes_are_found_in_the_order_of_drawing(words: str, found: list[int]) -> None:
    assert Folds(rows_of(DIAMOND)).matches(words) == found


ODD: list[tuple[dict[int, list[Any]], list[int]]] = [
    ({}, []),
    ({9: []}, [9]),
    ({0: [7, None]}, [0]),
    ({0: [], 1: []}, [0, 1]),
]


@pytest.mark.parametrize(("graph", "shown"), ODD)
def test_odd_graphs_are_drawn(graph: dict[int, list[Any]], shown: list[int]) -> None:
    folds = Folds(rows_of(graph))
    assert drawn(folds) == shown
    folds.fold_all()
    assert drawn(folds) == shown
