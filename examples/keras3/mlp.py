"""A multi-layer perceptron learns what houses cost, stops in time, and is loaded from a file."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import tempfile

import keras
import numpy as np
from keras import layers

HOUSES = 4000


def houses(numbers, count):
    """Area in m2, age in years and way to the town in km, float32[count, 3]; prices, [count, 1]."""
    area, age = numbers.uniform(30, 250, count), numbers.uniform(0, 100, count)
    way = numbers.exponential(8, count)
    price = area * (1.5 + 3 * np.exp(-way / 6)) * (1 - 0.5 * np.sin(np.pi * age / 130))
    price += numbers.normal(0, 8, count)
    return np.stack([area, age, way], axis=1).astype("float32"), price[:, None].astype("float32")


def build(known):
    """Two hidden layers behind a layer that knows mean and variance of each column."""
    scale = layers.Normalization()
    scale.adapt(known)
    hidden = [layers.Dense(64, activation="gelu") for _ in range(2)]
    model = keras.Sequential([keras.Input((3,)), scale, *hidden, layers.Dense(1)])
    model.compile(keras.optimizers.AdamW(0.01), "huber", metrics=["mae", "r2_score"])
    return model


def main():
    keras.utils.set_random_seed(1)
    numbers = np.random.default_rng(1)
    known, prices = houses(numbers, HOUSES)
    model = build(known)
    model.summary()
    callbacks = [
        keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.3),
        keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True),
    ]
    options = {"batch_size": 64, "epochs": 40, "validation_split": 0.2, "verbose": 2}
    model.fit(known, prices, callbacks=callbacks, **options)
    others, truth = houses(numbers, 1000)
    found = model.evaluate(others, truth, verbose=0, return_dict=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/houses.keras")
        loaded = keras.saving.load_model(f"{folder}/houses.keras")
    same = loaded.predict(others, verbose=0) == model.predict(others, verbose=0)
    print(
        f"\nthe error of 1000 new prices is {found['mae']:.1f} on average, of which 6.4 are noise"
    )
    print(f"R2 is {found['r2_score']:.3f}; the loaded model gives the same prices")
    assert found["r2_score"] > 0.98 and same.all()


if __name__ == "__main__":
    main()
