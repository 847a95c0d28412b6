"""`keras.ops` of arrays, as far as they are there; any other raises NotImplementedError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

from kbench import backend as K
from kbench.engine.ops.elementwise.arithmetic import where as _where
from kbench.keras3.tensor import Traced, node_of, operation


def dtype_of(x: Any) -> Any:
    return standardize_dtype(x.dtype) if hasattr(x, "dtype") else type(x)


def in_dtype(x: Any, dtype: str) -> Any:
    """The node of an operand in a dtype."""
    if isinstance(x, (bool, int, float)):
        return K.constant(x, dtype=dtype)
    return K.cast(node_of(x), dtype)


def _float_type(*operands: Any) -> str:
    found = result_type(*map(dtype_of, operands), float)
    return str(config.floatx() if found == "int64" else found)


def _binary(name: str, build: Callable[..., Any], kind: str = "same") -> Callable[..., Any]:
    @operation
    def call(x1: Any, x2: Any) -> Traced:
        dtype = _float_type(x1, x2) if kind == "float" else result_type(dtype_of(x1), dtype_of(x2))
        if kind == "number" and dtype == "bool":
            dtype = "int32"
        return Traced(build(in_dtype(x1, dtype), in_dtype(x2, dtype)))

    call.__name__ = name
    return call


def _unary(name: str, build: Callable[..., Any], kind: str = "float") -> Callable[..., Any]:
    @operation
    def call(x: Any) -> Traced:
        dtype = _float_type(x) if kind == "float" else result_type(dtype_of(x))
        return Traced(build(in_dtype(x, dtype)))

    call.__name__ = name
    return call


add = _binary("add", lambda x, y: x | y if x.dtype == "bool" else x + y)
subtract = _binary("subtract", lambda x, y: x - y)
multiply = _binary("multiply", lambda x, y: x & y if x.dtype == "bool" else x * y)
divide = true_divide = _binary("divide", lambda x, y: x / y, "float")
floor_divide = _binary("floor_divide", lambda x, y: x // y, "number")
mod = _binary("mod", lambda x, y: x % y, "number")
power = _binary("power", K.pow, "number")
maximum = _binary("maximum", K.maximum)
minimum = _binary("minimum", K.minimum)
equal = _binary("equal", K.equal)
not_equal = _binary("not_equal", K.not_equal)
less = _binary("less", K.less)
less_equal = _binary("less_equal", K.less_equal)
greater = _binary("greater", K.greater)
greater_equal = _binary("greater_equal", K.greater_equal)
matmul = _binary("matmul", lambda x, y: x @ y, "number")


def _quotient_or_zero(x: Any, y: Any) -> Any:
    """x / y, 0 where y is 0, and so are its derivatives there."""
    zero = K.equal(y, 0)
    return _where(zero, 0.0, x / _where(zero, 1.0, y))


divide_no_nan = _binary("divide_no_nan", _quotient_or_zero, "float")
exp = _unary("exp", K.exp)
log = _unary("log", K.log)
# K.sqrt gives 0 for negatives, Keras 3 NaN.
sqrt = _unary("sqrt", lambda x: _where(x < 0, np.nan, K.sqrt(x)))
sin = _unary("sin", K.sin)
cos = _unary("cos", K.cos)
tanh = _unary("tanh", K.tanh)
square = _unary("square", K.square, "same")
negative = _unary("negative", lambda x: -x, "same")
absolute = abs = _unary("absolute", K.abs, "same")


@operation
def where(condition: Any, x1: Any = None, x2: Any = None) -> Traced:
    if x1 is None or x2 is None:
        raise NotImplementedError("where: the form of one argument is not available on kbench")
    dtype = result_type(dtype_of(x1), dtype_of(x2))
    mask = in_dtype(condition, "bool")
    return Traced(_where(mask, in_dtype(x1, dtype), in_dtype(x2, dtype)))


_WIDER = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
"""The dtypes in which integers are added and multiplied up."""


def _total_dtype(x: Any) -> str:
    dtype = str(result_type(dtype_of(x)))
    return _WIDER.get(dtype, dtype)


@operation
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    return Traced(K.sum(in_dtype(x, _total_dtype(x)), axis=axis, keepdims=keepdims))


@operation
def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Traced:
    wanted = _total_dtype(x) if dtype is None else standardize_dtype(dtype)
    return Traced(K.prod(in_dtype(x, wanted), axis=axis, keepdims=keepdims))


@operation
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    return Traced(K.mean(in_dtype(x, _float_type(x)), axis=axis, keepdims=keepdims))


@operation
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    node = node_of(x)
    if axis is None or keepdims:
        raise NotImplementedError("argmax: axis=None and keepdims are not available on kbench")
    return Traced(K.cast(K.argmax(node, axis), "int32"))


@operation
def clip(x: Any, x_min: Any, x_max: Any) -> Traced:
    dtype = result_type(dtype_of(x), dtype_of(x_min), dtype_of(x_max))
    low, high = in_dtype(x_min, dtype), in_dtype(x_max, dtype)
    return Traced(K.minimum(K.maximum(in_dtype(x, dtype), low), high))


@operation
def reshape(x: Any, newshape: Any) -> Traced:
    return Traced(K.reshape(node_of(x), newshape))


@operation
def broadcast_to(x: Any, shape: Any) -> Traced:
    node = node_of(x)
    known = tuple(size or 0 for size in node.spec.shape)
    if np.broadcast_shapes(known, tuple(shape)) != tuple(shape):
        raise ValueError(f"broadcast_to: x is {node.spec}, which has no shape {tuple(shape)}")
    chosen = K.constant(np.ones(tuple(shape), np.bool_), dtype="bool")
    return Traced(_where(chosen, node, K.constant(0, dtype=node.spec.dtype)))


@operation
def expand_dims(x: Any, axis: int) -> Traced:
    return Traced(K.expand_dims(node_of(x), axis))


@operation
def squeeze(x: Any, axis: Any = None) -> Traced:
    if not isinstance(axis, int):
        raise NotImplementedError("squeeze: only one axis is available on kbench")
    return Traced(K.squeeze(node_of(x), axis))


@operation
def transpose(x: Any, axes: Any = None) -> Traced:
    node = node_of(x)
    return Traced(K.permute_dimensions(node, axes or tuple(range(node.ndim))[::-1]))


def zeros(shape: Any, dtype: Any = None) -> np.ndarray:
    return np.zeros(shape, standardize_dtype(dtype or config.floatx()))


def ones(shape: Any, dtype: Any = None) -> np.ndarray:
    return np.ones(shape, standardize_dtype(dtype or config.floatx()))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> np.ndarray:
    return np.full(shape, fill_value, standardize_dtype(dtype or config.floatx()))


def zeros_like(x: Any, dtype: Any = None) -> np.ndarray:
    return np.zeros(x.shape, standardize_dtype(dtype or x.dtype))


def ones_like(x: Any, dtype: Any = None) -> np.ndarray:
    return np.ones(x.shape, standardize_dtype(dtype or x.dtype))


def array(x: Any, dtype: Any = None) -> Any:
    from kbench.keras3.core import convert_to_tensor

    return convert_to_tensor(x, dtype=dtype)


def size(x: Any) -> int:
    return int(np.prod(x.shape))


def ndim(x: Any) -> int:
    return len(x.shape)


def __getattr__(name: str) -> Any:
    return absent("keras.ops", name)


def absent(where: str, name: str) -> Any:
    """A function that says that it is not there."""
    if not name.islower() or name.startswith("_"):  # not a function of Keras
        raise AttributeError(name)

    def missing(*_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError(f"{where}.{name} is not available on the kbench backend yet")

    return missing


_REFLECTED = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": power}
_REFLECTED |= {"floordiv": floor_divide, "mod": mod, "matmul": matmul}
_COMPARED = {"eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater}
_COMPARED |= {"ge": greater_equal}
for _word, _function in {**_REFLECTED, **_COMPARED}.items():
    setattr(Traced, f"__{_word}__", lambda x, y, f=_function: f(x, y))
for _word, _function in _REFLECTED.items():
    setattr(Traced, f"__r{_word}__", lambda x, y, f=_function: f(y, x))
setattr(Traced, "__neg__", lambda x: negative(x))  # noqa: B010
setattr(Traced, "__abs__", lambda x: absolute(x))  # noqa: B010
