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

ROWS = [*layer_table_core.ROWS, *layer_table_spatial.ROWS, *layer_table_recurrent.ROWS]
every_row = pytest.mark.parametrize("row", ROWS, ids=str)
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


@every_row
def test_values(row):
    model, layer, weights = prepared(row)
    inputs = row.inputs()
    wanted = row.wanted(inputs, weights)
    found = predicted(model, inputs)
    assert len(found) == len(wanted) == len(model.outputs)
    for output, one, other in zip(model.outputs, found, wanted, strict=True):
        assert one.dtype == "float32"
        assert K.int_shape(output)[1:] == other.shape[1:]
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@every_row
def test_gradients(row):
    """Along random directions, in float64, against differences of the output."""
    K.set_floatx("float64")
    model, layer, _ = prepared(row)
    inputs = row.inputs()
    numbers = row.generator()
    places = layer.trainable_weights + ([] if row.below else model.inputs)
    factors = [
        K.constant(numbers.normal(size=(BATCH, *K.int_shape(one)[1:]))) for one in model.outputs
    ]
    total = sum(K.sum(one * factor) for one, factor in zip(model.outputs, factors, strict=True))
    slopes = K.gradients(total, places)
    run = K.function(model.inputs, [total, *slopes])
    values = [K.get_value(one) for one in layer.trainable_weights]

    def move(directions: list[np.ndarray], step: float) -> float:
        """The output with weights and inputs moved."""
        ways = list(directions)
        for weight, value in zip(layer.trainable_weights, values, strict=True):
            K.set_value(weight, value + step * ways.pop(0))
        moved = [x + step * ways.pop(0) for x in inputs] if ways else inputs
        return float(run(moved)[0])

    _, *found = run(inputs)
    points = values + ([] if row.below else inputs)
    for _ in range(2):
        directions = [numbers.normal(size=one.shape) for one in points]
        if row.masked:
            directions[len(values)] *= inputs[0] != 0
        slope = sum((one * way).sum() for one, way in zip(found, directions, strict=True))
        step = 1e-6
        difference = (move(directions, step) - move(directions, -step)) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-6, abs=1e-7)
        for place, one in enumerate(points):  # each by itself, that none hides behind others
            alone = [way if at == place else 0 * way for at, way in enumerate(directions)]
            difference = (move(alone, step) - move(alone, -step)) / (2 * step)
            assert (found[place] * alone[place]).sum() == pytest.approx(
                difference, rel=1e-6, abs=1e-7
            ), one.shape


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


@every_row
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
