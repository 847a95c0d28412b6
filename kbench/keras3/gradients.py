"""Gradients of programs of Keras 3, by the engine's reverse sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common.stateless_scope import StatelessScope

from kbench import backend as K
from kbench.keras3.calls.program import evaluate
from kbench.keras3.core import traced
from kbench.keras3.tensor import Traced, finish, from_held, plain


def traced_gradients(loss: Any, variables: Any) -> list[Any]:
    """The gradient of a traced loss to each variable; zeros where it does not depend on one."""
    nodes = [variable._node for variable in variables]
    loss = plain(loss)
    if not isinstance(loss, Traced):
        return [np.zeros(variable.shape, variable.dtype) for variable in variables]
    found = K.gradients(loss.node, nodes)
    return [
        np.zeros(variable.shape, variable.dtype)
        if gradient is None
        else finish(gradient, str(variable.dtype))
        for variable, gradient in zip(variables, found, strict=True)
    ]


def gradients(loss: Any, variables: Any) -> list[Any]:
    """Derivatives of a loss with respect to variables of Keras.

    Arguments:
        loss: within a step that is traced, as in a custom `train_step`, its loss; outside of one,
            a function without arguments that computes it from the variables.
        variables: variables of Keras.
    Returns:
        A list with an entry of the shape and dtype of each variable: zeros where the loss does
        not depend on it.
    Raises:
        TypeError: outside of a traced step the loss is not a function.
        GradientError: an operation on the way has no derivative.
    """
    if isinstance(plain(loss), Traced):
        return traced_gradients(loss, variables)
    if not callable(loss):
        raise TypeError(
            f"gradients: loss is {type(loss).__name__}, which does not know how it was computed; "
            "give a function that computes it"
        )
    with StatelessScope(), traced():
        found = traced_gradients(loss(), variables)
    nodes = [one.held for one in found if isinstance(one, Traced)]
    values = iter(evaluate(nodes, "gradients"))
    return [from_held(next(values), one.dtype) if isinstance(one, Traced) else one for one in found]
