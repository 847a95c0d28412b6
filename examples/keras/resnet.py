"""A residual network with batch normalization names the shape in a coloured, noisy picture."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import keras
import numpy as np
from keras import layers

SIZE = 24
SHAPES = ("disc", "ring", "square", "cross")


def pictures(numbers, count):
    """Pictures float32[count, SIZE, SIZE, 3] of shapes in any place and colour, and their names."""
    which = numbers.integers(0, len(SHAPES), count)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    y, x = numbers.uniform(9, SIZE - 10, (2, count, 1, 1))
    radius = numbers.uniform(5, 8, (count, 1, 1))
    y, x = np.abs(rows - y) / radius, np.abs(columns - x) / radius
    distance = np.hypot(y, x)
    inside = np.choose(
        which[:, None, None],
        [
            distance < 1,
            np.abs(distance - 0.8) < 0.25,
            np.maximum(y, x) < 0.9,
            (np.minimum(y, x) < 0.25) & (np.maximum(y, x) < 1),
        ],
    )
    colour = numbers.uniform(0, 1, (count, 1, 1, 3))
    ground = (colour + numbers.uniform(0.3, 0.7, colour.shape)) % 1
    drawn = np.where(inside[..., None], colour, ground)
    return (drawn + numbers.normal(0, 0.1, drawn.shape)).astype("float32"), which


def residual(x, filters, strides=1):
    """Two convolutions whose result is added to what came in."""
    y = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    y = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization(momentum=0.9)(y)
    if strides != 1:
        x = layers.Conv2D(filters, 1, strides=strides)(x)
    return layers.Activation("relu")(layers.add([x, y]))


def build():
    """Three residual blocks between a first convolution and the mean over all places."""
    picture = keras.Input((SIZE, SIZE, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(picture)
    for filters, strides in ((16, 1), (32, 2), (48, 2)):
        x = residual(x, filters, strides)
    x = layers.Dense(len(SHAPES), activation="softmax")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(picture, x)
    model.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
    return model


def main():
    np.random.seed(3)
    numbers = np.random.default_rng(3)
    model = build()
    slower = keras.callbacks.LearningRateScheduler(lambda epoch: 0.004 * 0.75**epoch)
    model.fit(*pictures(numbers, 2000), batch_size=50, epochs=8, callbacks=[slower])
    loss, accuracy = model.evaluate(*pictures(numbers, 500), verbose=0)
    print(f"\n{accuracy:.1%} of 500 new shapes are named correctly (loss {loss:.3f})")
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
