"""A convolutional network counts discs, in pictures that it sees turned over at random."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

CELLS, CELL = 3, 8  # a picture is a square of 3 by 3 cells, each of which has room for a disc
SIZE, MOST = CELLS * CELL, 5


def pictures(numbers, count):
    """Noisy pictures float32[count, 24, 24, 1], and how many discs each shows less one."""
    many = numbers.integers(0, MOST, count)
    places = numbers.random((count, CELLS**2)).argsort(axis=1) <= many[:, None]
    cells = np.stack(np.divmod(np.arange(CELLS**2), CELLS)) * CELL + (CELL - 1) / 2
    centres = cells[:, None] + numbers.uniform(-1, 1, (2, count, CELLS**2))
    radius = numbers.uniform(1.5, 3, (count, CELLS**2, 1, 1))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    y, x = rows - centres[0][..., None, None], columns - centres[1][..., None, None]
    discs = np.clip(radius - np.sqrt(y * y + x * x) + 0.5, 0, 1) * places[..., None, None]
    found = discs.max(axis=1) + numbers.normal(0, 0.1, (count, SIZE, SIZE))
    return found[..., None].astype("float32"), many


def build():
    """Flips, which only training does, two convolutions, and a classifier."""
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            layers.RandomFlip("horizontal_and_vertical", seed=2),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(64, activation="relu"),
            layers.Dense(MOST),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    return model


def show(picture):
    """A picture as text, two rows of dots per line."""
    shades = np.array(list(" .:-=+*#%@"))
    return "\n".join(
        "".join(row) for row in shades[(np.clip(picture[::2], 0, 0.99) * 10).astype(int)]
    )


def main():
    keras.utils.set_random_seed(2)
    numbers = np.random.default_rng(2)
    model = build()
    model.fit(*pictures(numbers, 3000), batch_size=50, epochs=6)
    others, truth = pictures(numbers, 500)
    found = model.predict(others, verbose=0).argmax(axis=1)
    print(f"\n{show(others[0, ..., 0])}\n{found[0] + 1} discs")
    share = (found == truth).mean()
    print(f"\n{share:.1%} of 500 new pictures are counted correctly")
    assert share > 0.95


if __name__ == "__main__":
    main()
