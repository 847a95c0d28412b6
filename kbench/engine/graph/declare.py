"""The four decorators that declare an operation: elementwise, reduction, view, structured.

Each builds a complete record and turns the decorated function into the public function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, cast

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, KbenchError
from kbench.engine.core.spec import (
    Spec,
    broadcast,
    check_axes,
    checked_flag,
    dense,
    is_float,
    promote,
    reduced_shape,
)
from kbench.engine.core.types import Axes, Axis
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted, known_value, tensors_of
from kbench.engine.graph.expr.expression import Expr, name_leaf, parse
from kbench.engine.graph.expr.numpy_form import ArrayFunction, bare_form, numpy_form
from kbench.engine.graph.float_nodes import maker
from kbench.engine.graph.op import Gradient, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along
from kbench.engine.graph.traits.laws import Law
from kbench.engine.graph.traits.roles import Role
from kbench.engine.runtime import config


def _elementwise_spec(op: Op, specs: tuple[Spec, ...], boolean: bool) -> Spec:
    """What operands of one dtype broadcast to."""
    shape = specs[0].shape
    for spec in specs:
        if spec.shape != shape and spec.shape:
            shape = broadcast(*[operand.shape for operand in specs])
            break
    result = "bool" if boolean else specs[-1].dtype
    value = _elementwise_value(op, specs) if result in ("int32", "int64") else None
    return dense(shape, result) if value is None else Spec(shape, result, value)


def _elementwise_value(op: Op, specs: tuple[Spec, ...]) -> tuple[int, ...] | None:
    """The known result of integer arithmetic on known operands."""
    if not all(spec.known for spec in specs):
        return None
    dtype = specs[-1].dtype
    arrays = [
        np.array(spec.value, dtype=spec.dtype).reshape([size or 0 for size in spec.shape])
        for spec in specs
    ]
    try:
        return known_value(np.asarray(op.numpy(None, *arrays), dtype=dtype))
    except KbenchError:  # told at evaluation
        return None


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
    return dtype, dtype


P = ParamSpec("P")
"""The arguments of a declared function, which the public one has as well."""


Reducer = Callable[[np.ndarray, Axes, bool, np.ndarray | None], np.ndarray]
"""The NumPy form of a reduction: `reducer(x, axis, keepdims, out)`."""


class Declared(Protocol[P]):
    """The public function of a declared operation, which carries the record."""

    op: Op
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...


def elementwise(
    expr: str,
    dtype: str,
    gradient: Gradient | None,
    check: Callable[..., None] | None = None,
    laws: tuple[Law, ...] = (),
    role: Role | None = None,
) -> Callable[[Callable[P, Tensor]], Declared[P]]:
    """Declare an elementwise op by an expression over its parameters' names.

    `dtype` is the rule: "float" (integers become floatx), "number" (bool becomes int32), "same",
    "divide", "compare" (bool result) or "bool". `check` sees the arrays before they are used, and
    raises. `laws` simplify its nodes, and `role` is what it is to passes.
    """

    def declare(function: Callable[P, Tensor]) -> Declared[P]:
        names = tuple(inspect.signature(function).parameters)
        boolean = dtype in ("compare", "bool")
        tree = parse(expr, names)
        run = allocating(tree, names, boolean, check)

        def infer(*specs: Spec) -> Spec:
            return _elementwise_spec(op, specs, boolean)

        name, count = function.__name__.lstrip("_"), len(names)
        traits: dict[str, Any] = {"laws": laws, "checks": check is not None, "role": role}
        op = register(Op(name, "elementwise", infer, run, gradient, tree, names=names, **traits))
        make = None if dtype == "bool" else maker(op, boolean)

        @functools.wraps(function)
        def public(*operands: Operand, **keywords: Operand) -> Tensor:
            if keywords:
                operands = _in_order(public, names, operands, keywords)
            if len(operands) != count:
                told = f"{count} operand{'s' * (count > 1)} ({', '.join(names)})"
                raise ArgumentError(f"takes {told}, got {len(operands)}")
            if dtype == "bool":
                tensors = tensors_of(*operands)
                _need_bool(op, tensors)
                return apply(op, *tensors)
            if make is not None:  # every rule but that leaves floats
                node = make(*operands)
                if node is not None:
                    return node
            tensors = tensors_of(*operands)
            common = functools.reduce(promote, [tensor.spec.dtype for tensor in tensors])
            wanted, _ = _result_dtype(dtype, common)
            return apply(op, *[converted(tensor, wanted) for tensor in tensors])

        public.op = op  # type: ignore[attr-defined]
        public.quick = make  # type: ignore[attr-defined]
        public.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return cast(Declared[P], public)

    return declare


def _need_bool(op: Op, operands: list[Tensor]) -> None:
    power = "; the power is **" if op.name == "logical_xor" else ""
    for name, operand in zip(op.names, operands, strict=True):
        if operand.spec.dtype != "bool":
            raise DtypeError(
                f"{name} is {operand.spec}, but logical operators need bool{power}; "
                f"K.not_equal({name}, 0) is True where a number is not 0",
                suggestion=f"K.not_equal({name}, 0)",
            )


# Functions of `allocating` without a check -> the form that they run, without what it adds. Kept
# here, not as attributes, which a function wrapped around one of them would seem to have too.
BARE: dict[Callable[..., object], ArrayFunction] = {}


def allocating(
    expr: Expr, names: tuple[str, ...], boolean: bool, check: Callable[..., None] | None = None
) -> Callable[..., np.ndarray]:
    """The NumPy form of an expression that also works without a given `out`."""
    form = numpy_form(expr, tuple(map(name_leaf, names)), "bool" if boolean else "same")

    def run(out: np.ndarray | None, *arrays: np.ndarray) -> np.ndarray:
        if check is not None:
            check(*arrays)
        if out is None:
            shape = np.broadcast_shapes(*[array.shape for array in arrays])
            out = np.empty(shape, np.bool_ if boolean else arrays[-1].dtype)
        form(out, *arrays)
        return out

    if check is None:
        BARE[run] = bare_form(form)
    return run


def _in_order(
    public: Callable[..., Tensor],
    names: tuple[str, ...],
    operands: tuple[Operand, ...],
    keywords: dict[str, Operand],
) -> tuple[Operand, ...]:
    """All operands by position."""
    unknown = set(keywords) - set(names[len(operands) :])
    if unknown:
        raise TypeError(f"{public.__name__}() got an unexpected argument {unknown.pop()!r}")
    return *operands, *[keywords[name] for name in names[len(operands) :] if name in keywords]


def reduction(
    fold: str,
    numpy: Reducer,
    dtype: str,
    gradient: Gradient | None,
) -> Callable[[Callable[P, Tensor]], Declared[P]]:
    """Declare a reduction over axes by the name of its fold and its NumPy form.

    `numpy(x, axis, keepdims, out)` reduces; `fold` names the step that the kernels know ("sum",
    "max" ...). `dtype` is the rule: "same", "number" or "bool".
    """

    def declare(function: Callable[P, Tensor]) -> Declared[P]:
        def infer(x: Spec, *, axis: tuple[int, ...], keepdims: bool) -> Spec:
            result = "bool" if dtype == "bool" else x.dtype
            value = None
            if x.known and fold in ("prod", "sum") and x.value is not None:
                entries = np.array(x.value, dtype=x.dtype)  # sums wrap as they do at run time
                total = np.add.reduce(entries) if fold == "sum" else np.multiply.reduce(entries)
                value = (int(total.astype(x.dtype)),) if axis else None
            return Spec(reduced_shape(x.shape, axis, keepdims), result, value)

        def run(
            out: np.ndarray | None, x: np.ndarray, *, axis: tuple[int, ...], keepdims: bool
        ) -> np.ndarray:
            return numpy(x, axis, keepdims, out)

        name = function.__name__
        op = register(
            Op(
                name,
                "reduction",
                infer,
                run,
                gradient,
                fold=fold,
                role=Role.FOLD,
                batched=batched_along("axis"),
            )
        )

        @functools.wraps(function)
        def public(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
            tensor = as_tensor(x)
            axes = check_axes(axis, tensor.ndim)
            wanted, _ = _result_dtype(dtype, tensor.spec.dtype)
            kept = checked_flag(keepdims, "keepdims")
            return apply(op, converted(tensor, wanted), axis=axes, keepdims=kept)

        public.op = op  # type: ignore[attr-defined]
        return cast(Declared[P], public)

    return declare


def view(
    name: str,
    infer: Callable[..., Spec],
    numpy: Callable[..., np.ndarray],
    gradient: Gradient | None,
    **options: Any,
) -> Op:
    """Declare a strided window on the first input: `numpy(x, *rest, **attrs)` returns the view."""

    def run(out: object, *arrays: np.ndarray, **attrs: object) -> np.ndarray:
        return numpy(*arrays, **attrs)

    return register(Op(name, "view", infer, run, gradient, allocates=True, **options))


def structured(
    name: str,
    infer: Callable[..., Spec],
    numpy: Callable[..., object],
    gradient: Gradient | None,
    **options: Any,
) -> Op:
    """Declare an op with a kernel of its own: `numpy(out, *arrays, **attrs)`."""
    return register(Op(name, "structured", infer, numpy, gradient, **options))
