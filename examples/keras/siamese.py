"""A siamese network learns from digits what "the same symbol" means, and tells it of letters."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import drawing
import keras
import numpy as np
from keras import backend as K
from keras import layers

SIZE, MARGIN = 16, 1.0
DIGITS, LETTERS = range(10), range(10, len(drawing.SYMBOLS))


def pairs(numbers, known, count):
    """Two pictures each, and 1 where they show the same symbol, as half of them do."""
    same = numbers.integers(0, 2, count)
    first = numbers.choice(known, count)
    step = numbers.integers(1, len(known), count) * (1 - same)
    second = (first - known[0] + step) % len(known) + known[0]
    pictures = [drawing.symbols(which, SIZE, numbers) for which in (first, second)]
    return pictures, same.astype("float32")


def distance(vectors):
    return K.sqrt(K.sum(K.square(vectors[0] - vectors[1]), axis=1, keepdims=True) + 1e-6)


def contrastive(same, apart):
    """Same symbols are drawn together, others pushed apart up to the margin."""
    return K.mean(same * K.square(apart) + (1 - same) * K.square(K.maximum(MARGIN - apart, 0)))


def accuracy(same, apart):
    return K.mean(K.equal(same, K.cast(apart < MARGIN / 2, "float32")))


def build():
    """One network, with one set of weights, sees both pictures."""
    look = keras.Sequential(
        [
            layers.Conv2D(16, 3, activation="relu", input_shape=(SIZE, SIZE, 1)),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(16),
        ]
    )
    both = [keras.Input((SIZE, SIZE, 1)) for _ in range(2)]
    apart = layers.Lambda(distance)([look(one) for one in both])
    model = keras.Model(both, apart)
    model.compile(keras.optimizers.Adam(0.002), contrastive, [accuracy])
    return model


def main():
    np.random.seed(8)
    numbers = np.random.default_rng(8)
    model = build()
    model.fit(*pairs(numbers, DIGITS, 4000), batch_size=50, epochs=6)
    known = model.evaluate(*pairs(numbers, DIGITS, 500), verbose=0)[1]
    pictures, same = pairs(numbers, LETTERS, 500)
    apart = model.predict(pictures)[:, 0]
    for at in range(2):
        print(drawing.show(np.hstack([one[at, :, :, 0] for one in pictures])))
        print(f"{apart[at]:.2f} apart; {'the same' if same[at] else 'not the same'}\n")
    new = ((apart < MARGIN / 2) == same).mean()
    print(f"right about {known:.1%} of pairs of digits, and about {new:.1%} of pairs of letters,")
    print("none of which the network had seen")
    assert known > 0.95 and new > 0.75


if __name__ == "__main__":
    main()
