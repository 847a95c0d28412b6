"""Random numbers: one op for each distribution, drawn anew at every evaluation.

Every node owns a place in the sequence of its seed, and moves on when it is evaluated; within one
evaluation it has one value. The numbers come from `sampling.py`.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core import memory_limit
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import INTEGERS, Spec, dtype_name, is_float
from kbench.engine.core.types import Ints, KernelCall, Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, dtype_or_floatx, plain_array
from kbench.engine.graph.op import KernelFactory, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.variables import Variable
from kbench.engine.ops.elementwise.arithmetic import cast, where
from kbench.engine.ops.elementwise.compare import less
from kbench.engine.ops.layout.shape import shape_operand
from kbench.engine.ops.random.sampling import (
    Stream,
    fill_below,
    fill_integers,
    fill_kernel,
    fill_normal,
    fill_truncated,
    fill_uniform,
)

# ------------------------------------------------------------------ the ops


def _drawn_infer(*target: Spec, dtype: str, shape: Shape = (), **_attrs: object) -> Spec:
    if target:
        sizes = target[0].value
        return Spec(sizes if sizes is not None else (None,) * (target[0].shape[0] or 0), dtype)
    return Spec(shape, dtype)


def _distribution(name: str, fill: KernelCall, kernel: str | None = None) -> Op:
    """The op of a distribution; `kernel` is the kind of numbers that it has a compiled form of."""

    def run(
        out: np.ndarray | None,
        *target: np.ndarray,
        stream: Stream,
        dtype: str,
        shape: Ints = (),
        **numbers: float,
    ) -> np.ndarray:
        if out is None:
            sizes = tuple(target[0].tolist()) if target else shape
            if any(size < 0 for size in sizes):
                raise ShapeError(f"shape must not hold negative sizes, got {sizes}")
            memory_limit.require_array(
                sizes, np.dtype(dtype).itemsize, f"{name} {dtype}{list(sizes)}"
            )
            out = np.empty(sizes, dtype)
        with np.errstate(over="ignore"):
            fill(out, stream, **numbers)
        return out

    def gradient(g: Tensor, y: Tensor, *target: Tensor, **_attrs: object) -> tuple[None, ...]:
        return (None,) * len(target)

    def select(
        *target: Spec, stream: Stream, dtype: str, shape: Shape = (), **numbers: float
    ) -> KernelFactory | None:
        drawn = _drawn_infer(*target, dtype=dtype, shape=shape)
        return None if kernel is None else fill_kernel(kernel, drawn, stream, **numbers)

    return register(Op(name, "structured", _drawn_infer, run, gradient, pure=False, kernel=select))


UNIFORM = _distribution("random_uniform", fill_uniform, "uniform")
UNIFORM_INTEGERS = _distribution("random_integers", fill_integers, "integers")
NORMAL = _distribution("random_normal", fill_normal, "normal")
TRUNCATED = _distribution("truncated_normal", fill_truncated, "truncated")
BINOMIAL = _distribution("random_binomial", fill_below, "below")


def _draw(
    op: Op, kind: str, shape: Operand, dtype: str, seed: int | None, **numbers: float
) -> Tensor:
    sizes, stream = shape_operand(shape), Stream(seed, kind)
    if isinstance(sizes, Tensor):
        return apply(op, sizes, name=None, stream=stream, dtype=dtype, **numbers)
    return apply(op, name=None, stream=stream, dtype=dtype, shape=sizes, **numbers)


# ------------------------------------------------------------------ arguments


def finite_number(value: Operand, name: str) -> float | Tensor:
    """A finite number, or a tensor for everything that is none."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, int):
        if value.bit_length() > 1000:  # beyond all floats, or nearly so
            raise ArgumentError(f"{name} must be finite, got {shown(value)}")
        return value
    array = plain_array(value)
    if array is None or array.dtype.kind not in "biuf":
        raise ArgumentError(f"{name} must be a number or a tensor, got {shown(value)}")
    if array.size != 1:
        return as_tensor(value)
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} must be finite, got {shown(value)}")
    number: float = array.item()
    return number


def _float_dtype(dtype: str | None) -> str:
    wanted = dtype_or_floatx(dtype)
    if not is_float(wanted):
        raise DtypeError(f"dtype must be float16, float32 or float64, got {wanted}")
    return wanted


def _fitting(result: Tensor, drawn: Tensor) -> Tensor:
    """Parameters that are tensors must broadcast over the shape asked for, not widen it."""
    if result.ndim != drawn.ndim or any(
        None not in (a, b) and a != b
        for a, b in zip(result.spec.shape, drawn.spec.shape, strict=True)
    ):
        raise ShapeError(f"parameters do not fit {drawn.spec}: the result would be {result.spec}")
    return result


# ------------------------------------------------------------------ uniform


def random_uniform(
    shape: Operand,
    minval: Operand = 0.0,
    maxval: Operand = 1.0,
    dtype: str | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers that are equally likely anywhere in [minval, maxval).

    Arguments:
        shape: sizes, or an integer vector tensor.
        minval, maxval: the bounds; whole numbers when `dtype` is an integer. Tensors broadcast.
        dtype: floats or integers; None means `floatx()`.
        seed: the same seed gives the same sequence; None draws one from `numpy.random`.
    Returns:
        Tensor with new values at every evaluation.
    Raises:
        ArgumentError: bounds in the wrong order, not finite, or not of the dtype.
        DtypeError: dtype bool.
    Gradient: to bounds that are tensors.
    Source: Keras 2.3 `backend.random_uniform`.

    >>> x = K.eval(K.random_uniform((100,), minval=2, maxval=5, dtype="int32", seed=1))
    >>> sorted(set(x.tolist()))
    [2, 3, 4]
    """
    wanted = dtype_or_floatx(dtype)
    low, high = finite_number(minval, "minval"), finite_number(maxval, "maxval")
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        drawn = _draw(UNIFORM, "uniform", shape, _float_dtype(wanted), seed, low=0.0, high=1.0)
        result = low + (high - as_tensor(low, like=wanted)) * drawn
        return _fitting(where(less(result, high), result, low), drawn)
    if wanted in INTEGERS:
        low, high = _whole_bounds(low, high, wanted)
        return _draw(UNIFORM_INTEGERS, "integers", shape, wanted, seed, low=low, high=high)
    with np.errstate(over="ignore"):
        span = np.dtype(_float_dtype(wanted)).type(high) - np.dtype(wanted).type(low)
    if high < low or not np.isfinite(span):
        raise ArgumentError(f"needs minval <= maxval within {wanted}, got {low} and {high}")
    return _draw(UNIFORM, "uniform", shape, wanted, seed, low=float(low), high=float(high))


def _whole_bounds(low: float, high: float, dtype: str) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    if low != int(low) or high != int(high):
        raise ArgumentError(f"bounds of {dtype} must be whole numbers, got {low} and {high}")
    if not (limits.min <= low < high <= int(limits.max) + 1):
        raise ArgumentError(f"needs minval < maxval within {dtype}, got {low} and {high}")
    return int(low), int(high)


def random_uniform_variable(
    shape: Operand,
    low: float,
    high: float,
    dtype: str | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> Variable:
    """A variable that starts with numbers equally likely in [low, high).

    Arguments:
        shape: integers.
        low, high: the bounds.
        dtype: None means `floatx()`.
        name: of the variable.
        seed: an integer for the same numbers in every run, or None.
    Returns:
        Variable of that shape.
    Raises:
        ShapeError, ArgumentError, DtypeError: as `random_uniform`; the shape must be known.
    Gradient: to the variable, as to any.
    Source: Keras 2.3 `backend.random_uniform_variable`.

    >>> K.int_shape(K.random_uniform_variable((2, 3), -1.0, 1.0))
    (2, 3)
    """
    return Variable(random_uniform(shape, low, high, dtype, seed).eval(), name)


# ------------------------------------------------------------------ normal


def _normal(
    op: Op,
    kind: str,
    shape: Operand,
    mean: Operand,
    stddev: Operand,
    dtype: str | None,
    seed: int | None,
) -> Tensor:
    wanted = _float_dtype(dtype)
    centre, spread = finite_number(mean, "mean"), finite_number(stddev, "stddev")
    if isinstance(centre, Tensor) or isinstance(spread, Tensor):
        drawn = _draw(op, kind, shape, wanted, seed, mean=0.0, stddev=1.0)
        return _fitting(drawn * spread + centre, drawn)
    if spread < 0:
        raise ArgumentError(f"stddev must not be negative, got {spread}")
    return _draw(op, kind, shape, wanted, seed, mean=float(centre), stddev=float(spread))


def random_normal(
    shape: Operand,
    mean: Operand = 0.0,
    stddev: Operand = 1.0,
    dtype: str | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers from the normal distribution.

    Arguments:
        shape: sizes, or an integer vector tensor.
        mean, stddev: numbers, or tensors that broadcast.
        dtype: a float dtype; None means `floatx()`.
        seed: the same seed gives the same sequence; None draws one from `numpy.random`.
    Returns:
        Tensor with new values at every evaluation.
    Raises:
        ArgumentError: negative `stddev`, or a parameter that is not finite.
        DtypeError: dtype not float.
    Gradient: to parameters that are tensors.
    Source: Keras 2.3 `backend.random_normal`; the method is Box and Muller's.

    >>> x = K.random_normal((3,), seed=1)
    >>> K.eval(x).tolist() == K.eval(x).tolist()
    False
    """
    return _normal(NORMAL, "normal", shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Operand,
    mean: Operand = 0.0,
    stddev: Operand = 1.0,
    dtype: str | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers from the normal distribution within two standard deviations of its mean.

    Arguments:
        shape: integers, or a tensor.
        mean, stddev: numbers or tensors.
        dtype: None means `floatx()`.
        seed: an integer for the same numbers in every run, or None.
    Returns:
        Tensor of that shape, drawn anew at each evaluation.
    Raises:
        ShapeError, ArgumentError, DtypeError: as `random_normal`.
    Gradient: to `mean` and `stddev` when they are tensors.
    Source: Keras 2.3 `backend.truncated_normal`.

    >>> float(abs(K.eval(K.truncated_normal((10000,), seed=1))).max().round(2))
    2.0
    """
    return _normal(TRUNCATED, "truncated", shape, mean, stddev, dtype, seed)


def random_normal_variable(
    shape: Operand,
    mean: float,
    scale: float,
    dtype: str | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> Variable:
    """A variable that starts with numbers from the normal distribution.

    Arguments:
        shape: integers.
        mean: of the distribution.
        scale: its standard deviation.
        dtype: None means `floatx()`.
        name: of the variable.
        seed: an integer for the same numbers in every run, or None.
    Returns:
        Variable of that shape.
    Raises:
        ShapeError, ArgumentError, DtypeError: as `random_normal`; the shape must be known.
    Gradient: to the variable, as to any.
    Source: Keras 2.3 `backend.random_normal_variable`.

    >>> K.int_shape(K.random_normal_variable((2, 3), 0.0, 1.0))
    (2, 3)
    """
    return Variable(random_normal(shape, mean, scale, dtype, seed).eval(), name)


# ------------------------------------------------------------------ yes or no


def random_binomial(
    shape: Operand, p: Operand = 0.0, dtype: str | None = None, seed: int | None = None
) -> Tensor:
    """Ones with probability `p`, zeros otherwise.

    Arguments:
        shape: sizes, or an integer vector tensor.
        p: number from 0 to 1, or a tensor that broadcasts.
        dtype: of the result; None means `floatx()`.
        seed: the same seed gives the same sequence; None draws one from `numpy.random`.
    Returns:
        Tensor with new values at every evaluation.
    Raises:
        ArgumentError: `p` is not between 0 and 1.
    Gradient: none.
    Source: Keras 2.3 `backend.random_binomial`: one trial, despite the name.

    >>> K.eval(K.random_binomial((8,), p=0.5, seed=1))
    array([0., 0., 0., 0., 0., 1., 1., 1.], dtype=float32)
    """
    wanted, chance = dtype_or_floatx(dtype), finite_number(p, "p")
    if isinstance(chance, Tensor):
        drawn = _draw(UNIFORM, "binomial", shape, "float32", seed, low=0.0, high=1.0)
        return _fitting(cast(less(drawn, chance), wanted), drawn)
    if not 0 <= chance <= 1:
        raise ArgumentError(f"p must be between 0 and 1, got {shown(p)}")
    return _draw(BINOMIAL, "binomial", shape, dtype_name(wanted), seed, p=float(chance))


def random_bernoulli(
    shape: Operand, p: Operand = 0.0, dtype: str | None = None, seed: int | None = None
) -> Tensor:
    """Ones with probability `p`, else zeros: another name of `random_binomial`.

    Arguments:
        shape: integers, or a tensor.
        p: number or tensor, the probability of a one.
        dtype: None means `floatx()`.
        seed: an integer for the same numbers in every run, or None.
    Returns:
        Tensor of that shape with 0 and 1, drawn anew at each evaluation.
    Raises:
        ShapeError, ArgumentError, DtypeError: as `random_binomial`.
    Gradient: none.
    Source: `tf_keras.backend.random_bernoulli`.

    >>> K.eval(K.random_bernoulli((8,), p=0.25, seed=2))
    array([0., 1., 0., 0., 0., 1., 0., 1.], dtype=float32)
    """
    return random_binomial(shape, p, dtype, seed)
