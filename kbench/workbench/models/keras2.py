"""The fields of Keras 2.3.1: its tensors are those of K."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.models.fields import Place, field, fields, is_a, listed
from kbench.workbench.models.reader import (
    Called,
    Listed,
    OutputSpec,
    Weight,
    called_at,
    made_by,
)

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

LAYER = Place("keras.engine.base_layer", "Layer")
MODEL = Place("keras.engine.network", "Network")
SEQUENTIAL = Place("keras.engine.sequential", "Sequential")
INPUT = Place("keras.engine.input_layer", "InputLayer")


def inner(layer: object) -> Iterator[object]:
    """What may be layers inside a layer: what Keras tracks, and what cells and wrappers have."""
    known = fields(layer)
    yield from listed(known.get("_layers"))
    yield from listed(known.get("cells"))
    if not is_a(layer, MODEL):
        yield from list(known.values())


def own_weights(layer: object) -> list[Listed]:
    """The variables that a layer itself lists."""
    return [
        Listed(variable, trained, str(getattr(variable, "name", "")).removesuffix(":0"))
        for name, trained in (("_trainable_weights", True), ("_non_trainable_weights", False))
        for variable in listed(field(layer, name))
        if describe.is_variable(variable)
    ]


def is_trained(layer: object) -> bool:
    """False for a layer that was frozen."""
    return field(layer, "trainable") is not False


def in_order(weights: list[Weight]) -> list[Weight]:
    """Weights as `layer.weights` lists them: the trained ones first."""
    return sorted(weights, key=lambda weight: not weight.trainable)


def dtype(layer: object) -> str:
    """The dtype in which a layer computes; "" where it is not known."""
    found = field(layer, "dtype")
    return found if type(found) is str else ""


def calls(layer: object, model: object) -> list[object]:
    """The calls of a layer, those in `model` if any are."""
    found = listed(field(layer, "_inbound_nodes"))
    known = field(model, "_network_nodes")
    if type(known) is set:
        name = field(layer, "name")
        inside = [node for at, node in enumerate(found) if f"{name}_ib-{at}" in known]
        return inside or found
    return found


def given(call: object) -> list[OutputSpec]:
    """Shapes and dtypes of what a call gave."""
    return [(tensor.spec.shape, str(tensor.spec.dtype)) for tensor in _outputs(call)]


def result(model: object) -> list[OutputSpec]:
    """Shapes and dtypes of what a model gives."""
    return [(tensor.spec.shape, str(tensor.spec.dtype)) for tensor in outputs(model)]


def _outputs(call: object) -> list[Tensor]:
    tensors = listed(field(call, "output_tensors"))
    return [tensor for tensor in tensors if describe.is_tensor(tensor)]


def feeding(call: object) -> list[Called]:
    """The layers and calls whose outputs a call takes."""
    layers, numbers = field(call, "inbound_layers"), field(call, "node_indices")
    return called_at(zip(listed(layers), listed(numbers), strict=False))


def ends(model: object) -> list[Called]:
    """The layers and calls that give what a model gives."""
    return [pair for pair in made_by(listed(field(model, "outputs"))) if is_a(pair[0], LAYER)]


def inside(
    layer: object, model: object, steps: list[Function]
) -> tuple[list[Tensor], list[object]]:
    """What the first call of a layer gave, and what it was given; the operations lie between."""
    first = calls(layer, model)[:1]
    return (
        [tensor for call in first for tensor in _outputs(call)],
        [tensor for call in first for tensor in listed(field(call, "input_tensors"))],
    )


def output_of(layer: object, call: object, steps: list[Function]) -> Tensor | None:
    """The first tensor that a call of a layer gave."""
    return next(iter(_outputs(call)), None)


def counter(model: object) -> object:
    """The variable that counts the batches of a compiled model."""
    return field(model, "optimizer", "iterations")


def functions_in(step: object) -> list[Function]:
    """The engine's functions in what a model calls for a batch."""
    return [step] if describe.is_function(step) else []


def loss(model: object) -> object:
    """The symbol whose gradient trains a compiled model."""
    return field(model, "total_loss")


def outputs(model: object) -> list[Tensor]:
    """The tensors that a model gives."""
    return [tensor for tensor in listed(field(model, "outputs")) if describe.is_tensor(tensor)]
