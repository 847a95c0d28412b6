"""How a layer's output comes about: layer by layer to the inputs, and op by op inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.models import keras_models
from kbench.workbench.models.keras_models import Part
from kbench.workbench.models.reader import Called
from kbench.workbench.protocol.graphs import GraphNode, GraphReply

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

MAX_LAYERS = 120
"""Of a model that are listed."""


def graph(part: Part, limit: int) -> GraphReply:
    """The graph of a layer's output, within its model if it is part of one.

    Returns:
        `layers`: rows from the layer to the inputs it depends on, each with the ids of its
        `inputs`; `rows`: the operations of the layer itself, down to its own inputs, in the form
        of `describe.graph`; `total` and `cut`: how many there are, and are not shown.
    """
    calls, tensors, ends = _parts(part)
    way, total = _way(calls)
    rows, found = _inside(tensors, ends, limit)
    return GraphReply(
        rows=rows,
        total=found,
        cut=found - len(rows),
        layers=way,
        layers_cut=total - len(way),
    )


def tensor_at(part: Part, number: int, of_layers: bool) -> Tensor | None:
    """The tensor behind a row of `graph`: an operation's, or the first output of a layer."""
    calls, tensors, ends = _parts(part)
    if of_layers:
        way = list(_calls(calls).values())
        if number >= len(way):
            return None
        steps = keras_models.functions(part.root or part.value)
        return keras_models.reader().output_of(*way[number], steps)
    found = list(_found(tensors, ends).values())
    return found[number] if number < len(found) else None


def _parts(part: Part) -> tuple[list[Called], list[Tensor], list[object]]:
    """The calls that a graph begins with; outputs and inputs of a layer that is no model."""
    keras = keras_models.reader()
    layer, model = part.value, part.owner
    if keras_models.is_model(layer):
        ends = keras.ends(layer)
        made = [] if ends else keras_models.functions(layer)  # where Python calls the layers
        return ends, [output for function in made[:1] for output in function.outputs], []
    first = keras.calls(layer, model)[:1]
    steps = keras_models.functions(part.root or model)
    return [(layer, call) for call in first], *keras.inside(layer, model, steps)


def _way(roots: list[Called]) -> tuple[list[GraphNode], int]:
    """Rows of the calls that lead to these, nearest first, and how many there are."""
    calls = _calls(roots)
    feeding = keras_models.reader().feeding
    ids = {key: number for number, key in enumerate(calls) if number < MAX_LAYERS}
    rows = []
    for key, number in ids.items():
        layer, call = calls[key]
        specs = [describe.spec_text(*spec) for spec in keras_models.given(call)]
        row = GraphNode(
            id=number,
            name=keras_models.name_of(layer),
            op=describe.printable(type(layer).__name__),
            spec=", ".join(specs[:4]),
            inputs=[ids.get(id(source)) for _, source in feeding(call)][:16],
        )
        rows.append(row)
    return rows, len(calls)


def _calls(roots: list[Called]) -> dict[int, Called]:
    """The calls that lead to these, nearest first, by their ids."""
    feeding = keras_models.reader().feeding
    calls: dict[int, Called] = {id(call): (layer, call) for layer, call in roots}
    queue = list(roots)
    for _, call in queue:  # grows while it is read
        for layer, source in feeding(call):
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
