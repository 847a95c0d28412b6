"""The fields of Keras 3: its variables hold those of K, its symbolic tensors have no operations.

What a layer computes stands in the functions of a model's steps, once they have run: their nodes
begin with the name of the layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.models.fields import Place, field, is_a, listed
from kbench.workbench.models.reader import STEPS, Called, Listed, OutputSpec, Weight, made_by

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

LAYER = Place("keras.src.layers.layer", "Layer")
MODEL = Place("keras.src.models.model", "Model")
SEQUENTIAL = Place("keras.src.models.sequential", "Sequential")
INPUT = Place("keras.src.layers.core.input_layer", "InputLayer")
VARIABLE = Place("keras.src.backend.common.variables", "Variable")
TRAIN, _, PREDICT = STEPS
_GRADIENTS = "gradients"
"""What nodes are called that take values of a layer and are none of the model's."""


def variable_of(value: object) -> object:
    """The variable of K that a variable of Keras holds; anything else as it is."""
    return field(value, "_node") if is_a(value, VARIABLE) else value


def inner(layer: object) -> Iterator[object]:
    """The layers inside a layer."""
    yield from listed(field(layer, "_layers"))


def own_weights(layer: object) -> list[Listed]:
    """The variables that a layer itself lists."""
    return [
        Listed(variable_of(one), field(one, "_trainable") is not False, str(field(one, "_path")))
        for name in ("_trainable_variables", "_non_trainable_variables")
        for one in listed(field(layer, name))
    ]


def is_trained(layer: object) -> bool:
    """False for a layer that was frozen."""
    return field(layer, "_trainable") is not False


def in_order(weights: list[Weight]) -> list[Weight]:
    """Weights as `layer.weights` lists them: as they were found."""
    return weights


def dtype(layer: object) -> str:
    """The dtype in which a layer computes; "" where it is not known."""
    found = field(layer, "_dtype_policy", "_compute_dtype")
    return found if type(found) is str else ""


def calls(layer: object, model: object) -> list[object]:
    """The calls of a layer, those in `model` if any are."""
    found = listed(field(layer, "_inbound_nodes"))
    known = field(_functional(model), "_nodes")
    if not isinstance(known, set):
        return found
    inside = [node for at, node in enumerate(found) if f"{id(layer)}_ib-{at}" in known]
    return inside or found


def _functional(model: object) -> object:
    """The functional model that has the calls: a sequential model holds one."""
    return field(model, "_functional") if is_a(model, SEQUENTIAL) else model


def given(call: object) -> list[OutputSpec]:
    """Shapes and dtypes of what a call gave."""
    return _specs(listed(field(call, "outputs")))


def result(model: object) -> list[OutputSpec]:
    """Shapes and dtypes of what a model gives."""
    return _specs(listed(field(_functional(model), "_outputs")))


def _specs(tensors: list[object]) -> list[OutputSpec]:
    found = []
    for tensor in tensors:
        shape, kind = field(tensor, "_shape"), field(tensor, "_dtype")
        if isinstance(shape, tuple) and type(kind) is str:
            sizes = [size if type(size) is int else None for size in listed(shape)]
            found.append((tuple(sizes), kind))
    return found


def feeding(call: object) -> list[Called]:
    """The layers and calls whose outputs a call takes."""
    return made_by(listed(field(call, "arguments", "keras_tensors")))


def ends(model: object) -> list[Called]:
    """The layers and calls that give what a model gives."""
    return made_by(listed(field(_functional(model), "_outputs")))


def inside(
    layer: object, model: object, steps: list[Function]
) -> tuple[list[Tensor], list[object]]:
    """What a layer gives and takes in the first of the steps; the operations lie between."""
    from kbench.engine.graph.traverse import walk

    own = f"{field(layer, 'name')}/"
    for function in steps:
        nodes = walk(_roots(function), {id(node) for node in function.inputs})
        there = [node for node in nodes if node.kind == "tensor" and node.name.startswith(own)]
        if not there:
            continue
        ids = {id(node) for node in there}
        taken: list[object] = [one for node in there for one in node.inputs if id(one) not in ids]
        used = {
            id(one)
            for node in nodes
            if id(node) not in ids and node.called != _GRADIENTS
            for one in node.inputs
        } | {id(output) for output in function.outputs}
        given = [node for node in there if id(node) in used]
        return given or there[-1:], taken
    return [], []


def _roots(function: Function) -> list[Tensor]:
    return [*function.outputs, *[update.inputs[1] for update in function.updates]]


def output_of(layer: object, call: object, steps: list[Function]) -> Tensor | None:
    """The first tensor that a layer gives in the first of the steps."""
    return next(iter(inside(layer, None, steps)[0]), None)


def counter(model: object) -> object:
    """The variable that counts the batches of a compiled model."""
    return variable_of(field(model, "optimizer", "_iterations"))


def functions_in(step: object) -> list[Function]:
    """The engine's functions in what a model calls for a batch: one for each of its shapes."""
    made = field(step, "step", "made")
    pairs = list(made.values()) if type(made) is dict else []
    found = [pair[0] for pair in pairs if type(pair) is tuple]
    return [function for function in found if describe.is_function(function)]


def loss(model: object) -> object:
    """The symbol whose gradient trains a model, in the step that was traced last."""
    return field(model, "_traced_loss") if functions_in(field(model, TRAIN)) else None


def outputs(model: object) -> list[Tensor]:
    """The tensors that a model gives in its last step of `predict`."""
    made = functions_in(field(model, PREDICT))
    return list(made[-1].outputs) if made else []
