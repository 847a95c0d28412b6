"""Variables, placeholders and constants: what holds values and what is fed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kbench.engine.core import csr as sparse
from kbench.engine.core import fork_safety, memory_limit
from kbench.engine.core.csr import Csr, Held, sparse_dtype, sparse_shape
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import (
    MAX_AXES,
    Spec,
    check_rank,
    checked_flag,
    dense,
    integer,
    is_whole,
    show,
)
from kbench.engine.core.types import Shape
from kbench.engine.graph.convert import (
    REGISTRY_FUNCTIONS,
    Constant,
    cast_array,
    constant_node,
    converted,
    dtype_or_floatx,
    is_small_in_bytes,
    to_array,
)
from kbench.engine.graph.op import Op, no_infer, no_numpy, register
from kbench.engine.graph.protocols import checksums
from kbench.engine.graph.protocols.numpy_protocol import HoldsValue
from kbench.engine.graph.tensor import OPERATORS, Operand, Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.runtime import read_only
from kbench.engine.runtime.signal import Signal

changed = Signal("variables.changed")
store_lock = fork_safety.lock(
    awaited=True
)  # held while several variables are read or stored together
update_lock = fork_safety.lock()  # held from the reading to the storing of a call with updates

VARIABLE = register(Op("variable", "source", no_infer, no_numpy, None))
PLACEHOLDER = register(Op("placeholder", "source", no_infer, no_numpy, None))


class Stores:
    """How often variables were stored to, by whomever: tells whether anybody else has."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


stores = Stores()


class Variable(HoldsValue, Tensor):
    """A tensor with a value that stays between evaluations; `version` counts its changes.

    Members besides those of Tensor: `get_value`, `set_value`, `value`, `read_value`, `assign`,
    `assign_add`, `assign_sub`, `numpy`, `initializer`, `constraint`, `trainable`, `peek`.
    """

    kind = "variable"
    _phase_flag = False

    def __init__(
        self, value: Held, name: str | None, constraint: object = None, first: Tensor | None = None
    ) -> None:
        is_csr, dtype = sparse.is_csr(value), value.dtype.name
        spec = Spec(value.shape, dtype, sparse=True) if is_csr else dense(value.shape, dtype)
        super().__init__(VARIABLE, (), {}, spec, name)
        self._array: Held = value  # an array, or compressed rows when the variable is sparse
        self._first = first  # the tensor that it was made of, if that is kept
        self.version = 0
        self.constraint = constraint
        self.trainable = True

    def _held_state(self) -> dict[str, object]:
        """But for its value, which whoever asks takes together with that of others."""
        kept = {key: self.__dict__[key] for key in ("version", "constraint", "trainable")}
        first = self._first
        if isinstance(first, Constant) and not is_small_in_bytes(first.value):
            first = None  # as of any array that a variable is made of
        return {**kept, "_first": first}

    def _take_state(self, state: dict[str, Any]) -> None:
        told = state["checksum"]
        value = checksums.unharmed_value(state["_array"], self.spec, told, self.name.split(":")[0])
        self._array, self._first, self.version = value, state["_first"], state["version"]
        self.constraint, self.trainable = state["constraint"], state["trainable"]

    def peek(self) -> Held:
        """The value without a copy, read-only; it may change when the variable does."""
        array = self.held()
        if self.spec.sparse:
            return sparse.frozen(array)
        window = array.view()
        window.flags.writeable = False
        return window

    def store(self, array: Held) -> None:
        """Make `array` the value; the caller hands it over and has checked shape and dtype."""
        store_all([(self, array)])

    def get_value(self, borrow: bool = False) -> Held:
        """A copy of the value: an array, or of a sparse variable a SciPy matrix in CSR form."""
        return self.held().copy()

    numpy = get_value

    def held(self) -> Held:
        """The value as it is now; it does not change while somebody holds it."""
        with store_lock:
            return self._array

    def set_value(self, value: object, borrow: bool = False) -> None:
        """Store `value`, cast to the variable's dtype; ShapeError when the shape differs."""
        self.store(storable(self, value))

    def window(self) -> np.ndarray:
        """The value without a copy, read-only; of a sparse variable with its zeros."""
        return self.eval() if self.spec.sparse else self.peek()

    def value(self) -> Tensor:
        """A tensor that reads the variable."""
        return OPERATORS["identity"](self)

    read_value = value

    def assign(self, value: Operand) -> Tensor:
        return OPERATORS["assign"](self, value)

    def assign_add(self, value: Operand) -> Tensor:
        return OPERATORS["assign_add"](self, value)

    def assign_sub(self, value: Operand) -> Tensor:
        return OPERATORS["assign_sub"](self, value)

    @property
    def initializer(self) -> Tensor:
        """An update to the value it began with; random numbers, as of a layer, are drawn anew.

        ArgumentError when it was made of an array or of other variables and has changed: what it
        began with is not kept then.
        """
        if self._first is None and self.version:
            raise ArgumentError(
                f"variable {self.name!r} {self.spec} has changed, and was made of a value that is "
                "not kept; "
                "K.set_value stores its first value again",
                function="initializer",
            )
        return self.assign(self if self._first is None else self._first)


def storable(target: Variable, value: object) -> Held:
    """`value` as what `target` can hold, in memory of its own; ShapeError, DtypeError otherwise.

    A sparse variable takes matrices of SciPy in any format, and arrays, whose zeros it leaves out.
    """
    if sparse.is_matrix(value):
        found = sparse.as_csr(value)
        if not target.spec.sparse:
            raise DtypeError(
                f"variable {target.name!r} is dense, {target.spec}, but the value is sparse",
                suggestion="value.toarray()",
            )
    elif isinstance(value, Tensor) and not isinstance(value, (Variable, Constant)):
        raise ArgumentError(
            f"the value of {target.name.split(':')[0]!r} must be numbers, got {value.kind} "
            f"{value.name.split(':')[0]!r} {value.spec}, which is symbolic; K.update(x, value) "
            "stores what a function computes",
            suggestion="K.eval(value)",
        )
    else:
        found = to_array(value)
    if found.shape != target.spec.shape:
        raise ShapeError(
            f"variable {target.name.split(':')[0]!r} is {target.spec}, but the value has shape "
            f"{show(found.shape)}"
        )
    if not target.spec.sparse:
        return cast_array(found, target.spec.dtype)
    if isinstance(found, np.ndarray):
        return sparse.from_dense(cast_array(found, target.spec.dtype))
    return _cast_copy(found, target.spec.dtype)


def _cast_copy(csr: Csr, dtype: str) -> Csr:
    return sparse.with_data(csr.copy(), cast_array(csr.data, dtype))


def store_all(pairs: Iterable[tuple[Variable, Held]]) -> None:
    """Make every array the value of its variable at one moment, then tell listeners.

    All of them or, when an interrupt comes between, none.
    """
    stored = list(pairs)
    if stored and read_only.is_active():
        read_only.refuse_change(f"store to variable {stored[0][0].name.split(':')[0]!r}")
    with store_lock:
        stores.count += 1
        before = [(target, target._array, target.version) for target, _ in stored]
        try:
            for target, array in stored:
                target._array = array
                target.version += 1
        except BaseException:
            for target, array, version in reversed(before):
                target._array, target.version = array, version
            raise
    if changed:
        for target, _ in stored:
            changed.emit(target)


class Placeholder(Tensor):
    """A tensor whose value is fed at evaluation."""

    kind = "placeholder"
    _phase_flag = False

    def __init__(self, spec: Spec, name: str | None, default: np.ndarray | None = None) -> None:
        super().__init__(PLACEHOLDER, (), {}, spec, name)
        self.default = default

    def _held_state(self) -> dict[str, object]:
        return {"default": self.default}


# ------------------------------------------------------------------ making them


def variable(
    value: object, dtype: str | None = None, name: str | None = None, constraint: object = None
) -> Variable:
    """A variable that starts with a copy of `value`.

    Arguments:
        value: array, nested list, number, or a tensor, which is evaluated once. A sparse tensor,
            or a matrix of SciPy of any sparse format, makes a sparse variable.
        dtype: None means `floatx()`, whatever the dtype of `value`.
        name: of the variable.
        constraint: kept as the attribute `constraint`, for optimizers.
    Returns:
        Variable of the shape of `value`.
    Raises:
        DtypeError: a value or dtype that is not numeric; a sparse variable of float16.
    Gradient: to the variable, unless it is sparse.
    Source: Keras 2.3 `backend.variable`.

    >>> K.eval(K.variable([[1, 2], [3, 4]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    wanted = dtype_or_floatx(dtype)
    first = None
    if isinstance(value, Tensor):
        # Not of other variables, which would live as long as this one.
        first = None if any(isinstance(node, Variable) for node in walk([value])) else value
        value = evaluated(value)
    if sparse.is_matrix(value):
        csr = _cast_copy(sparse.as_csr(value), sparse_dtype(wanted))
        return Variable(csr, name, constraint)
    array = to_array(value)
    memory_limit.require_array(
        array.shape, np.dtype(wanted).itemsize, f"a variable {show(array.shape)}"
    )
    return Variable(cast_array(array, wanted), name, constraint, first)


def constant(
    value: object, dtype: str | None = None, shape: object = None, name: str | None = None
) -> Tensor:
    """An immutable tensor.

    Arguments:
        value: number, array or nested list; a tensor is cast and handed on.
        dtype: None means `floatx()`.
        shape: a number is repeated to this shape; an array of as many elements is reshaped.
        name: of the tensor.
    Returns:
        Tensor with a value that is known.
    Raises:
        ShapeError: `value` has another number of elements than `shape`.
        DtypeError: no numbers, or an unknown dtype.
    Gradient: to the constant, as to any tensor.
    Source: Keras 2.3 `backend.constant`.

    >>> K.eval(K.constant(2, shape=(2, 2)))
    array([[2., 2.],
           [2., 2.]], dtype=float32)
    """
    wanted = dtype_or_floatx(dtype)
    if isinstance(value, Tensor):
        return converted(value, wanted)
    array = cast_array(to_array(value), wanted)
    if shape is not None:
        target = checked_shape(shape)
        if None in target:
            raise ShapeError(f"shape must be known, got {show(target)}")
        sizes = tuple(size or 0 for size in target)
        memory_limit.require_array(sizes, array.itemsize, f"a constant {show(target)}")
        if array.size == 1:
            array = np.full(sizes, array.reshape(()), dtype=wanted)
        elif array.size == np.prod(sizes, dtype=np.int64):
            array = array.reshape(sizes)
        else:
            raise ShapeError(
                f"cannot reshape a value of shape {show(array.shape)} into {show(target)}"
            )
    return constant_node(array, name)


def checked_shape(shape: object, name: str = "shape") -> Shape:
    """A static shape given by the user: a tuple of None and non-negative integers."""
    if isinstance(shape, (int, np.integer, np.bool_)):
        shape = (shape,)
    unfit = isinstance(shape, (Tensor, str)) or getattr(shape, "ndim", 1) != 1
    if unfit or not isinstance(shape, Iterable):
        raise ArgumentError(f"{name} must hold integers or None, got {shown(shape)}")
    result: list[int | None] = []
    for size in shape:
        if size is None:
            result.append(None)
            continue
        if isinstance(size, (bool, np.bool_)) or not hasattr(size, "__index__"):
            raise ArgumentError(f"{name} must hold integers or None, got {shown(size)}")
        try:
            number = integer(size)
        except TypeError:
            raise ArgumentError(f"{name} must hold integers or None, got {shown(size)}") from None
        if number < 0:
            raise ArgumentError(f"{name} must not be negative, got {shown(number)}")
        result.append(number)
    check_rank(result)
    return tuple(result)


def placeholder(
    shape: object = None,
    ndim: int | None = None,
    dtype: str | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Placeholder:
    """A tensor that is fed at evaluation.

    Arguments:
        shape: sizes, None for those that are known only when fed; one size alone is that of a
            vector, and so is None, as `(None)` is written for `(None,)`; or else
        ndim: the number of axes, all of unknown size.
        dtype: None means `floatx()`.
        sparse: whether the tensor keeps only what is not zero; it has two axes, and is fed
            matrices of SciPy in any format, or arrays.
        name: of the placeholder.
    Returns:
        Placeholder of that shape.
    Raises:
        ArgumentError: no valid sizes. ShapeError, DtypeError: both
            that disagree, or a sparse tensor that cannot have the shape or dtype.
    Gradient: to the placeholder, unless it is sparse.
    Source: Keras 2.3 `backend.placeholder`.

    >>> K.int_shape(K.placeholder((None, 3)))
    (None, 3)
    """
    counted = is_whole(ndim)
    if ndim is not None and (not counted or not 0 <= ndim <= MAX_AXES):
        raise ArgumentError(f"ndim must be an integer from 0 to {MAX_AXES}, got {shown(ndim)}")
    if shape is None:
        sizes: Shape = (None,) * (1 if ndim is None else int(ndim))
    else:
        sizes = checked_shape(shape)
    if ndim is not None and ndim != len(sizes):
        raise ShapeError(f"shape {show(sizes)} has {len(sizes)} axes, but ndim is {ndim}")
    wanted = dtype_or_floatx(dtype)
    if checked_flag(sparse, "sparse"):
        sizes, wanted = sparse_shape(sizes), sparse_dtype(wanted)
    spec = Spec(sizes, wanted, sparse=True) if sparse else dense(sizes, wanted)
    return Placeholder(spec, name)


def needs_variable(x: object) -> Variable:
    if not isinstance(x, Variable):
        raise ArgumentError(
            f"needs a variable, got {shown(x)}"
            if not isinstance(x, np.ndarray)
            else "needs a variable, got an array"
        )
    return x


def evaluated(x: Tensor) -> Held:
    """The value of a tensor; of a sparse one as it is."""
    return REGISTRY_FUNCTIONS["sparse_value"](x) if x.is_sparse else x.eval()
