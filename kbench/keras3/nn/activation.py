"""Activations, composed of what the engine fuses."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import Tensor, where
from kbench.keras3.calls.host import common_dtype, host
from kbench.keras3.calls.planned import planned
from kbench.keras3.numpy import elementwise
from kbench.keras3.numpy.elementwise import float_type, of_floats
from kbench.keras3.tensor import finish, in_dtype, is_traced, place_of, plain

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""Those with which the mean 0 and the variance 1 stay: Klambauer et al. 2017, section 2."""


def _curve(build: Callable[..., Any], kind: str = "float") -> Callable[..., Any]:
    """A function on nodes as a function of Keras, in a float dtype or in that of `x`.

    Its numbers may be symbols, too: what a step computes, or a variable that is trained.
    """

    @planned
    def call(x: Any, *numbers: Any, **named: Any) -> Any:
        dtype = float_type(x) if kind == "float" else common_dtype(x)
        given = [_number(one, dtype) for one in numbers]
        options = {name: _number(one, dtype) for name, one in named.items()}
        return finish(build(in_dtype(x, dtype), *given, **options), dtype)

    call.__name__ = build.__name__
    call.__doc__ = build.__doc__
    setattr(call, "__signature__", inspect.signature(build))  # noqa: B010
    return call


def _number(value: Any, dtype: str) -> Any:
    value = plain(value)
    return in_dtype(value, dtype) if is_traced(value) else value


def _relu(x: Any) -> Any:
    return K.relu(x)


relu = _curve(_relu, "same")
sigmoid = _curve(K.sigmoid)
tanh = _curve(K.tanh)
softplus = _curve(K.softplus)
softsign = _curve(K.softsign)


def _relu6(x: Any) -> Any:
    return K.minimum(K.relu(x), 6)


relu6 = _curve(_relu6, "same")


def _sparse_sigmoid(x: Any) -> Any:
    return K.clip(0.5 * (x + 1), 0, 1)


sparse_sigmoid = _curve(_sparse_sigmoid)


def _tanh_shrink(x: Any) -> Any:
    return x - K.tanh(x)


tanh_shrink = _curve(_tanh_shrink)


def _soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    return where(x > threshold, x - threshold, where(x < -threshold, x + threshold, 0.0))


soft_shrink = _curve(_soft_shrink)


def _sparse_plus(x: Any) -> Any:
    return where(x <= -1, 0.0, where(x < 1, 0.25 * K.square(x + 1), x))


sparse_plus = _curve(_sparse_plus)


def _silu(x: Any) -> Any:
    return x * K.sigmoid(x)


silu = _curve(_silu)


def _squareplus(x: Any, b: Any = 4) -> Any:
    return (x + K.sqrt(x * x + b)) * 0.5


squareplus = _curve(_squareplus)


def _log_sigmoid(x: Any) -> Any:
    return -K.softplus(-x)


log_sigmoid = _curve(_log_sigmoid)


def _leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return where(x > 0, x, x * negative_slope)


leaky_relu = _curve(_leaky_relu)


def _hard_sigmoid(x: Any) -> Any:
    return K.clip(x / 6 + 0.5, 0, 1)


hard_sigmoid = _curve(_hard_sigmoid)


def _hard_silu(x: Any) -> Any:
    return x * _hard_sigmoid(x)


hard_silu = _curve(_hard_silu)


def _elu(x: Any, alpha: Any = 1.0) -> Any:
    if not isinstance(alpha, Tensor):
        return K.elu(x, alpha)
    return where(x > 0, x, alpha * K.elu(K.minimum(x, 0)))


elu = _curve(_elu)


def _selu(x: Any) -> Any:
    return SELU_SCALE * K.elu(x, SELU_ALPHA)


selu = _curve(_selu)


def _celu(x: Any, alpha: float = 1.0) -> Any:
    return K.maximum(x, 0) + alpha * K.elu(K.minimum(x, 0) / alpha)


celu = _curve(_celu)


def gelu(x: Any, approximate: bool = True) -> Any:
    """`x` times the chance that a normal number is smaller."""
    return _gelu_tanh(x) if approximate else _gelu_exact(x)


def _gelu_near(x: Any) -> Any:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + K.tanh(inner))


_gelu_tanh = _curve(_gelu_near)


@planned
def _gelu_exact(x: Any) -> Any:
    from kbench.keras3 import math as functions

    dtype = float_type(x)
    wide = finish(in_dtype(x, dtype), dtype)
    inner = elementwise.divide(wide, math.sqrt(2))
    chance = elementwise.multiply(elementwise.add(functions.erf(inner), 1.0), 0.5)
    return elementwise.multiply(wide, chance)


@planned
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of an axis, times the sigmoid of the second."""
    dtype = float_type(x)
    size = x.shape[axis]
    if size % 2:
        raise ValueError(f"glu: axis {axis} has {size} entries, which are not even")
    node = in_dtype(x, dtype)
    lead = (slice(None),) * place_of(axis, node.ndim)
    first, second = node[(*lead, slice(0, size // 2))], node[(*lead, slice(size // 2, size))]
    return finish(first * K.sigmoid(second), dtype)


def _hard_tanh(x: Any) -> Any:
    return K.clip(x, -1, 1)


hard_tanh = _curve(_hard_tanh)


def _hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    return where(K.abs(x) > threshold, x, 0.0)


hard_shrink = _curve(_hard_shrink)


def _threshold(x: Any, threshold: float, default_value: float) -> Any:
    return where(x > threshold, x, default_value)


threshold = _curve(_threshold)


def _by_axes(build: Callable[[Any, int], Any], x: Any, axis: Any) -> Any:
    """A function over one axis, over several as one, or over all."""
    dtype = float_type(x)
    node = in_dtype(x, dtype)
    rank = node.ndim
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = [place_of(i, rank) for i in given]
    if len(axes) == 1:
        return finish(build(node, axes[0]), dtype)
    rest = [i for i in range(rank) if i not in axes]
    order = [*rest, *axes]
    sizes = [node.spec.shape[i] for i in order]
    lined = K.reshape(K.permute_dimensions(node, order), (*sizes[: len(rest)], -1))
    found = K.reshape(build(lined, len(rest)), tuple(sizes))
    back = [order.index(i) for i in range(rank)]
    return finish(K.permute_dimensions(found, back), dtype)


@planned
def softmax(x: Any, axis: Any = -1) -> Any:
    """Exponentials as parts of their sum over axes."""
    return _by_axes(K.softmax, x, axis)


@planned
def log_softmax(x: Any, axis: Any = -1) -> Any:
    """The logarithm of `softmax`."""
    return _by_axes(lambda node, i: node - K.logsumexp(node, i, keepdims=True), x, axis)


def _sparsemax_rule(g: Any, y: Any, x: Any, axis: int = -1) -> Any:
    kept = K.cast(y > 0, g.spec.dtype)
    inside = K.sum(g * kept, axis=axis, keepdims=True) / K.sum(kept, axis=axis, keepdims=True)
    return (kept * (g - inside),)


@of_floats(1)
@host(1, _sparsemax_rule)
def sparsemax(x: Any, axis: int = -1) -> Any:
    """The nearest point whose entries are parts of one: many of them are zero."""
    if not x.size:
        return x
    ordered = np.flip(np.sort(x, axis), axis)
    count = np.arange(1, x.shape[axis] + 1)
    shape = [1] * x.ndim
    shape[axis] = -1
    count = count.reshape(shape)
    total = np.cumsum(ordered, axis) - 1
    support = (count * ordered > total).sum(axis, keepdims=True)
    limit = np.take_along_axis(total, support - 1, axis) / support
    return np.maximum(x - limit, 0)
