"""Optimizers outside of a step: what `apply` does to the variables is kept as one function.

A loop of one's own calls `optimizer.apply(gradients, variables)` on arrays. What Keras' own
optimizers do then depends on variables, gradients and their settings alone, so it is traced like a
step, for the second call that is alike. Optimizers and schedules of the user's may count calls or
print, and learning rates may be functions: these run as they are written, each time.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common.stateless_scope import StatelessScope, in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope
from keras.src.optimizers import base_optimizer
from keras.src.optimizers.schedules.learning_rate_schedule import LearningRateSchedule

from kbench import backend as K
from kbench.api.operations import settings_in_force, uncollected
from kbench.keras3.calls.planned import NotAlike, Plans, add_to_key
from kbench.keras3.core import traced, updates_of
from kbench.keras3.tensor import is_variable, symbol_of, to_held, tracing

MAX_FUNCTIONS = 8
"""Functions of an optimizer of a generation: one for each set of variables and settings."""
OWN = "keras.src.optimizers."
"""Where Keras' own optimizers and schedules are."""

_kept: weakref.WeakKeyDictionary[Any, Plans] = weakref.WeakKeyDictionary()


class BackendOptimizer(base_optimizer.BaseOptimizer):  # type: ignore[misc]
    """What Keras asks of a backend: how all variables are updated at once."""

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        update = super()._backend_apply_gradients
        try:
            key = _key(self, grads, trainable_variables)
        except NotAlike:
            update(grads, trainable_variables)
            return
        functions = _kept.setdefault(self, Plans(most=MAX_FUNCTIONS))
        function = functions.of_second(key, _function, update, grads, trainable_variables)
        if function is None:
            update(grads, trainable_variables)
        else:
            function([to_held(gradient) for gradient in grads])


def _key(optimizer: Any, grads: Any, variables: Any) -> Any:
    """Equal for two calls that do the same to the variables. NotAlike where that is not known."""
    if tracing.active or in_stateless_scope() or get_autocast_scope() is not None:
        raise NotAlike
    key = [settings_in_force(), config.floatx(), config.epsilon()]
    _add_settings(optimizer, key)
    for gradient, variable in zip(grads, variables, strict=True):
        if type(gradient) is not np.ndarray or not is_variable(variable):
            raise NotAlike
        key += (gradient.dtype, gradient.shape, id(variable))
    return tuple(key)


def _add_settings(thing: Any, key: list[Any]) -> None:
    """Add the attributes of an optimizer or a schedule: numbers and words by their values."""
    if not type(thing).__module__.startswith(OWN):
        raise NotAlike
    key.append(type(thing))
    is_schedule = isinstance(thing, LearningRateSchedule)
    for name, value in vars(thing).items():
        key.append(name)
        if isinstance(value, LearningRateSchedule):
            _add_settings(value, key)
        elif isinstance(value, np.generic):
            key += (type(value), value.tobytes())
        elif isinstance(value, (bool, int, float, str, type(None))) or is_schedule:
            arrays: list[Any] = []
            add_to_key(value, key, arrays)
            if arrays:
                raise NotAlike
        elif isinstance(value, (np.ndarray, types.FunctionType, types.MethodType)):
            raise NotAlike
        else:
            key.append(id(value))
    if not is_schedule:
        rate = thing._learning_rate
        if callable(rate) and not isinstance(rate, LearningRateSchedule):
            raise NotAlike


def _function(update: Any, grads: Any, variables: Any) -> Any:
    """What `update` does, as a function of the gradients; None where it cannot be traced."""
    try:
        given = [symbol_of(gradient.shape, gradient.dtype.name) for gradient in grads]
        with uncollected(), traced(), StatelessScope() as scope:
            update(given, variables)
            updates = updates_of(scope.state_mapping, {})
        inputs = [one.held for one in given]
        return K.function(inputs, [], updates=updates, name="apply")
    except Exception:  # what is wrong with the call itself, the call without a function says
        return None
