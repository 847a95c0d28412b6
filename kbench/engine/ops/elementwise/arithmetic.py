"""Arithmetic: the operators of Python and the elementary functions, element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError
from kbench.engine.core.spec import Spec, broadcast, dtype_name, is_float, promote
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import (
    REGISTRY_FUNCTIONS,
    Constant,
    as_tensor,
    converted,
    shared,
    tensors_of,
)
from kbench.engine.graph.declare import allocating, elementwise
from kbench.engine.graph.expr.expression import parse
from kbench.engine.graph.expr.numpy_form import ArrayFunction, numpy_form
from kbench.engine.graph.op import Gradient, Op, register
from kbench.engine.graph.tensor import Operand, Tensor, operator
from kbench.engine.graph.traits.laws import is_number, repeats_number, same_spec

# ------------------------------------------------------------------ dtype

_CAST_EXPR = parse("cast(x, '{dtype}')", ("x",))


def _cast_infer(x: Spec, *, dtype: str) -> Spec:
    if dtype not in ("int32", "int64") or x.value is None:
        return Spec(x.shape, dtype)
    wrapped = (None if entry is None else int(np.array(entry).astype(dtype)) for entry in x.value)
    return Spec(x.shape, dtype, tuple(wrapped))


@functools.cache
def _cast_form(dtype: str) -> ArrayFunction:
    return numpy_form(_CAST_EXPR.with_attrs({"dtype": dtype}), _CAST_EXPR.leaves, dtype)


def _cast_numpy(out: np.ndarray | None, x: np.ndarray, *, dtype: str) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, dtype)
    _cast_form(dtype)(out, x)
    return out


def _cast_gradient(g: Tensor, y: Tensor, x: Tensor, *, dtype: str) -> tuple[Tensor | None, ...]:
    if is_float(x.spec.dtype) and is_float(dtype):
        return (cast(g, x.spec.dtype),)
    return (None,)


def drop_widening_cast(node: Tensor) -> Tensor | None:
    """cast(cast(x, wider float), dtype of x) = x"""
    source = node.inputs[0]
    if source.op is not CAST:
        return None
    first, middle = source.inputs[0].spec.dtype, source.spec.dtype
    if node.spec.dtype != first or not (is_float(first) and is_float(middle)):
        return None
    return source.inputs[0] if np.promote_types(first, middle).name == middle else None


CAST: Op = register(
    Op(
        "cast",
        "elementwise",
        _cast_infer,
        _cast_numpy,
        _cast_gradient,
        _CAST_EXPR,
        laws=(drop_widening_cast,),
    )
)


@shared
def cast(x: Operand, dtype: str) -> Tensor:
    """`x` in another dtype.

    Arguments:
        x: tensor, array, list or number of any dtype and shape; a sparse one stays sparse.
        dtype: name of the dtype. Floats become integers by truncation; to bool means `!= 0`.
    Returns:
        Tensor of the shape of `x`; `x` itself when it has the dtype.
    Raises:
        DtypeError: unknown dtype.
    Gradient: between floats, cast back; none through integers or bool.
    Source: Keras 2.3 `backend.cast`.

    >>> K.eval(K.cast(K.constant([1.7, -1.7]), "int32"))
    array([ 1, -1], dtype=int32)
    """
    wanted = dtype_name(dtype)
    tensor = as_tensor(x)
    between_floats = is_float(tensor.spec.dtype) and is_float(wanted)
    if tensor.spec.dtype == wanted or (isinstance(tensor, Constant) and not between_floats):
        return converted(tensor, wanted)
    if tensor.spec.sparse:
        return REGISTRY_FUNCTIONS["cast_sparse"](tensor, wanted)  # type: ignore[no-any-return]
    return apply(CAST, tensor, dtype=wanted)


# ------------------------------------------------------------------ operators


@operator("__add__")
@elementwise("x + y", "number", lambda g, y_, x, y: (g, g))
def add(x: Operand, y: Operand) -> Tensor:
    """Sum of two operands, with broadcasting; also `x + y`. Gradient: to both."""


def drop_neutral_operand(node: Tensor) -> Tensor | None:
    """x / 1 = x - 0 = x"""
    x, y = node.inputs
    neutral = 1 if node.op.computes("divide") else 0
    if not is_number(y, neutral) or (neutral == 0 and np.signbit(y.attrs["value"]).any()):
        return None
    return x if same_spec(node, x) else None


@operator("__sub__")
@elementwise("x - y", "number", lambda g, y_, x, y: (g, -g), laws=(drop_neutral_operand,))
def subtract(x: Operand, y: Operand) -> Tensor:
    """Difference of two operands, with broadcasting; also `x - y`. Gradient: to both."""


def drop_neutral_factor(node: Tensor) -> Tensor | None:
    """x * 1 = 1 * x = x"""
    for factor, other in (node.inputs, node.inputs[::-1]):
        one = is_number(factor, 1) or repeats_number(factor, 1)
        if one and factor.ndim <= other.ndim and same_spec(node, other):
            return other
    return None


@operator("__mul__")
@elementwise("x * y", "number", lambda g, y_, x, y: (g * y, g * x), laws=(drop_neutral_factor,))
def multiply(x: Operand, y: Operand) -> Tensor:
    """Product of two operands, with broadcasting; also `x * y`. Gradient: to both."""


@operator("__truediv__")
@elementwise(
    "x / y", "divide", lambda g, y_, x, y: (g / y, -g * y_ / y), laws=(drop_neutral_operand,)
)
def divide(x: Operand, y: Operand) -> Tensor:
    """True quotient, with broadcasting; also `x / y`.

    int32 and int64 give float64, smaller integers float32. Gradient: to both.
    """


def _no_zero_division(run: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    @functools.wraps(run)
    def checked(out: np.ndarray | None, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if y.dtype.kind in "iu" and not np.all(y):
            raise ArgumentError("integer division by zero", function="//")
        return run(out, x, y)

    return checked


def _division_infer(x: Spec, y: Spec) -> Spec:
    added = add.op.infer(x, y)
    value, first, second = None, _known_scalar(x), _known_scalar(y)
    if first is not None and second:
        value = (int(np.array(first // second).astype(added.dtype)),)
    return Spec(added.shape, added.dtype, value)


def _known_scalar(spec: Spec) -> int | None:
    return spec.value[0] if spec.value is not None and spec.ndim == 0 else None


def _mod_infer(x: Spec, y: Spec) -> Spec:
    added = add.op.infer(x, y)
    return Spec(added.shape, added.dtype)


def _mod_gradient(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return g, -g * floor_divide(x, y)


def _integer_division(
    name: str, text: str, infer: Callable[[Spec, Spec], Spec], gradient: Gradient
) -> Op:
    names = ("x", "y")
    expr = parse(text, names)
    run = _no_zero_division(allocating(expr, names, boolean=False))
    return register(Op(name, "elementwise", infer, run, gradient, expr, names=names, checks=True))


def _no_slopes(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[None, None]:
    return None, None


FLOORDIV = _integer_division("floordiv", "x // y", _division_infer, _no_slopes)
MOD = _integer_division("mod", "x % y", _mod_infer, _mod_gradient)


def _number_operands(x: Operand, y: Operand) -> list[Tensor]:
    tensors = tensors_of(x, y)
    common = promote(tensors[0].spec.dtype, tensors[1].spec.dtype)
    return [converted(tensor, "int32" if common == "bool" else common) for tensor in tensors]


@operator("__floordiv__")
def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Quotient rounded down; also `x // y`. Integers keep their dtype.

    Raises:
        ArgumentError: at evaluation, integer division by zero.
    Gradient: none.
    """
    return apply(FLOORDIV, *_number_operands(x, y))


@operator("__mod__")
def mod(x: Operand, y: Operand) -> Tensor:
    """Remainder with the sign of the divisor; also `x % y`.

    Raises:
        ArgumentError: at evaluation, integer division by zero.
    Gradient: to both.
    """
    return apply(MOD, *_number_operands(x, y))


def drop_double_negation(node: Tensor) -> Tensor | None:
    """-(-x) = x"""
    inner = node.inputs[0]
    return inner.inputs[0] if inner.op is node.op else None


@operator("__neg__")
@elementwise("-x", "number", lambda g, y, x: (-g,), laws=(drop_double_negation,))
def negative(x: Operand) -> Tensor:
    """`-x`. Gradient: to `x`."""


@operator("__pos__")
def _positive(x: Tensor) -> Tensor:
    return x


# ------------------------------------------------------------------ bounds


def _maximum_gradient(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    first = x >= y
    return where(first, g, 0.0), where(first, 0.0, g)


def _minimum_gradient(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    first = x <= y
    return where(first, g, 0.0), where(first, 0.0, g)


@elementwise("maximum(x, y)", "same", _maximum_gradient)
def maximum(x: Operand, y: Operand) -> Tensor:
    """The larger of two operands, element by element, with broadcasting; NaN propagates.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor of the common shape and dtype.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: to the larger; at a tie wholly to `x`.
    Source: Keras 2.3 `backend.maximum`.

    >>> K.eval(K.maximum(K.constant([1.0, 5.0]), 3.0))
    array([3., 5.], dtype=float32)
    """


@elementwise("minimum(x, y)", "same", _minimum_gradient)
def minimum(x: Operand, y: Operand) -> Tensor:
    """The smaller of two operands, element by element, with broadcasting; NaN propagates.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor of the common shape and dtype.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: to the smaller; at a tie wholly to `x`.
    Source: Keras 2.3 `backend.minimum`.

    >>> K.eval(K.minimum(K.constant([1.0, 5.0]), 3.0))
    array([1., 3.], dtype=float32)
    """


def clip(x: Operand, min_value: Operand | None, max_value: Operand | None) -> Tensor:
    """`x` held between two bounds; NaN stays NaN.

    Arguments:
        x: any numeric dtype and shape.
        min_value, max_value: numbers or tensors, or None for a side that is open; when both are
            numbers and the upper is below the lower, the lower is used for both.
    Returns:
        Tensor of the shape and dtype of `x`, as far as the bounds do not widen them.
    Raises:
        ShapeError: the bounds do not broadcast over `x`. DtypeError: no array of numbers.
    Gradient: 1 inside and on the bounds, 0 outside.
    Source: Keras 2.3 `backend.clip`.

    >>> K.eval(K.clip(K.constant([-2.0, 0.5, 2.0]), 0.0, 1.0))
    array([0. , 0.5, 1. ], dtype=float32)
    """
    if isinstance(min_value, (int, float)) and isinstance(max_value, (int, float)):
        max_value = min_value if max_value < min_value else max_value
    result = as_tensor(x)
    if min_value is not None:
        result = maximum(result, min_value)
    if max_value is not None:
        result = minimum(result, max_value)
    return result


# ------------------------------------------------------------------ choice


def _where_infer(condition: Spec, x: Spec, y: Spec) -> Spec:
    return Spec(broadcast(condition.shape, x.shape, y.shape), y.dtype)


def _where_gradient(
    g: Tensor, out: Tensor, condition: Tensor, x: Tensor, y: Tensor
) -> tuple[Tensor | None, ...]:
    return None, where(condition, g, 0.0), where(condition, 0.0, g)


_WHERE_EXPR = parse("where(c, x, y)", ("c", "x", "y"))
WHERE = register(
    Op(
        "where",
        "elementwise",
        _where_infer,
        allocating(_WHERE_EXPR, ("c", "x", "y"), boolean=False),
        _where_gradient,
        _WHERE_EXPR,
        names=("c", "x", "y"),
    )
)


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """Element by element `x` where the condition holds, else `y`, with broadcasting.

    Gradient: to `x` and `y`.
    """
    first, second = tensors_of(x, y)
    common = promote(first.spec.dtype, second.spec.dtype)
    chooser = as_tensor(condition)
    if chooser.spec.dtype != "bool":
        raise DtypeError(f"the condition must be bool, got {chooser.spec}")
    return apply(WHERE, chooser, converted(first, common), converted(second, common))
