"""A convolutional LSTM watches squares that move and bounce, and foresees the next picture."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import drawing
import keras
import numpy as np
from keras import layers

SIZE, FRAMES, SIDE = 16, 8, 4


def films(numbers, count):
    """float32[count, FRAMES + 1, SIZE, SIZE, 1]: two squares in each, which bounce at the walls."""
    place = numbers.integers(0, SIZE - SIDE + 1, (count, 2, 2))
    step = numbers.choice([-1, 1], (count, 2, 2))
    film = np.zeros((count, FRAMES + 1, SIZE, SIZE, 1), "float32")
    for frame in range(FRAMES + 1):
        for which, square in np.ndindex(count, 2):
            row, column = place[which, square]
            film[which, frame, row : row + SIDE, column : column + SIDE] = 1
        step = np.where((place + step < 0) | (place + step > SIZE - SIDE), -step, step)
        place = place + step
    return film


def build():
    """For each picture of a film, the one that comes after it."""
    model = keras.Sequential(
        [
            layers.ConvLSTM2D(
                12, 5, padding="same", return_sequences=True, input_shape=(None, SIZE, SIZE, 1)
            ),
            layers.TimeDistributed(layers.Conv2D(1, 3, padding="same", activation="sigmoid")),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    return model


def overlap(found, truth):
    """Of the dots that are set in one of two pictures, the share that is set in both."""
    return (found & truth).sum() / (found | truth).sum()


def main():
    np.random.seed(10)
    numbers = np.random.default_rng(10)
    film = films(numbers, 400)
    model = build()
    model.fit(film[:, :-1], film[:, 1:], batch_size=20, epochs=10)
    film = films(numbers, 100)
    last, truth = film[:, -2, ..., 0], film[:, -1, ..., 0]
    found = model.predict(film[:, :-1])[:, -1, ..., 0]
    print("\nthe last picture, what the network foresees, and what comes:")
    print(drawing.show(np.hstack([last[0], found[0], truth[0]])))
    foreseen, unmoved = overlap(found > 0.5, truth > 0.5), overlap(last > 0.5, truth > 0.5)
    print(f"\n{foreseen:.1%} overlap with 100 pictures to come; the last ones have {unmoved:.1%}")
    assert foreseen > 0.8


if __name__ == "__main__":
    main()
