"""The record of an operation and the four decorators that declare one; `apply` makes the nodes.

Every record is complete when built: rule, NumPy form, gradient. The decorated function becomes the
public function, and its docstring the public documentation.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.engine import config, session
from kbench.engine.errors import ArgumentError, DtypeError
from kbench.engine.kernels import scalars
from kbench.engine.spec import (
    SMALL,
    Axis,
    Spec,
    broadcast,
    check_axes,
    dtype_name,
    is_float,
    promote,
    reduced_shape,
)
from kbench.engine.tensor import Operand, Tensor

Gradient = Callable[..., tuple[Any, ...]]
REGISTRY: dict[str, Op] = {}


@dataclass(frozen=True, eq=False)
class Op:
    """One operation.

    `infer(*specs, **attrs)` gives the Spec of the result or raises; `numpy(out, *arrays, **attrs)`
    fills `out`, or allocates when it is None, and returns the result; `gradient(g, y, *inputs,
    **attrs)` gives one entry for each input. `lower(specs, attrs)` may name a cheaper operation
    once every shape is known. `names` are the operands' names in `expr`; `tier` is what
    the plan view calls its NumPy form, and `work(*specs, **attrs)` the FLOP of each element of the
    result where it is not one. An op that is not `pure` is never folded, shared or dropped.
    """

    name: str
    kind: str
    infer: Callable[..., Spec]
    numpy: Callable[..., Any]
    gradient: Gradient | None
    expr: str | None = None
    fold: str | None = None
    lower: Callable[..., tuple[Op, dict[str, Any], tuple[int, ...]] | None] | None = None
    pure: bool = True
    allocates: bool = False
    names: tuple[str, ...] = ("x",)
    tier: str = "numpy"
    work: Callable[..., int] | None = None

    @property
    def type(self) -> str:
        return self.name


def register(op: Op) -> Op:
    """Enter a complete record; a name is used once."""
    if op.name in REGISTRY:
        raise RuntimeError(f"op {op.name!r} is declared twice")
    REGISTRY[op.name] = op
    return op


# ------------------------------------------------------------------ constants and conversion


def _no_numpy(out: Any, *_arrays: Any, **_attrs: Any) -> Any:
    raise RuntimeError("a source has no NumPy form")


def _no_infer(*_specs: Spec, **_attrs: Any) -> Spec:
    raise RuntimeError("the Spec of a source is given")


CONSTANT = register(Op("constant", "source", _no_infer, _no_numpy, None))


class Constant(Tensor):
    """A tensor whose value is part of the graph."""

    kind = "constant"
    _phase_flag = False

    @property
    def value(self) -> np.ndarray:
        return self.attrs["value"]  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.attrs["value"], dtype=dtype)


def known_value(array: np.ndarray) -> tuple[int, ...] | None:
    """The entries of a small integer array, to be followed as a static value."""
    if array.dtype.kind in "iu" and array.ndim <= 1 and array.size <= SMALL:
        return tuple(array.ravel().tolist())
    return None


def constant_node(value: np.ndarray, name: str | None = None, place: Any = None) -> Tensor:
    """A constant that owns `value`; the caller hands over an array nobody else changes."""
    value.flags.writeable = False
    spec = Spec(value.shape, value.dtype.name, known_value(value))
    return Constant(CONSTANT, (), {"value": value}, spec, name, place)


def to_array(value: Any) -> np.ndarray:
    """Anything array-like as an array of a dtype that kbench has; DtypeError otherwise."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"not an array: {error}") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DtypeError(
            f"{array.dtype} is no dtype of kbench (value of type {type(value).__name__})"
        )
    return array


def _is_weak(value: Any) -> bool:
    return isinstance(value, (bool, int, float, list, tuple)) and not isinstance(value, np.generic)


def adopt_dtype(value: Any, array: np.ndarray, dtype: str) -> str:
    """The dtype that a non-tensor takes beside a tensor of `dtype`."""
    kind = array.dtype.kind
    if kind == "f":
        if is_float(dtype):
            return dtype
        return config.floatx() if _is_weak(value) else array.dtype.name
    if kind == "b":
        return "bool" if dtype == "bool" else dtype
    if dtype == "bool":
        return "int32" if _is_weak(value) else array.dtype.name
    return dtype


def as_tensor(value: Operand, dtype: str | None = None, like: str | None = None) -> Tensor:
    """A tensor of `value`: tensors as they are, anything else as a constant.

    `dtype` forces a dtype; `like` is the dtype of a neighbour that Python numbers, lists and
    arrays adopt. A list that holds tensors is stacked.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return REGISTRY_FUNCTIONS["stack"](list(value))  # type: ignore[no-any-return]
    if hasattr(value, "tocoo"):
        raise DtypeError("a sparse matrix is no operand here; use K.variable or K.to_dense")
    array = to_array(value)
    if dtype is None:
        dtype = adopt_dtype(value, array, like) if like is not None else _own_dtype(value, array)
    if array.dtype.kind in "iu" and dtype in ("bool", "float16", "float32", "float64"):
        return constant_node(array.astype(dtype))
    return constant_node(_exact_cast(array, dtype))


def _exact_cast(array: np.ndarray, dtype: str) -> np.ndarray:
    target = np.dtype(dtype)
    if target.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(target)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise DtypeError(f"value {array.ravel()[:3].tolist()} does not fit into {dtype}")
    with np.errstate(over="ignore"):
        return np.array(array, dtype=dtype)


def _own_dtype(value: Any, array: np.ndarray) -> str:
    if not _is_weak(value):
        return array.dtype.name
    if array.dtype.kind == "f":
        return config.floatx()
    return "int32" if array.dtype.kind in "iu" else array.dtype.name


REGISTRY_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Offer a public function to lower files by name (only `stack` and `cast` need it)."""
    REGISTRY_FUNCTIONS[function.__name__] = function
    return function


def tensors_of(*values: Operand) -> list[Tensor]:
    """Operands of one elementwise operation: non-tensors adopt the dtype of the tensors."""
    like: str | None = None
    for value in values:
        if isinstance(value, Tensor):
            like = value.spec.dtype if like is None else promote(like, value.spec.dtype)
    return [as_tensor(value, like=like) for value in values]


# ------------------------------------------------------------------ making nodes


def apply(op: Op, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Tensor:
    """A node of `op`; its rule sees only Specs and raises at the user's line."""
    spec = op.infer(*[one.spec for one in inputs], **attrs)
    return Tensor(op, inputs, attrs, spec, name)


_folding = threading.local()


def _elementwise_value(op: Op, specs: tuple[Spec, ...], dtype: str) -> tuple[int, ...] | None:
    """The known result of integer arithmetic on known operands."""
    if dtype not in ("int32", "int64") or not all(spec.known for spec in specs):
        return None
    if max(spec.ndim for spec in specs) > 1 or op.name in ("floordiv", "mod"):
        divisor = specs[-1].value or ()
        if 0 in divisor:
            return None
    arrays = [
        np.array(spec.value, dtype=spec.dtype).reshape([size or 0 for size in spec.shape])
        for spec in specs
    ]
    return known_value(np.asarray(op.numpy(None, *arrays), dtype=dtype))


# ------------------------------------------------------------------ the four kinds


def _result_dtype(rule: str, dtype: str) -> tuple[str, str]:
    """(dtype of the operands, dtype of the result) of an elementwise rule."""
    if rule == "float":
        dtype = dtype if is_float(dtype) else config.floatx()
        return dtype, dtype
    if rule == "number":
        dtype = "int32" if dtype == "bool" else dtype
        return dtype, dtype
    if rule == "divide":
        if not is_float(dtype):
            dtype = "float32" if dtype in ("int8", "uint8", "int16", "uint16") else "float64"
            dtype = config.floatx() if dtype == "bool" else dtype
        return dtype, dtype
    if rule == "compare":
        return dtype, "bool"
    if rule == "bool":
        return "bool", "bool"
    return dtype, dtype


def elementwise(
    expr: str, dtype: str, gradient: Gradient | None
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """Declare an elementwise op by an expression over its parameters' names.

    `dtype` is the rule: "float" (integers become floatx), "number" (bool becomes int32), "same",
    "divide", "compare" (bool result) or "bool".
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Tensor]:
        names = tuple(inspect.signature(function).parameters)
        run = allocating(expr, names, dtype in ("compare", "bool"))

        def infer(*specs: Spec) -> Spec:
            shape = specs[0].shape if len(specs) == 1 else broadcast(*[s.shape for s in specs])
            result = "bool" if dtype in ("compare", "bool") else specs[-1].dtype
            return Spec(shape, result, _elementwise_value(op, specs, result))

        name = function.__name__.lstrip("_")
        op = register(Op(name, "elementwise", infer, run, gradient, expr, names=names))

        @functools.wraps(function)
        def public(*operands: Operand) -> Tensor:
            if len(operands) != len(names):
                raise ArgumentError(f"takes {len(names)} operands, got {len(operands)}")
            tensors = tensors_of(*operands)
            common = functools.reduce(promote, [one.spec.dtype for one in tensors])
            wanted, _ = _result_dtype(dtype, common)
            return apply(op, *[converted(one, wanted) for one in tensors])

        public.op = op  # type: ignore[attr-defined]
        public.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return _with_keywords(public, names)

    return declare


def allocating(expr: str, names: tuple[str, ...], boolean: bool) -> Callable[..., np.ndarray]:
    """The NumPy form of an expression that also works without a given `out`."""
    form = scalars.numpy_form(expr, names, "bool" if boolean else "same")

    def run(out: np.ndarray | None, *arrays: np.ndarray) -> np.ndarray:
        if out is None:
            shape = np.broadcast_shapes(*[one.shape for one in arrays])
            out = np.empty(shape, np.bool_ if boolean else arrays[-1].dtype)
        form(out, *arrays)
        return out

    return run


def _with_keywords(public: Callable[..., Tensor], names: tuple[str, ...]) -> Callable[..., Tensor]:
    @functools.wraps(public)
    def call(*operands: Operand, **keywords: Operand) -> Tensor:
        if not keywords:
            return public(*operands)
        unknown = set(keywords) - set(names[len(operands) :])
        if unknown:
            raise TypeError(f"{public.__name__}() got an unexpected argument {unknown.pop()!r}")
        rest = [keywords[name] for name in names[len(operands) :] if name in keywords]
        return public(*operands, *rest)

    return call


def converted(tensor: Tensor, dtype: str) -> Tensor:
    """`tensor` in another dtype, itself when it has it; constants are converted at once."""
    if tensor.spec.dtype == dtype:
        return tensor
    if isinstance(tensor, Constant):
        with np.errstate(all="ignore"):
            return constant_node(tensor.value.astype(dtype), place=tensor.place)
    return REGISTRY_FUNCTIONS["cast"](tensor, dtype)  # type: ignore[no-any-return]


def reduction(
    fold: str,
    numpy: Callable[..., Any],
    dtype: str,
    gradient: Gradient | None,
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """Declare a reduction over axes by the name of its fold and its NumPy form.

    `numpy(x, axis, keepdims, out)` reduces; `fold` names the step that the kernels know ("sum",
    "max" ...). `dtype` is the rule: "same", "number" or "bool".
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Tensor]:
        def infer(x: Spec, *, axis: tuple[int, ...], keepdims: bool) -> Spec:
            result = "bool" if dtype == "bool" else x.dtype
            value = None
            if x.known and fold in ("prod", "sum") and x.value is not None:
                entries = np.array(x.value, dtype=np.int64)
                total = int(entries.prod() if fold == "prod" else entries.sum())
                value = (total,) if axis else None
            return Spec(reduced_shape(x.shape, axis, keepdims), result, value)

        def run(out: Any, x: np.ndarray, *, axis: tuple[int, ...], keepdims: bool) -> Any:
            with np.errstate(all="ignore"):
                return numpy(x, axis, keepdims, out)

        name = function.__name__
        op = register(Op(name, "reduction", infer, run, gradient, fold=fold))

        @functools.wraps(function)
        def public(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
            tensor = as_tensor(x)
            axes = check_axes(axis, tensor.ndim)
            wanted, _ = _result_dtype(dtype, tensor.spec.dtype)
            return apply(op, converted(tensor, wanted), axis=axes, keepdims=bool(keepdims))

        public.op = op  # type: ignore[attr-defined]
        return public

    return declare


def view(
    name: str,
    infer: Callable[..., Spec],
    numpy: Callable[..., np.ndarray],
    gradient: Gradient | None,
) -> Op:
    """Declare a strided window on the first input: `numpy(x, *rest, **attrs)` returns the view."""

    def run(out: Any, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
        return numpy(*arrays, **attrs)

    return register(Op(name, "view", infer, run, gradient, allocates=True))


def structured(
    name: str,
    infer: Callable[..., Spec],
    numpy: Callable[..., Any],
    gradient: Gradient | None,
    **options: Any,
) -> Op:
    """Declare an op with a kernel of its own: `numpy(out, *arrays, **attrs)`."""
    return register(Op(name, "structured", infer, numpy, gradient, **options))


def dtype_or_floatx(dtype: object) -> str:
    """The dtype named by an argument, None meaning `floatx()`."""
    return config.floatx() if dtype is None else dtype_name(dtype)


def controlled_by(controls: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Set the tensors that nodes made from now on wait for; returns those before."""
    before: tuple[Tensor, ...] = getattr(session._local, "controls", ())
    session._local.controls = controls
    return before
