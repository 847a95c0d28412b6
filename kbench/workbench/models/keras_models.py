"""Keras' layers and models as rows: which layers, of which output shape, with which weights.

Keras is never imported: while it is not loaded, no value can be of its classes. Rows are read from
the fields of the objects, from another thread than the one that trains; no method and no property
is called, as those may be the user's own. Parts have addresses: `model/2` is the third layer of
what is named `model`, `model/2/w0` its first weight.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Variable

_LAYER = ("keras.engine.base_layer", "Layer")
_MODEL = ("keras.engine.network", "Network")
_SEQUENTIAL = ("keras.engine.sequential", "Sequential")
_INPUT = ("keras.engine.input_layer", "InputLayer")
_MAX_SOURCES = 4
"""Inputs of a layer that its row names."""


# ------------------------------------------------------------------ what a value is


def _class(where: tuple[str, str]) -> type | tuple[()]:
    """A class of Keras; while it is not loaded, an empty tuple, which nothing is a subclass of."""
    found = getattr(sys.modules.get(where[0]), where[1], None)
    return found if isinstance(found, type) else ()


def _is(value: object, where: tuple[str, str]) -> bool:
    return issubclass(type(value), _class(where))


def is_layer(value: object) -> bool:
    """True for every layer of Keras, models included."""
    return _is(value, _LAYER)


def is_model(value: object) -> bool:
    """True for a model of Keras, of whichever kind."""
    return _is(value, _MODEL)


def fields(value: object) -> dict[str, object]:
    """The object's own dictionary, as it is."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def listed(value: object) -> list[object]:
    """A copy of a list or tuple, empty for anything else: the other thread may append to it."""
    return list(value) if type(value) in (list, tuple) else []  # type: ignore[call-overload]


def name_of(layer: object) -> str:
    """The name that Keras gave, safe to show."""
    name = fields(layer).get("name")
    return describe.printable(name if type(name) is str else type(layer).__name__)


# ------------------------------------------------------------------ layers and weights


class Weight(Struct, frozen=True):
    """A variable of a layer; `trainable`: whether training changes it."""

    variable: Variable
    trainable: bool

    @property
    def count(self) -> int:
        """Its number of elements."""
        return math.prod(size for size in self.variable.spec.shape if size is not None)

    @property
    def bytes(self) -> int:
        """The size of its elements."""
        return self.count * np.dtype(str(self.variable.spec.dtype)).itemsize


def layers(model: object) -> list[object]:
    """The layers of a model as `model.layers` gives them."""
    found = [layer for layer in listed(fields(model).get("_layers")) if is_layer(layer)]
    if found and _is(model, _SEQUENTIAL) and _is(found[0], _INPUT):
        return found[1:]
    return found


def _inner(known: dict[str, object], model: bool) -> Iterator[object]:
    """The layers inside a layer: those tracked by Keras, and those of cells and wrappers."""
    yield from listed(known.get("_layers"))
    yield from listed(known.get("cells"))
    if not model:
        yield from list(known.values())


def weights(layer: object, deep: bool = True) -> list[Weight]:
    """The variables of a layer and, if `deep`, of all layers inside; each once."""
    found: dict[int, Weight] = {}
    visited: set[int] = set()
    layer_class, model_class = _class(_LAYER), _class(_MODEL)
    waiting = [(layer, True)]
    while waiting:
        one, live = waiting.pop()
        if id(one) in visited:
            continue
        visited.add(id(one))
        known = fields(one)
        live = live and known.get("trainable", True) is not False
        for key, trainable in (("_trainable_weights", live), ("_non_trainable_weights", False)):
            for variable in listed(known.get(key)):
                if describe.is_variable(variable):
                    found.setdefault(id(variable), Weight(variable, trainable))
        if deep:
            model = issubclass(type(one), model_class)
            inner = (each for each in _inner(known, model) if issubclass(type(each), layer_class))
            waiting += reversed([(each, live) for each in inner])
    return list(found.values())


def version(layer: object) -> int:
    """A number that is another one when a weight was stored to, or layers have come or gone."""
    mark = 0
    for weight in weights(layer):
        mark += 2 * int(weight.variable.version) + weight.trainable
    return hash((mark, len(listed(fields(layer).get("_layers"))), fields(layer).get("_built")))


# ------------------------------------------------------------------ addresses


class Part(Struct, frozen=True):
    """A layer or a variable inside `owner`, under its address; `weight` if it is a variable."""

    address: str
    value: object
    owner: object
    weight: Weight | None = None


def parts(value: object, address: str) -> list[Part]:
    """A model's layers and own weights, or all weights of a layer."""
    inner = layers(value) if is_model(value) else []
    own = weights(value, deep=not is_model(value))
    found = [Part(f"{address}/{at}", layer, value) for at, layer in enumerate(inner)]
    return found + [
        Part(f"{address}/w{at}", weight.variable, value, weight) for at, weight in enumerate(own)
    ]


def resolve(value: object, address: str) -> Part:
    """The part of a layer or model at an address that begins with the layer's own name.

    Raises:
        LookupError: there is no such part.
    """
    owner: object = None
    steps = address.split("/")[1:]
    for at, step in enumerate(steps):
        if not is_layer(value):
            raise LookupError(step)
        if step[:1] == "w" and at == len(steps) - 1:
            weight = weights(value, deep=not is_model(value))[_number(step[1:])]
            return Part(address, weight.variable, value, weight)
        if not is_model(value):
            raise LookupError(step)
        owner, value = value, layers(value)[_number(step)]
    return Part(address, value, owner)


def _number(step: str) -> int:
    if not step.isdecimal() or len(step) > 6:
        raise LookupError(step)
    return int(step)


# ------------------------------------------------------------------ rows


def facts(value: object, model: object = None) -> JsonObject:
    """The row of a layer, as part of `model` if it is one, or of a model."""
    held = weights(value)
    inner = layers(value) if is_model(value) else None
    row: JsonObject = {
        "kind": "layer" if inner is None else "model",
        "type": describe.printable(type(value).__name__),
        "label": name_of(value),
        "bytes": sum(weight.bytes for weight in held),
        "params": sum(weight.count for weight in held),
        "trainable": sum(weight.count for weight in held if weight.trainable),
        "parts": len(held) if inner is None else len(inner) + len(weights(value, deep=False)),
        **_output(value, model),
    }
    if inner is not None:
        row["layers"] = len(inner)
        row["step"] = step(value)
    if model is not None:
        row["sources"] = [name_of(source) for source in sources(value, model)][:_MAX_SOURCES]
    return {**row, "text": words(row)}


def words(row: JsonObject) -> str:
    """`Dense 1,290 params, frozen`, `Model step 120, 1,290 params, 6 layers`: the last column."""
    parts = []
    if row.get("step") is not None:
        parts.append(f"step {row['step']}")
    if row["params"] or "layers" in row:
        parts.append(f"{row['params']:,} params")
    if "layers" in row:
        parts.append(f"{row['layers']} layer{'' if row['layers'] == 1 else 's'}")
    idle = row["params"] - row["trainable"]
    if idle:
        parts.append("frozen" if not row["trainable"] else f"{idle:,} not trained")
    return f"{row['type']} {', '.join(parts)}".rstrip()


def _output(value: object, model: object) -> JsonObject:
    """Shape and dtype of a layer's output; no shape when there are several or none yet."""
    if is_model(value):
        tensors = listed(fields(value).get("outputs"))
    else:
        tensors = [tensor for node in nodes(value, model) for tensor in outputs(node)]
    specs = {str(tensor.spec): tensor.spec for tensor in tensors if describe.is_tensor(tensor)}
    if len(specs) != 1:
        dtype = fields(value).get("dtype")
        return {"shape": None, "dtype": describe.printable(dtype) if type(dtype) is str else ""}
    spec = next(iter(specs.values()))
    shape = [None if size is None else int(size) for size in spec.shape]
    return {"shape": shape, "dtype": str(spec.dtype)}


def weight_facts(part: Part) -> JsonObject:
    """What a weight's row says besides its values: its name within the layer, whether it learns."""
    assert part.weight is not None
    name = describe.printable(part.weight.variable.name).removesuffix(":0")
    label = name.removeprefix(f"{name_of(part.owner)}/")
    return {"label": label, "trainable": part.weight.trainable, "code": code_of(part)}


def code_of(part: Part) -> str:
    """What a user would type for a part: `model.layers[2].weights[0]`."""
    name, *steps = part.address.split("/")
    text = name + "".join(f".layers[{step}]" for step in steps if step[:1] != "w")
    if part.weight is None:
        return text
    # Keras lists the trained ones first.
    known = sorted(weights(part.owner), key=lambda weight: not weight.trainable)
    at = next(n for n, weight in enumerate(known) if weight.variable is part.value)
    return f"{text}.weights[{at}]"


def step(model: object) -> int | None:
    """How many batches a compiled model's optimizer has seen; None without an optimizer."""
    counter = fields(fields(model).get("optimizer")).get("iterations")
    held = describe.held_array(counter) if describe.is_variable(counter) else None
    return int(held) if held is not None and held.ndim == 0 else None


# ------------------------------------------------------------------ how layers are connected


def nodes(layer: object, model: object = None) -> list[object]:
    """The calls of a layer, those in `model` if any are."""
    found = listed(fields(layer).get("_inbound_nodes"))
    known = fields(model).get("_network_nodes")
    if type(known) is set:
        name = fields(layer).get("name")
        inside = [node for at, node in enumerate(found) if f"{name}_ib-{at}" in known]
        return inside or found
    return found


def outputs(node: object) -> list[Tensor]:
    """The symbolic tensors that a call gave."""
    tensors = listed(fields(node).get("output_tensors"))
    return [tensor for tensor in tensors if describe.is_tensor(tensor)]


def sources(layer: object, model: object) -> list[object]:
    """The layers whose outputs a layer takes in its first call."""
    calls = nodes(layer, model)
    found = listed(fields(calls[0]).get("inbound_layers")) if calls else []
    return [layer for layer in found if is_layer(layer)]
