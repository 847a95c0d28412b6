"""A decoder that looks back at what was read, by attention, writes dates in their short form."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import datetime

import keras
import numpy as np
from keras import backend as K
from keras import layers

LONG, SHORT = 18, 10  # symbols of "29 september 1999" with its end, and of "1999-09-29"
SYMBOLS = "_ -^.0123456789abcdefghijklmnopqrstuvwxyz"  # _ is nothing, ^ starts, . ends
FIRST = datetime.date(1950, 1, 1).toordinal()


def codes(texts, length):
    return np.array([[SYMBOLS.index(one) for one in text.ljust(length, "_")] for text in texts])


def dates(numbers, count):
    """Dates as people write them, and as machines do."""
    days = [datetime.date.fromordinal(FIRST + n) for n in numbers.integers(0, 36500, count)]
    return [f"{day:%d %B %Y}.".lower() for day in days], [day.isoformat() for day in days]


def build():
    """At each step of the decoder, weights over all places of the input say what to look at."""
    text, before = keras.Input((LONG,)), keras.Input((SHORT,))
    embed = layers.Embedding(len(SYMBOLS), 16)
    read = layers.Bidirectional(layers.GRU(32, return_sequences=True))(embed(text))
    written = layers.GRU(64, return_sequences=True)(embed(before))
    scores = layers.dot([layers.Dense(64)(written), read], axes=2)
    weights = layers.Activation("softmax", name="weights")(scores)
    seen = layers.dot([weights, read], axes=(2, 1))
    x = layers.Dense(64, activation="tanh")(layers.concatenate([written, seen]))
    model = keras.Model([text, before], layers.Dense(len(SYMBOLS), activation="softmax")(x))
    model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", ["accuracy"])
    return model


def shifted(short):
    """What the decoder has written before each symbol."""
    return ["^" + text[:-1] for text in short]


def write(model, long):
    """The decoder's own text, one symbol after the other."""
    texts, source = ["^"] * len(long), codes(long, LONG)
    for place in range(SHORT):
        chances = model.predict([source, codes(texts, SHORT)])[:, place]
        best = [SYMBOLS[one] for one in chances.argmax(axis=1)]
        texts = [text + symbol for text, symbol in zip(texts, best, strict=True)]
    return [text[1:] for text in texts]


def main():
    np.random.seed(6)
    numbers = np.random.default_rng(6)
    long, short = dates(numbers, 4000)
    model = build()
    inputs = [codes(long, LONG), codes(shifted(short), SHORT)]
    model.fit(inputs, codes(short, SHORT)[..., None], batch_size=50, epochs=13)
    long, short = dates(numbers, 200)
    found = write(model, long)
    look = K.function(model.inputs, [model.get_layer("weights").output])
    weights = look([codes(long[:1], LONG), codes(shifted(found[:1]), SHORT)])[0][0]
    print(f"\n   {long[0]}")
    for symbol, row in zip(found[0], weights, strict=True):
        print(symbol, "", "".join(" .:*#"[int(4.99 * one)] for one in row).rstrip())
    share = np.mean([one == other for one, other in zip(found, short, strict=True)])
    print(f"\n{share:.1%} of 200 new dates are written without a fault")
    assert share > 0.9


if __name__ == "__main__":
    main()
