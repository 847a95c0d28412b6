"""A classifier is trained in bfloat16, then its weights become int8: a quarter of the bytes."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

WIDTH, KINDS = 64, 10


def spectra(numbers, lines, count):
    """Spectra float32[count, 64] of ten substances, whose lines are broad and noisy."""
    which = numbers.integers(0, KINDS, count)
    places = lines[which] + numbers.normal(0, 0.7, (count, 1))
    far = np.arange(WIDTH)[:, None] - places[:, None]
    found = np.exp(-np.square(far / 1.5)).sum(axis=2) * numbers.uniform(0.5, 1.5, (count, 1))
    return (found + numbers.normal(0, 0.3, found.shape)).astype("float32"), which


def build():
    """Layers compute in bfloat16, and keep their weights in float32; the loss is float32."""
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            layers.Dense(256, activation="relu", dtype="mixed_bfloat16"),
            layers.Dense(256, activation="relu", dtype="mixed_bfloat16"),
            layers.Dense(KINDS, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def bytes_of(model):
    """How many bytes the weights of a model take."""
    return sum(np.asarray(one.value).nbytes for one in model.weights)


def main():
    keras.utils.set_random_seed(10)
    numbers = np.random.default_rng(10)
    lines = numbers.uniform(4, WIDTH - 4, (KINDS, 3))
    model = build()
    model.fit(*spectra(numbers, lines, 4000), batch_size=64, epochs=6)
    others, truth = spectra(numbers, lines, 1000)
    before, size = (model.predict(others, verbose=0).argmax(1) == truth).mean(), bytes_of(model)
    model.quantize("int8")
    after, small = (model.predict(others, verbose=0).argmax(1) == truth).mean(), bytes_of(model)
    print(f"\nfloat32: {size:>7} bytes, {before:.1%} of 1000 new spectra are named correctly")
    print(f"int8:    {small:>7} bytes, {after:.1%}")
    assert before > 0.95 and after > before - 0.02 and small < 0.3 * size


if __name__ == "__main__":
    main()
