"""Graphs in notebooks: shapes on the edges, nothing evaluated, folded where they are big."""

from __future__ import annotations

import base64
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from seen import Reader, settled, text_of

from kbench import backend as K
from kbench.notebook import GraphView
from kbench.notebook.drawing.graph_layout import laid_out, layers
from kbench.notebook.drawing.graph_svg import columns, wrapped
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES
from kbench.notebook.widgets.graph_view import MAX_DRAWN_NODES, drawn


@pytest.fixture
def names() -> dict[str, Any]:
    x = K.placeholder((None, 3), name="x")
    w = K.variable(np.ones((3, 2)), name="w")
    return {"x": x, "w": w, "loss": K.mean(K.square(K.dot(x, w)))}


def test_graph_has_shapes_on_its_edges_and_a_list(names: dict[str, Any]) -> None:
    part = GraphView("loss", names)
    reader = Reader()
    reader.feed(part.html)
    pictures = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert len(pictures) == 1 and pictures[0]["role"] == "img" and pictures[0]["aria-label"]
    tags = [tag for tag, _ in reader.tags]
    assert "desc" in tags and "title" in tags and "li" in tags
    shown = text_of(part.html)
    assert "float32[?, 2]" in shown and "w float32[3, 2]" in shown and "takes" in shown
    assert "graph of loss" in part._static_text() and "dot" in part._static_text()
    assert not re.search(r"#[0-9a-f]{3,6}|rgb|url\(|id=", part.html.split("</style>")[1])
    part.close()


def test_what_is_saved_of_a_graph_is_an_image_and_a_list(names: dict[str, Any]) -> None:
    part = GraphView("loss", names)
    saved = part._static_html()
    part.close()
    (found,) = re.findall(r'<img[^>]*src="data:image/svg\+xml;base64,([^"]*)" alt="([^"]*)"', saved)
    root = ElementTree.fromstring(base64.b64decode(found[0]))
    assert [child.tag.rpartition("}")[2] for child in root][:3] == ["rect", "title", "desc"]
    assert "float32[?, 2]" in "".join(root.itertext())
    assert found[1] == "graph of loss, listed below" and "<svg" not in saved
    assert "takes" in text_of(saved)  # the list
    assert len(saved.encode()) <= MAX_OUTPUT_BYTES


def test_graph_is_not_evaluated_and_follows_what_ran() -> None:
    total = K.variable(0.0)
    x = K.placeholder((None,), name="x")
    names = {"step": K.function([x], [K.sum(x)], [K.update_add(total, 1.0)]), "y": K.log(x)}
    part = GraphView("y", names)
    part._repr_mimebundle_()
    assert K.get_value(total) == 0.0 and "last" not in part.html.split("</style>")[1]
    K.function([x], [names["y"]])([np.array([0.0, 1.0])])
    settled("last [2]", part)
    part.chosen.value = "step"
    settled("sum", part)
    part.close()


def test_big_graph_is_folded_and_bounded() -> None:
    x = K.placeholder((4,), name="x")
    y = x
    for number in range(300):
        y = K.tanh(y + (x if number % 7 == 0 else 1.0))
    part = GraphView(namespace={"y": y})
    assert "folded" in text_of(part.html) and len(part._static_html().encode()) <= MAX_OUTPUT_BYTES
    assert 1 < len(drawn(part._folds)) <= 30
    part.all_button.click()
    assert 30 < len(drawn(part._folds)) <= MAX_DRAWN_NODES and len(part.html.encode()) <= 60_000
    part.none_button.click()
    assert len(drawn(part._folds)) == 1
    part.node.value = part._folds.roots[0]
    part.fold_button.click()
    assert len(drawn(part._folds)) == 2
    part.find.value = "placeholder"
    assert "no node has" in part.html or part.node.value is not None
    part.find.value = "nothing of this"
    assert "no node has" in text_of(part.html)
    part.close()


@pytest.mark.parametrize(
    "inputs, expected",
    [
        ({}, {}),
        ({0: []}, {0: 0}),
        ({0: [], 1: [0], 2: [0, 1]}, {0: 0, 1: 1, 2: 2}),
        ({0: [], 1: [0], 2: [1], 3: [], 4: [2, 3]}, {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}),
    ],
)
def test_layers(inputs: dict[int, list[int]], expected: dict[int, int]) -> None:
    assert layers(inputs) == expected


def test_nodes_do_not_overlap() -> None:
    rng = np.random.default_rng(1)
    for count in (2, 9, 40):
        inputs = {
            key: [int(one) for one in rng.choice(key, min(key, 3), replace=False)] if key else []
            for key in range(count)
        }
        found = laid_out(inputs)
        assert all(found.layer[one] < found.layer[key] for key in inputs for one in inputs[key])
        for layer in range(found.layers):
            row = sorted(found.place[key] for key in inputs if found.layer[key] == layer)
            assert all(b - a > 0.99 for a, b in zip(row, row[1:], strict=False))
            assert not row or (row[0] >= 0.49 and row[-1] <= found.width - 0.49)


@pytest.fixture
def called() -> dict[str, Any]:
    """Calls that take several operations, one of them in a name scope."""
    x = K.placeholder((None, 3), name="x")
    ones = K.variable(np.ones(3), name="a_variable_whose_name_is_long_enough_to_need_two_lines")
    with K.name_scope("block"):
        h = K.tanh(K.dot(x, K.ones((3, 3)))) * 2.0
    y = K.batch_normalization(h, ones, ones, ones, ones)
    return {"x": x, "y": y, "f": K.function([x], [y], name="f")}


def test_a_call_is_one_node_that_a_click_opens(called: dict[str, Any]) -> None:
    part = GraphView("y", called)
    at_first = [row.op for row in drawn(part._folds)]
    assert at_first == ["batch_normalization", "block", "placeholder"]
    before = part._static_text()
    part.node.value = drawn(part._folds)[0].id
    opened = [row.op for row in drawn(part._folds)]
    assert len(opened) > 5 and "batch_normalization" not in opened and "block" in opened
    assert part.node.label.startswith("add") and "part of" in text_of(part.html)
    assert not part.close_button.disabled
    part.close_button.click()
    assert part._static_text() == before and part.close_button.disabled
    part.find.value = "sqrt"
    assert "sqrt" in part.node.label
    part.close()


def test_a_node_tells_what_is_known_of_it(called: dict[str, Any]) -> None:
    part = GraphView("y", called)
    part.node.value = next(row.id for row in drawn(part._folds) if row.op == "placeholder")
    assert "was not fed yet" in text_of(part.html)
    called["f"]([np.full((2, 3), 7.0)])
    part._repr_mimebundle_()
    part.refresh()
    shown = text_of(part.html)
    assert "test_graph_view.py" in shown and "last call[2, 3]" in shown and "values" in shown
    part.close()


def test_no_label_is_cut(called: dict[str, Any]) -> None:
    part = GraphView("y", called)
    reader = Reader()
    reader.feed(part.html)
    assert "…" not in part.html.split("</style>")[1]
    words = "".join(reader.text).replace("\n", "")
    assert "a_variable_whose_name_is_long_" in words and "enough_to_need_two_lines" in words
    for text, most in (("a" * 70, 20), ("変数" * 20, 12), ("one_two, three/four five", 9)):
        lines = wrapped(text, most)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert all(columns(line) <= most for line in lines)
    part.close()


@pytest.mark.parametrize("columns_of_x", [3, 1000, 10**9])
def test_no_shape_leaves_the_drawing(columns_of_x: int) -> None:
    """Of one column of short names the shapes beside the edges are the widest part."""
    x = K.placeholder((None, columns_of_x), name="x")
    part = GraphView("y", {"y": K.exp(K.abs(x))})
    wide = int(re.findall(r'<svg[^>]* width="(\d+)"', part.html)[0])
    shapes = re.findall(r'<text x="(\d+)"[^>]*font-size="10">([^<]*)</text>', part.html)
    assert len(shapes) >= 3
    assert all(int(left) + 6.3 * columns(shape) <= wide for left, shape in shapes)
    part.close()
