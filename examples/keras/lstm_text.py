"""An LSTM learns a small language letter by letter, and then writes in it."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import keras
import numpy as np
from keras import layers

WORDS = {
    "who": ["the cat", "the dog", "a bird", "my friend", "nobody"],
    "does": ["sees", "hears", "follows", "likes"],
    "whom": ["the moon", "a stone", "the river", "an old tree"],
    "when": ["at night", "in spring", "every day"],
}
LETTERS = sorted(set("".join(sum(WORDS.values(), []))) | {" ", "."})
PLACE = {letter: place for place, letter in enumerate(LETTERS)}
WINDOW = 32


def sentence(numbers):
    return " ".join(numbers.choice(choices) for choices in WORDS.values()) + ". "


def pieces(numbers, count):
    """Pieces of a text, int[count, WINDOW], and the letter after each place of them."""
    text = "".join(sentence(numbers) for _ in range(count))
    letters = np.array([PLACE[letter] for letter in text])
    starts = numbers.integers(0, len(letters) - WINDOW - 1, count)
    found = letters[starts[:, None] + np.arange(WINDOW + 1)]
    return found[:, :-1], found[:, 1:, None]


def build(batch=None, window=WINDOW, stateful=False):
    """The network for training; stateful, one letter at a time, it remembers what it wrote."""
    model = keras.Sequential(
        [
            layers.Embedding(len(LETTERS), 16, batch_input_shape=(batch, window)),
            layers.LSTM(96, return_sequences=True, stateful=stateful),
            layers.Dense(len(LETTERS), activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", ["accuracy"])
    return model


def write(model, numbers, count):
    """`count` letters, each drawn as likely as the network takes it to be after those before."""
    writer = build(batch=1, window=1, stateful=True)
    writer.set_weights(model.get_weights())
    letter, text = PLACE[" "], ""
    while len(text) < count:
        chances = writer.predict(np.array([[letter]]))[0, 0].astype("float64") ** 2
        letter = numbers.choice(len(LETTERS), p=chances / chances.sum())
        text += LETTERS[letter]
    return text


def main():
    np.random.seed(4)
    numbers = np.random.default_rng(4)
    model = build()
    model.fit(*pieces(numbers, 2000), batch_size=50, epochs=8)
    text = write(model, numbers, 400)
    print("\n" + text.replace(". ", ".\n"))
    known = set(" ".join(sum(WORDS.values(), [])).split())
    written = text.replace(".", "").split()[1:-1]  # the first and the last may be cut
    share = sum(word in known for word in written) / len(written)
    print(f"\n{share:.1%} of {len(written)} written words are words of the language")
    assert share > 0.95


if __name__ == "__main__":
    main()
