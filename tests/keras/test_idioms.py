"""What notebooks of the years 2015 to 2019 do with Keras and its backend, checked by numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from keras import backend as K
from keras import initializers, layers, losses, optimizers
from keras.layers import Dense, Input, Lambda
from keras.models import Model, Sequential
from scipy.optimize import fmin_l_bfgs_b

import kbench

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


@pytest.fixture
def doubles():
    K.set_floatx("float64")


def check_slope(compute, x, slope, count=6, step=1e-5):
    """Some entries of a gradient beside the difference of the values around."""
    for place in RNG(7).integers(0, x.size, count):
        move = np.zeros(x.size)
        move[place] = step
        move = move.reshape(x.shape)
        wanted = (compute(x + move) - compute(x - move)) / (2 * step)
        np.testing.assert_allclose(slope.ravel()[place], wanted, rtol=1e-4, atol=1e-7)


def pictures_model(size=(16, 16)):
    inputs = Input((*size, 3))
    first = layers.Conv2D(4, 3, activation="tanh", padding="same", name="first")(inputs)
    pooled = layers.AveragePooling2D()(first)
    second = layers.Conv2D(6, 3, activation="tanh", name="second")(pooled)
    mean = layers.GlobalAveragePooling2D()(second)
    return Model(inputs, Dense(3, activation="softmax")(mean))


# ------------------------------------------------------------------ gradients of pictures


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("size", [(16, 16), (None, None)], ids=["known", "any size"])
def test_deep_dream(size):
    model = pictures_model(size)
    loss = K.variable(0.0)
    for name, share in {"first": 0.2, "second": 3.0}.items():
        output = model.get_layer(name).output
        count = K.prod(K.cast(K.shape(output), K.floatx()))
        loss = loss + share * K.sum(K.square(output[:, 2:-2, 2:-2, :])) / count
    (slope,) = K.gradients(loss, [model.input])
    scaled = slope / K.maximum(K.mean(K.abs(slope)), 1e-7)
    fetch = K.function([model.input], [loss, slope, scaled])
    x = numbers(1, 16, 16, 3)
    value, found, step = fetch([x])
    check_slope(lambda one: fetch([one])[0], x, found)
    np.testing.assert_allclose(np.abs(step).mean(), 1)
    assert fetch([x + 0.01 * step])[0] > value


@pytest.mark.usefixtures("doubles")
def test_style_transfer():
    """Content, style and a smooth picture, by an optimizer of SciPy."""
    side = 8
    content, style = numbers(1, side, side, 3), numbers(1, side, side, 3, seed=2)
    mixed = K.placeholder((1, side, side, 3))
    inputs = Input(tensor=K.concatenate([K.constant(content), K.constant(style), mixed], axis=0))
    features = layers.Conv2D(4, 3, activation="tanh", padding="same")(inputs)

    def gram(one):
        rows = K.batch_flatten(K.permute_dimensions(one, (2, 0, 1)))
        return K.dot(rows, K.transpose(rows))

    loss = 0.1 * K.sum(K.square(features[2] - features[0]))
    loss += K.sum(K.square(gram(features[1]) - gram(features[2]))) / (4 * 9 * side**4)
    down = K.square(mixed[:, : side - 1, : side - 1] - mixed[:, 1:, : side - 1])
    right = K.square(mixed[:, : side - 1, : side - 1] - mixed[:, : side - 1, 1:])
    loss += 1e-3 * K.sum(K.pow(down + right, 1.25))
    fetch = K.function([mixed], [loss, K.gradients(loss, mixed)[0]])
    check_slope(lambda one: fetch([one])[0], content, fetch([content])[1])

    def both(flat):
        value, slope = fetch([flat.reshape(content.shape)])
        return value, slope.ravel()

    _, least, _ = fmin_l_bfgs_b(both, style.ravel(), maxfun=20)
    assert least < 0.5 * both(style.ravel())[0]


@pytest.mark.usefixtures("doubles")
def test_activation_map_of_a_class():
    """Grad-CAM: which places of a layer speak for the class that the model sees."""
    model = pictures_model()
    x = numbers(1, 16, 16, 3)
    best = model.predict(x)[0].argmax()
    output = model.get_layer("second").output
    slope = K.gradients(model.output[:, best], output)[0]
    fetch = K.function([model.input], [K.mean(slope, axis=(0, 1, 2)), output[0]])
    shares, places = fetch([x])
    kernel = model.layers[-1].get_weights()[0]
    every = model.predict(x)[0]
    wanted = kernel @ (every[best] * ((np.arange(3) == best) - every)) / places[..., 0].size
    np.testing.assert_allclose(shares, wanted, rtol=1e-6)


@pytest.mark.usefixtures("doubles")
def test_gradient_penalty():
    """Of a Wasserstein critic: a loss that holds a gradient is trained on."""
    critic = Sequential([Dense(5, activation="tanh", input_shape=(3,)), Dense(1)])
    x = Input((3,))
    slope = K.gradients(critic(x), x)[0]
    length = K.sqrt(K.sum(K.square(slope), axis=np.arange(1, len(slope.shape))))
    penalty = K.mean(K.square(1 - length))
    weight = critic.layers[0].kernel
    fetch = K.function([x], [penalty, K.gradients(penalty, [weight])[0]])
    data, kernel = numbers(4, 3), K.get_value(weight)

    def at(value):
        K.set_value(weight, value)
        return fetch([data])[0]

    check_slope(at, kernel, fetch([data])[1])


def test_where_the_largest_came_from():
    """What-where autoencoders unpool by the gradient of a maximum pooling."""
    x = Input((4, 4, 1))
    pooled = layers.MaxPooling2D()(x)
    slope = Lambda(lambda pair: K.gradients(K.sum(pair[0]), pair[1])[0], lambda shapes: shapes[1])
    model = Model(x, layers.multiply([layers.UpSampling2D()(pooled), slope([pooled, x])]))
    data = numbers(2, 4, 4, 1)
    found = model.predict(data)
    blocks = data.reshape(2, 2, 2, 2, 2)
    largest = blocks == blocks.max((2, 4), keepdims=True)
    np.testing.assert_allclose(found, np.where(largest, blocks, 0).reshape(data.shape), rtol=1e-6)


# ------------------------------------------------------------------ training by hand


def test_updates_of_an_optimizer_without_a_model():
    x, y = K.placeholder((None, 3)), K.placeholder((None, 1))
    weight, bias = K.variable(np.zeros((3, 1))), K.zeros((1,))
    loss = K.mean(K.square(K.dot(x, weight) + bias - y))
    updates = optimizers.Adam(0.1).get_updates(params=[weight, bias], loss=loss)
    train = K.function([x, y], [loss], updates=updates)
    data = numbers(40, 3)
    wanted = data @ [[1.0], [2.0], [3.0]] + 4
    for _ in range(150):
        (value,) = train([data, wanted])
    assert value < 1e-2
    np.testing.assert_allclose(K.get_value(weight)[:, 0], [1, 2, 3], atol=0.1)


def test_policy_gradient():
    """Advantages times log-probabilities, and no output but the updates."""
    policy = Sequential([Dense(2, activation="softmax", use_bias=False, input_shape=(3,))])
    taken, advantage = K.placeholder((None, 2)), K.placeholder((None,))
    chosen = K.sum(taken * policy.output, axis=1)
    loss = -K.mean(K.log(chosen) * K.stop_gradient(advantage))
    updates = optimizers.SGD(0.5).get_updates(loss, policy.trainable_weights)
    train = K.function([policy.input, taken, advantage], [], updates=updates)
    states, gains = numbers(5, 3), numbers(5, seed=2)
    actions = np.eye(2)[[0, 1, 1, 0, 1]]
    before, shares = policy.get_weights()[0], policy.predict(states)
    assert train([states, actions, gains]) == []
    slope = -states.T @ ((actions - shares) * gains[:, None]) / 5
    np.testing.assert_allclose(policy.get_weights()[0], before - 0.5 * slope, rtol=1e-4, atol=1e-6)


def test_a_target_network_follows():
    """As pairs among the updates of another model's optimizer."""

    class Following(optimizers.SGD):
        def get_updates(self, loss, params):
            pairs = zip(target.weights, model.weights, strict=True)
            return [*super().get_updates(loss, params), *((a, 0.9 * a + 0.1 * b) for a, b in pairs)]

    model, target = (Sequential([Dense(2, input_shape=(3,))]) for _ in range(2))
    old, new = target.get_weights()[0], model.get_weights()[0]
    model.compile(Following(0.1), "mse")
    model.train_on_batch(numbers(4, 3), numbers(4, 2))
    np.testing.assert_allclose(target.get_weights()[0], 0.9 * old + 0.1 * new, rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------ layers of one's own


@pytest.mark.usefixtures("doubles")
def test_scores_of_all_paths():
    """The normalizer of a conditional random field, by `K.rnn`, beside the sum over all paths."""
    moves, scores = numbers(3, 3), numbers(1, 4, 3, seed=2)
    changes, emitted = K.variable(moves), K.variable(scores)

    def step(entry, states):
        passed = K.logsumexp(K.expand_dims(states[0], 2) + K.expand_dims(changes, 0), axis=1)
        return passed + entry, [passed + entry]

    last, _, _ = K.rnn(step, emitted[:, 1:], [emitted[:, 0]])
    found = K.logsumexp(last, axis=1)
    every = [
        sum(scores[0, at, label] for at, label in enumerate(path))
        + sum(moves[a, b] for a, b in itertools.pairwise(path))
        for path in itertools.product(range(3), repeat=4)
    ]
    np.testing.assert_allclose(K.eval(found), [np.log(np.exp(every).sum())])
    slope = K.eval(K.gradients(K.sum(found), [changes])[0])

    def at(value):
        K.set_value(changes, value)
        return K.eval(found)[0]

    check_slope(at, moves, slope)


class Heads(layers.Layer):
    """Attention of several heads that sees no later entry, over a length that a call tells."""

    def build(self, shape):
        for name in "qkv":
            made = self.add_weight(name=name, shape=(shape[-1], 6), initializer="glorot_uniform")
            setattr(self, name, made)
        super().build(shape)

    def call(self, x):
        count = K.shape(x)[1]

        def split(weight):
            parts = K.reshape(K.dot(x, weight), (-1, count, 2, 3))
            return K.reshape(K.permute_dimensions(parts, (0, 2, 1, 3)), (-1, count, 3))

        scores = K.batch_dot(split(self.q), split(self.k), axes=[2, 2]) / 3**0.5
        places = K.arange(count)
        seen = K.greater_equal(K.expand_dims(places, 1), K.expand_dims(places, 0))
        weights = K.softmax(scores - 1e9 * (1 - K.cast(seen, K.floatx())))
        mixed = K.reshape(K.batch_dot(weights, split(self.v), axes=[2, 1]), (-1, 2, count, 3))
        return K.reshape(K.permute_dimensions(mixed, (0, 2, 1, 3)), (-1, count, 6))

    def compute_output_shape(self, shape):
        return (*shape[:2], 6)


def test_attention_of_several_heads():
    x = Input((None, 4))
    model = Model(x, Heads()(x))
    data = numbers(2, 5, 4)
    query, key, value = (data @ weight for weight in model.get_weights())
    found = model.predict(data)
    for start in (0, 3):
        part = slice(start, start + 3)
        scores = query[..., part] @ key[..., part].swapaxes(1, 2) / 3**0.5
        shares = np.tril(np.exp(scores))
        wanted = shares / shares.sum(-1, keepdims=True) @ value[..., part]
        np.testing.assert_allclose(found[..., part], wanted, rtol=1e-4, atol=1e-6)
    short = model.predict(data[:, :2])
    np.testing.assert_allclose(short, found[:, :2], rtol=1e-4, atol=1e-6)
    model.compile("adam", "mse")
    first = model.train_on_batch(data, np.zeros((2, 5, 6)))
    assert model.train_on_batch(data, np.zeros((2, 5, 6))) < first


def test_a_code_book():
    """Straight through the choice of the nearest entry, with losses that a layer adds."""
    book = numbers(4, 3)

    class Nearest(layers.Layer):
        def build(self, shape):
            start = initializers.Constant(book)
            self.book = self.add_weight("book", (4, 3), initializer=start)

        def call(self, x):
            gaps = K.sum(K.square(K.expand_dims(x, 1) - self.book), axis=-1)
            chosen = K.gather(self.book, K.argmin(gaps, axis=1))
            self.add_loss(K.mean(K.square(chosen - K.stop_gradient(x))), inputs=x)
            return x + K.stop_gradient(chosen - x)

    x = Input((3,))
    model = Model(x, Nearest()(x))
    data = numbers(6, 3, seed=2)
    wanted = book[((data[:, None] - book) ** 2).sum(-1).argmin(1)]
    np.testing.assert_allclose(model.predict(data), wanted, rtol=1e-5, atol=1e-6)
    model.compile("sgd", "mse")
    both = model.evaluate(data, np.zeros((6, 3)), verbose=0)
    assert both == pytest.approx((wanted**2).mean() + ((wanted - data) ** 2).mean(), rel=1e-5)
    slope = K.function([x], K.gradients(K.sum(model.output), [x]))([data])[0]
    np.testing.assert_array_equal(slope, np.ones((6, 3)))


def test_a_picture_of_small_squares():
    """Sub-pixel convolution over a size that a call tells: the channels stay known."""

    def spread(x):
        size = K.shape(x)
        squares = K.reshape(x, (size[0], size[1], size[2], 2, 2, 3))
        squares = K.permute_dimensions(squares, (0, 1, 3, 2, 4, 5))
        return K.reshape(squares, (size[0], size[1] * 2, size[2] * 2, 3))

    x = Input((None, None, 12))
    large = Lambda(spread)(x)
    model = Model(x, [large, layers.Conv2D(1, 1)(large)])
    data = numbers(2, 3, 4, 12)
    found, last = model.predict(data)
    wanted = data.reshape(2, 3, 4, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 6, 8, 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert last.shape == (2, 6, 8, 1)


def test_a_loss_of_a_mixture():
    """Three numbers for each bell: where, how wide, how likely."""

    def loss(true, found):
        middle, width, share = found[:, :2], found[:, 2:4], found[:, 4:]
        share = share - K.logsumexp(share, axis=1, keepdims=True)
        bells = -width - 0.5 * K.square((true - middle) / K.exp(width)) - 0.5 * np.log(2 * np.pi)
        return -K.logsumexp(share + bells, axis=-1)

    model = Sequential([Dense(6, input_shape=(1,))])
    model.compile("adam", loss)
    x, y = numbers(8, 1), numbers(8, 1, seed=2)
    middle, width, share = np.split(model.predict(x), 3, axis=1)
    share = np.exp(share) / np.exp(share).sum(1, keepdims=True)
    bells = np.exp(-(((y - middle) / np.exp(width)) ** 2) / 2) / np.exp(width) / np.sqrt(2 * np.pi)
    wanted = -np.log((share * bells).sum(1)).mean()
    assert model.evaluate(x, y, verbose=0) == pytest.approx(wanted, rel=1e-4)


def test_pictures_that_mislead():
    """The sign of the gradient to the input makes a loss larger, and may be trained against."""
    model = Sequential([Dense(3, activation="softmax", input_shape=(4,))])
    true = K.placeholder((None, 3))
    slope = K.gradients(losses.categorical_crossentropy(true, model.output), model.input)[0]
    mislead = K.function([model.input, true], [model.input + 0.1 * K.sign(slope)])
    x, y = numbers(6, 4), np.eye(3)[[0, 1, 2, 0, 1, 2]]
    model.compile("sgd", "categorical_crossentropy")
    (worse,) = mislead([x, y])
    np.testing.assert_allclose(np.abs(worse - x), 0.1, rtol=1e-4)
    assert model.evaluate(worse, y, verbose=0) > model.evaluate(x, y, verbose=0)


# ------------------------------------------------------------------ activations of every layer


@pytest.mark.parametrize("compiled", [True, False])
def test_activations_of_all_layers_in_one_call(compiled):
    """As keract fetches them: all feeds of a compiled model, of which only the inputs are given."""
    a, b = Input((4,)), Input((2,))
    hidden = Dense(5, activation="tanh", name="hidden")(a)
    model = Model(
        [a, b], Dense(3, name="end")(layers.concatenate([layers.Dropout(0.5)(hidden), b]))
    )
    x = [numbers(6, 4), numbers(6, 2, seed=2)]
    outputs = [layer.output for layer in model.layers]
    feeds = list(model.inputs)
    if compiled:
        model.compile("sgd", "mse")
        feeds = model._feed_inputs + model._feed_targets + model._feed_sample_weights
    fetch = K.function(feeds, outputs)
    for values in (x, [*x, *([None] * (len(feeds) - 2))], (x, [], [])):
        found = fetch(values)
        kernel, bias = model.get_layer("hidden").get_weights()
        np.testing.assert_allclose(found[2], np.tanh(x[0] @ kernel + bias), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[-1], model.predict(x), rtol=1e-5, atol=1e-6)
    if compiled:
        given = model._standardize_user_data(x, numbers(6, 3))
        np.testing.assert_array_equal(fetch(given)[-1], found[-1])
        with pytest.raises(kbench.FeedError, match="end_target.*needs one"):
            K.function(feeds, [model.total_loss])(x)
