"""Tensor, the one graph class: an operation, its inputs and attributes, and what is known of it.

Knows nothing of single operations. Python's operators are in `operators.py`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from kbench.engine.core.errors import ArgumentError, Call, CallSite, Place, call_site, located
from kbench.engine.core.spec import DType, Spec, TensorShape
from kbench.engine.core.types import Attrs, Shape
from kbench.engine.graph import scope
from kbench.engine.graph.op import Op
from kbench.engine.graph.protocols import numpy_protocol, operators

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Operand: TypeAlias = "Tensor | np.ndarray | np.generic | float | int | bool | Sequence[Any]"
"""What an operation takes: a tensor, an array, a list of numbers or a number."""

FeedDict: TypeAlias = "Mapping[Tensor, object]"
"""What is fed by hand: values by the tensors whose place they take."""

OPERATORS: dict[str, Callable[..., Tensor]] = operators.OPERATORS
operator = operators.operator
serials = itertools.count()  # tensors are numbered as they are made
_new = object.__new__
_rich_repr: Callable[[Tensor], Mapping[str, object]] | None = None
_evaluate: Callable[[Tensor, FeedDict | None], np.ndarray] | None = None
_reduced: Callable[[Tensor], tuple[Any, ...]] | None = None


def set_rich_repr(function: Callable[[Tensor], Mapping[str, object]] | None) -> None:
    """Choose what a notebook shows of a tensor: a function from tensor to MIME bundle."""
    global _rich_repr
    _rich_repr = function


def set_reducer(function: Callable[[Tensor], tuple[Any, ...]]) -> None:
    """Give pickle its way through a graph; called once by `execute/function.py`."""
    global _reduced
    _reduced = function


def set_evaluator(function: Callable[[Tensor, FeedDict | None], np.ndarray]) -> None:
    """Give `.eval()` its implementation; called once by `execute/function.py`."""
    global _evaluate
    _evaluate = function


class _NotThere:
    """What an array has and a tensor has not: the error says what to write instead.

    A `__getattr__` would do as much, but would slow every attribute of every node down.
    """

    def __init__(self, key: str, instead: str) -> None:
        self._key, self._instead = key, instead

    def __get__(self, node: object, owner: type) -> NoReturn:
        key, kind = self._key, owner.__name__
        told = f"type object {kind!r}" if node is None else f"{kind!r} object"
        text = f"{told} has no attribute {key!r}; write {self._instead}"
        raise AttributeError(text, name=key, obj=owner if node is None else node)


class Last(NamedTuple):
    """What the last run saw of a tensor: its shape, and the value when it is small."""

    shape: tuple[int, ...]
    value: np.ndarray | None


last_seen: Callable[[tuple[tuple[int, ...], np.ndarray | None]], Last]
last_seen = functools.partial(tuple.__new__, Last)  # as Last(...) would, in half of the time


class Tensor:
    """A symbolic value. Nothing is computed until it is evaluated.

    Members: `shape`, `dtype`, `ndim`, `is_sparse`, `name`, `op`, `inputs`, `attrs`,
    `eval(session, feed_dict)`, Python's operators with NumPy broadcasting, and indexing.
    `==` is identity; use `K.equal`.
    """

    __array_priority__ = 1000.0  # above that of arrays, which leave operators to tensors by it
    kind = "tensor"
    last: Last | None = None
    # Functions that evaluate it, by what they are fed.
    _functions: dict[tuple[int, ...], object] | None = None
    _phase_flag: bool | None = None
    _told_shape: Shape | None = None
    batch_moments: object = None  # of a variance of `normalize_batch_in_training`
    _reach: int | None = None  # nodes on the way to the next station, see `pickling.py`
    _name: str | scope.Numbered | None = None  # a number's is found once somebody asks for it
    _call: Call | None = None  # read off `_site` once somebody asks for it
    controls: tuple[Tensor, ...] = ()  # what it waits for

    def __init__(
        self,
        op: Op,
        inputs: tuple[Tensor, ...],
        attrs: Attrs,
        spec: Spec,
        name: str | None = None,
        place: Place | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.spec = spec
        unnamed = name is None or (isinstance(name, str) and not name)
        self._name = scope.numbered_name(
            op.name if unnamed else name  # type: ignore[arg-type]
        )
        self._site = call_site(2)
        if place is not None:
            self._call = place, located(self._site)[1]
        self.generation = scope.generation()
        self.controls = scope._local.controls
        self.serial = next(serials)

    @staticmethod
    def unnamed(op: Op, inputs: tuple[Tensor, ...], spec: Spec, site: CallSite) -> Tensor:
        """A node without attributes that has its operation's name, and is made at this place."""
        node: Tensor = _new(Tensor)
        node.op = op
        node.inputs = inputs
        node.attrs = {}
        node.spec = spec
        node._name = scope.numbered_name(op.name)
        node._site = site
        node.generation = scope._generation
        node.serial = next(serials)
        controls = scope._local.controls
        if controls:
            node.controls = controls
        return node

    @staticmethod
    def derived(
        op: Op, inputs: tuple[Tensor, ...], attrs: Attrs, spec: Spec, origin: Tensor
    ) -> Tensor:
        """A node that a plan makes while rewriting; it answers for `origin` in every report."""
        node: Tensor = _new(Tensor)
        node.op, node.inputs, node.attrs, node.spec = op, inputs, attrs, spec
        node._name = origin._name or origin.name
        node._site, node._call = origin._site, origin._call
        node.generation = origin.generation
        return node

    # -------------------------------------------------------------- what is known

    @property
    def name(self) -> str:
        name = self._name
        if not isinstance(name, str):
            name = self._name = scope.spelled(name or scope.numbered_name(self.op.name))
        return name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def place(self) -> Place | None:
        """The user's line that made it."""
        return self._called_at()[0]

    @property
    def called(self) -> str | None:
        """The function of K that the user's line calls, where that is not the operation's own."""
        return self._called_at()[1]

    def _called_at(self) -> Call:
        call = self._call
        if call is None:
            call = self._call = located(self._site)
        return call

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.spec.shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: object) -> None:
        """Accept a static shape from outside, as code for TensorFlow does; it must agree."""
        if shape is None:
            return  # nothing is told
        given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if len(given) != self.ndim or any(
            a is not None and b is not None and a != b
            for a, b in zip(given, self.spec.shape, strict=True)
        ):
            raise ArgumentError(f"shape {given} does not agree with {self.spec}")

    @property
    def dtype(self) -> DType:
        return DType(self.spec.dtype)

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def is_sparse(self) -> bool:
        return self.spec.sparse

    @property
    def graph(self) -> scope.Graph:
        return scope.Graph(self.generation)

    @property
    def _uses_learning_phase(self) -> bool:
        if self._phase_flag is None:
            self._phase_flag = _reaches_phase(self)
        return self._phase_flag

    @_uses_learning_phase.setter
    def _uses_learning_phase(self, value: bool) -> None:
        self._phase_flag = bool(value)

    @property
    def _keras_shape(self) -> Shape:
        """The static shape; a layer that has told one may know more sizes but no others."""
        return self.spec.shape if self._told_shape is None else self._told_shape

    @_keras_shape.setter
    def _keras_shape(self, shape: object) -> None:
        known = self.spec.shape
        told = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if len(told) == len(known):
            known = tuple(b if a is None else a for a, b in zip(known, told, strict=True))
        self._told_shape = known

    # -------------------------------------------------------------- Python's protocols

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} {self.op.name} {self.spec}>"

    def _repr_mimebundle_(self, **_kwargs: object) -> Mapping[str, object]:
        return _rich_repr(self) if _rich_repr is not None else {"text/plain": repr(self)}

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self._told()} is symbolic and has no truth value; use K.switch to branch, "
            "K.equal, & and | to compare and combine, bool(K.eval(x)) for its value now"
        )

    def __len__(self) -> int:
        return self._rows("length", "K.shape(x)[0] is its first size, as a tensor")

    def __iter__(self) -> Iterator[Tensor]:
        rows = self._rows("entries to iterate over", "K.map_fn calls a function on each")
        return (self[index] for index in range(rows))

    def __setitem__(self, _index: object, _value: object) -> NoReturn:
        instead = "K.switch(mask, new, x) gives a changed copy"
        if self.kind == "variable":
            instead = "K.set_value(x, value) sets all of it, K.update(x, new) within a K.function"
        raise TypeError(f"{self._told()} cannot be changed in place; {instead}")

    def _rows(self, what: str, otherwise: str) -> int:
        """The first size, or a TypeError that says what cannot be done without it."""
        if not self.spec.shape:
            raise TypeError(f"{self._told()} is a scalar, which has no {what}")
        if self.spec.shape[0] is None:
            raise TypeError(
                f"{self._told()} has no known {what}: its first size is known only when it is "
                f"evaluated; {otherwise}"
            )
        return self.spec.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        raise numpy_protocol.refusal(self._told())

    def __dlpack__(self, **_options: Any) -> object:
        raise self._unshared()

    def _unshared(self) -> TypeError:
        return TypeError(
            f"{self._told()} is symbolic and has no memory to share; K.eval(x) computes its value"
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        raise self._unshared()

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        """What pickle, copy.copy and copy.deepcopy ask."""
        assert _reduced is not None
        return _reduced(self)

    def _held_attrs(self) -> Attrs:
        """Its attributes as pickle is to write them."""
        return self.attrs

    def _held_state(self) -> dict[str, object]:
        """What a class of nodes has besides what all have, for a copy."""
        return {}

    def _take_state(self, state: dict[str, Any]) -> None:
        """Set what `_held_state` of the original gave."""
        self.__dict__.update(state)

    def __format__(self, form: str) -> str:
        if form:
            raise TypeError(self._no_number("float", "has no value to format before"))
        return str(self)

    def __dir__(self) -> list[str]:
        hidden = numpy_protocol.METHODS
        return [key for key in object.__dir__(self) if key not in hidden or hasattr(self, key)]

    def __index__(self) -> int:
        if self.spec.shape == () and self.spec.known and self.spec.value is not None:
            return int(self.spec.value[0])  # type: ignore[arg-type]
        raise TypeError(self._no_number("int", "has no known integer value before"))

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        if self.spec.shape == () and self.spec.known and self.spec.value is not None:
            return float(self.spec.value[0])  # type: ignore[arg-type]
        raise TypeError(self._no_number("float", "has no value before"))

    def _no_number(self, wanted: str, why: str) -> str:
        if self.spec.shape:
            told = f"cannot convert symbolic {self._told()} to {wanted}: it is not a scalar"
            return f"{told}; K.eval(x) gives its value"
        return f"{self._told()} {why} it is evaluated; {wanted}(K.eval(x)) computes it"

    def _told(self) -> str:
        """What errors call it: kind, name, dtype and shape."""
        return f"{self.kind} {self.name.split(':')[0]!r} {self.spec}"

    if TYPE_CHECKING:  # what OPERATORS gives at run time

        def __add__(self, other: Operand) -> Tensor: ...
        def __radd__(self, other: Operand) -> Tensor: ...
        def __sub__(self, other: Operand) -> Tensor: ...
        def __rsub__(self, other: Operand) -> Tensor: ...
        def __mul__(self, other: Operand) -> Tensor: ...
        def __rmul__(self, other: Operand) -> Tensor: ...
        def __truediv__(self, other: Operand) -> Tensor: ...
        def __rtruediv__(self, other: Operand) -> Tensor: ...
        def __floordiv__(self, other: Operand) -> Tensor: ...
        def __mod__(self, other: Operand) -> Tensor: ...
        def __pow__(self, other: Operand) -> Tensor: ...
        def __matmul__(self, other: Operand) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __lt__(self, other: Operand) -> Tensor: ...
        def __le__(self, other: Operand) -> Tensor: ...
        def __gt__(self, other: Operand) -> Tensor: ...
        def __ge__(self, other: Operand) -> Tensor: ...
        def __getitem__(self, key: object) -> Tensor: ...

    def eval(self, session: object = None, feed_dict: FeedDict | None = None) -> np.ndarray:
        """The value as a NumPy array; `feed_dict` maps placeholders (or any tensor) to values."""
        assert _evaluate is not None
        return _evaluate(self, feed_dict)


for _name, _instead in numpy_protocol.METHODS.items():
    setattr(Tensor, _name, _NotThere(_name, _instead))

operators.set_operators(Tensor)


def _reaches_phase(root: Tensor) -> bool:
    """Whether the learning phase decides a part of `root`; flags everything on the way."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node._phase_flag is not None:
            stack.pop()
            continue
        waiting = [operand for operand in node.inputs if operand._phase_flag is None]
        if waiting:
            stack.extend(waiting)
            continue
        node._phase_flag = any(operand._phase_flag for operand in node.inputs)
        stack.pop()
    return bool(root._phase_flag)
