"""Models of Keras 2.3.1 through pickle and copy: the copy is the same, and goes on in the same way.

That is bit for bit: predictions, and the losses of the steps that follow, random numbers included.
"""

from __future__ import annotations

import copy
import pickle

import keras
import layer_table_core
import layer_table_recurrent
import layer_table_spatial
import numpy as np
import part_table_optimizers
import pytest
from copies import RNG, WAYS, X, Y, assert_alike, assert_equal, listed, mlp, numbers, trained
from keras import backend as K
from keras import layers, losses, metrics, models
from keras.layers import Dense
from keras.models import Model, Sequential
from layer_table import BATCH
from sampling import first_of_each

ROWS = [*layer_table_core.ROWS, *layer_table_spatial.ROWS, *layer_table_recurrent.ROWS]
each_way = pytest.mark.parametrize("way", WAYS)
pytestmark = pytest.mark.filterwarnings("ignore:The `(Highway|MaxoutDense)` layer is deprecated")


@pytest.fixture(autouse=True)
def _on_numpy(monkeypatch):
    monkeypatch.setenv("KBENCH_JIT", "off")


# ------------------------------------------------------------------ all kinds of layers


@pytest.mark.parametrize("row", first_of_each(lambda row: row.name, ROWS), ids=str)
def test_layers(row):
    model, _ = row.model(learning=not row.model()[1].trainable_weights)
    x = row.inputs()
    y = [one + 1.0 for one in listed(model.predict(x, batch_size=BATCH))]
    trained(model, x, y, 1)
    for way in ("pickle", "deepcopy"):
        assert_alike(model, WAYS[way](model), x, y, 1)


def functional():
    """Two inputs and outputs, a shared layer, a model in the model called twice, regularizers."""
    a, b = layers.Input((3,), name="a"), layers.Input((3,), name="b")
    shared = Dense(4, activation="relu", kernel_regularizer="l2", name="shared")
    inner = Sequential(
        [
            Dense(4, input_shape=(4,), activity_regularizer="l1"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
        ],
        name="inner",
    )
    both = layers.add([inner(shared(a)), inner(shared(b))])
    first = Dense(2, name="first", kernel_constraint="max_norm")(both)
    return Model([a, b], [first, layers.Activation("tanh", name="second")(first)])


XX, YY = [numbers(5, 3), numbers(5, 3, seed=2)], [numbers(5, 2, seed=3), numbers(5, 2, seed=4)]


@each_way
def test_a_graph_of_layers(way):
    model = trained(functional(), XX, YY)
    twin = WAYS[way](model)
    assert_alike(model, twin, XX, YY)
    assert twin.get_config() == model.get_config()
    assert len(twin.updates) == len(model.updates) == 4
    assert len(twin.losses) == len(model.losses)
    inner, other = model.get_layer("inner"), twin.get_layer("inner")
    assert len(inner._inbound_nodes) == len(other._inbound_nodes) == 3
    assert len(inner.get_updates_for(inner.get_input_at(2))) == 2
    assert len(other.get_updates_for(other.get_input_at(2))) == 2
    shared = twin.get_layer("shared")
    assert shared.get_output_at(0)._keras_history == (shared, 0, 0)
    again = Model(twin.inputs, other.get_output_at(1))  # its layers can be used further
    assert_equal(again.predict(XX), Model(model.inputs, inner.get_output_at(1)).predict(XX))


@each_way
def test_a_copy_is_apart(way):
    model = trained(mlp(), X, Y)
    twin, before = WAYS[way](model), model.get_weights()
    twin.train_on_batch(X, Y)
    assert_equal(model.get_weights(), before)
    assert (twin.get_weights()[0] != before[0]).any()
    assert not {id(one) for one in twin.weights} & {id(one) for one in model.weights}
    twin.name = "twin"  # a model wants all of its layers to have names of their own
    start = layers.Input((4,))
    both = Model(start, layers.concatenate([model(start), twin(start)]))
    assert_equal(both.predict(X), np.concatenate([model.predict(X), twin.predict(X)], 1))


@pytest.mark.parametrize("row", part_table_optimizers.ROWS, ids=str)
def test_optimizers(row):
    model = trained(Sequential([Dense(3, input_shape=(4,)), Dense(2)]), X, Y, optimizer=row.make())
    twin = WAYS["pickle"](model)
    assert type(twin.optimizer) is type(model.optimizer)
    assert twin.optimizer.get_config() == model.optimizer.get_config()
    assert_equal(twin.optimizer.get_weights(), model.optimizer.get_weights())
    assert_alike(model, twin, X, Y)
    alone = WAYS["pickle"](model.optimizer)
    assert_equal(alone.get_weights(), model.optimizer.get_weights())
    assert alone.updates == []


@pytest.mark.parametrize(
    "options",
    [
        {"loss": ["mse", "mae"], "loss_weights": [0.3, 2.0], "metrics": {"second": ["mse"]}},
        {"loss": {"first": "hinge"}, "metrics": [metrics.MeanSquaredError(), "mae"]},
        {"loss": losses.Huber(0.5), "weighted_metrics": [metrics.mse], "metrics": [metrics.mae]},
        {"loss": losses.logcosh, "metrics": [[metrics.RootMeanSquaredError()], []]},
    ],
    ids=["weights of losses", "one of two", "objects", "functions"],
)
def test_what_was_compiled(options):
    y = YY[:1] if isinstance(options["loss"], dict) else YY
    model = trained(functional(), XX, y, **options)
    assert_alike(model, WAYS["pickle"](model), XX, y, sample_weight=[np.arange(5.0)] * len(y))


def test_weights_of_time_steps():
    model = Sequential(
        [
            layers.Embedding(7, 3, input_length=5, mask_zero=True),
            layers.Bidirectional(layers.LSTM(2, return_sequences=True, dropout=0.4)),
            layers.TimeDistributed(Dense(2)),
        ]
    )
    x, y = RNG(5).integers(0, 7, (6, 5)), numbers(6, 5, 2)
    trained(model, x, y, 1, sample_weight_mode="temporal", weighted_metrics=["mae"])
    assert_alike(model, WAYS["pickle"](model), x, y, sample_weight=RNG(3).uniform(size=(6, 5)))


@each_way
def test_states_that_stay(way):
    model = Sequential([layers.GRU(3, stateful=True, batch_input_shape=(2, 4, 3)), Dense(2)])
    x, y = numbers(2, 4, 3), numbers(2, 2)
    trained(model, x, y)
    model.predict(x)
    twin = WAYS[way](model)
    assert np.any(K.get_value(twin.layers[0].states[0]))
    assert_alike(model, twin, x, y)
    for one in (model, twin):
        one.reset_states()
    assert_alike(model, twin, x)


def test_other_dtypes():
    K.set_floatx("float64")
    model = trained(mlp(), X, Y)
    data = pickle.dumps(model)
    K.set_floatx("float32")
    twin = pickle.loads(data)
    assert twin.predict(X).dtype == "float64"
    assert_equal(twin.predict(X), model.predict(X))


def test_what_is_not_yet_built_or_compiled():
    model = Sequential(
        [Dense(3, kernel_initializer=keras.initializers.he_normal(seed=3)), Dense(2)]
    )
    twin = WAYS["pickle"](model)
    assert not twin.built and twin.weights == []
    model.compile("sgd", "mse")
    twin = WAYS["pickle"](model)
    twin.fit(X, Y, epochs=1, verbose=0)
    assert not model.built
    bare = mlp()
    twin = WAYS["pickle"](bare)
    assert_alike(bare, twin, X)
    trained(twin, X, Y)
    assert not hasattr(bare, "train_function")
    assert WAYS["pickle"](Sequential()).layers == []


# ------------------------------------------------------------------ state besides the weights


@each_way
def test_what_is_frozen(way):
    """The compiled step goes by what was frozen then; compiled again, by what is frozen now."""
    model = mlp()
    model.layers[0].trainable = False
    trained(model, X, Y)
    model.layers[0].trainable = True
    with pytest.warns(UserWarning, match="Discrepancy"):
        twin = WAYS[way](model)
        twin._check_trainable_weights_consistency()
    kernel = twin.get_weights()[0]
    twin.train_on_batch(X, Y)
    assert_equal(twin.get_weights()[0], kernel)
    trained(twin, X, Y)
    assert (twin.get_weights()[0] != kernel).any()
    assert WAYS[way](twin.layers[0]).trainable
    twin.trainable = False
    assert WAYS[way](twin).trainable_weights == []


@each_way
def test_state_of_metrics_rates_and_flags(way):
    model = trained(mlp(), X, Y, metrics=[metrics.MeanAbsoluteError()])
    model.train_on_batch(X, Y, reset_metrics=False)
    K.set_value(model.optimizer.lr, 0.25)
    model.stop_training = True
    twin = WAYS[way](model)
    assert K.get_value(twin.optimizer.lr) == 0.25 and twin.stop_training
    found = model.train_on_batch(X, Y, reset_metrics=False)
    assert twin.train_on_batch(X, Y, reset_metrics=False) == found
    twin.reset_metrics()
    assert K.get_value(twin.metrics[0].count) == 0 != K.get_value(model.metrics[0].count)


@each_way
def test_history_goes_with_its_model(way):
    model = mlp()
    model.compile("adam", "mse")
    history = model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y))
    twin = WAYS[way](history)
    assert twin.history == history.history and twin.epoch == [0, 1] and twin.params
    assert twin.model.history is twin and twin.validation_data is None
    assert_alike(model, twin.model, X, Y)
    assert history.validation_data


@each_way
def test_what_is_shared_stays_shared(way):
    """A GAN: the generator is a layer of the whole, whose step trains it."""
    maker = Sequential([Dense(4, input_shape=(3,), name="made")], name="maker")
    judge = Sequential([Dense(1, input_shape=(4,), name="judged")], name="judge")
    judge.compile("sgd", "mse")
    judge.trainable = False
    noise = layers.Input((3,))
    whole = Model(noise, judge(maker(noise)))
    whole.compile("sgd", "mse")
    step = K.function(
        maker.inputs, [K.sum(maker.outputs[0])], [K.update(maker.weights[1], [1.0] * 4)]
    )
    kept = {"maker": maker, "judge": judge, "whole": whole, "step": step, "layer": maker.layers[0]}
    twin = WAYS[way](kept)
    assert twin["whole"].layers[1] is twin["maker"] and twin["whole"].layers[2] is twin["judge"]
    assert twin["layer"] is twin["maker"].layers[0]
    x = numbers(5, 3)
    twin["step"]([x])
    assert_equal(twin["maker"].get_weights()[1], np.ones(4, "float32"))
    assert_equal(maker.get_weights()[1], np.zeros(4, "float32"))
    before = twin["maker"].get_weights()[0]
    twin["whole"].train_on_batch(x, np.ones((5, 1)))
    assert (twin["maker"].get_weights()[0] != before).any()
    assert_equal(twin["whole"].predict(x), twin["judge"].predict(twin["maker"].predict(x)))


def test_a_model_does_not_bring_those_that_it_is_part_of():
    base = Sequential([Dense(4, input_shape=(4,)), layers.BatchNormalization()])
    alone = pickle.dumps(base)
    head = Dense(500, name="head")(base.output)
    whole = trained(Model(base.input, layers.Dropout(0.5)(head)), X, numbers(5, 500))
    outer = Sequential([base, Dense(300)])
    outer.predict(X)
    data = pickle.dumps(base)
    assert len(data) < len(alone) + 100 and b"head" not in data
    twin = pickle.loads(data)
    assert len(twin.layers[1]._inbound_nodes) == 1 and twin.layers[1]._outbound_nodes == []
    assert_alike(base, twin, X)
    assert len(base.layers[1]._inbound_nodes) == 1 and len(base._inbound_nodes) == 2
    assert_alike(whole, WAYS["pickle"](whole), X, numbers(5, 500))
    both = WAYS["pickle"]((base, whole))
    assert both[1].layers[1] is both[0].layers[0]
    assert len(both[1].updates) == 2


@each_way
def test_layers_and_parts_alone(way):
    copied, model = WAYS[way], trained(mlp(), X, Y)
    layer = model.layers[0]
    twin = copied(layer)
    assert_equal(twin.get_weights(), layer.get_weights())
    assert twin.name == layer.name and twin._inbound_nodes == []
    again = Model(model.input, twin(model.input))
    assert_equal(again.predict(X), Model(model.input, layer.output).predict(X))
    assert (
        copied(layers.LSTM(3, name="new")).get_config() == layers.LSTM(3, name="new").get_config()
    )
    for part in (
        keras.initializers.RandomNormal(seed=3),
        keras.regularizers.l1_l2(0.1, 0.2),
        keras.constraints.MaxNorm(3),
        losses.CategoricalCrossentropy(label_smoothing=0.1),
        metrics.AUC(),
        keras.optimizers.Adam(0.1),
    ):
        assert copied(part).get_config() == part.get_config()
    assert copied(losses.mse) is losses.mse
    seen = metrics.MeanSquaredError()
    K.eval(seen(K.constant(X), K.constant(X + 1)))
    assert copied(metrics.MeanSquaredError())(K.constant(X), K.constant(X + 2)) is not None


@each_way
def test_callbacks(way, tmp_path):
    model = mlp()
    model.compile("adam", "mse")
    kinds = keras.callbacks
    given = [
        kinds.EarlyStopping(patience=7, restore_best_weights=True),
        kinds.ReduceLROnPlateau(patience=1),
        kinds.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        kinds.ModelCheckpoint(str(tmp_path / "w.h5"), save_weights_only=True),
        kinds.CSVLogger(str(tmp_path / "log.csv")),
        kinds.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
        kinds.TerminateOnNaN(),
    ]
    for callback in given:
        WAYS[way](callback)
    model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y), callbacks=given)
    twins = WAYS[way](given)
    assert twins[0].best == given[0].best and twins[2].schedule(1) == 0.05
    assert twins[1].monitor_op(1.0, 2.0) and twins[0].model is twins[1].model
    twins[0].model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y), callbacks=twins)


def test_copies_of_copies_are_the_same_bytes():
    model = trained(functional(), XX, YY)
    data = pickle.dumps(model, 5)
    assert pickle.dumps(model, 5) == data
    model.predict(XX)
    assert pickle.dumps(model, 5) == data  # whatever was predicted meanwhile
    first = pickle.dumps(pickle.loads(data), 5)
    second = pickle.dumps(pickle.loads(first), 5)
    assert len(first) == len(second)
    model.train_on_batch(XX, YY)
    assert pickle.dumps(model, 5) != data


def test_a_shallow_copy_of_a_model_is_a_copy():
    model = trained(mlp(), X, Y)
    assert_alike(model, copy.copy(model), X, Y)
    layer = copy.copy(model.layers[0])
    assert layer.kernel is model.layers[0].kernel


def test_deep_models():
    model = Sequential([Dense(4, input_shape=(4,))])
    for _ in range(20):
        model.add(Sequential([Dense(4, activation="relu", input_shape=(4,)) for _ in range(10)]))
    for way in ("pickle", "deepcopy"):
        assert_alike(model, WAYS[way](model), X)


def test_bytes_as_keras_itself_makes_them():
    model = trained(mlp(), X, Y)
    twin = object.__new__(Sequential)
    twin.__setstate__(keras.engine.saving.pickle_model(model))
    assert_equal(twin.predict(X), model.predict(X))
    assert_equal(models.clone_model(WAYS["pickle"](model)).get_config(), model.get_config())
