"""How a layer's output comes about: layer by layer to the inputs, and op by op inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.graphs import GraphNode, GraphReply

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

MAX_LAYERS = 120
"""Of a model that are listed."""


def graph(layer: object, model: object, limit: int) -> GraphReply:
    """The graph of a layer's output, within `model` if it is part of one.

    Returns:
        `layers`: rows from the layer to the inputs it depends on, each with the ids of its
        `inputs`; `rows`: the operations of the layer itself, down to its own inputs, in the form
        of `describe.graph`; `total` and `cut`: how many there are, and are not shown.
    """
    calls, tensors, ends = _parts(layer, model)
    way, total = _way(calls)
    rows, found = _inside(tensors, ends, limit)
    return GraphReply(
        rows=rows,
        total=found,
        cut=found - len(rows),
        layers=way,
        layers_cut=total - len(way),
    )


def tensor_at(layer: object, model: object, number: int, of_layers: bool) -> Tensor | None:
    """The tensor behind a row of `graph`: an operation's, or the first output of a layer."""
    calls, tensors, ends = _parts(layer, model)
    if of_layers:
        way = list(_calls(calls).values())
        return next(iter(keras_models.outputs(way[number][1])), None) if number < len(way) else None
    found = list(_found(tensors, ends).values())
    return found[number] if number < len(found) else None


def _parts(
    layer: object, model: object
) -> tuple[list[tuple[object, object]], list[Tensor], list[object]]:
    """The calls that a graph begins with; outputs and inputs of a layer that is no model."""
    if keras_models.is_model(layer):
        return _origins(keras_models.listed(keras_models.fields(layer).get("outputs"))), [], []
    calls = keras_models.nodes(layer, model)[:1]
    tensors = [tensor for call in calls for tensor in keras_models.outputs(call)]
    ends = [
        tensor
        for call in calls
        for tensor in keras_models.listed(keras_models.fields(call).get("input_tensors"))
    ]
    return [(layer, call) for call in calls], tensors, ends


def _origins(tensors: Sequence[object]) -> list[tuple[object, object]]:
    """The layer and call that each tensor comes from."""
    found = []
    for tensor in tensors:
        history = keras_models.fields(tensor).get("_keras_history")
        if type(history) is tuple and len(history) == 3 and keras_models.is_layer(history[0]):
            calls = keras_models.listed(keras_models.fields(history[0]).get("_inbound_nodes"))
            if type(history[1]) is int and history[1] < len(calls):
                found.append((history[0], calls[history[1]]))
    return found


def _feeding(call: object) -> list[tuple[object, object]]:
    """The layers and calls whose outputs a call takes."""
    known = keras_models.fields(call)
    found = []
    for layer, at in zip(
        keras_models.listed(known.get("inbound_layers")),
        keras_models.listed(known.get("node_indices")),
        strict=False,
    ):
        calls = keras_models.listed(keras_models.fields(layer).get("_inbound_nodes"))
        if type(at) is int and at < len(calls):
            found.append((layer, calls[at]))
    return found


def _way(roots: list[tuple[object, object]]) -> tuple[list[GraphNode], int]:
    """Rows of the calls that lead to these, nearest first, and how many there are."""
    calls = _calls(roots)
    ids = {key: number for number, key in enumerate(calls) if number < MAX_LAYERS}
    rows = []
    for key, number in ids.items():
        layer, call = calls[key]
        specs = [str(tensor.spec) for tensor in keras_models.outputs(call)]
        row = GraphNode(
            id=number,
            name=keras_models.name_of(layer),
            op=describe.printable(type(layer).__name__),
            spec=", ".join(specs[:4]),
            inputs=[ids.get(id(source)) for _, source in _feeding(call)][:16],
        )
        rows.append(row)
    return rows, len(calls)


def _calls(roots: list[tuple[object, object]]) -> dict[int, tuple[object, object]]:
    """The calls that lead to these, nearest first, by their ids."""
    calls: dict[int, tuple[object, object]] = {id(call): (layer, call) for layer, call in roots}
    queue = list(roots)
    for _, call in queue:  # grows while it is read
        for layer, source in _feeding(call):
            if id(source) not in calls:
                calls[id(source)] = (layer, source)
                queue.append((layer, source))
    return calls


def _inside(outputs: list[Tensor], ends: list[object], limit: int) -> tuple[list[GraphNode], int]:
    """The operations between tensors, nearest to the outputs first, and how many there are."""
    stops = _stops(outputs, ends)
    found = _found(outputs, ends)
    ids = {key: number for number, key in enumerate(found) if number < limit}
    rows = []
    for key, number in ids.items():
        node = found[key]
        inputs = [] if key in stops else [ids.get(id(source)) for source in node.inputs[:16]]
        row = {**describe.tensor(node), "id": number, "inputs": inputs, "end": key in stops}
        rows.append(GraphNode.built(row))
    return rows, len(found)


def _stops(outputs: list[Tensor], ends: list[object]) -> set[int]:
    return {id(tensor) for tensor in ends} - {id(tensor) for tensor in outputs}


def _found(outputs: list[Tensor], ends: list[object]) -> dict[int, Tensor]:
    """The operations between tensors by their ids, nearest to the outputs first."""
    stops = _stops(outputs, ends)
    found = {id(tensor): tensor for tensor in outputs}
    queue = list(outputs)
    for node in queue:
        if id(node) in stops:
            continue
        for source in node.inputs:
            if id(source) not in found:
                found[id(source)] = source
                queue.append(source)
    return found
