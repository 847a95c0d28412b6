"""Running sums and products along an axis, with gradients that hold where zeros are present.

The gradient of a running product is two recurrences, not a division: y[i] = a[i] y[i - 1] + x[i]
run backwards collects what every later product passes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.folds.summation import running
from kbench.engine.core.spec import Spec, check_axis
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.layout.reverse import reverse

MAX_SCALAR_RECURRENCES = 4
"""Recurrences side by side up to which Python's floats are faster than NumPy's rows."""


def _same(x: Spec, *_others: Spec, **_attrs: object) -> Spec:
    return Spec(x.shape, x.dtype)


def _stored(out: np.ndarray | None, value: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray:
    with np.errstate(all="ignore"):
        if out is None:
            return value.astype(dtype, copy=False)
        out[...] = value
    return out


def _accumulated(ufunc: np.ufunc) -> Callable[..., np.ndarray]:
    def run(out: np.ndarray | None, x: np.ndarray, *, axis: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            return running(ufunc, x, axis, out)

    return run


# ------------------------------------------------------------------ the recurrence


def _recur_numpy(out: np.ndarray | None, x: np.ndarray, a: np.ndarray, *, axis: int) -> np.ndarray:
    """y[i] = x[i] + a[i] y[i - 1] along `axis`, starting from 0; it runs in float64."""
    terms, factors = np.moveaxis(x, axis, 0), np.moveaxis(a, axis, 0)
    result = np.empty(terms.shape, x.dtype)
    with np.errstate(all="ignore"):
        if not result.size:
            pass  # however many rows of nothing
        elif result.size <= MAX_SCALAR_RECURRENCES * len(result):
            _recur_few(result, terms, factors)
        else:
            _recur_rows(result, terms, factors)
    return _stored(out, np.moveaxis(result, 0, axis), x.dtype)


def _recur_rows(result: np.ndarray, terms: np.ndarray, factors: np.ndarray) -> None:
    total = np.zeros(result.shape[1:])  # in float64, as `_recur_few`
    for i in range(len(result)):
        total *= factors[i]
        total += terms[i]
        result[i] = total
        if not i % 64:
            cancel.check()


def _recur_few(result: np.ndarray, terms: np.ndarray, factors: np.ndarray) -> None:
    for lane in np.ndindex(result.shape[1:]):
        column = (slice(None), *lane)
        pairs = zip(terms[column].tolist(), factors[column].tolist(), strict=True)
        chain = itertools.accumulate(pairs, _advance, initial=0.0)
        next(chain)
        result[column] = np.fromiter(chain, np.float64, len(result))
        cancel.check()


def _advance(before: float, pair: tuple[float, float]) -> float:
    return pair[0] + pair[1] * before


def _recur_gradient(
    g: Tensor, y: Tensor, x: Tensor, a: Tensor, *, axis: int
) -> tuple[Tensor | None, ...]:
    later = _recur_back(g, a, axis)
    return later, later * _shifted(y, axis, 0.0)


RECUR = register(Op("recurrence", "structured", _same, _recur_numpy, _recur_gradient))


def _recur_back(g: Tensor, a: Tensor, axis: int) -> Tensor:
    """y[i] = g[i] + a[i + 1] y[i + 1]: what position i adds to everything behind it."""
    turned = _shifted(reverse(a, axis), axis, 0.0)
    return reverse(apply(RECUR, reverse(g, axis), turned, axis=axis), axis)


# ------------------------------------------------------------------ moving by one


def _shift_numpy(out: np.ndarray | None, x: np.ndarray, *, axis: int, first: float) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, x.dtype)
    window, source = np.moveaxis(out, axis, 0), np.moveaxis(x, axis, 0)
    window[:1] = first
    window[1:] = source[:-1]
    return out


def _shift_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: int, first: float
) -> tuple[Tensor | None, ...]:
    return (reverse(_shifted(reverse(g, axis), axis, 0.0), axis),)


SHIFT = register(Op("shift", "structured", _same, _shift_numpy, _shift_gradient))


def _shifted(x: Tensor, axis: int, first: float) -> Tensor:
    """Every element one place later along `axis`, with `first` in front."""
    return apply(SHIFT, x, axis=axis, first=first)


# ------------------------------------------------------------------ running sums and products


def _cumsum_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> tuple[Tensor]:
    return (reverse(apply(CUMSUM, reverse(g, axis), axis=axis), axis),)


def _cumprod_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> tuple[Tensor]:
    return (_shifted(y, axis, 1.0) * _recur_back(g, x, axis),)


CUMSUM = register(Op("cumsum", "structured", _same, _accumulated(np.add), _cumsum_gradient))
CUMPROD = register(Op("cumprod", "structured", _same, _accumulated(np.multiply), _cumprod_gradient))


def _running(op: Op, x: Operand, axis: int) -> Tensor:
    tensor = as_tensor(x)
    along = check_axis(axis, tensor.ndim)
    if tensor.spec.dtype == "bool":
        tensor = converted(tensor, "int32")
    return apply(op, tensor, axis=along)


def cumsum(x: Operand, axis: int = 0) -> Tensor:
    """Running sum along `axis`: every element plus all before it.

    Arguments:
        x: rank 1 or more; bool counts as int32, floats are accumulated in float64.
        axis: integer; negative counts from the end.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        ShapeError: no such axis.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.cumsum`.

    >>> K.eval(K.cumsum(K.constant([1.0, 2.0, 3.0])))
    array([1., 3., 6.], dtype=float32)
    """
    return _running(CUMSUM, x, axis)


def cumprod(x: Operand, axis: int = 0) -> Tensor:
    """Running product along `axis`: every element times all before it.

    Arguments:
        x: rank 1 or more; bool counts as int32, floats are accumulated in float64.
        axis: integer; negative counts from the end.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        ShapeError: no such axis.
    Gradient: to `x`, right where zeros are present.
    Source: Keras 2.3 `backend.cumprod`.

    >>> K.eval(K.cumprod(K.constant([1.0, 2.0, 3.0])))
    array([1., 2., 6.], dtype=float32)
    """
    return _running(CUMPROD, x, axis)
