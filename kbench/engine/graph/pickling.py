"""What pickle, copy and copy.deepcopy make of tensors: their graph, with the values in it.

A node in bytes is its class, its operation by name, its attributes and its inputs; where several
need one there is one copy, as of any object. Variables bring their values, and random numbers the
place in their sequence, so that the copy computes what the original would. Nothing compiled is
in the bytes, and no code. Each node brings a checksum, so that damage is found.

Pickle goes down the inputs of a node by recursion, which Python ends at a thousand. So what pickle
meets first brings the *stations* below it along, each behind those that are below itself: nodes so
chosen that on every way from one to the next there are at most `STRIDE`. What pickle meets
on from there brings none.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, SupportsIndex, TypeVar

from kbench.engine.core.csr import Held
from kbench.engine.core.errors import ArgumentError, KbenchError, Place
from kbench.engine.core.spec import Spec
from kbench.engine.graph import scope
from kbench.engine.graph.op import REGISTRY, Op
from kbench.engine.graph.protocols import checksums
from kbench.engine.graph.tensor import Tensor, serials
from kbench.engine.graph.variables import Variable, store_lock

T = TypeVar("T")

FORMAT = 3
"""Counts changes of what follows, for bytes of other versions."""
STRIDE = 48
"""Nodes, each the input of the next, that pickle goes down by recursion. Each takes four of
Python's thousand levels in C, and ten in copy.deepcopy."""
_UNKNOWN_SITE = (None, 0, None)
_LATER = ("batch_moments",)  # what a node is given after it was made, and may hold the node itself


def reduced(node: Tensor) -> tuple[Any, ...]:
    """How pickle and copy make a node anew; see `object.__reduce_ex__`."""
    place = node.place
    told = (node.name, None if place is None else tuple(place), node.called)
    rules = (node._told_shape, node._uses_learning_phase)
    parts = (node.op.name, node.inputs, node.attrs, node.spec, node.controls)
    checksum = _checksum(type(node), told, rules, parts)
    parts = (*parts[:2], node._held_attrs(), *parts[3:])
    later = {key: node.__dict__[key] for key in _LATER if key in node.__dict__}
    held = node._held_state()
    if isinstance(node, Variable):
        value = _value_of(node)
        held |= {"_array": value, "checksum": checksums.of_value(value)}
    return gathered(
        restored, (type(node), told, rules, parts, held, checksum), [node], later or None
    )


def restored(version: object, *rest: Any) -> Tensor:
    """The node that `reduced` has told of, in the graph of this process.

    Raises:
        ArgumentError: another version of kbench has made the bytes, or they are damaged.
    """
    return unharmed("a tensor", version, FORMAT, lambda: _restored(*rest))


def _restored(
    _stations: tuple[Tensor, ...],
    kind: type[Tensor],
    told: tuple[str, tuple[str, int] | None, str | None],
    rules: tuple[tuple[int | None, ...] | None, bool],
    parts: tuple[Any, ...],
    held: dict[str, object],
    checksum: int,
) -> Tensor:
    operation = _operation(parts[0])
    if not issubclass(kind, Tensor) or _checksum(kind, told, rules, parts) != checksum:
        refuse("a tensor", f"its {parts[0]!r} has another checksum")
    node = object.__new__(kind)
    _, node.inputs, node.attrs, node.spec, node.controls = parts
    node.op = operation
    node._name, place, called = told
    node._site = _UNKNOWN_SITE
    node._call = (None if place is None else Place(*place), called)
    node._told_shape, node._phase_flag = rules
    node.generation = scope.generation()
    node.serial = next(serials)
    node._take_state(held)
    return node


def _operation(name: str) -> Op:
    found = REGISTRY.get(name)
    if found is None:
        raise ArgumentError(
            f"the bytes of a tensor have an operation {name!r}, which this kbench does not have; "
            "make them with the same version",
            function="pickle.loads",
        )
    return found


def _checksum(
    kind: type[Tensor], told: Sequence[object], rules: Sequence[object], parts: Sequence[Any]
) -> int:
    """Of all that a node is, its inputs by their names; values of variables have their own."""
    name, inputs, attrs, spec, controls = parts
    near = [_lasting_name(node) for node in (*inputs, *controls)]
    entries = str(spec) if type(spec) is not Spec else (spec.dtype, spec.shape, spec.value)
    text = f"{kind.__name__} {name} {told} {rules} {near} {spec.sparse} {entries}"
    return checksums.of_text(text, attrs, _tensors_of)


def _tensors_of(part: object) -> object:
    """Of a part of an attribute the tensors: a loop's step is made of some, and gives some."""
    if isinstance(part, Tensor):
        return _lasting_name(part)
    return getattr(part, "step_tensors", None)


def _lasting_name(node: Tensor) -> str:
    """Its name, unless each graph has one of its own, as of the learning phase."""
    return node.name if type(node).__reduce_ex__ is Tensor.__reduce_ex__ else node.op.name


# ------------------------------------------------------------------ bytes that are not as expected


def unharmed(what: str, version: object, expected: int, make: Callable[[], T]) -> T:
    """What `make` makes of bytes of the form `expected`.

    Raises:
        ArgumentError: they are of another form, or `make` fails on them in whatever way.
    """
    if version != expected:
        raise ArgumentError(
            f"the bytes of {what} are in form {version}, and this kbench reads form {expected}; "
            "make them with the same version",
            function="pickle.loads",
        )
    try:
        return make()
    except (KbenchError, MemoryError):
        raise
    except Exception as error:
        refuse(what, f"{type(error).__name__}: {error}", error)


def refuse(what: str, why: str, cause: Exception | None = None) -> NoReturn:
    """Say that bytes are damaged."""
    raise ArgumentError(
        f"the bytes of {what} are damaged: {why}", function="pickle.loads"
    ) from cause


# ------------------------------------------------------------------ the way down


class _Lasting:
    """The nodes that are told while pickle is busy with the object that told them.

    To pickle and copy it is an iterator of nothing, the entries of a dict that the object is not.
    They hold it as long as they make or write what is within the object, and no longer: whether
    it still exists tells whether they do.
    """

    def __init__(self, nodes: Sequence[Tensor]) -> None:
        self.ids = frozenset(map(id, nodes))
        with store_lock:  # the values of one moment, though another thread stores meanwhile
            self.values = {id(one): one._array for one in nodes if isinstance(one, Variable)}

    def __iter__(self) -> _Lasting:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration


class _Local(threading.local):
    def __init__(self) -> None:
        self.lasting: list[weakref.ref[_Lasting]] = []


_local = _Local()


def gathered(
    make: Callable[..., object],
    parts: Sequence[object],
    roots: Sequence[Tensor],
    state: object = None,
) -> tuple[Any, ...]:
    """What `__reduce_ex__` gives for an object that holds a graph, however deep that is.

    Arguments:
        make: is called as `make(FORMAT, stations, *parts)`.
        parts: what the object is made of.
        roots: the tensors among it.
        state: what the object is given when it is made already.
    """
    if all(_telling(root) is not None for root in roots):
        return make, (FORMAT, (), *parts), state
    nodes = below(roots)
    _count(nodes)
    lasting = _Lasting(nodes)
    _local.lasting = [one for one in _local.lasting if one() is not None]
    _local.lasting.append(weakref.ref(lasting))
    stations = tuple([node for node in nodes if node._reach == STRIDE])
    return make, (FORMAT, stations, *parts), state, None, lasting


class Together:
    """Tensors that are pickled at once, before other objects refer to some of them."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = tuple(tensors)

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        return gathered(_together, [self.tensors], self.tensors)


def _together(
    _version: int, _stations: tuple[Tensor, ...], tensors: tuple[Tensor, ...]
) -> Together:
    return Together(tensors)


def _telling(node: Tensor) -> _Lasting | None:
    """What tells of a node, if anything does."""
    alive = (one() for one in _local.lasting)
    return next((one for one in alive if one is not None and id(node) in one.ids), None)


def _value_of(variable: Variable) -> Held:
    """Its value; nobody changes that as long as it is held."""
    lasting = _telling(variable)
    return variable.held() if lasting is None else lasting.values[id(variable)]


def below(roots: Sequence[Tensor]) -> list[Tensor]:
    """All nodes that the bytes of some hold, each behind those that it holds itself."""
    order: list[Tensor] = []
    seen: set[int] = set()
    pending: list[Tensor] = []
    stack = [iter(roots)]
    while stack:
        for node in stack[-1]:
            if id(node) not in seen:
                seen.add(id(node))
                pending.append(node)
                stack.append(_operands(node))
                break
        else:
            stack.pop()
            if pending:
                order.append(pending.pop())
    return order


def _count(nodes: Iterable[Tensor]) -> None:
    """Note how long the longest way is from each of them to a station; one of `STRIDE` makes it
    a station. It is the same whoever asks, so it stays with the node."""
    for node in nodes:
        if node._reach is None:
            ways = [0 if near._reach is None else near._reach % STRIDE for near in _operands(node)]
            node._reach = 1 + max(ways, default=-1)


def _operands(node: Tensor) -> Iterator[Tensor]:
    """All tensors that the bytes of a node hold."""
    yield from node.inputs
    yield from node.controls
    for value in node.attrs.values():
        yield from _tensors_in(value)
    first: Tensor | None = getattr(node, "_first", None)  # of a variable
    if first is not None:
        yield first


def _tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for entry in value:
            yield from _tensors_in(entry)
    else:
        yield from getattr(value, "step_tensors", ())  # of a loop
