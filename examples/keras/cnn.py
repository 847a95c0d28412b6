"""A convolutional network reads digits that the program has drawn itself."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import drawing
import keras
import numpy as np
from keras import layers

SIZE = 20


def digits(numbers, count):
    """Pictures float32[count, SIZE, SIZE, 1] of digits, and which digit each shows."""
    which = numbers.integers(0, 10, count)
    return drawing.symbols(which, SIZE, numbers), which


def build():
    """Two convolutions with pooling, then a dense layer with dropout."""
    model = keras.Sequential(
        [
            layers.Conv2D(16, 3, activation="relu", input_shape=(SIZE, SIZE, 1)),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.25),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
    return model


def main():
    np.random.seed(2)
    numbers = np.random.default_rng(2)
    pictures, which = digits(numbers, 4000)
    model = build()
    model.fit(pictures, which, batch_size=64, epochs=5, validation_split=0.1)
    pictures, which = digits(numbers, 1000)
    read = model.predict(pictures).argmax(axis=1)
    for picture, digit in zip(pictures[:2], read[:2], strict=True):
        print(drawing.show(picture), f"\nread as {digit}\n")
    accuracy = (read == which).mean()
    print(f"{accuracy:.1%} of 1000 new digits are read correctly")
    assert accuracy > 0.97


if __name__ == "__main__":
    main()
