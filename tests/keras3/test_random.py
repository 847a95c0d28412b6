"""Random numbers of Keras 3: an eager call and a trace agree, bounds hold in every dtype."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import random

from kbench import backend as K
from kbench.api.operations import GradientError
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced, from_wide, is_traced, to_wide

LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]], "float32"))
ONES = np.ones((50, 300), "float32")
MANY = 20_000
SHAPE = (50, 300)

DRAWS = {
    "uniform": lambda seed: random.uniform(SHAPE, seed=seed),
    "uniform_bounds": lambda seed: random.uniform(SHAPE, -2, 3.5, "float64", seed),
    "uniform_arrays": lambda seed: random.uniform(
        SHAPE, np.zeros(300, "float32"), np.full(300, 2, "float32"), seed=seed
    ),
    "normal": lambda seed: random.normal(SHAPE, 1.0, 2.0, seed=seed),
    "normal_bfloat16": lambda seed: random.normal(SHAPE, dtype="bfloat16", seed=seed),
    "truncated_normal": lambda seed: random.truncated_normal(SHAPE, seed=seed),
    "randint": lambda seed: random.randint(SHAPE, -4, 90, seed=seed),
    "categorical": lambda seed: random.categorical(LOGITS, 200, seed=seed),
    "dropout": lambda seed: random.dropout(ONES, 0.3, seed=seed),
    "dropout_of_rows": lambda seed: random.dropout(ONES, 0.3, (50, 1), seed=seed),
    "shuffle": lambda seed: random.shuffle(np.arange(500), seed=seed),
    "gamma": lambda seed: random.gamma(SHAPE, 2.0, seed=seed),
}


class _Words(random.SeedGenerator):
    """A seed of two words that does not move on."""

    def __init__(self, words):
        self.words = words

    def next(self, ordered=True):
        return self.words


def _traced(draw, seed):
    node = K.placeholder((2,), dtype="uint32")
    with traced():
        found = draw(_Words(Traced(node)))
    assert is_traced(found)
    return from_wide(K.function([node], [found.node])([seed])[0], found.dtype)


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("name", DRAWS)
def test_one_seed_gives_the_same_numbers_eager_and_traced(name, tier, monkeypatch):
    monkeypatch.setenv("KBENCH_JIT", tier)
    seed = np.array([3, 11], "uint32")
    eager = DRAWS[name](_Words(seed))
    found = _traced(DRAWS[name], seed)
    assert found.dtype == eager.dtype
    np.testing.assert_array_equal(to_wide(found), to_wide(eager))
    other = _traced(DRAWS[name], np.array([3, 12], "uint32"))
    assert not np.array_equal(to_wide(found), to_wide(other))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (2.0, 2.5), (-3.0, 7.0)])
@pytest.mark.parametrize("arrays", [False, True])
def test_uniform_numbers_stay_below_the_upper_bound(dtype, low, high, arrays):
    ends = (np.full((), end, dtype) for end in (low, high)) if arrays else (low, high)
    x = random.uniform((MANY,), *ends, dtype, seed=7)
    assert x.dtype == dtype
    x = x.astype("float64")
    assert low <= x.min() and x.max() < high
    step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    assert abs(x.mean() - (low + high) / 2) < 0.02 * (high - low) + step * max(-low, high)


def test_categorical_draws_by_the_chances():
    drawn = random.categorical(LOGITS, MANY, seed=5)
    for row, chances in zip(drawn, np.exp(LOGITS), strict=True):
        shares = np.bincount(row, minlength=3) / MANY
        np.testing.assert_allclose(shares, chances, atol=5 * 0.5 / MANY**0.5)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(rate):
    found = random.dropout(np.ones((MANY,), "float32"), rate, seed=4)
    kept = found != 0
    np.testing.assert_allclose(found[kept], 1 / (1 - rate), rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 5 * 0.5 / MANY**0.5


def test_a_layer_drops_anew_at_each_step_and_again_from_its_seed():
    def steps():
        layer = keras.layers.Dropout(0.5, seed=9)
        model = keras.Sequential([keras.Input((300,)), layer])
        model.compile("sgd", "mse")
        return [
            model.train_on_batch(ONES, 3 * ONES),
            model.train_on_batch(ONES, 3 * ONES),
        ]

    first, again = steps(), steps()
    assert first == again
    assert first[0] != first[1]


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_a_draw_by_numpy_refuses_a_gradient_to_its_parameters(name):
    weight = keras.Variable(np.full(3, 2.0, "float32"))
    draws = {
        "gamma": lambda: random.gamma((5, 3), weight, seed=3),
        "beta": lambda: random.beta((5, 3), weight, 2.0, seed=3),
    }
    with pytest.raises(GradientError, match=f"random.{name} has no derivative"):
        gradients(lambda: keras.ops.sum(draws[name]() * weight), [weight])
