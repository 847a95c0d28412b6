"""Batch normalization: with the statistics of the batch itself, or with given ones."""

from __future__ import annotations

from msgspec import Struct

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import check_axes, check_axis, is_float
from kbench.engine.core.types import Axes, Axis
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.arithmetic import add, cast, multiply
from kbench.engine.ops.elementwise.elementary import sqrt
from kbench.engine.ops.layout.reshape import expand_dims, reshape, squeeze
from kbench.engine.ops.reduce.moments import mean, var
from kbench.engine.runtime.config import floatx


def _floating(x: Operand) -> Tensor:
    tensor = as_tensor(x)
    return tensor if is_float(tensor.spec.dtype) else converted(tensor, floatx())


def _wide(x: Tensor) -> Tensor:
    """float32 in place of float16, in which a small epsilon is 0."""
    return cast(x, "float32") if x.spec.dtype == "float16" else x


def _checked(name: str, value: Tensor, x: Tensor) -> Tensor:
    """`value`, when broadcasting it over `x` leaves the shape of `x`."""
    fits = value.ndim <= x.ndim and all(
        ours in (None, 1) or theirs is None or ours == theirs
        for ours, theirs in zip(value.spec.shape[::-1], x.spec.shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(f"{name} is {value.spec}, which does not fit x, {x.spec}")
    return value


def _scaled(
    x: Tensor,
    centre: Tensor,
    spread: Tensor,
    factors: tuple[Tensor | None, Tensor | None],
    e: float,
) -> Tensor:
    """(x - centre) / sqrt(spread + e) * gamma + beta."""
    gamma, beta = [None if factor is None else _wide(factor) for factor in factors]
    slope = 1 / sqrt(spread + e)
    if gamma is not None:
        slope = multiply(slope, gamma)
    result = multiply(x - centre, slope)
    return result if beta is None else add(result, beta)


# ------------------------------------------------------------------ statistics of the batch


class BatchMoments(Struct, frozen=True):
    """What is known of a batch normalization, for whoever spreads a batch over several workers.

    It is kept with the variance that is used, and with the one that is returned.
    """

    x: Tensor  # what is normalized
    axes: Axes
    epsilon: float
    centre: Tensor  # its mean and variance, with the reduced axes as 1
    spread: Tensor


def _kept_shape(name: str, value: Operand | None, x: Tensor, axes: Axes) -> Tensor | None:
    """A scale or offset of the shape of the axes that are kept, spread over the others."""
    if value is None:
        return None
    tensor = as_tensor(value, like=x.spec.dtype)
    if tensor.ndim == x.ndim - len(axes) and tensor.ndim:
        for axis in axes:
            tensor = expand_dims(tensor, axis)
    return _checked(name, tensor, x)


def normalize_batch_in_training(
    x: Operand,
    gamma: Operand | None,
    beta: Operand | None,
    reduction_axes: Axis,
    epsilon: float = 1e-3,
) -> tuple[Tensor, Tensor, Tensor]:
    """`x` with mean 0 and variance 1 over some axes, then scaled and moved.

    Arguments:
        x: any shape; integers become `floatx()`, float16 has its statistics in float32.
        gamma, beta: scale and offset of the shape of the axes that are kept, or None.
        reduction_axes: the axes over which mean and variance are taken.
        epsilon: added to the variance.
    Returns:
        (normed, mean, variance): of the shape of `x`, and twice of the axes that are kept. The
        variance is divided by the number of elements, not by one less.
    Raises:
        ShapeError: no such axis, or `gamma` or `beta` does not fit.
    Gradient: to `x`, `gamma` and `beta`, through the statistics as well.
    Source: Keras 2.3 `backend.normalize_batch_in_training`.

    >>> x = K.constant([[0.0], [2.0]])
    >>> [K.eval(x).tolist() for x in K.normalize_batch_in_training(x, None, None, [0], 0.0)]
    [[[-1.0], [1.0]], [1.0], [1.0]]
    """
    tensor = _floating(x)
    axes = check_axes(reduction_axes, tensor.ndim)
    factors = tuple(
        _kept_shape(name, given, tensor, axes) for name, given in (("gamma", gamma), ("beta", beta))
    )
    wide = _wide(tensor)
    centre, spread = mean(wide, axes, keepdims=True), var(wide, axes, keepdims=True)
    normed = _scaled(wide, centre, spread, factors, epsilon)  # type: ignore[arg-type]
    moments = (centre, spread)
    for axis in reversed(axes):
        centre, spread = squeeze(centre, axis), squeeze(spread, axis)
    dtype = tensor.spec.dtype
    centre, spread = cast(centre, dtype), cast(spread, dtype)
    if axes:
        moments[1].batch_moments = spread.batch_moments = BatchMoments(
            wide, axes, epsilon, *moments
        )
    return cast(normed, dtype), centre, spread


# ------------------------------------------------------------------ given statistics


def batch_normalization(
    x: Operand,
    mean: Operand,
    var: Operand,
    beta: Operand | None,
    gamma: Operand | None,
    axis: int = -1,
    epsilon: float = 1e-3,
) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta.

    Arguments:
        x: any shape; integers become `floatx()`.
        mean, var, beta, gamma: broadcast against `x`; a vector belongs to `axis`. `beta` and
            `gamma` may be None.
        epsilon: added to the variance.
    Returns:
        Tensor of the shape of `x`.
    Raises:
        ShapeError: an operand does not fit `x`, or there is no such axis.
    Gradient: to every tensor given.
    Source: Keras 2.3 `backend.batch_normalization`.

    >>> K.eval(K.batch_normalization(K.constant([3.0]), 1.0, 4.0, 0.5, 2.0, epsilon=0.0))
    array([2.5], dtype=float32)
    """
    tensor = _floating(x)
    along = check_axis(axis, tensor.ndim) if tensor.ndim else 0
    centre, spread, offset, scale = (
        None if given is None else _along(name, given, tensor, along)
        for name, given in (("mean", mean), ("var", var), ("beta", beta), ("gamma", gamma))
    )
    if centre is None or spread is None:
        raise ShapeError(f"x is {tensor.spec}, but mean and var must be given")
    wide = _scaled(_wide(tensor), _wide(centre), _wide(spread), (scale, offset), epsilon)
    return cast(wide, tensor.spec.dtype) if tensor.spec.dtype == "float16" else wide


def _along(name: str, value: Operand, x: Tensor, axis: int) -> Tensor:
    """A vector moved to its axis; anything else as it is."""
    tensor = as_tensor(value, like=x.spec.dtype)
    if tensor.ndim == 1 and axis != x.ndim - 1:
        tensor = reshape(tensor, (-1, *(1,) * (x.ndim - 1 - axis)))
    return _checked(name, tensor, x)
