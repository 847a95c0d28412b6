"""Update ops: pairs (variable, new value).

Storing is the function's business, after every output of a call has been computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import Spec
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import OPERATORS, FeedDict, Operand, Tensor
from kbench.engine.graph.variables import Variable, needs_variable


def _update_infer(x: Spec, new_x: Spec) -> Spec:
    if len(x.shape) != len(new_x.shape) or any(
        a is not None and b is not None and a != b
        for a, b in zip(x.shape, new_x.shape, strict=True)
    ):
        raise ShapeError(f"the variable is {x}, but its new value is {new_x}")
    if x.sparse != new_x.sparse:
        raise DtypeError(
            f"the variable is {x}, but its new value is {new_x}: both or neither is sparse"
        )
    return Spec(x.shape, x.dtype, sparse=x.sparse)


def _update_numpy(out: np.ndarray | None, _target: np.ndarray, value: np.ndarray) -> np.ndarray:
    return value


UPDATE = register(
    Op(
        "update",
        "update",
        _update_infer,
        _update_numpy,
        None,
        pure=False,
        allocates=True,
        sparse=True,
    )
)


class Update(Tensor):
    """An update op: evaluating it stores `inputs[1]` in the variable `inputs[0]`."""

    kind = "update"

    @property
    def target(self) -> Variable:
        return self.inputs[0]  # type: ignore[return-value]

    def run(self, feed_dict: FeedDict | None = None, session: object = None) -> None:
        """Store the new value, as an operation of TensorFlow does."""
        self.eval(session, feed_dict)


def as_update(item: object) -> Update:
    """An entry of `updates=`: an update op, or a pair (variable, new value)."""
    if isinstance(item, Update):
        return item
    if isinstance(item, (list, tuple)) and len(item) == 2:
        return update(item[0], item[1])
    raise ArgumentError(
        f"updates must be update ops or pairs (variable, new value), got {shown(item)}",
        function="function",
    )


def stores_of(outputs: Sequence[Tensor], updates: Sequence[Update]) -> list[Update]:
    """Update ops whose effect a call has; of several for one variable the last one counts."""
    wanted = [output for output in outputs if isinstance(output, Update)]
    unique: dict[int, Update] = {}
    for store in [*wanted, *updates]:
        unique[id(store.target)] = store
    return list(unique.values())


def update(x: Variable, new_x: Operand) -> Update:
    """An op that stores a new value in a variable when it is evaluated, or listed in `updates=`.

    All new values of a call are computed from the state before it, then stored together. A float
    that is made of `x` times something, as the moments of optimizers are, is stored as 0 once it
    is below the smallest normal number (1.2e-38 in float32), where arithmetic takes ten times as
    long.

    Arguments:
        x: variable.
        new_x: number, array or tensor of its shape; it is cast to its dtype.
    Returns:
        Update, a tensor whose value is the new one.
    Raises:
        ArgumentError: `x` is no variable. ShapeError: the shapes differ.
    Gradient: none.
    Source: Keras 2.3 `backend.update`.

    >>> w = K.variable(1.0)
    >>> _ = K.eval(K.update(w, w * 5))
    >>> K.get_value(w)
    array(5., dtype=float32)
    """
    target = needs_variable(x)
    value = converted(as_tensor(new_x, like=target.spec.dtype), target.spec.dtype)
    spec = _update_infer(target.spec, value.spec)
    return Update(UPDATE, (target, value), {}, spec, f"{target.name.split(':')[0]}/update")


def update_add(x: Variable, increment: Operand) -> Update:
    """An update of `x` to `x + increment`; each evaluation adds again.

    Arguments:
        x: variable.
        increment: number, array or tensor that broadcasts over it.
    Returns:
        Update, a tensor whose value is the new one.
    Raises:
        ArgumentError: `x` is no variable. ShapeError: the shapes do not fit.
    Gradient: none.
    Source: Keras 2.3 `backend.update_add`.

    >>> w = K.variable(1.0)
    >>> _ = K.eval(K.update_add(w, 5.0))
    >>> K.get_value(w)
    array(6., dtype=float32)
    """
    return update(x, needs_variable(x) + increment)


def update_sub(x: Variable, decrement: Operand) -> Update:
    """An update of `x` to `x - decrement`; each evaluation subtracts again.

    Arguments:
        x: variable.
        decrement: number, array or tensor that broadcasts over it.
    Returns:
        Update, a tensor whose value is the new one.
    Raises:
        ArgumentError: `x` is no variable. ShapeError: the shapes do not fit.
    Gradient: none.
    Source: Keras 2.3 `backend.update_sub`.

    >>> w = K.variable(1.0)
    >>> _ = K.eval(K.update_sub(w, 5.0))
    >>> K.get_value(w)
    array(-4., dtype=float32)
    """
    return update(x, needs_variable(x) - decrement)


def moving_average_update(x: Variable, value: Operand, momentum: Operand) -> Update:
    """An update of `x` to `x * momentum + value * (1 - momentum)`.

    Arguments:
        x: variable.
        value: number, array or tensor that broadcasts over it.
        momentum: number or tensor, from 0 to 1.
    Returns:
        Update, a tensor whose value is the new one.
    Raises:
        ArgumentError: `x` is no variable. ShapeError: the shapes do not fit.
    Gradient: none.
    Source: Keras 2.3 `backend.moving_average_update`.

    >>> w = K.variable(1.0)
    >>> _ = K.eval(K.moving_average_update(w, 2.0, 0.5))
    >>> K.get_value(w)
    array(1.5, dtype=float32)
    """
    target = needs_variable(x)
    if not isinstance(momentum, (int, float, np.generic, np.ndarray, Tensor)):
        momentum = as_tensor(momentum, like=target.spec.dtype)
    kept, new = target * momentum, as_tensor(value, like=target.spec.dtype)
    return update(target, kept + new * (1.0 - momentum))  # type: ignore[operator]  # a number


OPERATORS["assign"] = update
OPERATORS["assign_add"] = update_add
OPERATORS["assign_sub"] = update_sub
