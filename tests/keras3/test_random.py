"""Random numbers of Keras 3: an eager call and a trace agree, bounds hold in every dtype."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import random
from scipy import special

from kbench import backend as K
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


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64"])
@pytest.mark.parametrize(("low", "high"), [(0, 9), (5, 90), (0, 1)])
def test_integers_do_not_depend_on_how_their_bounds_are_known(dtype, low, high):
    seed = np.array([3, 11], "uint32")
    known = random.randint(SHAPE, low, high, dtype, _Words(seed))
    arrays = [np.asarray(end, "int32") for end in (low, high)]
    found = random.randint(SHAPE, *arrays, dtype, _Words(seed))
    ends = [K.placeholder((), dtype="int32") for _ in arrays]
    with traced():
        node = random.randint(SHAPE, *[Traced(end) for end in ends], dtype, _Words(seed)).node
    for other in (found, K.function(ends, [node])(arrays)[0]):
        assert other.dtype == known.dtype == dtype
        np.testing.assert_array_equal(other, known)


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


PARAMETERS = {  # of a distribution; a draw has 200 numbers of each
    "small": (0.02, 0.3),
    "one": (1.0, 1.0),
    "some": (2.5, 0.7),
    "tens": (40.0, 3.0),
    "large": (1e4, 3e3),
    "larger": (1e6, 2.0),
}
INVERSE_STEP = 1e-4
"""How far a parameter is moved in the reference, in parts of its size or of its root: SciPy inverts
to about 1e-12, and the error of a central difference is about the square."""


def _apart(inverse, a):
    """How a positive number moves at a chance that is held: by its logarithm, which is smoother."""
    step = INVERSE_STEP * min(a, a**0.5)
    return inverse(a) * np.log(inverse(a + step) / inverse(a - step)) / (2 * step)


def _gamma_moves(z, a):
    below, above = special.gammainc(a, z), special.gammaincc(a, z)
    low = _apart(lambda moved: special.gammaincinv(moved, below), a)
    high = _apart(lambda moved: special.gammainccinv(moved, above), a)
    return np.where(below < 0.5, low, high)


def _beta_moves(z, w, a, b):
    """By the smaller one of z and w, which is 1 - z, and of both chances."""
    below = np.where(z < w, special.betainc(a, b, z), special.betaincc(b, a, w))
    above = np.where(z < w, special.betaincc(a, b, z), special.betainc(b, a, w))
    with np.errstate(all="ignore"):  # a number that rounds to 0 or 1 is not selected
        ways = [
            _apart(lambda moved: special.betaincinv(moved, b, below), a),
            _apart(lambda moved: special.betainccinv(moved, b, above), a),
            -_apart(lambda moved: special.betaincinv(b, moved, above), a),
            -_apart(lambda moved: special.betainccinv(b, moved, below), a),
        ]
    sides = [(z < 0.5) & (below < 0.5), z < 0.5, above < 0.5]
    return np.select(sides, ways[:3], ways[3])


def _numbers_and_slopes(draw, values):
    weights = [keras.Variable(np.full(200, value), dtype="float64") for value in values]
    numbers = draw(*[np.full(200, value) for value in values])
    return numbers, gradients(lambda: keras.ops.sum(draw(*weights)), weights)


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_move_with_their_parameters_at_held_chances(name):
    a, b = PARAMETERS[name]
    z, (found,) = _numbers_and_slopes(
        lambda a: random.gamma((200,), a, dtype="float64", seed=3), (a,)
    )
    np.testing.assert_allclose(found, _gamma_moves(z, a), rtol=2e-6, atol=1e-300)
    z, (first, second) = _numbers_and_slopes(
        lambda a, b: random.beta((200,), a, b, dtype="float64", seed=3), (a, b)
    )
    inside = (z > 1e-200) & (z < 1 - 1e-6)  # close to the ends SciPy's inverse has fewer digits
    assert inside.mean() > 0.1
    np.testing.assert_allclose(first[inside], _beta_moves(z, 1 - z, a, b)[inside], rtol=1e-5)
    np.testing.assert_allclose(second[inside], -_beta_moves(1 - z, z, b, a)[inside], rtol=1e-5)
    assert all(np.isfinite(one).all() for one in (first, second))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_mean_of_draws_moves_with_their_parameters(dtype):
    shape = keras.Variable(np.array([0.5, 2.0, 9.0], "float32"))
    (found,) = gradients(
        lambda: keras.ops.sum(
            keras.ops.cast(random.gamma((4000, 3), shape, dtype=dtype, seed=1), "float32")
        ),
        [shape],
    )
    assert found.dtype == "float32"
    np.testing.assert_allclose(found / 4000, 1, atol=0.06)  # the mean is the shape
    (found,) = gradients(
        lambda: keras.ops.mean(random.beta((4000,), shape[1], 3.0, seed=1)), [shape]
    )
    np.testing.assert_allclose(found, [0, 3 / 25, 0], atol=0.005)  # of a / (a + b)


def test_whole_numbers_do_not_move():
    chance = keras.Variable(np.full(3, 0.5, "float32"))
    (found,) = gradients(
        lambda: keras.ops.sum(random.binomial((5, 3), 4.0, chance, seed=1)), [chance]
    )
    np.testing.assert_array_equal(found, 0)
