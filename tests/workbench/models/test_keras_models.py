"""Keras models in the inspector: rows of layers and weights, their ranges, graphs, sizes, speed.

`.ci/run` has them run with Keras 3, too.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras_loaded
import numpy as np
import pytest
from inspector_helpers import ask, parts, refused, rows

from kbench import backend as K
from kbench.workbench.analysis import graph_text
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.models import keras_models
from kbench.workbench.models.keras_models import Part
from kbench.workbench.protocol.graphs import GraphNode

pytestmark = keras_loaded.OWN_WARNINGS


@pytest.fixture
def made() -> Iterator[Callable[..., Inspector]]:
    inspectors: list[Inspector] = []

    def build(**names: Any) -> Inspector:
        inspectors.append(Inspector(names))
        return inspectors[-1]

    yield build
    for one in inspectors:
        one.close()
    K.clear_session()


# ------------------------------------------------------------------ rows


def test_a_model_is_a_row_with_its_sizes(made: Any) -> None:
    model = keras_loaded.residual()
    row = rows(made(model=model))["model"]
    assert row["kind"] == "model" and row["shape"] == [None, 3] and row["label"] == "residual"
    assert row["params"] == model.count_params() == 187
    assert row["bytes"] == 4 * 187 and row["trainable"] == 187 - 16
    kind = type(model).__name__
    assert row["text"] == f"{kind} step 0, 187 params, 7 layers, 16 not trained"


def test_layers_and_weights_are_parts(made: Any) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model)
    layers = parts(inspector, "model")
    assert [row["label"] for row in layers.values()] == [one.name for one in model.layers]
    assert [row["shape"] for row in layers.values()] == [
        list(keras_loaded.output_shape(one)) for one in model.layers
    ]
    assert [row["params"] for row in layers.values()] == [
        one.count_params() for one in model.layers
    ]
    assert layers["model/3"]["sources"] == ["first", "second"]
    norm = parts(inspector, "model/4")
    assert [row["label"] for row in norm.values()] == [
        "gamma",
        "beta",
        "moving_mean",
        "moving_variance",
    ]
    assert [row["trainable"] for row in norm.values()] == [True, True, False, False]
    value = model.layers[4].get_weights()[1]
    row = norm["model/4/w1"]
    assert (row["min"], row["max"]) == pytest.approx((value.min(), value.max()))
    assert row["mean"] == pytest.approx(value.mean(), rel=1e-5)


def test_codes_of_parts_are_what_a_user_would_type(made: Any) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model)
    layers = parts(inspector, "model")
    assert eval(layers["model/2"]["code"], {"model": model}) is model.layers[2]
    for key, row in parts(inspector, *layers).items():
        layer = model.layers[int(key.split("/")[1])]
        weight = eval(row["code"], {"model": model})
        assert any(weight is one for one in layer.weights)
        name = weight.name.removeprefix(f"{layer.name}/").removesuffix(":0")
        assert row["label"] == name


def test_ranges_follow_training_and_are_read_once_per_version(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model, other=3)
    before = parts(inspector, "model/1")
    epoch = ask(inspector, "changes")["epoch"]
    model.train_on_batch(*keras_loaded.batch())
    changed = ask(inspector, "changes", since=epoch)
    assert changed["names"] == ["model"]
    assert rows(inspector)["model"]["step"] == 1
    after = parts(inspector, "model/1")
    assert before["model/1/w0"]["version"] < after["model/1/w0"]["version"]
    assert before["model/1/w0"]["min"] != after["model/1/w0"]["min"]
    assert ask(inspector, "changes", since=changed["epoch"])["names"] == []

    def never(*_: Any) -> None:
        raise AssertionError("statistics of an unchanged weight")

    monkeypatch.setattr("kbench.workbench.inspector.namespace.describe.array", never)
    assert parts(inspector, "model/1") == after


def test_weights_are_kept_as_they_were_after_each_cell(made: Any) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model)
    ask(inspector, "hello", push=False)
    before = [weight.copy() for weight in model.layers[1].get_weights()]
    inspector.cell_ended(1)
    inspector.cell_ended(2)
    model.train_on_batch(*keras_loaded.batch())
    inspector.cell_ended(3)
    found = ask(inspector, "past", name="model/1/w0", step=-1)
    assert (found["name"], found["cell"], found["until"]) == ("model@2/1/w0", 1, 2)
    assert found["row"]["min"] == pytest.approx(float(before[0].min()))
    stats = ask(inspector, "stats", name="model@1/1/w0")
    now = ask(inspector, "stats", name="model/1/w0")
    assert stats["shape"] == now["shape"] and stats["min"] != now["min"]
    assert ask(inspector, "open", name="model@1")["rows"][0]["name"].startswith("['/")
    assert "had no weight" in refused(inspector, "stats", name="model@1/1/w9")["reason"]


def test_layers_and_operations_have_values_on_the_last_feed(made: Any) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model)
    ask(inspector, "hello", push=False, record=True)
    inputs, _ = keras_loaded.batch()
    predicted = model.predict(inputs)
    top = ask(inspector, "graph", name="model")["layers"][0]
    asked = {"name": "model", "number": top["id"], "node": top["name"], "layers": True}
    found = ask(inspector, "node", **asked)
    assert found["row"]["shape"] == list(predicted.shape) and "on the last feed" in found["words"]
    assert found["row"]["size"] == predicted.size
    inner = ask(inspector, "graph", name="model/1")["rows"][0]
    asked = {"name": "model/1", "number": inner["id"], "node": inner["name"]}
    assert ask(inspector, "node", **asked)["row"]["shape"][0] == len(inputs)


def test_freezing_and_adding_layers_are_changes(made: Any) -> None:
    model = keras_loaded.deep(3)
    inspector = made(model=model)
    for change in (lambda: setattr(model.layers[1], "trainable", False), model.pop):
        epoch = ask(inspector, "changes")["epoch"]
        change()
        assert ask(inspector, "changes", since=epoch)["names"] == ["model"]
    texts = [row["text"] for row in parts(inspector, "model").values()]
    assert texts == ["Dense 20 params", "Dense 20 params, frozen"]
    model.trainable = False
    assert rows(inspector)["model"]["text"].endswith("frozen")


def test_a_weight_has_a_window_and_statistics(made: Any) -> None:
    model = keras_loaded.residual()
    inspector = made(model=model)
    kernel = model.layers[1].get_weights()[0]
    window = ask(inspector, "window", name="model/1/w0")
    assert window["shape"] == [6, 8]
    assert float(window["cells"][2][3]) == pytest.approx(kernel[2, 3], rel=1e-3)
    assert ask(inspector, "stats", name="model/1/w0", exact=True)["max"] == kernel.max()
    assert rows(inspector, names=["model/1/w0"])["model/1/w0"]["shape"] == [6, 8]


@pytest.mark.parametrize(
    "address",
    [
        "model/9",
        "model/w0",
        "model/1/w9",
        "model/1/0",
        "model/",
        "model/x",
        "model//1",
        "model/-1",
        "model/1/w0/0",
        "count/0",
        "none/1",
        "model/" + "9" * 40,
        "model/1/w²",
    ],
)
def test_what_is_no_part_is_refused(made: Any, address: str) -> None:
    inspector = made(model=keras_loaded.residual(), count=3)
    for verb in ("window", "stats", "graph"):
        assert refused(inspector, verb, name=address)["kind"] == "name"
    assert ask(inspector, "summary", names=[address])["rows"][0]["kind"] == "gone"
    assert ask(inspector, "parts", names=[address, 7])["rows"] == []


# ------------------------------------------------------------------ kinds of models and layers


def nested(layers: Any, models: Any) -> Any:
    inner = models.Sequential([layers.Dense(4, input_shape=(4,)), layers.BatchNormalization()])
    return models.Sequential([inner, layers.Dense(2)])


def subclassed(layers: Any, models: Any) -> Any:
    class Own(models.Model):
        def __init__(self) -> None:
            super().__init__()
            self.one = layers.Dense(3)
            self.two = layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.two(self.one(x))

    model = Own()
    model.compile("sgd", "mse")
    model.train_on_batch(np.ones((4, 5)), np.ones((4, 2)))
    return model


def unbuilt(layers: Any, models: Any) -> Any:
    return models.Sequential([layers.Dense(3), layers.Dense(2)])


def recurrent(layers: Any, models: Any) -> Any:
    cells = [layers.LSTMCell(3), layers.GRUCell(2)]
    return models.Sequential(
        [
            layers.Embedding(9, 4, input_length=5),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
            layers.TimeDistributed(layers.Dense(4)),
            layers.TimeDistributed(layers.BatchNormalization()),
            layers.RNN(cells),
        ]
    )


def shared(layers: Any, models: Any) -> Any:
    one, two = layers.Input((4,)), layers.Input((4,))
    dense = layers.Dense(3)
    return models.Model([one, two], layers.concatenate([dense(one), dense(two)]))


@pytest.mark.parametrize("build", [nested, subclassed, unbuilt, recurrent, shared])
def test_weights_are_those_that_keras_lists(made: Any, build: Any) -> None:
    keras = keras_loaded.load()
    model = build(keras.layers, keras.models)
    waiting = [model]
    while waiting:
        layer = waiting.pop()
        mine = keras_models.weights(layer)
        known = {id(keras_models.variable_of(one)) for one in layer.weights}
        trained = {id(keras_models.variable_of(one)) for one in layer.trainable_weights}
        assert {id(one.variable) for one in mine} == known
        assert {id(one.variable) for one in mine if one.trainable} == trained
        for part in keras_models.parts(layer, "model"):
            code = keras_models.code_of(part)
            assert keras_models.variable_of(eval(code, {"model": layer})) is part.value
        if keras_models.is_model(layer):
            assert keras_models.layers(layer) == layer.layers
            waiting += layer.layers
    inspector = made(model=model)
    row = rows(inspector)["model"]
    everything = parts(inspector, "model", *parts(inspector, "model"))
    assert row["params"] == sum(
        one["params"] for one in everything.values() if one["parent"] == "model"
    )
    for key in ["model", *everything]:
        if everything.get(key, {}).get("kind") != "variable":
            ask(inspector, "graph", name=key)


def test_a_layer_alone_and_a_metric_are_layers(made: Any) -> None:
    layers = keras_loaded.load().layers
    dense = layers.Dense(2)
    inspector = made(dense=dense)
    assert rows(inspector)["dense"]["text"] == "Dense" and parts(inspector, "dense") == {}
    dense(layers.Input((3,)))
    assert [row["label"] for row in parts(inspector, "dense").values()] == ["kernel", "bias"]
    assert summary.line(dense).endswith("float32[?, 2]  Dense 8 params")


# ------------------------------------------------------------------ other people's objects


def test_nothing_of_the_users_is_called(made: Any) -> None:
    keras = keras_loaded.load()
    called: list[str] = []

    class Loud(keras.layers.Dense):
        @property
        def trainable_weights(self) -> Any:
            called.append("weights")
            return super().trainable_weights

        def __repr__(self) -> str:
            called.append("repr")
            return "loud"

        def __getattr__(self, name: str) -> Any:
            called.append(name)
            raise AttributeError(name)

    model = keras.models.Sequential([Loud(3, input_shape=(4,), name="a\u202eb" + "x" * 100)])
    called.clear()
    inspector = made(model=model)
    rows(inspector)
    label = parts(inspector, "model", "model/0")["model/0"]["label"]
    ask(inspector, "graph", name="model/0")
    summary.line(model)
    assert called == [] and "\u202e" not in label and len(label) <= 80


def test_what_is_no_list_and_no_tensor_does_no_harm(made: Any) -> None:
    model = keras_loaded.residual()
    layer = model.layers[1]
    broken = {
        "_layers": 3,
        "_inbound_nodes": [1, object()],
        "_trainable_weights": {"a": 1},
        "trainable": None,
        "name": 5,
        "dtype": [1],
        "cells": (model, None, layer),
    }
    for key, value in broken.items():
        kept = vars(layer).get(key)
        vars(layer)[key] = value
        inspector = made(model=model, layer=layer)
        rows(inspector)
        parts(inspector, "model", "model/1", "layer")
        ask(inspector, "graph", name="model/1")
        if kept is None:
            del vars(layer)[key]
        else:
            vars(layer)[key] = kept


def test_without_keras_nothing_is_imported() -> None:
    code = (
        "import sys; from kbench.workbench.inspector.inspector import Inspector\n"
        "one = Inspector({'x': object(), 'n': 3})\n"
        "one.handle({'verb': 'summary'}); one.handle({'verb': 'parts', 'names': ['x']})\n"
        "assert 'keras' not in sys.modules and 'h5py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------ size and speed


@pytest.mark.slow
def test_hundreds_of_layers_come_in_pages(made: Any) -> None:
    inspector = made(model=keras_loaded.deep(300))
    first = ask(inspector, "parts", names=["model"])
    assert 100 < len(first["rows"]) == first["next"] < 300
    layers = parts(inspector, "model")
    assert list(layers) == [f"model/{at}" for at in range(300)]
    weights = parts(inspector, *list(layers)[:64])
    assert len(weights) == 128
    graph = ask(inspector, "graph", name="model/299")
    assert len(graph["layers"]) + graph["layers_cut"] == 301


@pytest.mark.slow
def test_a_model_takes_as_long_as_its_layers_are_many(made: Any) -> None:
    """Four times the layers take four times as long, on any machine: some 8 ms for 100."""
    inspector = made(few=keras_loaded.deep(25), many=keras_loaded.deep(100))
    for verb in ("parts", "graph"):
        best = {"few": 9.0, "many": 9.0}
        for _ in range(15):
            for model in best:
                asked = {"names": [model]} if verb == "parts" else {"name": model}
                began = time.thread_time()
                ask(inspector, verb, **asked)
                best[model] = min(best[model], time.thread_time() - began)
        assert best["many"] < 8 * best["few"], verb


# ------------------------------------------------------------------ graphs


def test_a_layers_graph_leads_to_the_inputs(made: Any) -> None:
    model = keras_loaded.residual()
    model.train_on_batch(*keras_loaded.batch())  # Keras 3 has operations from its first step on
    graph = ask(made(model=model), "graph", name="model/3")
    layers = {row["id"]: row for row in graph["layers"]}
    assert [row["name"] for row in layers.values()] == ["sum", "first", "second", "data"]
    assert [layers[one]["name"] for one in layers[0]["inputs"]] == ["first", "second"]
    assert layers[0]["spec"] == "float32[?, 8]"
    inside = graph["rows"]
    assert [row["op"] for row in inside if not row["end"]] == ["add"]
    specs = [row["spec"].replace("[16,", "[?,") for row in inside if row["end"]]
    assert specs == ["float32[?, 8]"] * 2


def test_a_models_graph_shows_its_layers_only(made: Any) -> None:
    graph = ask(made(model=keras_loaded.residual()), "graph", name="model")
    assert len(graph["layers"]) == 7 and graph["rows"] == []


def test_a_part_of_two_models_is_shown_in_the_one_asked_for(made: Any) -> None:
    keras = keras_loaded.load()
    dense = keras.layers.Dense(3)
    one, two = (
        keras.models.Sequential([keras.layers.Activation("relu", input_shape=(4,)), dense])
        for _ in range(2)
    )
    graph = ask(made(two=two), "graph", name="two/1")
    assert [row["name"] for row in graph["layers"][:2]] == [dense.name, two.layers[0].name]
    assert keras_models.facts(dense, one)["sources"] == [one.layers[0].name]
    assert isinstance(keras_models.parts(one, "one")[0], Part)


RAILS = [
    ({0: [1], 1: []}, "● 0/● 1"),
    ({0: [1, 2], 1: [3], 2: [3], 3: []}, "● 0/├─╮/● │ 1/│ ● 2/├─╯/● 3"),
    ({0: [1, 2, 3], 1: [], 2: [], 3: []}, "● 0/├─┼─╮/● │ │ 1/  ● │ 2/    ● 3"),
    ({0: [2], 1: [2], 2: []}, "● 0/│ ● 1/├─╯/● 2"),
    ({0: [1, 1], 1: []}, "● 0/● 1"),
    ({0: [7, None], 1: [0]}, "● 1/● 0"),
    ({}, ""),
]


@pytest.mark.parametrize(("graph", "drawn"), RAILS)
def test_rails(graph: dict[int, list[Any]], drawn: str) -> None:
    table = [GraphNode(id=key, name=str(key), inputs=value) for key, value in graph.items()]
    lines = graph_text.lines(table)
    texts = [f"{one.rails} {'' if one.row is None else one.row.name}".rstrip() for one in lines]
    assert "/".join(texts) == drawn
    plain = graph_text.lines(table, ascii=True)
    assert all(one.rails.isascii() for one in plain) and len(plain) == len(lines)
