"""A variational autoencoder, with its own training step, finds what differs between pictures."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers, ops

from kbench.keras3.gradients import gradients

SIZE, LATENT = 16, 2


def bars(numbers, count):
    """Pictures float32[count, 256] of a bar, from 0 to 1; the angle and the place of each."""
    angle, place = numbers.uniform(0, np.pi, count), numbers.uniform(-4, 4, count)
    return draw(angle, place), angle, place


def draw(angle, place):
    """A bar that is turned by `angle`, and `place` dots away from the centre."""
    rows, columns = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    far = np.cos(angle)[:, None, None] * rows + np.sin(angle)[:, None, None] * columns
    return (
        np.exp(-np.square((far - place[:, None, None]) / 2)).astype("float32").reshape(-1, SIZE**2)
    )


class Autoencoder(keras.Model):
    """The encoder gives a mean and a variance; the loss is the evidence lower bound."""

    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(128, "relu"), layers.Dense(2 * LATENT)])
        self.decoder = keras.Sequential(
            [layers.Dense(128, "relu"), layers.Dense(128, "relu"), layers.Dense(SIZE**2, "sigmoid")]
        )
        self.seeds = keras.random.SeedGenerator(6)
        self.mean_loss = keras.metrics.Mean("loss")
        self.mean_divergence = keras.metrics.Mean("divergence")

    def call(self, x):
        mean, log_variance = ops.split(self.encoder(x), 2, axis=-1)
        noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return self.decoder(mean + ops.exp(log_variance / 2) * noise), mean, log_variance

    def train_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        found, mean, log_variance = self(x, training=True)
        likelihood = SIZE**2 * keras.losses.binary_crossentropy(x, found)
        divergence = ops.square(mean) + ops.exp(log_variance) - log_variance - 1
        divergence = ops.sum(divergence, axis=-1) / 2
        loss = ops.mean(likelihood + divergence)
        self.optimizer.apply(gradients(loss, self.trainable_variables), self.trainable_variables)
        self.mean_loss.update_state(loss)
        self.mean_divergence.update_state(divergence)
        return {one.name: one.result() for one in (self.mean_loss, self.mean_divergence)}


def show(picture):
    """A picture as text, two rows of dots per line."""
    shades = np.array(list(" .:-=+*#%@"))
    return "\n".join("".join(row).rstrip() for row in shades[(picture[::2] * 9.99).astype(int)])


def main():
    keras.utils.set_random_seed(6)
    numbers = np.random.default_rng(6)
    pictures, _, _ = bars(numbers, 4000)
    model = Autoencoder()
    model.compile(keras.optimizers.Adam(0.003))
    model.fit(pictures, batch_size=100, epochs=15)
    others, _, _ = bars(numbers, 500)
    means = model.encoder.predict(others, verbose=0)[:, :LATENT]
    way = np.linspace(0, 1, 4)[:, None]
    drawn = model.decoder.predict((1 - way) * means[0] + way * means[1], verbose=0)
    print("\nfrom one picture to another:\n" + show(np.hstack(drawn.reshape(-1, SIZE, SIZE))))
    error = np.abs(model.decoder.predict(means, verbose=0) - others).mean()
    blank = np.abs(pictures.mean(axis=0) - others).mean()
    print(f"\nby {LATENT} numbers for each, dots are off by {error:.3f}; without, by {blank:.3f}")
    assert error < 0.4 * blank


if __name__ == "__main__":
    main()
