"""Keras' layers and models as rows: which layers, of which output shape, with which weights.

Keras is never imported: while it is not loaded, no value can be of its classes. Rows are read from
the fields of the objects, from another thread than the one that trains; no method and no property
is called, as those may be the user's own. Parts have addresses: `model/2` is the third layer of
what is named `model`, `model/2/w0` its first weight.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject
from kbench.workbench.models import keras2, keras3
from kbench.workbench.models.fields import field, fields, is_a, listed
from kbench.workbench.models.reader import STEPS, OutputSpec, Reader, Weight

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

LAYER_CLASSES = (keras2.LAYER, keras3.LAYER)
VARIABLE_CLASS = keras3.VARIABLE
"""Where classes of Keras stand."""
_MAX_SOURCES = 4
"""Inputs of a layer that its row names."""


# ------------------------------------------------------------------ what a value is


def reader() -> Reader:
    """What reads the objects of the Keras that is loaded: a process has one of both generations."""
    return keras3 if has_variables() else keras2


def is_layer(value: object) -> bool:
    """True for every layer of Keras, models included."""
    return is_a(value, reader().LAYER)


def is_model(value: object) -> bool:
    """True for a model of Keras, of whichever kind."""
    return is_a(value, reader().MODEL)


def has_variables() -> bool:
    """Whether the Keras that is loaded has variables of its own, as Keras 3."""
    return keras3.LAYER.module in sys.modules


def is_variable(value: object) -> bool:
    """True for a variable of Keras 3, which holds one of K."""
    return is_a(value, keras3.VARIABLE)


def variable_of(value: object) -> object:
    """The variable of K in a variable of Keras 3; anything else as it is."""
    return keras3.variable_of(value)


def name_of(layer: object) -> str:
    """The name that Keras gave, safe to show."""
    name = field(layer, "name")
    return describe.printable(name if type(name) is str else type(layer).__name__)


# ------------------------------------------------------------------ layers and weights


def layers(model: object) -> list[object]:
    """The layers of a model as `model.layers` gives them."""
    keras = reader()
    found = [layer for layer in listed(field(model, "_layers")) if is_a(layer, keras.LAYER)]
    if found and is_a(model, keras.SEQUENTIAL) and is_a(found[0], keras.INPUT):
        return found[1:]
    return found


def weights(layer: object, deep: bool = True) -> list[Weight]:
    """The variables of a layer and, if `deep`, of all layers inside; each once."""
    found: dict[int, Weight] = {}
    visited: set[int] = set()
    keras = reader()
    waiting = [(layer, True)]
    while waiting:
        one, live = waiting.pop()
        if id(one) in visited:
            continue
        visited.add(id(one))
        live = live and keras.is_trained(one)
        for variable, trained, name in keras.own_weights(one):
            if describe.is_variable(variable):
                found.setdefault(id(variable), Weight(variable, trained and live, name))
        if deep:
            inner = [each for each in keras.inner(one) if is_a(each, keras.LAYER)]
            waiting += reversed([(each, live) for each in inner])
    return list(found.values())


def version(layer: object) -> int:
    """A number that is another one when a weight was stored to, or layers have come or gone."""
    mark = 0
    for weight in weights(layer):
        mark += 2 * int(weight.variable.version) + weight.trainable
    known = fields(layer)
    built = known.get("built", known.get("_built"))
    return hash((mark, len(listed(known.get("_layers"))), built is True))


# ------------------------------------------------------------------ addresses


class Part(Struct, frozen=True):
    """A layer or a variable inside `owner`, under its address; `weight` if it is a variable.

    `root` is what the address begins with.
    """

    address: str
    value: object
    owner: object
    weight: Weight | None = None
    root: object = None


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
    owner, root = None, value
    steps = address.split("/")[1:]
    for at, step in enumerate(steps):
        if not is_layer(value):
            raise LookupError(step)
        if step[:1] == "w" and at == len(steps) - 1:
            weight = weights(value, deep=not is_model(value))[_number(step[1:])]
            return Part(address, weight.variable, value, weight, root)
        if not is_model(value):
            raise LookupError(step)
        owner, value = value, layers(value)[_number(step)]
    return Part(address, value, owner, None, root)


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
    keras = reader()
    if is_model(value):
        specs = set(keras.result(value))
    else:
        specs = {spec for call in keras.calls(value, model) for spec in keras.given(call)}
    if len(specs) != 1:
        return {"shape": None, "dtype": describe.printable(keras.dtype(value))}
    shape, dtype = specs.pop()
    return {"shape": [None if size is None else int(size) for size in shape], "dtype": dtype}


def label_of(part: Part) -> str:
    """What a weight is called within its layer."""
    assert part.weight is not None
    name = describe.printable(part.weight.name)
    _, _, label = f"/{name}".rpartition(f"/{name_of(part.owner)}/")  # all of it if it has no layer
    return label.removeprefix("/")


def weight_facts(part: Part) -> JsonObject:
    """What a weight's row says besides its values: its name within the layer, whether it learns."""
    assert part.weight is not None
    trainable = part.weight.trainable
    return {"label": label_of(part), "trainable": trainable, "code": code_of(part)}


def code_of(part: Part) -> str:
    """What a user would type for a part: `model.layers[2].weights[0]`."""
    name, *steps = part.address.split("/")
    text = name + "".join(f".layers[{step}]" for step in steps if step[:1] != "w")
    if part.weight is None:
        return text
    known = reader().in_order(weights(part.owner))
    at = next(n for n, weight in enumerate(known) if weight.variable is part.value)
    return f"{text}.weights[{at}]"


def step(model: object) -> int | None:
    """How many batches a compiled model's optimizer has seen; None without an optimizer."""
    counter = reader().counter(model)
    held = describe.held_array(counter) if describe.is_variable(counter) else None
    return int(held) if held is not None and held.ndim == 0 else None


# ------------------------------------------------------------------ what is computed


def functions(model: object) -> list[Function]:
    """The engine's functions with which a model trains, evaluates and predicts, as far as made."""
    keras = reader()
    held = [field(model, name) for name in STEPS]
    return [function for one in held for function in keras.functions_in(one)]


def functions_in(step: object) -> list[Function]:
    """The engine's functions in what a model calls for a batch."""
    return reader().functions_in(step)


def loss(model: object) -> object:
    """The symbol whose gradient trains a compiled model; None where it is not known yet."""
    return reader().loss(model)


def outputs(model: object) -> list[Tensor]:
    """The tensors that a model gives; none where they are not known yet."""
    return reader().outputs(model)


# ------------------------------------------------------------------ how layers are connected


def given(call: object) -> list[OutputSpec]:
    """Shapes and dtypes of what a call of a layer gave."""
    return reader().given(call)


def sources(layer: object, model: object) -> list[object]:
    """The layers whose outputs a layer takes in its first call."""
    keras = reader()
    first = keras.calls(layer, model)[:1]
    return [layer for call in first for layer, _ in keras.feeding(call)]
