"""States, constants and masks: what layers carry from batch to batch and hand to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference_recurrent as slow
from keras import backend as K
from keras import layers, models

STEPS = {"SimpleRNN": (slow.simple, 1), "GRU": (slow.gru, 1), "LSTM": (slow.lstm, 2)}


def randomize(layer: Any) -> list[np.ndarray]:
    values = [np.random.uniform(-0.7, 0.7, one.shape) for one in layer.get_weights()]
    layer.set_weights(values)
    return values


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


# ------------------------------------------------------------------ stateful layers


@pytest.mark.parametrize("name", STEPS)
def test_a_stateful_layer_goes_on_where_the_last_batch_ended(name):
    layer = getattr(layers, name)(4, stateful=True, return_sequences=True)
    model = models.Sequential([layers.InputLayer(batch_input_shape=(2, 3, 5)), layer])
    weights = randomize(layer)
    x = np.random.normal(size=(2, 9, 5))
    make, states = STEPS[name]
    wanted = slow.run(make(*weights), x, [(4,)] * states, sequences=True)
    for _ in range(2):
        for start in (0, 3, 6):
            found = model.predict(x[:, start : start + 3], batch_size=2)
            close(found, wanted[:, start : start + 3])
        model.reset_states()
    given = [np.random.normal(size=(2, 4)) for _ in range(states)]
    layer.reset_states(states=given)
    close(
        model.predict(x[:, :3], batch_size=2),
        slow.run(make(*weights), x[:, :3], [], sequences=True, initial=given),
    )


def test_training_moves_the_states_too():
    layer = layers.LSTM(4, stateful=True)
    model = models.Sequential([layers.InputLayer(batch_input_shape=(2, 3, 5)), layer])
    model.compile("sgd", "mse")
    x = np.random.normal(size=(2, 3, 5))
    for _ in range(2):
        before = [K.get_value(one) for one in layer.states]
        model.train_on_batch(x, np.zeros((2, 4)))
        for one, other in zip(layer.states, before, strict=True):
            assert (K.get_value(one) != other).all()


def test_a_stateful_convolutional_layer():
    layer = layers.ConvLSTM2D(2, 3, padding="same", stateful=True)
    model = models.Sequential([layers.InputLayer(batch_input_shape=(1, 2, 4, 4, 1)), layer])
    weights = randomize(layer)
    x = np.random.normal(size=(1, 4, 4, 4, 1))
    step = slow.convolutional_lstm(*weights, padding="same")
    wanted = slow.run(step, x, [(4, 4, 2)] * 2, sequences=True)
    close(model.predict(x[:, :2], batch_size=1), wanted[:, 1])
    close(model.predict(x[:, 2:], batch_size=1), wanted[:, 3])
    layer.reset_states()
    close(model.predict(x[:, :2], batch_size=1), wanted[:, 1])


def test_a_stateful_layer_in_two_directions():
    layer = layers.Bidirectional(layers.GRU(3, stateful=True))
    layer.stateful = True  # which Keras 2.3.1 sets, and forgets in Layer.__init__
    model = models.Sequential([layers.InputLayer(batch_input_shape=(2, 4, 3)), layer])
    randomize(layer)
    x = np.random.normal(size=(2, 4, 3))
    first = model.predict(x, batch_size=2)
    assert (model.predict(x, batch_size=2) != first).any()
    layer.reset_states()
    np.testing.assert_array_equal(model.predict(x, batch_size=2), first)


# ------------------------------------------------------------------ states and constants given in


def test_a_reader_hands_its_states_to_a_writer():
    source, target = layers.Input((None, 3)), layers.Input((None, 2))
    reader = layers.LSTM(4, return_state=True)
    writer = layers.LSTM(4, return_sequences=True, return_state=True)
    _, *states = reader(source)
    outputs, *last = writer(target, initial_state=states)
    model = models.Model([source, target], [outputs, *last])
    read, write = randomize(reader), randomize(writer)
    x, y = np.random.normal(size=(2, 5, 3)), np.random.normal(size=(2, 3, 2))
    _, *given = slow.run(slow.lstm(*read), x, [(4,)] * 2, state=True)
    wanted = slow.run(slow.lstm(*write), y, [], sequences=True, state=True, initial=given)
    for one, other in zip(model.predict([x, y]), wanted, strict=True):
        close(one, other)
    twin = models.Model.from_config(model.get_config())
    twin.set_weights(model.get_weights())
    for one, other in zip(twin.predict([x, y]), model.predict([x, y]), strict=True):
        np.testing.assert_array_equal(one, other)


class Attending(layers.Layer):
    """A cell that reads a constant at every step: [samples, places, features]."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape: Any) -> None:
        (_, features), (_, _, places) = input_shape
        self.kernel = self.add_weight("kernel", (features, self.units), initializer="uniform")
        self.query = self.add_weight("query", (self.units, places), initializer="uniform")
        self.value = self.add_weight("value", (places, self.units), initializer="uniform")
        self.built = True

    def call(self, inputs: Any, states: Any, constants: Any) -> Any:
        (h,), (memory,) = states, constants
        share = K.softmax(K.sum(memory * K.expand_dims(K.dot(h, self.query), 1), axis=2))
        read = K.sum(memory * K.expand_dims(share, 2), axis=1)
        h = K.tanh(K.dot(inputs, self.kernel) + K.dot(read, self.value))
        return h, [h]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


def attend(x, memory, kernel, query, value):
    """The same in NumPy."""
    h = np.zeros((len(x), value.shape[1]))
    for time in range(x.shape[1]):
        score = np.exp(np.einsum("bpf,bf->bp", memory, h @ query))
        share = score / score.sum(1, keepdims=True)
        h = np.tanh(x[:, time] @ kernel + np.einsum("bp,bpf->bf", share, memory) @ value)
    return h


def test_a_cell_that_attends_to_a_constant(tmp_path):
    x, memory = layers.Input((4, 3)), layers.Input((5, 2))
    layer = layers.RNN(Attending(6))
    model = models.Model([x, memory], layer(x, constants=memory))
    model.compile("adam", "mse")
    feeds = [np.random.normal(size=(3, 4, 3)), np.random.normal(size=(3, 5, 2))]
    weights = randomize(layer)
    close(model.predict(feeds), attend(*feeds, *weights))
    losses = [model.train_on_batch(feeds, np.ones((3, 6))) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    path = str(tmp_path / "model.h5")
    model.save(path)
    loaded = models.load_model(path, custom_objects={"Attending": Attending})
    np.testing.assert_array_equal(loaded.predict(feeds), model.predict(feeds))


def test_states_that_are_no_output_of_a_layer():
    """Plain tensors as first states, in a layer that is not stateful and in one that is."""
    x, given = np.random.normal(size=(2, 3, 5)), np.random.normal(size=(2, 4))
    for stateful in (False, True):
        start, layer = layers.Input(batch_shape=(2, 3, 5)), layers.GRU(4, stateful=stateful)
        model = models.Model(start, layer(start, initial_state=K.constant(given)))
        weights = randomize(layer)
        wanted = slow.run(slow.gru(*weights), x, [], initial=[given])
        for _ in range(2):
            close(model.predict(x, batch_size=2), wanted)


# ------------------------------------------------------------------ masks


def masked_output(layer: Any, *shapes: Any) -> tuple[Any, list[Any]]:
    """(output, inputs) of a layer behind masks."""
    starts = [layers.Input(one) for one in shapes]
    tensors = [layers.Masking(0.0)(one) for one in starts]
    return layer(tensors if len(tensors) > 1 else tensors[0]), starts


# layer, shapes of the inputs, what NumPy makes of their masks (None: the mask ends here)
MASKS = {
    "Dense": (lambda: layers.Dense(2), ((4, 3),), lambda m: m),
    "Activation": (lambda: layers.Activation("relu"), ((4, 3),), lambda m: m),
    "BatchNormalization": (lambda: layers.BatchNormalization(), ((4, 3),), lambda m: m),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(2)), ((4, 3),), lambda m: m),
    "LSTM": (lambda: layers.LSTM(2), ((4, 3),), None),
    "sequences": (lambda: layers.LSTM(2, return_sequences=True), ((4, 3),), lambda m: m),
    "Bidirectional": (
        lambda: layers.Bidirectional(layers.GRU(2, return_sequences=True)),
        ((4, 3),),
        lambda m: m,
    ),
    "Add": (lambda: layers.Add(), ((4, 3), (4, 3)), lambda m, n: m & n),
    "Concatenate": (lambda: layers.Concatenate(), ((4, 3), (4, 2)), lambda m, n: m & n),
    "Concatenate, axis 1": (
        lambda: layers.Concatenate(axis=1),
        ((4, 3), (2, 3)),
        lambda m, n: np.concatenate([m, n], axis=1),
    ),
    "Lambda": (lambda: layers.Lambda(lambda x: x, mask=lambda x, m: m), ((4, 3),), lambda m: m),
    "Pooling": (lambda: layers.GlobalAveragePooling1D(), ((4, 3),), None),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_pass_through(name):
    make, shapes, numpy = MASKS[name]
    output, starts = masked_output(make(), *shapes)
    mask = output._keras_history[0].get_output_mask_at(0)
    if numpy is None:
        assert mask is None
        return
    feeds = [np.random.normal(size=(3, *one)) for one in shapes]
    feeds[0][1, 2:] = feeds[-1][0, 1] = 0
    (found,) = K.function(starts, [mask])(feeds)
    np.testing.assert_array_equal(found, numpy(*(one.any(-1) for one in feeds)))
    assert found.dtype == bool


def test_a_layer_that_cannot_mask_says_so():
    with pytest.raises(TypeError, match="does not support masking"):
        masked_output(layers.Flatten(), (4, 3))


def test_an_embedding_masks_zeros_up_to_the_loss():
    """Steps behind the end of a sentence neither move the state nor count in the loss."""
    model = models.Sequential(
        [
            layers.Embedding(9, 3, mask_zero=True, input_shape=(None,)),
            layers.LSTM(4, return_sequences=True),
            layers.TimeDistributed(layers.Dense(1)),
        ]
    )
    model.compile("sgd", "mse")
    for layer in model.layers:
        randomize(layer)
    words = np.array([[3, 5, 2, 0, 0], [1, 4, 8, 7, 6]])
    short, long = model.predict(words[:1, :3]), model.predict(words)
    close(long[0, :3], short[0])
    assert (long[0, 3:] == long[0, 2]).all()  # the last state goes on
    target = np.random.normal(size=(2, 5, 1))
    lost = (long - target) ** 2
    present = words != 0
    wanted = np.mean(lost[..., 0] * present)  # of all steps, as Keras 2.3.1 counts
    assert model.evaluate(words, target, verbose=0) == pytest.approx(wanted, rel=1e-5)
    target[0, 3:] += 100  # nobody looks there
    assert model.evaluate(words, target, verbose=0) == pytest.approx(wanted, rel=1e-5)


def test_a_mask_given_by_hand_reaches_a_convolutional_layer():
    """One mask for whole frames, against states of rank 4."""
    start, mask = layers.Input((4, 3, 4, 1)), K.placeholder((None, 4), dtype="bool")
    layer = layers.ConvLSTM2D(2, 2, padding="same", return_sequences=True)
    outputs = layer(start, mask=mask)
    step = slow.convolutional_lstm(*randomize(layer), padding="same")
    x = np.random.normal(size=(2, 4, 3, 4, 1))
    present = np.array([[1, 0, 1, 0], [0, 1, 1, 1]], dtype=bool)
    (found,) = K.function([start, mask], [outputs])([x, present])
    close(found, slow.run(step, x, [(3, 4, 2)] * 2, present, sequences=True))
