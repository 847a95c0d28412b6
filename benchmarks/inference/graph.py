"""A graph of ONNX's operations, and the file it becomes. Only `write` needs the library onnx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPSET = 20
"""The first whose Gelu is an operation; the peers of today know it."""
IR_VERSION = 9
"""The format of files that came with it."""


@dataclass(frozen=True)
class Node:
    """One operation: its kind, the names it reads, the names it makes, and its attributes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass
class Graph:
    """Nodes in the order they run, the weights they read, and what goes in and out."""

    nodes: list[Node] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node, and give the name of what it makes: of several, the first."""
        name = f"{kind}_{len(self.nodes)}"
        made = (name, *(f"{name}_{number}" for number in range(1, outputs)))
        self.nodes.append(Node(kind, inputs, made, attributes))
        return name

    def weight(self, array: Any, dtype: str = "float32") -> str:
        """Keep an array, and give its name."""
        name = f"weight_{len(self.weights)}"
        self.weights[name] = np.ascontiguousarray(np.asarray(array, dtype))
        return name

    def maker(self, name: str) -> Node | None:
        """The node that makes this name; None for what goes in."""
        return next((node for node in self.nodes if name in node.outputs), None)


def write(graph: Graph, file: str) -> None:
    """Check the graph, and write it as a file of ONNX."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def described(names: Mapping[str, tuple[int, ...]]) -> list[Any]:
        kind = TensorProto.FLOAT
        return [helper.make_tensor_value_info(name, kind, shape) for name, shape in names.items()]

    nodes = [
        helper.make_node(one.kind, one.inputs, one.outputs, name=one.outputs[0], **one.attributes)
        for one in graph.nodes
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in graph.weights.items()]
    made = helper.make_graph(
        nodes, "model", described(graph.inputs), described(graph.outputs), weights
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)
