"""What pickle and copy make of Keras' layers and models.

A layer's bytes do not hold its nodes, the calls of it that Keras notes: each model that a layer
is part of brings its own nodes, and they come to their layers when they are read. So a model
does not bring the others that share a layer with it. What Keras keeps by the `id` of tensors is
told by the tensors, and noted anew.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MethodType, ModuleType
from typing import Any, SupportsIndex

from kbench.engine.execute.function import Function
from kbench.engine.graph import pickling
from kbench.engine.graph.protocols import checksums
from kbench.engine.graph.tensor import Tensor
from kbench.keras_client.fixes import Keras
from kbench.keras_client.pickling import FORMAT, hook

NODES = ("_inbound_nodes", "_outbound_nodes")
KEYED = {"_per_input_losses": "_losses", "_per_input_updates": "_updates"}
"""Attributes of layers that are kept by inputs, and the list of all that they hold."""
BY_TENSORS = ("_input_map", "_output_tensor_cache", "_output_mask_cache")
COORDINATES = ("_input_coordinates", "_output_coordinates")
MADE_AGAIN = ("predict_function", "test_function")
"""By Keras, whenever they are wanted: they are left out, so that the bytes of a model are the same
whether or not it has predicted anything."""
TRANSIENT = ("_dropout_mask", "_recurrent_dropout_mask")  # of a cell, for one call of its layer


# ------------------------------------------------------------------ layers and their nodes


def base_layer(module: ModuleType) -> None:
    """engine/base_layer.py: a layer, metrics among them, and a node."""
    hook(module.Layer, _layer_state, _fill_layer)
    module.Node.__reduce_ex__ = _reduced_node


def _layer_state(layer: Keras) -> dict[str, Any]:
    """What a layer is whatever its inputs are: its weights too, and what regularizes them."""
    state: dict[str, Any] = {}
    for key, value in vars(layer).items():
        if key in KEYED:
            state[key] = {None: value[None]} if None in value else {}
        elif key in BY_TENSORS:
            state[key] = {}
        elif key in KEYED.values():
            state[key] = _of_no_inputs(layer, key)
        elif key in TRANSIENT or (key == "_initial_weights" and layer.built):
            state[key] = None
        elif key not in NODES and not _is_own_method(layer, value):
            state[key] = value
    return state


def _of_no_inputs(layer: Keras, flat: str) -> list[Any]:
    """Of a list of losses or updates those that are not of certain inputs."""
    keyed = next(key for key, name in KEYED.items() if name == flat)
    kept = {id(value) for value in vars(layer).get(keyed, {}).get(None, ())}
    return [value for value in vars(layer)[flat] if id(value) in kept]


def _is_own_method(layer: Keras, value: object) -> bool:
    """Metric's `__new__` gives each its `update_state` and `result` anew."""
    return isinstance(value, MethodType) and value.__self__ is layer


def _fill_layer(layer: Keras, state: dict[str, Any]) -> None:
    own = layer.__dict__
    nodes = {key: own.get(key, []) for key in NODES}  # which may have come before
    own.update(state, **nodes)
    for weight in (*own.get("_trainable_weights", ()), *own.get("_non_trainable_weights", ())):
        weight._tracked = True


def _reduced_node(node: Keras, _protocol: SupportsIndex) -> tuple[Any, ...]:
    """A call of a layer: what it was called on, by the calls that gave it, and its results."""
    rest = dict(vars(node))
    layers, places = rest.pop("inbound_layers"), rest.pop("node_indices")
    sources = [
        None if layer is None else layer._inbound_nodes[place]
        for layer, place in zip(layers, places, strict=True)
    ]
    layer = rest.pop("outbound_layer")
    here = (layer, place_of(node))
    told = [getattr(one, "_keras_history", (None,))[:2] == here for one in node.output_tensors]
    checksum = checksums.of_text(str(told), rest)
    return _node, (FORMAT, type(node), layer, sources, told, rest, checksum)


def place_of(node: Keras) -> int:
    """The number that a node has among those of its layer."""
    nodes = node.outbound_layer._inbound_nodes
    return next(place for place, other in enumerate(nodes) if other is node)


def _node(version: object, *parts: Any) -> Keras:
    return pickling.unharmed("a call of a layer", version, FORMAT, lambda: _filled_node(*parts))


def _filled_node(
    kind: type,
    layer: Keras,
    sources: list[Keras],
    told: list[bool],
    rest: dict[str, Any],
    checksum: int,
) -> Keras:
    if checksums.of_text(str(told), rest) != checksum:
        pickling.refuse("a call of a layer", "what it was called with has another checksum")
    node: Keras = object.__new__(kind)
    node.__dict__.update(rest, outbound_layer=layer)
    node.inbound_layers = [source and source.outbound_layer for source in sources]
    node.node_indices = [None if source is None else place_of(source) for source in sources]
    for source in node.inbound_layers:
        if source is not None:
            source.__dict__.setdefault("_outbound_nodes", []).append(node)
    nodes = layer.__dict__.setdefault("_inbound_nodes", [])
    nodes.append(node)
    for place, (tensor, ours) in enumerate(zip(node.output_tensors, told, strict=True)):
        if ours:
            tensor._keras_history = (layer, len(nodes) - 1, place)
    return node


# ------------------------------------------------------------------ models


def network(module: ModuleType) -> None:
    """engine/network.py: a model of whichever kind, and a Network."""
    original = module.Network.__setstate__

    def take(self: Keras, state: dict[str, Any]) -> None:
        if "own" in state:
            _fill_model(self, dict(state))
        else:  # as Keras itself makes it
            original(self, state)

    hook(module.Network, _model_state, take)
    module.Network.__copy__ = copy.deepcopy


def _model_state(model: Keras) -> dict[str, Any]:
    """The graph first, the layers, and then what refers to either."""
    layers = list(_layers_of(model))
    nodes = _nodes_of(model, layers)
    held = [*_tensors([_plain(layer) for layer in layers]), *_tensors([vars(one) for one in nodes])]
    known: dict[int, object] = {abs(id(one)): one for one in pickling.below(held)}
    known[abs(id(None))] = None
    calls = [(layer, told) for layer in layers if (told := _calls_of(layer, known))]
    state = _layer_state(model)
    places = {
        key: [_of_node(*one) for one in state.pop(key)] for key in COORDINATES if key in state
    }
    state.pop("_network_nodes", None)
    if "test_function" in state:  # which there is when a model is compiled
        state["test_function"] = None
    fresh = {"predict_function": None, "stop_training": state.pop("stop_training", False)}
    state.pop("predict_function", None)
    steps = getattr(state.get("optimizer"), "updates", None)
    graph = pickling.Together([*held, *_tensors(calls)])
    own = {"calls": calls, "places": places, "updates": steps}
    return {
        "graph": graph,
        "_layers": state.get("_layers"),
        "nodes": nodes,
        "own": own,
        **state,
        **fresh,
    }


def _plain(layer: Keras) -> dict[str, Any]:
    """What a layer holds that is no matter of certain inputs."""
    without = {*NODES, *KEYED, *KEYED.values(), *BY_TENSORS, *TRANSIENT, *MADE_AGAIN}
    return {key: value for key, value in vars(layer).items() if key not in without}


def _of_node(layer: Keras, place: int, tensor: int) -> tuple[Keras, int]:
    return layer._inbound_nodes[place], tensor


def _layers_of(model: Keras) -> Iterator[Keras]:
    """A model, and all layers, models, cells and metrics within it, each once."""
    Layer = sys.modules["keras.engine.base_layer"].Layer
    todo, seen = [model], set()
    while todo:
        value = todo.pop()
        if isinstance(value, Layer):
            if id(value) in seen:
                continue
            seen.add(id(value))
            yield value
            todo.extend(entry for key, entry in vars(value).items() if key not in NODES)
        elif isinstance(value, (list, tuple)):
            todo.extend(value)
        elif isinstance(value, Mapping):
            todo.extend(value.values())


def _nodes_of(model: Keras, layers: Iterable[Keras]) -> list[Keras]:
    """The calls that a model is made of, in the order in which they were made."""
    if model._is_graph_network:
        nodes = [node for depth in model._nodes_by_depth.values() for node in depth]
        nodes += [one for one in model._inbound_nodes[:1] if not one.inbound_layers]
    else:
        nodes = [node for layer in layers for node in vars(layer).get("_inbound_nodes", ())]

    def made(node: Keras) -> tuple[int, int]:
        return max((one.serial for one in node.output_tensors), default=0), place_of(node)

    return sorted(nodes, key=made)


def _tensors(value: object) -> Iterator[Tensor]:
    """All tensors in containers and functions."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Function):
        yield from (*value.inputs, *value.outputs, *value.updates)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)


def _fill_model(model: Keras, state: dict[str, Any]) -> None:
    own = state.pop("own")
    del state["graph"], state["nodes"]  # the nodes have come to their layers
    _fill_layer(model, state)
    by_depth = vars(model).get("_nodes_by_depth", {})
    model._network_nodes = {
        model._node_key(node.outbound_layer, place_of(node))
        for nodes in by_depth.values()
        for node in nodes
    }
    for key, places in own["places"].items():
        found = [(node.outbound_layer, place_of(node), tensor) for node, tensor in places]
        setattr(model, key, found)
    for layer, told in own["calls"]:
        _take_calls(layer, told)
    if own["updates"] is not None:
        model.optimizer.updates = own["updates"]


# ------------------------------------------------------------------ what is kept by inputs


def _calls_of(layer: Keras, known: Mapping[int, object]) -> dict[str, list[Any]]:
    """What a layer keeps by tensors that are known here: by the tensors themselves."""
    told: dict[str, list[Any]] = {}
    for name in (*KEYED, *BY_TENSORS):
        entries = []
        for key, value in vars(layer).get(name, {}).items():
            groups = [] if key is None else [group.split(", ") for group in key.split("_")]
            numbers = [[int(one) for one in group if one] for group in groups]
            if groups and all(one in known for group in numbers for one in group):
                tensors = [[known[one] for one in group] for group in numbers]
                entries.append((tensors, value))
        if entries:
            told[name] = entries
    for name, flat in KEYED.items():
        if name in told:
            kept = {id(value) for _, values in told[name] for value in values}
            kept |= {id(value) for value in vars(layer)[name].get(None, ())}
            told[flat] = [value for value in vars(layer)[flat] if id(value) in kept]
    return told


def _take_calls(layer: Keras, told: Mapping[str, list[Any]]) -> None:
    """Note again what `_calls_of` told; what another model has brought before stays as it is."""
    own = layer.__dict__
    for name in (*KEYED, *BY_TENSORS):
        kept = own.setdefault(name, {}) if name in told else {}
        is_first = not (kept.keys() - {None})
        for tensors, value in told.get(name, ()):
            kept.setdefault("_".join(_uid(group) for group in tensors), value)
        if name in KEYED and name in told:
            flat, given = own[KEYED[name]], told[KEYED[name]]
            have = set() if is_first else {id(value) for value in flat}
            own[KEYED[name]] = [*flat, *(one for one in given if id(one) not in have)]
            if is_first:
                own[KEYED[name]] = given


def _uid(tensors: Iterable[object]) -> str:
    """utils/generic_utils.py, `object_list_uid`."""
    return ", ".join(str(abs(id(one))) for one in tensors)
