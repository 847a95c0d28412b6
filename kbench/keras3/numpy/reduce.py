"""Folds over axes: sums, means, extremes, and what skips NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype

from kbench import backend as K
from kbench.api.operations import ShapeError
from kbench.keras3.calls.host import common_dtype, dtype_of, operand
from kbench.keras3.calls.planned import planned
from kbench.keras3.complex_numbers.parts import by_parts
from kbench.keras3.complex_numbers.refusal import is_complex, real_only, refused, spec_of
from kbench.keras3.numpy import elementwise
from kbench.keras3.numpy.elementwise import array_in, float_type
from kbench.keras3.tensor import PARTS, finish, in_dtype, is_traced, place_of

_WIDER = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
"""The dtypes in which integers are added and multiplied up."""


_PLAIN = {name: np.dtype(name) for name in ("float32", "float64", "int32", "int64", "bool")}
"""Dtypes in which NumPy folds arrays as they are."""


def total_dtype(x: Any) -> str:
    dtype = common_dtype(x)
    return _WIDER.get(dtype, dtype)


def axes_of(axis: Any, x: Any) -> Any:
    """Axes of `x` as the engine and NumPy take them; AxisError for one of a scalar.

    NumPy lets folds of a scalar have an axis 0, which neither the engine nor Keras on JAX does.
    """
    if axis is None:
        return None
    if not isinstance(axis, int):
        axis = tuple(int(one) for one in axis) if hasattr(axis, "__iter__") else int(axis)
    if axis != () and not getattr(x, "shape", ()):
        raise np.exceptions.AxisError(axis[0] if isinstance(axis, tuple) else axis, 0)
    return axis


def some_to_choose_from(name: str, x: Any, axis: Any) -> None:
    """ShapeError where one of the elements over axes is asked for, and there are none."""
    shape = getattr(x, "shape", ())
    if 0 not in shape:
        return
    axes = axes_of(axis, x)
    axes = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    for place in axes:
        if -len(shape) <= place < len(shape) and shape[place] == 0:  # others are told elsewhere
            told = f"x is {spec_of(x)}, and axis {place} has no elements to choose from"
            raise ShapeError(told, function=name)


def _fold(x: Any, build: Any, form: Any, dtype: str, axis: Any, keepdims: bool) -> Any:
    """A fold of a traced value or of an array, in a dtype."""
    axis = axes_of(axis, x)
    if type(x) is np.ndarray and x.dtype is _PLAIN.get(dtype):
        with np.errstate(all="ignore"):
            return np.asarray(form(x, axis=axis, keepdims=keepdims), x.dtype)
    if is_traced(x) and dtype in PARTS:
        return by_parts(lambda node: build(node, axis=axis, keepdims=bool(keepdims)), [x], dtype)
    if is_traced(x):
        return finish(build(in_dtype(x, dtype), axis=axis, keepdims=bool(keepdims)), dtype)
    array = array_in(x, dtype)
    wide = np.float32 if array.dtype == np.float16 else array.dtype
    with np.errstate(all="ignore"):
        return np.asarray(form(array.astype(wide), axis=axis, keepdims=keepdims)).astype(dtype)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum over axes; narrow integers are added up in 32 bits."""
    x = operand(x)
    return _fold(x, K.sum, np.add.reduce, total_dtype(x), axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """The product over axes."""
    x = operand(x)
    wanted = total_dtype(x) if dtype is None else standardize_dtype(dtype)
    if wanted in PARTS and is_traced(x):
        return _complex_prod(elementwise.cast(x, wanted), axes_of(axis, x), keepdims)
    return _fold(x, K.prod, np.multiply.reduce, wanted, axis, keepdims)


def _complex_prod(x: Any, axis: Any, keepdims: bool) -> Any:
    """Products of halves, so that the gradient at a zero is right, too."""
    from kbench.keras3.numpy.layout import concatenate, moveaxis, reshape

    rank = len(x.shape)
    axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    places = [place_of(i, rank) for i in axes]
    kept = [i for i in range(rank) if i not in places]
    sizes = tuple(x.shape[i] for i in kept)
    count = int(np.prod([x.shape[i] for i in places], dtype=int))
    shape = tuple(1 if i in places else x.shape[i] for i in range(rank))
    if not count:
        return np.ones(shape if keepdims else sizes, x.dtype)
    x = reshape(moveaxis(x, kept, list(range(len(kept)))), (*sizes, count))
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        found = elementwise.multiply(x[..., :half], x[..., half : 2 * half])
        x = concatenate([found, x[..., 2 * half :]], -1) if x.shape[-1] % 2 else found
    return reshape(x, shape if keepdims else sizes)


_added: Any = np.add.reduce


def _mean(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """`np.mean` of floats, which takes longer to begin than small arrays take to add up."""
    total = _added(x, axis=axis, keepdims=keepdims)
    return total / (x.size / total.size if total.size else 1.0)


def _var(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """`np.var` likewise."""
    away = x - _mean(x, axis, True)
    return _mean(away * away, axis, keepdims)


def _std(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    return np.sqrt(_var(x, axis, keepdims))


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean over axes."""
    x = operand(x)
    return _fold(x, K.mean, _mean, float_type(x), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance over axes, of complex numbers that of their distances from the mean."""
    x = operand(x)
    if is_complex(x):
        return mean(_squared_distances(x, mean(x, axis, True)), axis, keepdims)
    return _fold(x, K.var, _var, float_type(x), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation over axes."""
    x = operand(x)
    if is_complex(x):
        return elementwise.sqrt(var(x, axis, keepdims))
    return _fold(x, K.std, _std, float_type(x), axis, keepdims)


def _squared_distances(x: Any, center: Any) -> Any:
    """The squares of the sizes of differences, which are real."""
    from kbench.keras3.numpy.curves import imag, real

    away = elementwise.subtract(x, center)
    return elementwise.add(elementwise.square(real(away)), elementwise.square(imag(away)))


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether every element along axes counts as true."""
    return _fold(operand(x), K.all, np.logical_and.reduce, "bool", axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element along axes counts as true."""
    return _fold(operand(x), K.any, np.logical_or.reduce, "bool", axis, keepdims)


def _extreme(name: str, build: Any, form: Any, between: Any) -> Callable[..., Any]:
    def fold(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        x = operand(x)
        axis, dtype = axes_of(axis, x), common_dtype(x)
        if dtype in PARTS:
            raise refused(x, name)
        if initial is None:
            some_to_choose_from(name, x, axis)
        if not is_traced(x):
            if initial is None and type(x) is np.ndarray and x.dtype is _PLAIN.get(dtype):
                return np.asarray(form(x, axis=axis, keepdims=keepdims))
            start = {} if initial is None else {"initial": array_in(initial, dtype)}
            found = form(array_in(x, dtype), axis=axis, keepdims=keepdims, **start)
            return np.asarray(found).astype(dtype)
        as_bool = dtype == "bool"  # the engine folds numbers
        node = in_dtype(x, "int32" if as_bool else dtype)
        found = finish(build(node, axis=axis, keepdims=bool(keepdims)), dtype)
        return found if initial is None else between(found, elementwise.cast(initial, dtype))

    return fold


max = _extreme("max", K.max, np.maximum.reduce, elementwise.maximum)
min = _extreme("min", K.min, np.minimum.reduce, elementwise.minimum)
_amax = _extreme("amax", K.max, np.maximum.reduce, elementwise.maximum)
_amin = _extreme("amin", K.min, np.minimum.reduce, elementwise.minimum)


def amax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element along axes."""
    return _amax(x, axis, keepdims)


def amin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element along axes."""
    return _amin(x, axis, keepdims)


@planned
def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest less the smallest element over axes."""
    x = operand(x)
    real_only("ptp", x=x)
    some_to_choose_from("ptp", x, axis)
    return elementwise.subtract(max(x, axis, keepdims), min(x, axis, keepdims))


@planned
def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean over an axis, by weights of the shape of `x`, or one for each entry of the axis."""
    x = operand(x)
    if weights is None:
        return mean(x, axis)
    weights = operand(weights)
    dtype = float_type(x, weights)
    x, weights = elementwise.cast(x, dtype), elementwise.cast(weights, dtype)
    if axis is not None and len(weights.shape) != len(x.shape):
        from kbench.keras3.numpy.layout import reshape

        sizes = [1] * len(x.shape)
        sizes[axis] = weights.shape[0]
        weights = reshape(weights, tuple(sizes))
    total = sum(elementwise.multiply(x, weights), axis)
    ones = elementwise.multiply(weights, np.ones(x.shape, dtype))
    return elementwise.divide(total, sum(ones, axis))


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The place of the largest element, the first of equals."""
    return _place("argmax", np.argmax, K.argmax, x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The place of the smallest element, the first of equals."""
    return _place("argmin", np.argmin, K.argmin, x, axis, keepdims)


def _place(name: str, form: Any, build: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    x = operand(x)
    real_only(name, x=x)
    axis = axes_of(axis, x)
    some_to_choose_from(name, x, axis)
    if not is_traced(x):
        array = array_in(x, common_dtype(x))
        return np.asarray(form(array, axis=axis, keepdims=keepdims)).astype("int32")
    sizes = (1,) * x.ndim if axis is None else _with_one(x.shape, axis)
    node = K.reshape(x.node, (-1,)) if axis is None else x.node
    found = K.cast(build(node, axis or 0), "int32")
    return finish(K.reshape(found, sizes) if keepdims else found, "int32")


def _with_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    place = place_of(axis, len(shape))
    return (*shape[:place], 1, *shape[place + 1 :])


@planned
def count_nonzero(x: Any, axis: Any = None) -> Any:
    """How many elements over axes are not zero."""
    return sum(elementwise.cast(elementwise.not_equal(x, 0), "int32"), axis)


def _running(x: Any, build: Any, form: Any, axis: Any, dtype: Any) -> Any:
    x = operand(x)
    axis = axes_of(axis, x)
    wanted = common_dtype(x) if dtype is None else standardize_dtype(dtype)
    wanted = "int32" if wanted == "bool" else wanted
    if is_traced(x) and wanted in PARTS:
        return _complex_running(x, build, axis, wanted)
    if not is_traced(x):
        array = array_in(x, wanted)
        wide = np.float32 if array.dtype == np.float16 else array.dtype
        return form(array.astype(wide), axis=axis, dtype=wide).astype(wanted)
    node = in_dtype(x, wanted)
    if axis is None:
        node, axis = K.reshape(node, (-1,)), 0
    return finish(build(node, axis), wanted)


def _complex_running(x: Any, build: Any, axis: Any, dtype: str) -> Any:
    """Running sums by parts, running products in logarithmic depth."""
    from kbench.keras3.control.api import associative_scan
    from kbench.keras3.numpy.layout import ravel

    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    x = elementwise.cast(x, dtype)
    if build is K.cumsum:
        return by_parts(lambda node: build(node, axis), [x], dtype)
    return associative_scan(elementwise.multiply, x, axis=axis)


def cumsum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The sums of the elements so far along an axis; of all elements without one."""
    return _running(x, K.cumsum, np.cumsum, axis, dtype)


def cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The products of the elements so far along an axis; of all elements without one."""
    return _running(x, K.cumprod, np.cumprod, axis, dtype)


# ------------------------------------------------------------------ what skips NaN


def _filled(x: Any, value: float) -> Any:
    """A number in place of each NaN."""
    x = operand(x)
    if "float" not in str(dtype_of(x)) and not is_complex(x):
        return x
    return elementwise.where(elementwise.isnan(x), elementwise.cast(value, dtype_of(x)), x)


def _counted(x: Any, axis: Any, keepdims: bool) -> Any:
    there = elementwise.logical_not(elementwise.isnan(x))
    return sum(elementwise.cast(there, "int32"), axis, keepdims)


@planned
def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of what is not NaN."""
    return sum(_filled(x, 0.0), axis, keepdims)


@planned
def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product of what is not NaN."""
    return prod(_filled(x, 1.0), axis, keepdims)


def nancumsum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Sums of the elements so far, NaN as 0."""
    return cumsum(_filled(x, 0.0), axis, dtype)


def nancumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Products of the elements so far, NaN as 1."""
    return cumprod(_filled(x, 1.0), axis, dtype)


@planned
def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of what is not NaN."""
    x = operand(x)
    dtype = float_type(x)
    x = elementwise.cast(x, "float32" if dtype in ("float16", "bfloat16") else dtype)
    total = elementwise.divide(nansum(x, axis, keepdims), _counted(x, axis, keepdims))
    return elementwise.cast(total, dtype)


@planned
def nanvar(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance of what is not NaN."""
    x = operand(x)
    dtype = float_type(x)
    x = elementwise.cast(x, "float32" if dtype in ("float16", "bfloat16") else dtype)
    center = nanmean(x, axis, True)
    if is_complex(x):
        away, dtype = _squared_distances(x, center), PARTS[dtype]
    else:
        away = elementwise.square(elementwise.subtract(x, center))
    total = elementwise.divide(nansum(away, axis, keepdims), _counted(x, axis, keepdims))
    return elementwise.cast(total, dtype)


@planned
def nanstd(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation of what is not NaN."""
    return elementwise.sqrt(nanvar(x, axis, keepdims))


def _nan_extreme(name: str, fold: Any, worst: float) -> Callable[..., Any]:
    @planned
    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = operand(x)
        real_only(name, x=x)
        some_to_choose_from(name, x, axis)
        if "float" not in str(dtype_of(x)):
            return fold(x, axis, keepdims)
        found = fold(_filled(x, worst), axis, keepdims)
        empty = elementwise.equal(_counted(x, axis, keepdims), 0)
        return elementwise.where(empty, elementwise.cast(np.nan, dtype_of(x)), found)

    return reduced


nanmax = _nan_extreme("nanmax", max, -np.inf)
nanmin = _nan_extreme("nanmin", min, np.inf)


def _nan_place(name: str, fold: Any, worst: float) -> Callable[..., Any]:
    @planned
    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = operand(x)
        real_only(name, x=x)
        some_to_choose_from(name, x, axis)
        found = fold(_filled(x, worst), axis, keepdims)
        if "float" not in str(dtype_of(x)):
            return found
        empty = elementwise.equal(_counted(x, axis, keepdims), 0)
        return elementwise.where(empty, elementwise.cast(-1, "int32"), found)

    return reduced


nanargmax = _nan_place("nanargmax", argmax, -np.inf)
nanargmin = _nan_place("nanargmin", argmin, np.inf)
