"""Every layer of Keras 2.3.1 on kbench: values, gradients, training, configuration, files."""

from __future__ import annotations

import inspect
import json
from typing import Any

import keras
import layer_table_core
import layer_table_recurrent
import layer_table_spatial
import numpy as np
import pytest
from keras import backend as K
from keras import layers, models
from layer_table import BATCH, LayerRow
from sampling import every, first_of_each

ROWS = [*layer_table_core.ROWS, *layer_table_spatial.ROWS, *layer_table_recurrent.ROWS]
every_row = pytest.mark.parametrize("row", ROWS, ids=str)
first_of_each_layer = pytest.mark.parametrize(
    "row", first_of_each(lambda row: row.name, ROWS), ids=str
)
pytestmark = pytest.mark.filterwarnings("ignore:The `(Highway|MaxoutDense)` layer is deprecated")

# What others derive from; where every model starts; cuDNN's, which are refused.
ABSTRACT = {"Layer", "Recurrent", "ConvRecurrent2D", "InputLayer"}
REFUSED = {"CuDNNGRU", "CuDNNLSTM"}


def test_every_layer_has_a_row():
    public = {
        one.__name__
        for one in vars(layers).values()
        if inspect.isclass(one)
        and issubclass(one, layers.Layer)
        and not issubclass(one, models.Model)  # which `deserialize` leaves in the module
    }
    assert len({str(row) for row in ROWS}) == len(ROWS)
    assert public - ABSTRACT - REFUSED - {row.name for row in ROWS} == set()


def prepared(row: LayerRow, learning: bool = False) -> tuple[Any, Any, list[np.ndarray]]:
    """(model, layer, weights), the layer's weights being random."""
    model, layer = row.model(learning)
    weights = row.weights(layer)
    layer.set_weights(weights)
    return model, layer, weights


def predicted(model: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    found = model.predict(inputs, batch_size=BATCH)
    return found if isinstance(found, list) else [found]


# dtype, relative and absolute tolerance; float64 is in the test of the gradients
PRECISIONS = {"float16": (1e-2, 4e-3), "float32": (2e-5, 2e-6)}


@every_row
def test_values(row):
    check_values(row, "float32")


@first_of_each_layer
def test_values_in_float16(row):
    check_values(row, "float16")


def check_values(row: LayerRow, dtype: str) -> None:
    K.set_floatx(dtype)
    model, layer, weights = prepared(row)
    inputs = [one.astype(dtype).astype(one.dtype) for one in row.inputs()]
    wanted = row.wanted(inputs, [one.astype(dtype).astype("float64") for one in weights])
    found = predicted(model, inputs)
    assert len(found) == len(wanted) == len(model.outputs)
    for output, one, other in zip(model.outputs, found, wanted, strict=True):
        assert one.dtype == dtype
        assert K.int_shape(output)[1:] == other.shape[1:]
        relative, absolute = PRECISIONS[dtype]
        np.testing.assert_allclose(one, other, rtol=relative, atol=absolute)


@pytest.mark.parametrize("tier", every(2, ["off", "wait"]))
@first_of_each_layer
def test_gradients(row, tier, monkeypatch):
    """In float64: each gradient along a random direction against differences of the output."""
    monkeypatch.setenv("KBENCH_JIT", tier)
    K.set_floatx("float64")
    model, layer, weights = prepared(row)
    inputs, numbers, trained = row.inputs(), row.generator(), layer.trainable_weights
    wanted = row.wanted(inputs, weights)
    factors = [numbers.normal(size=one.shape) for one in wanted]
    score = sum(K.sum(one * by) for one, by in zip(model.outputs, factors, strict=True))
    places = trained + ([] if row.below else model.inputs)
    run = K.function(model.inputs, [score, *K.gradients(score, places)])
    value, *slopes = run(inputs)
    exact = sum((one * by).sum() for one, by in zip(wanted, factors, strict=True))
    assert value == pytest.approx(exact, rel=1e-9, abs=1e-9)

    def moved(place: int, way: np.ndarray) -> float:
        """The score with one weight or input moved."""
        if place >= len(trained):
            feeds = list(inputs)
            feeds[place - len(trained)] = feeds[place - len(trained)] + way
            return float(run(feeds)[0])
        before = K.get_value(trained[place])
        K.set_value(trained[place], before + way)
        result = float(run(inputs)[0])
        K.set_value(trained[place], before)
        return result

    for place, slope in enumerate(slopes):
        way = 1e-6 * numbers.normal(size=slope.shape)
        if row.masked and place == len(trained):
            way *= inputs[0] != 0  # what is masked stays so
        difference = (moved(place, way) - moved(place, -way)) / 2
        assert (slope * way).sum() == pytest.approx(difference, rel=1e-6, abs=1e-13), places[place]


@every_row
def test_configuration(row):
    """What `get_config` gives is plain data and makes the same layer."""
    _, layer, _ = prepared(row)
    text = described(layer)
    with keras.utils.custom_object_scope(row.custom):
        twin = layers.deserialize(json.loads(text))
    assert type(twin) is type(layer)
    one, other = (json.loads(form)["config"] for form in (text, described(twin)))
    if row.name == "Lambda":  # Python writes the same code in more than one way
        assert one.pop("function")[1:] == other.pop("function")[1:]
    assert one == other


def described(layer: Any) -> str:
    """A layer's configuration in JSON, with NumPy's numbers as Keras' own writer takes them."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} is not plain data")

    return json.dumps(layers.serialize(layer), default=plain)


@first_of_each_layer
def test_training_and_file(row, tmp_path):
    """A few steps lower the loss; the saved model predicts the same, bit for bit.

    In front of layers without weights stands one that has: the gradient must pass through.
    """
    bare = not row.model()[1].trainable_weights
    model, layer, _ = prepared(row, learning=bare)
    inputs = row.inputs()
    targets = [one + row.generator().normal(size=one.shape) for one in predicted(model, inputs)]
    before = [K.get_value(one) for one in model.trainable_weights]
    model.compile(keras.optimizers.Adam(0.01), "mse")
    first = total(model.evaluate(inputs, targets, BATCH, verbose=0))
    model.fit(inputs, targets, BATCH, epochs=8, verbose=0, shuffle=False)
    assert total(model.evaluate(inputs, targets, BATCH, verbose=0)) < first
    for weight, value in zip(model.trainable_weights, before, strict=True):
        assert (K.get_value(weight) != value).any(), weight.name

    path = str(tmp_path / "model.h5")
    model.save(path)
    loaded = models.load_model(path, custom_objects=row.custom)
    for one, other in zip(predicted(loaded, inputs), predicted(model, inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def total(loss: Any) -> float:
    return loss[0] if isinstance(loss, list) else loss
