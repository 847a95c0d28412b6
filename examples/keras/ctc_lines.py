"""Reading lines of digits with CTC: nobody says where in the picture each digit stands."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import drawing
import keras
import numpy as np
from keras import backend as K
from keras import layers

WIDTH, LONGEST, STEPS = 84, 6, 21


def lines(numbers, count):
    """Pictures of three to six digits: float32[count, WIDTH, 16, 1], read from left to right."""
    lengths = numbers.integers(3, LONGEST + 1, count)
    texts = ["".join(map(str, numbers.integers(0, 10, length))) for length in lengths]
    pictures = np.stack([drawing.line(text, WIDTH, numbers) for text in texts])
    return pictures.transpose(0, 2, 1)[..., None], texts


def batch(pictures, texts):
    """The inputs of the network in training, and targets that nobody looks at."""
    labels = np.zeros((len(texts), LONGEST), "int32")
    for row, text in zip(labels, texts, strict=True):
        row[: len(text)] = [int(digit) for digit in text]
    lengths = np.array([[len(text)] for text in texts])
    return [pictures, labels, np.full_like(lengths, STEPS), lengths], np.zeros(len(texts))


def ctc(inputs):
    labels, chances, steps, lengths = inputs
    return K.ctc_batch_cost(labels, chances, steps, lengths)


def build():
    """The reader gives chances of ten digits and "nothing"; the trainer, the cost of the labels."""
    picture = keras.Input((WIDTH, 16, 1))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(picture)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Reshape((STEPS, 4 * 32))(x)
    x = layers.Bidirectional(layers.GRU(32, return_sequences=True))(x)
    reader = keras.Model(picture, layers.Dense(11, activation="softmax")(x))
    labels = keras.Input((LONGEST,), dtype="int32")
    steps, lengths = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
    cost = layers.Lambda(ctc, name="ctc")([labels, reader.output, steps, lengths])
    trainer = keras.Model([picture, labels, steps, lengths], cost)
    trainer.compile(keras.optimizers.Adam(0.003), lambda _, cost: cost)
    return reader, trainer


def read(reader, pictures):
    """The likeliest strings, found with a beam search."""
    chances = reader.predict(pictures)
    steps = np.full(len(pictures), STEPS)
    (found,), _ = K.ctc_decode(K.constant(chances), K.constant(steps, "int32"), greedy=False)
    return ["".join(str(one) for one in row if one >= 0) for row in K.eval(found)]


def main():
    np.random.seed(9)
    numbers = np.random.default_rng(9)
    reader, trainer = build()
    inputs, nothing = batch(*lines(numbers, 2000))
    trainer.fit(inputs, nothing, batch_size=50, epochs=12)
    pictures, texts = lines(numbers, 200)
    found = read(reader, pictures)
    print("\n" + drawing.show(pictures[0, :, :, 0].T), f"\nread as {found[0]}")
    share = np.mean([one == other for one, other in zip(found, texts, strict=True)])
    print(f"\n{share:.1%} of 200 new lines are read without a fault")
    assert share > 0.85


if __name__ == "__main__":
    main()
