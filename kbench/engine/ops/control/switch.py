"""Choice between two computations, and the learning phase that often decides it.

A branch with a scalar condition evaluates only the side taken: the plan runs what one side alone
needs under the condition's guard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import Spec, promote
from kbench.engine.graph import scope
from kbench.engine.graph.apply import apply, controlled_by
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.variables import Placeholder
from kbench.engine.ops.elementwise.arithmetic import cast, where
from kbench.engine.ops.layout.reshape import expand_dims
from kbench.engine.runtime import config, read_only

# ------------------------------------------------------------------ one of two, evaluated lazily


def _branch_infer(condition: Spec, x: Spec, y: Spec) -> Spec:
    if x.ndim != y.ndim:
        raise ShapeError(f"the branches are {x} and {y}, which differ in rank")
    if x.sparse != y.sparse:
        raise DtypeError(
            f"the branches are {x} and {y}: both or neither must be sparse",
            suggestion="K.to_dense(...)",
        )
    shape = tuple(a if a == b else None for a, b in zip(x.shape, y.shape, strict=True))
    return Spec(shape, x.dtype, sparse=x.sparse)


def _branch_numpy(out: np.ndarray | None, condition: np.ndarray, x: object, y: object) -> object:
    return x if condition else y


def _branch_gradient(
    g: Tensor, out: Tensor, condition: Tensor, x: Tensor, y: Tensor
) -> tuple[Tensor | None, ...]:
    return None, g, g  # to the side that was taken: engine/gradient.py sees to that


BRANCH = register(
    Op(
        "branch",
        "view",
        _branch_infer,
        _branch_numpy,
        _branch_gradient,
        allocates=True,
        sparse=True,
        role=Role.BRANCH,
    )
)


Expression: TypeAlias = "Operand | Callable[[], Operand]"
"""A tensor, or a function that gives one when it is wanted."""


def _called(expression: Expression) -> Tensor:
    return as_tensor(expression() if callable(expression) else expression)


def switch(condition: Operand, then_expression: Expression, else_expression: Expression) -> Tensor:
    """One of two expressions.

    Arguments:
        condition: bool, or a number compared with 0. A scalar chooses one expression, and only
            that one is evaluated. Otherwise the choice is made element by element; a condition of
            lower rank decides whole rows.
        then_expression, else_expression: tensors, or functions that return one.
    Returns:
        Tensor of the common dtype of the expressions.
    Raises:
        ShapeError: the condition has more axes than the expressions, or does not fit them.
    Gradient: to the expression that was taken.
    Source: Keras 2.3 `backend.switch`.

    >>> K.eval(K.switch(K.constant(1) > 0, K.constant([1.0]), K.constant([2.0])))
    array([1.], dtype=float32)
    """
    chooser = cast(condition, "bool")
    first, second = _called(then_expression), _called(else_expression)
    common = promote(first.spec.dtype, second.spec.dtype)
    first, second = converted(first, common), converted(second, common)
    if chooser.ndim == 0:
        return apply(BRANCH, chooser, first, second)
    rank = max(first.ndim, second.ndim)
    if chooser.ndim > rank:
        raise ShapeError(
            f"the condition is {chooser.spec}, but the expressions are {first.spec} and "
            f"{second.spec}: it must not have more axes"
        )
    while chooser.ndim < rank:
        chooser = expand_dims(chooser)
    return where(chooser, first, second)


# ------------------------------------------------------------------ the learning phase

_fixed: float | None = None
_placeholder: Placeholder | None = None


def _reset() -> None:
    global _fixed, _placeholder
    changed = _fixed is not None
    _fixed = _placeholder = None
    if changed:
        config.notify_changed("learning_phase")


scope.on_clear(_reset)


class _Phase(Placeholder):
    """The flag, one for each graph: of copies too."""

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        return _flag, ()


def _flag() -> Placeholder:
    """The placeholder of the learning phase in this graph."""
    global _placeholder
    if _placeholder is None or _placeholder.generation != scope.generation():
        _placeholder = _Phase(Spec((), "bool"), "keras_learning_phase", default=np.array(False))
        _placeholder._phase_flag = True
    return _placeholder


def learning_phase() -> Tensor | float:
    """The flag that separates training (1) from testing (0).

    Returns:
        Tensor bool, a scalar placeholder that is 0 unless fed, the same one until
        `clear_session`; or the value given to `set_learning_phase`.
    Gradient: none.
    Source: Keras 2.3 `backend.learning_phase`.

    >>> K.learning_phase().eval()
    array(False)
    """
    return _flag() if _fixed is None else _fixed


def set_learning_phase(value: float) -> None:
    """Fix the learning phase of tensors that are created afterwards.

    Arguments:
        value: 0 for testing or 1 for training; a bool does as well.
    Raises:
        ArgumentError: another value.
    Source: Keras 2.3 `backend.set_learning_phase`.

    >>> K.set_learning_phase(1)
    >>> K.learning_phase()
    1
    >>> K.clear_session()
    """
    global _fixed
    wanted = _checked_phase(value)
    read_only.refuse_change("set the learning phase")
    _fixed = wanted
    config.notify_changed("learning_phase")


def _checked_phase(value: object) -> float:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise ArgumentError(f"the learning phase must be 0 or 1, got {shown(value)}")
    return value


def _assign_phase(value: float | None) -> None:
    """Fix the phase, or with None have it fed again, to the flag that graphs know already."""
    global _fixed
    if value is not None:
        set_learning_phase(value)
    elif _fixed is not None:
        read_only.refuse_change("set the learning phase")
        _fixed = None
        config.notify_changed("learning_phase")


config.set_phase_access(lambda: None if _fixed is None else int(_fixed), _assign_phase)


def learning_phase_scope(value: float) -> contextlib.AbstractContextManager[None]:
    """Fix the learning phase inside the block, then restore what it was.

    Arguments:
        value: 0 for testing or 1 for training; a bool does as well.
    Returns:
        A context manager.
    Raises:
        ArgumentError: another value.
    Source: `tf_keras.backend.learning_phase_scope`.

    >>> with K.learning_phase_scope(1):
    ...     K.eval(K.in_train_phase(K.constant(1.0), K.constant(2.0)))
    array(1., dtype=float32)
    """
    return _fixed_phase(_checked_phase(value))


@contextlib.contextmanager
def _fixed_phase(value: float) -> Iterator[None]:
    global _fixed
    before = _fixed
    set_learning_phase(value)
    try:
        yield
    finally:
        _fixed = before
        config.notify_changed("learning_phase")


def in_train_phase(x: Expression, alt: Expression, training: Operand | None = None) -> Operand:
    """`x` in training, `alt` in testing.

    Arguments:
        x, alt: tensors, or functions that return one; only the one taken is evaluated.
        training: 0, 1, bool or a scalar tensor; None means `learning_phase()`.
    Returns:
        Tensor whose `_uses_learning_phase` is True when the global flag decides.
    Raises:
        ShapeError: ranks differ where the choice is made at evaluation.
        ArgumentError: another value for `training`.
    Gradient: to the one that was taken.
    Source: Keras 2.3 `backend.in_train_phase`.

    >>> K.eval(K.in_train_phase(K.constant(1.0), K.constant(2.0), training=1))
    array(1., dtype=float32)
    """
    decided_by_phase = training is None
    flag = learning_phase() if training is None else training
    if not isinstance(flag, Tensor):
        chosen = x if _checked_phase(flag) else alt
        result = chosen() if callable(chosen) else chosen
    else:
        result = switch(flag, x, alt)
    if decided_by_phase and isinstance(result, Tensor) and isinstance(flag, Tensor):
        result._uses_learning_phase = True
    return result


def in_test_phase(x: Expression, alt: Expression, training: Operand | None = None) -> Operand:
    """`x` in testing, `alt` in training.

    Arguments:
        x, alt: tensors, or functions that return one; only the one taken is evaluated.
        training: 0, 1, bool or a scalar tensor; None means `learning_phase()`.
    Returns:
        Tensor whose `_uses_learning_phase` is True when the global flag decides.
    Raises:
        ShapeError: ranks differ where the choice is made at evaluation.
        ArgumentError: another value for `training`.
    Gradient: to the one that was taken.
    Source: Keras 2.3 `backend.in_test_phase`.

    >>> K.eval(K.in_test_phase(K.constant(1.0), K.constant(2.0)))
    array(1., dtype=float32)
    """
    return in_train_phase(alt, x, training)


# ------------------------------------------------------------------ order of evaluation


def control_dependencies(
    control_inputs: Tensor | Sequence[Tensor | None] | None,
) -> contextlib.AbstractContextManager[None]:
    """Tensors made inside the block are evaluated after the given updates were stored.

    Arguments:
        control_inputs: an update op or tensor, or a list or tuple of them; None is none.
    Returns:
        A context manager.
    Raises:
        ArgumentError: anything else.
    Source: Keras 2.3 `backend.control_dependencies`.

    >>> count = K.variable(0)
    >>> with K.control_dependencies([K.update_add(count, 1)]):
    ...     after = count * 10
    >>> float(K.eval(after))
    10.0
    """
    items = control_inputs if isinstance(control_inputs, (list, tuple)) else [control_inputs]
    given: list[Tensor] = []
    for item in items:
        if isinstance(item, Tensor):
            given.append(item)
        elif item is not None:
            raise ArgumentError(f"needs update ops or tensors, got {shown(item)}")
    return _waiting_for(tuple(given))


@contextlib.contextmanager
def _waiting_for(given: tuple[Tensor, ...]) -> Iterator[None]:
    before = controlled_by(())
    controlled_by((*before, *given))
    try:
        yield
    finally:
        controlled_by(before)
