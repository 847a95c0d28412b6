"""A bidirectional LSTM tells in which of three invented languages a word is written."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

LETTERS, LANGUAGES, LONGEST = "abcdefghiklmnoprstu", 3, 16


def languages(numbers):
    """For each language, how likely each letter is after each: float[3, letters, letters]."""
    return numbers.dirichlet(np.full(len(LETTERS), 0.1), (LANGUAGES, len(LETTERS)))


def words(numbers, chances, count):
    """Words of 6 to 16 letters as numbers from 1 on, 0 behind their ends; their languages."""
    which = numbers.integers(0, LANGUAGES, count)
    letters = [numbers.integers(0, len(LETTERS), count)]
    for _ in range(LONGEST - 1):
        after = chances[which, letters[-1]].cumsum(axis=1)
        drawn = (after < numbers.random((count, 1))).sum(axis=1)
        letters.append(np.minimum(drawn, len(LETTERS) - 1))
    lengths = numbers.integers(6, LONGEST + 1, (count, 1))
    found = np.stack(letters, axis=1) + 1
    return np.where(np.arange(LONGEST) < lengths, found, 0), which


def build():
    """Zeros are masked, so that each direction begins at an end of the word."""
    model = keras.Sequential(
        [
            keras.Input((LONGEST,), dtype="int32"),
            layers.Embedding(len(LETTERS) + 1, 16, mask_zero=True),
            layers.Bidirectional(layers.LSTM(32)),
            layers.Dense(LANGUAGES, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.015), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def main():
    keras.utils.set_random_seed(4)
    numbers = np.random.default_rng(4)
    chances = languages(numbers)
    model = build()
    model.fit(*words(numbers, chances, 3000), batch_size=50, epochs=6, validation_split=0.1)
    others, truth = words(numbers, chances, 1000)
    found = model.predict(others, verbose=0).argmax(axis=1)
    print()
    for word, language in zip(others[:6], found[:6], strict=True):
        spelled = "".join(LETTERS[letter - 1] for letter in word if letter)
        print(f"{spelled:<{LONGEST}}  language {language + 1}")
    share = (found == truth).mean()
    print(f"\n{share:.1%} of 1000 new words are put into the right language")
    assert share > 0.95


if __name__ == "__main__":
    main()
