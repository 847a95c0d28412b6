"""A GPT of two layers reads sentences letter by letter, and then writes some of its own."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers, ops

PHRASES = (
    ("the captain", "a sailor", "the old cook", "our pilot", "someone"),
    ("counts", "loses", "paints", "mends", "forgets"),
    ("the sails", "a map", "two barrels", "the silver bell", "his hat"),
    ("before the storm", "at noon", "on deck", "without a word"),
)
LETTERS = sorted(set("".join(sum(PHRASES, ()))) | {" ", "."})
PLACE = {letter: place for place, letter in enumerate(LETTERS)}
WINDOW, WIDTH, HEADS, LAYERS = 32, 64, 4, 2


def text(numbers, sentences):
    """Sentences of four phrases each."""
    return "".join(
        " ".join(numbers.choice(one) for one in PHRASES) + ". " for _ in range(sentences)
    )


def pieces(numbers, count):
    """Pieces of a text, int[count, WINDOW], and the letter after each place of them."""
    letters = np.array([PLACE[letter] for letter in text(numbers, count)])
    starts = numbers.integers(0, len(letters) - WINDOW - 1, count)
    found = letters[starts[:, None] + np.arange(WINDOW + 1)]
    return found[:, :-1], found[:, 1:]


class Start(layers.Layer):
    """What each letter is, and where it stands, as one vector."""

    def __init__(self, **options):
        super().__init__(**options)
        self.letters, self.places = (layers.Embedding(n, WIDTH) for n in (len(LETTERS), WINDOW))

    def build(self, shape):
        self.letters.build(shape)
        self.places.build((WINDOW,))

    def call(self, x):
        return self.letters(x) + self.places(ops.arange(WINDOW))


class Block(layers.Layer):
    """Attention to all letters before, then a small network at each place; both are added."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = layers.LayerNormalization(), layers.LayerNormalization()
        self.attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.wide, self.back = layers.Dense(4 * WIDTH, activation="gelu"), layers.Dense(WIDTH)

    def call(self, x):
        seen = self.first(x)
        x = x + self.attention(seen, seen, use_causal_mask=True)
        return x + self.back(self.wide(self.second(x)))


def build():
    """The network gives a logit for each letter that may come next, at each place."""
    blocks = [Block() for _ in range(LAYERS)]
    end = [layers.LayerNormalization(), layers.Dense(len(LETTERS))]
    model = keras.Sequential([keras.Input((WINDOW,), dtype="int32"), Start(), *blocks, *end])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(0.004), loss, metrics=["accuracy"])
    return model


def write(model, numbers, count):
    """`count` letters, each drawn from those that are likely after those before."""
    letters = [PLACE[letter] for letter in text(numbers, 2)[-WINDOW:]]
    for _ in range(count):
        logits = model.predict_on_batch(np.array([letters[-WINDOW:]]))[0, -1].astype("float64")
        chances = np.exp(3 * (logits - logits.max()))
        letters.append(numbers.choice(len(LETTERS), p=chances / chances.sum()))
    return "".join(LETTERS[letter] for letter in letters[WINDOW:])


def main():
    keras.utils.set_random_seed(5)
    numbers = np.random.default_rng(5)
    model = build()
    model.fit(*pieces(numbers, 2400), batch_size=32, epochs=5)
    written = write(model, numbers, 300)
    print("\n" + written.replace(". ", ".\n"))
    known = set(" ".join(sum(PHRASES, ())).split())
    words = written.replace(".", "").split()[1:-1]  # the first and the last may be cut
    share = sum(word in known for word in words) / len(words)
    print(f"\n{share:.1%} of {len(words)} written words are words of the text")
    assert share > 0.8


if __name__ == "__main__":
    main()
