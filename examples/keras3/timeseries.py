"""A GRU forecasts how much power a town needs in the next six hours."""

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench  # noqa: F401  # isort: skip  # before keras: it makes itself known as a backend
import keras
import numpy as np
from keras import layers

DAYS, PAST, FUTURE, BATCH = 240, 48, 6, 64


def load(numbers):
    """Power of each hour, float32[hours, 3], with the time of day as sine and cosine beside it."""
    hours = np.arange(24 * DAYS)
    day = 2 * np.pi * hours / 24
    weekend = hours // 24 % 7 >= 5
    drift = np.zeros(len(hours))
    for hour in range(1, len(hours)):  # weather: what it is now, it is in an hour, nearly
        drift[hour] = 0.98 * drift[hour - 1] + numbers.normal(0, 0.06)
    power = np.sin(day - 2) + 0.5 * np.sin(2 * day) - 0.6 * weekend + drift
    power += numbers.normal(0, 0.05, len(hours))
    return np.stack([power, np.sin(day), np.cos(day)], axis=1).astype("float32")


class Windows(keras.utils.PyDataset):
    """Batches of 48 hours, and the power of the six hours behind them."""

    def __init__(self, series, numbers, count, **options):
        super().__init__(**options)
        self.series = series
        self.starts = numbers.integers(0, len(series) - PAST - FUTURE, count)

    def __len__(self):
        return len(self.starts) // BATCH

    def __getitem__(self, index):
        starts = self.starts[index * BATCH : (index + 1) * BATCH, None]
        future = self.series[starts + PAST + np.arange(FUTURE), 0]
        return self.series[starts + np.arange(PAST)], future


def build():
    """A convolution over hours, a GRU, and one number for each hour to come."""
    model = keras.Sequential(
        [
            keras.Input((PAST, 3)),
            layers.Conv1D(32, 3, padding="causal", activation="relu"),
            layers.GRU(48),
            layers.Dense(FUTURE),
        ]
    )
    model.compile(keras.optimizers.Adam(0.003, global_clipnorm=1.0), "mse", metrics=["mae"])
    return model


def main():
    keras.utils.set_random_seed(8)
    numbers = np.random.default_rng(8)
    series = load(numbers)
    cut = len(series) * 3 // 4
    model = build()
    model.fit(Windows(series[:cut], numbers, 4096), epochs=6)
    later = Windows(series[cut:], numbers, 1024)
    _, error = model.evaluate(later, verbose=0)
    yesterday = []
    for index in range(len(later)):
        past, future = later[index]
        yesterday.append(np.abs(past[:, PAST - 24 : PAST - 24 + FUTURE, 0] - future).mean())
    naive = float(np.mean(yesterday))
    print(f"\nforecasts are off by {error:.3f}; those that take yesterday's load, by {naive:.3f}")
    assert error < 0.5 * naive


if __name__ == "__main__":
    main()
