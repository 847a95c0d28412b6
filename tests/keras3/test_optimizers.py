"""`optimizer.apply` in a loop of one's own: as without a kept function, and never a stale one."""

import keras3_there  # noqa: F401  # isort: skip
import gc
import weakref

import keras
import numpy as np
import pytest

from kbench.keras3.training import optimizer as kept

DRAW = np.random.RandomState(5)
STARTS = [DRAW.randn(7, 3).astype("float32"), DRAW.randn(3).astype("float32")]
GRADIENTS = [[DRAW.randn(*one.shape).astype("float32") for one in STARTS] for _ in range(6)]
Decay = keras.optimizers.schedules.ExponentialDecay
Optimizers = keras.optimizers

CASES = {
    **{
        name: (getattr(Optimizers, name), {})
        for name in (
            "SGD RMSprop Adam AdamW Adadelta Adagrad Adamax Adafactor Nadam Ftrl Lion Lamb Muon"
        ).split()
    },
    "momentum": (Optimizers.SGD, {"momentum": 0.9, "nesterov": True}),
    "amsgrad": (Optimizers.Adam, {"amsgrad": True}),
    "schedule": (Optimizers.Adam, {"learning_rate": Decay(0.1, 2, 0.5)}),
    "clipnorm": (Optimizers.SGD, {"clipnorm": 0.1}),
    "global_clipnorm": (Optimizers.SGD, {"global_clipnorm": 0.1}),
    "clipvalue": (Optimizers.SGD, {"clipvalue": 0.1}),
    "decay": (Optimizers.SGD, {"weight_decay": 0.1}),
    "averages": (Optimizers.SGD, {"use_ema": True, "ema_overwrite_frequency": 2}),
    "gathered": (Optimizers.SGD, {"gradient_accumulation_steps": 3}),
    "scaled": (Optimizers.SGD, {"loss_scale_factor": 8.0}),
}


def _variables(dtype="float32"):
    return [keras.Variable(one, dtype=dtype) for one in STARTS]


def _count(optimizer):
    functions = kept._kept.get(optimizer)
    entries = [] if functions is None else functions.recent.values()
    return sum(entry is not True and entry is not False for entry in entries)


def _train(optimizer, variables, steps=6):
    for i in range(steps):
        optimizer.apply([one.astype(variables[0].dtype) for one in GRADIENTS[i]], variables)
    return [np.array(one).astype("float64") for one in (*variables, *optimizer.variables)]


def _plainly(make, monkeypatch, dtype="float32"):
    with monkeypatch.context() as patch:
        patch.setattr(kept, "_function", lambda *call: None)
        optimizer = make()
        found = _train(optimizer, _variables(dtype))
        assert _count(optimizer) == 0
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_kept_function_updates_as_keras_does(name, monkeypatch):
    kind, options = CASES[name]

    def make():
        return kind(**{"learning_rate": 0.1} | options)

    wanted, optimizer = _plainly(make, monkeypatch), make()
    for found, one in zip(_train(optimizer, _variables()), wanted, strict=True):
        np.testing.assert_allclose(found, one, rtol=2e-5, atol=1e-6)
    assert _count(optimizer) == 1
    assert int(optimizer._iterations) == 6


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes(dtype, monkeypatch):
    wanted, optimizer = _plainly(Optimizers.Adam, monkeypatch, dtype), Optimizers.Adam()
    variables = _variables(dtype)
    for found, one in zip(_train(optimizer, variables), wanted, strict=True):
        np.testing.assert_allclose(found, one, rtol=2e-2 if dtype == "bfloat16" else 1e-6)
    assert _count(optimizer) == 1 and variables[0].dtype == dtype


def test_settings_that_change_count_at_once():
    (weight,) = variables = [keras.Variable(np.zeros(3, "float32"))]
    optimizer, gradient = Optimizers.SGD(1.0), [np.ones(3, "float32")]
    for _ in range(3):
        optimizer.apply(gradient, variables)
    np.testing.assert_array_equal(weight, -3 * np.ones(3))
    optimizer.learning_rate = 0.5
    optimizer.apply(gradient, variables)
    np.testing.assert_array_equal(weight, -3.5 * np.ones(3))
    assert _count(optimizer) == 1
    optimizer.clipvalue = 0.25
    for i in range(3):
        optimizer.apply(gradient, variables)
        np.testing.assert_array_equal(weight, -3.5 - (i + 1) / 8 * np.ones(3))
    assert _count(optimizer) == 2
    weight.assign(np.ones(3))
    optimizer.apply(gradient, variables)
    np.testing.assert_array_equal(weight, 0.875 * np.ones(3))


def test_a_part_of_the_variables():
    variables, optimizer = _variables(), Optimizers.SGD(1.0)
    optimizer.build(variables)
    for _ in range(3):
        optimizer.apply(GRADIENTS[0][:1], variables[:1])
        optimizer.apply(GRADIENTS[0][1:], variables[1:])
    for variable, start, gradient in zip(variables, STARTS, GRADIENTS[0], strict=True):
        np.testing.assert_allclose(variable, start - 3 * gradient, rtol=1e-5, atol=1e-5)
    assert _count(optimizer) == 2


def test_scaled_losses_skip_steps_that_are_not_finite():
    variables = _variables()
    optimizer = Optimizers.LossScaleOptimizer(Optimizers.SGD(0.5), initial_scale=4.0)
    optimizer.build(variables)
    for i in range(5):
        factor = np.inf if i == 2 else float(optimizer.scale_loss(1.0))
        optimizer.apply([factor * one for one in GRADIENTS[0]])
    for variable, start, gradient in zip(variables, STARTS, GRADIENTS[0], strict=True):
        np.testing.assert_allclose(variable, start - 2 * gradient, rtol=1e-5, atol=1e-5)
    assert _count(optimizer.inner_optimizer) == 1


class Counting(Optimizers.SGD):
    """An optimizer of the user's, of which Python counts the steps."""

    steps = 0

    def update_step(self, gradient, variable, learning_rate):
        type(self).steps += 1
        super().update_step(gradient, variable, learning_rate)


def test_what_is_the_users_own_is_called_each_time():
    Counting.steps = 0
    optimizer, variables = Counting(0.1), _variables()
    _train(optimizer, variables)
    assert Counting.steps == 12 and _count(optimizer) == 0
    rates = []

    def rate():
        rates.append(0.5 ** len(rates))
        return rates[-1]

    optimizer, (weight,) = Optimizers.SGD(rate), [keras.Variable(np.zeros(2, "float32"))]
    for _ in range(4):
        optimizer.apply([np.ones(2, "float32")], [weight])
    np.testing.assert_allclose(weight, -sum(rates[-4:]) * np.ones(2), rtol=1e-6)
    assert len(rates) >= 4 and _count(optimizer) == 0


def test_wrong_gradients_fail_as_before():
    variables, optimizer = _variables(), Optimizers.SGD(0.1)
    for _ in range(3):
        with pytest.raises(Exception, match="shape|broadcast"):
            optimizer.apply([np.ones((2, 2), "float32"), GRADIENTS[0][1]], variables)


def test_functions_go_with_their_optimizer():
    optimizer = Optimizers.SGD(0.1)
    _train(optimizer, _variables())
    seen = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert seen() is None
