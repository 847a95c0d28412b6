"""A loop of one's own: waves are told apart without labels, by what two views have in common."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers, ops

from kbench.keras3.gradients import gradients

LENGTH, KINDS, BATCH, STEPS, WARMTH = 64, 8, 64, 61, 0.2


def kinds(numbers):
    """A smooth wave of each kind, float[8, 64], which closes on itself."""
    phases = numbers.uniform(0, 2 * np.pi, (2, KINDS, 6, 1))
    heights = numbers.normal(0, 1, (KINDS, 6, 1))
    turns = np.arange(1, 7)[:, None] * np.linspace(0, 2 * np.pi, LENGTH, endpoint=False)
    return (heights * np.sin(turns + phases[0])).sum(axis=1)


def views(numbers, waves):
    """Each wave begun anywhere, stretched, and noisy: float32[count, 64, 1]."""
    count = len(waves)
    starts = numbers.integers(0, LENGTH, count)[:, None]
    moved = np.take_along_axis(waves, (np.arange(LENGTH) + starts) % LENGTH, axis=1)
    moved = moved * numbers.uniform(0.7, 1.3, (count, 1)) + numbers.normal(0, 0.2, moved.shape)
    return moved[..., None].astype("float32")


def build():
    """Convolutions that do not mind where a wave begins; the result has the length 1."""
    return keras.Sequential(
        [
            keras.Input((LENGTH, 1)),
            layers.Conv1D(32, 9, strides=2, activation="relu"),
            layers.Conv1D(64, 9, strides=2, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(16),
            layers.UnitNormalization(),
        ]
    )


def nearest(known, kinds_of_known, asked):
    """The kind of the nearest known vector, by its angle."""
    return kinds_of_known[(asked @ known.T).argmax(axis=1)]


def main():
    keras.utils.set_random_seed(7)
    numbers = np.random.default_rng(7)
    waves = kinds(numbers)
    model, optimizer = build(), keras.optimizers.Adam(0.006)
    variables, same = model.trainable_variables, np.arange(BATCH)

    def loss_of(pairs):
        """Each view shall find its partner among all of the batch."""
        first, second = ops.split(model(pairs), 2)
        likeness = ops.matmul(first, ops.transpose(second)) / WARMTH
        cross = keras.losses.sparse_categorical_crossentropy
        both = cross(same, likeness, True) + cross(same, ops.transpose(likeness), True)
        return ops.mean(both) / 2

    for step in range(STEPS):
        drawn = waves[numbers.integers(0, KINDS, BATCH)]
        drawn = drawn + numbers.normal(0, 0.3, (BATCH, KINDS)) @ waves  # no two are the same
        pairs = views(numbers, np.concatenate([drawn, drawn]))
        optimizer.apply(gradients(lambda pairs=pairs: loss_of(pairs), variables), variables)
        if step % 20 == 0:
            print(f"step {step:>3}: loss {float(loss_of(pairs)):.3f}")
    which = np.arange(400) % KINDS
    known, asked = views(numbers, waves[which]), views(numbers, waves[which])
    raw = (nearest(known[..., 0], which, asked[..., 0]) == which).mean()
    known, asked = (model.predict(one, verbose=0) for one in (known[:40], asked))
    share = (nearest(known, which[:40], asked) == which).mean()
    print(f"\n{share:.1%} of 400 waves are like the right one of 40; {raw:.1%} as they are")
    assert share > max(0.85, raw + 0.2)


if __name__ == "__main__":
    main()
