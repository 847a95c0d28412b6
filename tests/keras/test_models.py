"""Models of Keras 2.3.1 on kbench: how they are put together, looked into, frozen and dropped."""

from __future__ import annotations

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import backend as K
from keras import layers, models
from keras.layers import Dense
from keras.models import Model, Sequential

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


# ------------------------------------------------------------------ three ways to make a model


class Twice(Model):
    """A model whose `call` is Python."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first = Dense(8, activation="tanh")
        self.norm = layers.BatchNormalization()
        self.second = Dense(2)

    def call(self, inputs):
        return self.second(self.norm(self.first(inputs)))


def sequential():
    return Sequential(
        [Dense(8, activation="tanh", input_shape=(4,)), layers.BatchNormalization(), Dense(2)]
    )


def functional():
    x = layers.Input((4,))
    return Model(x, Dense(2)(layers.BatchNormalization()(Dense(8, activation="tanh")(x))))


def by_hand(x, weights):
    kernel, bias, gamma, beta, mean, variance, second, last = weights
    hidden = (np.tanh(x @ kernel + bias) - mean) / np.sqrt(variance + 1e-3)
    return (hidden * gamma + beta) @ second + last


@pytest.mark.parametrize("make", [sequential, functional, Twice], ids=lambda one: one.__name__)
def test_ways_to_make_a_model(make):
    model = make()
    model.compile("adam", "mse", metrics=["mae"])
    x, y = numbers(32, 4), numbers(32, 2, seed=2)
    losses = model.fit(x, y, 8, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    weights = [weight for layer in model.layers for weight in layer.get_weights()]
    found = model.predict(x, batch_size=5)
    np.testing.assert_allclose(found, by_hand(x, weights), rtol=1e-4, atol=1e-5)
    loss, error = model.evaluate(x, y, 7, verbose=0)
    assert loss == pytest.approx(((found - y) ** 2).mean(), rel=1e-5)
    assert error == pytest.approx(np.abs(found - y).mean(), rel=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(x), found, rtol=1e-4, atol=1e-6)
    assert model.count_params() == 4 * 8 + 8 + 4 * 8 + 8 * 2 + 2


def test_sequential_grows_and_shrinks():
    model = Sequential(name="stack")
    model.add(Dense(3, input_dim=2))
    model.add(Dense(4))
    assert model.output_shape == (None, 4)
    model.pop()
    assert model.output_shape == (None, 3)
    inner = Sequential([Dense(5), Dense(1)])
    model.add(inner)
    assert model.predict(np.ones((2, 2))).shape == (2, 1)
    assert model.get_layer(index=0).name == model.layers[0].name
    assert (model.predict_classes(np.ones((2, 2))) <= 1).all()
    np.testing.assert_array_equal(model.predict_proba(np.ones((2, 2))).shape, (2, 1))


def test_summary(capsys):
    functional().summary()
    text = capsys.readouterr().out
    assert "(None, 8)" in text
    assert "Total params: 90" in text
    assert "Non-trainable params: 16" in text


def test_shared_layers_and_models():
    """One layer twice: its gradient is the sum of both; a model used as a layer."""
    left, right = layers.Input((3,)), layers.Input((3,))
    shared = Dense(2, use_bias=False)
    inner = Sequential([shared])
    out = layers.Subtract()([inner(left), inner(right)])
    model = Model([left, right], out)
    assert len(model.trainable_weights) == 1
    assert K.int_shape(inner.get_output_at(1)) == (None, 2)
    assert inner.get_output_at(1) is not inner.get_output_at(2)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    a, b, y = numbers(6, 3), numbers(6, 3, seed=2), numbers(6, 2, seed=3)
    kernel = shared.get_weights()[0]
    model.train_on_batch([a, b], y)
    error = ((a - b) @ kernel - y) * 2 / y.size
    wanted = kernel - 0.1 * (a - b).T @ error
    np.testing.assert_allclose(shared.get_weights()[0], wanted, rtol=1e-4, atol=1e-6)


def test_many_inputs_and_outputs():
    """Losses, weights of losses, metrics and data by name."""
    a, b = layers.Input((3,), name="a"), layers.Input((2,), name="b")
    both = layers.concatenate([a, b])
    one = Dense(1, name="one")(both)
    two = Dense(2, activation="softmax", name="two")(both)
    model = Model([a, b], [one, two])
    model.compile(
        "adam",
        {"one": "mse", "two": "categorical_crossentropy"},
        metrics={"one": "mae", "two": ["acc", "mse"]},
        loss_weights={"one": 0.5, "two": 2.0},
    )
    assert model.metrics_names == "loss one_loss two_loss one_mae two_acc two_mse".split()
    x = {"a": numbers(12, 3), "b": numbers(12, 2, seed=2)}
    y = {"one": numbers(12, 1, seed=3), "two": np.eye(2)[RNG(4).integers(0, 2, 12)]}
    losses = model.fit(x, y, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    first, second = model.predict([x["a"], x["b"]])
    found = dict(zip(model.metrics_names, model.evaluate(x, y, 4, verbose=0), strict=True))
    assert found["one_loss"] == pytest.approx(((first - y["one"]) ** 2).mean(), rel=1e-4)
    cross = -np.log((second * y["two"]).sum(-1)).mean()
    assert found["two_loss"] == pytest.approx(cross, rel=1e-4)
    assert found["loss"] == pytest.approx(0.5 * found["one_loss"] + 2 * cross, rel=1e-4)
    assert found["two_acc"] == pytest.approx((second.argmax(1) == y["two"].argmax(1)).mean())


def test_losses_and_metrics_that_are_added():
    x = layers.Input((3,))
    hidden = Dense(4, name="hidden")(x)
    out = Dense(1)(hidden)
    model = Model(x, out)
    model.add_loss(0.1 * K.mean(K.square(hidden)))
    model.add_metric(K.max(hidden), name="most")
    model.compile("adam", "mse")
    data, y = numbers(8, 3), numbers(8, 1, seed=2)
    model.fit(data, y, epochs=1, verbose=0)
    kernel, bias = model.get_layer("hidden").get_weights()
    inner = data @ kernel + bias
    wanted = ((model.predict(data) - y) ** 2).mean() + 0.1 * (inner**2).mean()
    loss, most = model.evaluate(data, y, verbose=0)
    assert loss == pytest.approx(wanted, rel=1e-4)
    assert most == pytest.approx(inner.max(), rel=1e-4)


# ------------------------------------------------------------------ masks and states


def test_masks_reach_loss_and_metric():
    """What is masked counts for nothing, whatever is predicted there."""
    model = Sequential(
        [layers.Masking(0.0, input_shape=(4, 2)), layers.LSTM(3, return_sequences=True)]
    )
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = numbers(5, 4, 2), numbers(5, 4, 3, seed=2)
    x[0, 2:] = x[1, 1:] = x[2, 3:] = 0
    kept = (x != 0).any(-1)
    error = model.predict(x) - y
    loss, mae = model.evaluate(x, y, verbose=0)
    assert loss == pytest.approx(((error**2).mean(-1) * kept).mean(), rel=1e-4)
    assert mae == pytest.approx(np.abs(error).mean(-1)[kept].mean(), rel=1e-4)


def test_embedding_masks_zero():
    model = Sequential([layers.Embedding(5, 3, mask_zero=True), layers.GRU(2)])
    short, long = model.predict(np.array([[1, 2, 0, 0], [1, 2, 3, 4]]))
    alone = model.predict(np.array([[1, 2]]))[0]
    np.testing.assert_allclose(short, alone, rtol=1e-5, atol=1e-7)
    assert not np.allclose(long, alone)


@pytest.mark.parametrize("kind", ["SimpleRNN", "GRU", "LSTM"])
def test_states_are_carried_on(kind):
    """A stateful layer goes on where the last batch ended, until it is reset."""
    stateful = Sequential([getattr(layers, kind)(3, stateful=True, batch_input_shape=(2, 2, 4))])
    whole = Sequential([getattr(layers, kind)(3, input_shape=(6, 4))])
    whole.set_weights(stateful.get_weights())
    x = numbers(2, 6, 4)
    for _ in range(2):
        for start in (0, 2, 4):
            found = stateful.predict(x[:, start : start + 2])
        np.testing.assert_allclose(found, whole.predict(x), rtol=1e-4, atol=1e-6)
        stateful.reset_states()
    stateful.compile("sgd", "mse")
    before = K.get_value(stateful.layers[0].states[0])
    stateful.train_on_batch(x[:, :2], numbers(2, 3))
    assert (K.get_value(stateful.layers[0].states[0]) != before).any()
    stateful.layers[0].reset_states([np.ones((2, 3))] * len(stateful.layers[0].states))
    assert (K.get_value(stateful.layers[0].states[0]) == 1).all()


# ------------------------------------------------------------------ what is trained


def test_trainability_changes_on_the_way():
    model = functional()
    x, y = numbers(8, 4), numbers(8, 2, seed=2)
    first, norm, last = model.layers[1:]
    first.trainable = False
    assert len(model.trainable_weights) == 4
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = [weight.copy() for weight in model.get_weights()]
    model.train_on_batch(x, y)
    changed = [(a != b).any() for a, b in zip(before, model.get_weights(), strict=True)]
    assert changed == [False] * 2 + [True] * 6

    first.trainable = True
    with pytest.warns(UserWarning, match="Discrepancy between trainable weights"):
        model.train_on_batch(x, y)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = first.get_weights()[0]
    model.train_on_batch(x, y)
    assert (first.get_weights()[0] != before).any()

    model.trainable = False
    assert model.trainable_weights == []
    assert len(model.non_trainable_weights) == 8


def test_two_models_train_parts_of_one_another():
    """As a generator and its critic do: a frozen model inside another one."""
    critic = Sequential([Dense(4, activation="relu", input_shape=(2,)), Dense(1)])
    critic.compile("adam", "mse")
    maker = Sequential([Dense(2, input_shape=(3,))])
    critic.trainable = False
    noise = layers.Input((3,))
    together = Model(noise, critic(maker(noise)))
    together.compile("adam", "mse")
    before = critic.get_weights(), maker.get_weights()
    together.train_on_batch(numbers(4, 3), np.ones((4, 1)))
    assert all((a == b).all() for a, b in zip(before[0], critic.get_weights(), strict=True))
    assert (before[1][0] != maker.get_weights()[0]).any()
    with pytest.warns(UserWarning, match="without calling `model.compile`"):
        critic.train_on_batch(numbers(4, 2), np.ones((4, 1)))
    assert (before[0][0] != critic.get_weights()[0]).any()


# ------------------------------------------------------------------ a look inside


def test_output_of_an_intermediate_layer():
    """As the backend's notebook has it."""
    model = Sequential()
    model.add(Dense(10, input_shape=(3,), name="dense_1"))
    for number in range(2, 6):
        model.add(Dense(10, name=f"dense_{number}"))
    inner = Model(inputs=model.input, outputs=model.get_layer("dense_1").output)
    kernel, bias = model.get_layer("dense_1").get_weights()
    x = np.array([[1, 2, 3]])
    np.testing.assert_allclose(inner.predict(x), x @ kernel + bias, rtol=1e-5, atol=1e-6)

    get_3rd_layer_output = K.function([model.layers[0].input], [model.layers[3].output])
    layer_output = get_3rd_layer_output([x])[0]
    wanted = x
    for layer in model.layers[:4]:
        kernel, bias = layer.get_weights()
        wanted = wanted @ kernel + bias
    np.testing.assert_allclose(layer_output, wanted, rtol=1e-4, atol=1e-5)

    get_3rd_layer_output = K.function(
        [model.layers[0].input, K.learning_phase()], [model.layers[3].output]
    )
    for phase in (0, 1):  # which nothing in this model asks for
        np.testing.assert_array_equal(get_3rd_layer_output([x, phase])[0], layer_output)
    kvar = K.variable(np.array([[1, 2], [3, 4]]), dtype="float32")
    np.testing.assert_array_equal(K.eval(kvar), K.get_value(kvar))
    assert K.count_params(kvar) == 4


def test_learning_phase_is_fed():
    """K.learning_phase() among the inputs: 0 in test mode, 1 in train mode."""
    model = Sequential(
        [Dense(50, input_shape=(3,)), layers.Dropout(0.5), layers.BatchNormalization(), Dense(4)]
    )
    get = K.function([model.layers[0].input, K.learning_phase()], [model.layers[1].output])
    x = np.array([[1.0, 2.0, 3.0]])
    kernel, bias = model.layers[0].get_weights()
    plain = x @ kernel + bias
    np.testing.assert_allclose(get([x, 0])[0], plain, rtol=1e-5, atol=1e-6)
    trained = get([x, 1])[0]
    kept = trained != 0
    assert 5 < kept.sum() < 45
    np.testing.assert_allclose(trained[kept], 2 * plain[kept], rtol=1e-5)
    assert (get([x, 1])[0] != trained).any()
    unfed = K.function([model.input], [model.layers[1].output])([x])[0]
    np.testing.assert_allclose(unfed, plain, rtol=1e-5, atol=1e-6)
    assert model.layers[1].output._uses_learning_phase
    assert not model.layers[0].output._uses_learning_phase
    assert model.uses_learning_phase


@pytest.mark.parametrize("phase", [0, 1])
def test_learning_phase_is_fixed(phase):
    K.set_learning_phase(phase)
    x = layers.Input((40,))
    model = Model(x, layers.Dropout(0.5)(x))
    assert not model.uses_learning_phase
    found = model.predict(np.ones((1, 40)))
    assert ((found == 0).any(), (found == 1).all()) == (bool(phase), not phase)


def test_tensors_know_their_layer():
    x = layers.Input((3,), name="x")
    dense = Dense(2, name="dense")
    y = dense(x)
    assert (x._keras_shape, y._keras_shape) == ((None, 3), (None, 2))
    assert y._keras_history[0] is dense
    assert K.is_keras_tensor(y)
    assert not K.is_keras_tensor(K.placeholder((3,)))
    with pytest.raises(ValueError, match="ndarray"):
        K.is_keras_tensor(np.ones(3))
    assert [weight.name for weight in dense.weights] == ["dense/kernel:0", "dense/bias:0"]
    wide = layers.Lambda(lambda one: K.concatenate([one, one]))(y)
    assert Dense(3)(wide)._keras_shape == (None, 3)


def test_names_are_unique_within_a_layer():
    for layer, shape in (
        (layers.LSTM(2), (3, 2)),
        (layers.Bidirectional(layers.GRU(2, reset_after=True)), (3, 2)),
        (layers.SeparableConv2D(2, 2), (4, 4, 1)),
        (layers.RNN([layers.LSTMCell(2), layers.LSTMCell(2)]), (3, 2)),
        (Sequential([Dense(2), Dense(2)]), (2,)),
    ):
        layer(layers.Input(shape))
        names = [weight.name for weight in layer.weights]
        assert len(set(names)) == len(names) > 1


def test_dropped_models_are_forgotten():
    """A loop that builds models does not fill the memory: neither theirs nor their arrays."""
    kept = []
    for _ in range(3):
        model = sequential()
        model.compile("adam", "mse", metrics=["mae"])
        model.fit(numbers(8, 4), numbers(8, 2), verbose=0)
        model.predict(numbers(8, 4))
        kept += [weakref.ref(model), weakref.ref(model.layers[0].kernel), weakref.ref(model.output)]
        del model
    gc.collect()
    assert [one() for one in kept] == [None] * len(kept)


def test_layers_start_anew():
    """By the initializer of each weight, as folds of a cross-validation do."""
    model = sequential()
    model.compile("adam", "mse")
    before = model.get_weights()
    model.fit(numbers(8, 4), numbers(8, 2), verbose=0)
    for layer in model.layers:
        for weight in layer.weights:
            weight.initializer.run(session=K.get_session())
    for old, new in zip(before, model.get_weights(), strict=True):
        assert (old != new).any() == (old.ndim == 2)  # a kernel, which is drawn anew


def test_clone():
    model = functional()
    twin = models.clone_model(model)
    twin.set_weights(model.get_weights())
    x = numbers(3, 4)
    np.testing.assert_array_equal(twin.predict(x), model.predict(x))
    other = models.clone_model(model, input_tensors=layers.Input(batch_shape=(3, 4)))
    assert other.input_shape == (3, 4)
