"""A model with three inputs and two outputs: will it rain at a station, and how warm will it be?"""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

STATIONS, HOURS = 12, 24


def weather(numbers, stations, count):
    """Dicts of inputs and of what is to be found, by the names of the model's ends."""
    station = numbers.integers(0, STATIONS, count)
    height, coast = stations[:, station]
    start, slope = numbers.normal(0, 1, count), numbers.normal(0, 1, count)
    hours = np.linspace(0, 1, HOURS)
    pressure = start[:, None] + slope[:, None] * hours + numbers.normal(0, 0.1, (count, HOURS))
    sky = numbers.normal(0, 1, (count, 3))
    wet = 2 * coast + sky[:, 0] - 2 * slope > 0
    warm = 15 - 8 * height + 3 * sky[:, 1] + start * coast + numbers.normal(0, 0.3, count)
    inputs = {
        "station": station[:, None],
        "pressure": pressure[..., None].astype("float32"),
        "sky": sky.astype("float32"),
    }
    return inputs, {"rain": wet[:, None].astype("float32"), "warmth": warm[:, None]}


def build():
    """One trunk behind three inputs, and a head for each question."""
    station = keras.Input((1,), dtype="int32", name="station")
    pressure, sky = keras.Input((HOURS, 1), name="pressure"), keras.Input((3,), name="sky")
    parts = [
        layers.Flatten()(layers.Embedding(STATIONS, 4)(station)),
        layers.GlobalAveragePooling1D()(layers.Conv1D(16, 5, activation="relu")(pressure)),
        layers.Dense(8)(pressure[:, -1] - pressure[:, 0]),
        sky,
    ]
    x = layers.Dense(64, activation="relu")(layers.Concatenate()(parts))
    x = layers.Dense(64, activation="relu")(x)
    rain = layers.Dense(1, activation="sigmoid", name="rain")(x)
    warmth = layers.Dense(1, name="warmth")(x)
    model = keras.Model([station, pressure, sky], {"rain": rain, "warmth": warmth})
    model.compile(
        keras.optimizers.Adam(0.005),
        loss={"rain": "binary_crossentropy", "warmth": "mse"},
        loss_weights={"rain": 1.0, "warmth": 0.1},
        metrics={"rain": ["accuracy", "auc"], "warmth": ["mae"]},
    )
    return model


def main():
    keras.utils.set_random_seed(9)
    numbers = np.random.default_rng(9)
    stations = numbers.uniform(-1, 1, (2, STATIONS))
    model = build()
    inputs, found = weather(numbers, stations, 4000)
    often = {"rain": np.ones(4000), "warmth": np.where(found["rain"][:, 0] > 0, 1.0, 0.5)}
    model.fit(inputs, found, sample_weight=often, batch_size=50, epochs=12, verbose=2)
    told = model.evaluate(*weather(numbers, stations, 1000), verbose=0, return_dict=True)
    print(f"\nrain is foretold rightly in {told['rain_accuracy']:.1%} of 1000 new cases")
    print(f"(AUC {told['rain_auc']:.3f}), warmth is off by {told['warmth_mae']:.2f} degrees")
    assert told["rain_accuracy"] > 0.92 and told["warmth_mae"] < 1


if __name__ == "__main__":
    main()
