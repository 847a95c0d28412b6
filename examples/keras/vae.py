"""A variational autoencoder learns how drawn digits vary, and draws some between two of them."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import drawing
import keras
import numpy as np
from keras import backend as K
from keras import layers

SIZE, LATENT = 16, 6


def digits(numbers, count):
    which = numbers.integers(0, 10, count)
    return drawing.symbols(which, SIZE, numbers).reshape(count, -1), which


def sample(inputs):
    """A random point around the mean, far off as the variance says."""
    mean, log_variance = inputs
    return mean + K.exp(log_variance / 2) * K.random_normal(K.shape(mean), seed=7)


def build():
    """The encoder gives a mean and a variance; the loss is the evidence lower bound."""
    picture = keras.Input((SIZE * SIZE,))
    x = layers.Dense(128, activation="relu")(picture)
    mean, log_variance = layers.Dense(LATENT)(x), layers.Dense(LATENT)(x)
    encoder = keras.Model(picture, [mean, log_variance])
    point = keras.Input((LATENT,))
    x = layers.Dense(128, activation="relu")(point)
    decoder = keras.Model(point, layers.Dense(SIZE * SIZE, activation="sigmoid")(x))
    mean, log_variance = encoder(picture)
    found = decoder(layers.Lambda(sample)([mean, log_variance]))
    model = keras.Model(picture, found)
    likelihood = SIZE * SIZE * keras.losses.binary_crossentropy(picture, found)
    divergence = -K.sum(1 + log_variance - K.square(mean) - K.exp(log_variance), axis=-1) / 2
    model.add_loss(K.mean(likelihood + divergence))
    model.add_metric(divergence, name="divergence")
    model.compile(keras.optimizers.Adam(0.003))
    return model, encoder, decoder


def main():
    np.random.seed(7)
    numbers = np.random.default_rng(7)
    pictures, which = digits(numbers, 5000)
    model, encoder, decoder = build()
    history = model.fit(pictures, batch_size=100, epochs=20).history
    means = encoder.predict(pictures)[0]
    first, last = means[which == 3][0], means[which == 8][0]
    way = np.linspace(0, 1, 5)[:, None]
    drawn = decoder.predict((1 - way) * first + way * last).reshape(-1, SIZE, SIZE)
    print("\nfrom a 3 to an 8:\n" + drawing.show(np.hstack(drawn)))
    others, truth = digits(numbers, 500)
    distances = np.square(encoder.predict(others)[0][:, None] - means).sum(axis=-1)
    share = (which[distances.argmin(axis=1)] == truth).mean()
    first, last = history["loss"][0], history["loss"][-1]
    print(f"\nthe loss fell from {first:.1f} to {last:.1f}; the nearest neighbour")
    print(f"in {LATENT} dimensions is the same digit for {share:.1%} of 500 new ones")
    assert last < 0.8 * first and share > 0.85


if __name__ == "__main__":
    main()
