"""A multi-layer perceptron tells the three arms of a spiral apart."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import keras
import numpy as np
from keras import layers

POINTS, ARMS = 3000, 3


def spiral(numbers, count):
    """Places in the plane, float32[count, 2], and the arm that each lies on."""
    arm = numbers.integers(0, ARMS, count)
    radius = numbers.uniform(0.1, 1, count)
    angle = 2 * np.pi * (arm / ARMS + radius) + numbers.normal(0, 0.15, count)
    places = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return places.astype("float32"), keras.utils.to_categorical(arm, ARMS)


def build():
    """Two hidden layers, the first with dropout behind it."""
    model = keras.Sequential(
        [
            layers.Dense(64, activation="relu", input_shape=(2,)),
            layers.Dropout(0.1),
            layers.Dense(64, activation="relu"),
            layers.Dense(ARMS, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "categorical_crossentropy", ["accuracy"])
    return model


def main():
    np.random.seed(1)
    numbers = np.random.default_rng(1)
    places, arms = spiral(numbers, POINTS)
    model = build()
    model.summary()
    model.fit(places, arms, batch_size=100, epochs=20, validation_split=0.2)
    loss, accuracy = model.evaluate(*spiral(numbers, 1000), verbose=0)
    print(f"\n{accuracy:.1%} of 1000 new points are put on the right arm (loss {loss:.3f})")
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
