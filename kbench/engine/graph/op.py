"""The record of an operation, and the registry of all of them.

Every record is complete when built: rule, NumPy form, gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct

from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Attrs, Axes
from kbench.engine.graph.expr.expression import Expr, name_leaf
from kbench.engine.graph.traits.roles import ExtentsOf, PermutedAttrs, Role
from kbench.engine.graph.traits.row_form import RowForm
from kbench.engine.jit.launch import Preparable

Gradient = Callable[..., tuple[object, ...]]
"""A rule of gradients: gives a tensor, or None where nothing flows, for each input."""
KernelFactory = Callable[[], Callable[..., object] | Preparable | None]
"""Gives a compiled kernel, or None while it is not ready: what prepares calls, or a function that
makes them. That of an operation with several results returns them."""
KernelSelector = Callable[..., KernelFactory | None]
"""Gives the factory of the kernel for concrete Specs, or None where NumPy is the better way."""
Lowered: TypeAlias = "tuple[Op, Attrs, Axes]"
"""A cheaper operation, its attributes, and the positions of the operands that it takes."""
REGISTRY: dict[str, Op] = {}
STAND_INS: list[Op] = []
"""The operations that only plans make, in place of nodes that `stands_for` finds."""


class Op(Struct, frozen=True, eq=False):
    """One operation.

    `infer(*specs, **attrs)` gives the Spec of the result or raises; `numpy(out, *arrays, **attrs)`
    fills `out`, or allocates when it is None, and returns the result; `gradient(g, y, *inputs,
    **attrs)` gives one entry for each input. `lower(specs, attrs)` may name a cheaper operation
    once every shape is known. `names` are the operands' names in `expr`; `tier` is what
    the plan view calls its NumPy form, and `work(*specs, **attrs)` the FLOP of each element of the
    result where it is not one. An op that is not `pure` is never folded, shared or dropped.
    `kernel(*specs, **attrs)` is asked once, with concrete Specs, for a compiled kernel: None when
    there is none for them, else a factory, which gives None while it is not ready, else what
    prepares calls (`jit/launch.py`), or a function `(out, *arrays, check)`; a least size is asked
    of `config.min_elements(...)`, which tests lower.
    `takes_epilogue` says that calls can be prepared with `after=(address, params)`, work that is
    done on each row of the result, see `kernels/gemm/api.py`.
    `shapes` are the positions of operands of which only the shape is read. Only an op that says
    `sparse` is given sparse operands.

    The rest are traits, by which passes know what they may do with an op, see `graph/traits/`.
    `role` says what it is to them. `permuted(attrs, pattern)` gives the attributes with which it
    does on arrays what it does on permutations of them; `extents(attrs, shape)` the part of a shape
    that it takes or fills. `batched(node, inputs, mapped)` gives it for all entries of a sequence
    at once. `laws` are tried on its nodes; `stands_for` is such a law of other nodes, which gives
    one of this op.
    `decomposed(node, axes)` gives it made of folds over these axes and elementwise work. `joint`
    is an operation of several results, and which of them this op is. `rows` says how it is
    written in a row program. With `checks` its NumPy form refuses some values of integers.
    """

    name: str
    kind: str
    infer: Callable[..., Spec]
    numpy: Callable[..., object]
    gradient: Gradient | None
    expr: Expr | None = None
    fold: str | None = None
    lower: Callable[[Sequence[Spec], Attrs], Lowered | None] | None = None
    pure: bool = True
    allocates: bool = False
    names: tuple[str, ...] = ("x",)
    tier: str = "numpy"
    work: Callable[..., int] | None = None
    kernel: KernelSelector | None = None
    shapes: tuple[int, ...] = ()
    sparse: bool = False
    takes_epilogue: bool = False
    role: Role | None = None
    permuted: PermutedAttrs | None = None
    extents: ExtentsOf | None = None
    batched: Callable[..., Any] | None = None
    laws: tuple[Callable[..., Any], ...] = ()
    stands_for: Callable[..., Any] | None = None
    decomposed: Callable[..., Any] | None = None
    joint: tuple[Op, int] | None = None
    rows: RowForm | None = None
    checks: bool = False

    def __repr__(self) -> str:
        return f"<op {self.name!r} {self.kind}>"

    @property
    def type(self) -> str:
        return self.name

    def computes(self, scalar: str) -> bool:
        """Whether it is this scalar function of its operands, and no more."""
        expr = self.expr
        if expr is None or not expr.is_call(scalar):
            return False
        return expr.args == tuple(map(name_leaf, self.names))


_TOLD = {"target": "shape", "counts": "n"}  # rules whose attributes have the user's name already


def operand_names(op: Op, count: int) -> list[str]:
    """What errors call `count` operands of an op: the parameters of its rule, which carry the names
    that users know; of an elementwise op those of its expression."""
    code = op.infer.__code__
    named = list(code.co_varnames[: code.co_argcount])[:count]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else ""
    if rest == "specs" and len(op.names) == count:
        named = list(op.names)
    more = range(count - len(named))
    if rest in _TOLD:
        named += [_TOLD[rest] for _ in more]
    elif rest in ("", "specs") or rest.startswith("_"):
        named += [f"operand {len(named) + index}" for index in more]
    else:
        named += [f"{rest}[{index}]" for index in more]
    return [_TOLD.get(word, word) for word in named]


@functools.cache
def op_of(role: Role) -> Op:
    """The operation of a role that one alone plays: what passes make nodes of."""
    (found,) = [op for op in REGISTRY.values() if op.role is role]
    return found


def register(op: Op) -> Op:
    """Enter a complete record; a name is used once."""
    if op.name in REGISTRY:
        raise RuntimeError(f"op {op.name!r} is declared twice")
    REGISTRY[op.name] = op
    if op.stands_for is not None:
        STAND_INS.append(op)
    return op


# --------------------------------------------------------------- what sources have for rules


def no_numpy(out: object, *_arrays: object, **_attrs: object) -> NoReturn:
    raise RuntimeError("a source has no NumPy form")


def no_infer(*_specs: Spec, **_attrs: object) -> NoReturn:
    raise RuntimeError("the Spec of a source is given")
