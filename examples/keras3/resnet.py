"""A residual network with batch normalization names the coloured shape in a noisy picture."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

SIZE, SHAPES = 20, ("disc", "ring", "square", "cross")
BATCH, EPOCHS, PICTURES = 40, 6, 2000


def pictures(numbers, count):
    """Pictures float32[count, 20, 20, 3] of one shape each, and its place in SHAPES."""
    which = numbers.integers(0, len(SHAPES), count)
    centre = numbers.uniform(7, 12, (2, count, 1, 1))
    radius = numbers.uniform(4, 7, (count, 1, 1))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    y, x = np.abs(rows - centre[0]) / radius, np.abs(columns - centre[1]) / radius
    far = np.hypot(y, x)
    inside = [
        far < 1,
        (far < 1) & (far > 0.6),
        np.maximum(y, x) < 0.8,
        (np.minimum(y, x) < 0.25) & (far < 1),
    ]
    drawn = np.choose(which[:, None, None], inside)[..., None]
    light = numbers.choice([-1, 1], (count, 1, 1, 1))  # the shape is lighter than what is behind
    colours = numbers.uniform(0.4, 1, (2, count, 1, 1, 3)) * np.stack([light, -light])
    noise = numbers.normal(0, 0.2, (count, SIZE, SIZE, 3))
    return (np.where(drawn, *colours) + noise).astype("float32"), which


def block(x, filters, strides):
    """Two convolutions, and what came in added to what they give."""
    short = x
    if strides > 1:
        short = layers.Conv2D(filters, 1, strides=strides, use_bias=False)(x)
        short = layers.BatchNormalization()(short)
    x = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(x)
    return layers.Activation("relu")(layers.Add()([layers.BatchNormalization()(x), short]))


def build():
    """Three blocks; the learning rate falls along a cosine."""
    picture = keras.Input((SIZE, SIZE, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(picture)
    for filters, strides in ((16, 1), (32, 2), (48, 2)):
        x = block(x, filters, strides)
    chances = layers.Dense(len(SHAPES), activation="softmax")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(picture, chances)
    falling = keras.optimizers.schedules.CosineDecay(0.01, EPOCHS * PICTURES // BATCH)
    model.compile(
        keras.optimizers.Adam(falling), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def main():
    keras.utils.set_random_seed(3)
    numbers = np.random.default_rng(3)
    model = build()
    model.fit(*pictures(numbers, PICTURES), batch_size=BATCH, epochs=EPOCHS)
    loss, accuracy = model.evaluate(*pictures(numbers, 500), verbose=0)
    print(f"\n{accuracy:.1%} of 500 new shapes are named correctly (loss {loss:.3f})")
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
