"""A bidirectional LSTM finds what lies between brackets, in sequences of unequal length."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import keras
import numpy as np
from keras import layers
from keras.preprocessing.sequence import pad_sequences

LETTERS = "abcdefgh"
CODES = {symbol: code for code, symbol in enumerate("[]" + LETTERS, start=1)}  # 0 is no symbol
LONGEST = 24


def example(numbers):
    """A string, and for each symbol whether a bracket opens before it and closes after it.

    A bracket may be missing: one must have read both sides to know.
    """
    symbols = list(numbers.choice(list(LETTERS), numbers.integers(8, LONGEST + 1)))
    first, last = np.sort(numbers.choice(len(symbols), 2, replace=False))
    opens, closes = numbers.random(2) < 0.8
    if opens:
        symbols[first] = "["
    if closes:
        symbols[last] = "]"
    inside = [bool(opens and closes and first < at < last) for at in range(len(symbols))]
    return "".join(symbols), inside


def arrays(examples):
    """Codes int[examples, LONGEST], and labels float[examples, LONGEST, 1]."""
    codes = pad_sequences([[CODES[one] for one in text] for text, _ in examples], LONGEST)
    labels = pad_sequences([inside for _, inside in examples], LONGEST, dtype="float32")
    return codes, labels[..., None]


def build():
    """Places that hold no symbol are masked: neither read nor counted."""
    model = keras.Sequential(
        [
            layers.Embedding(len(CODES) + 1, 8, mask_zero=True, input_length=LONGEST),
            layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
            layers.TimeDistributed(layers.Dense(1, activation="sigmoid")),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", ["accuracy"])
    return model


def main():
    np.random.seed(5)
    numbers = np.random.default_rng(5)
    codes, labels = arrays([example(numbers) for _ in range(2000)])
    model = build()
    model.fit(codes, labels, batch_size=50, epochs=8, validation_split=0.1)
    examples = [example(numbers) for _ in range(300)]
    marks = model.predict(arrays(examples)[0])[..., 0] > 0.5
    found = [mark[-len(text) :].tolist() for mark, (text, _) in zip(marks, examples, strict=True)]
    for (text, _), mark in zip(examples[:3], found[:3], strict=True):
        print(f"\n{text}\n" + "".join("^" if one else " " for one in mark).rstrip())
    share = np.mean([mark == one[1] for mark, one in zip(found, examples, strict=True)])
    print(f"\n{share:.1%} of 300 new strings are marked without a fault")
    assert share > 0.9


if __name__ == "__main__":
    main()
