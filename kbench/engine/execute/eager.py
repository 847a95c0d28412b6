"""Small expressions evaluated as they stand: node by node on NumPy, without a plan.

A plan costs some 70 microseconds to make and bind, which pays when it runs often or on much. What
is typed at a prompt runs once, on a few numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from kbench.engine.core.quiet import quietly
from kbench.engine.core.spec import DTYPES
from kbench.engine.graph import scope
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.declare import BARE
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor, last_seen
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.variables import Variable, store_lock
from kbench.engine.runtime import config, profile, read_only

MAX_ELEMENTS = 4096
"""Elements of any value on the way: a larger one takes as long as a plan."""
MAX_NODES = 64
"""Nodes that are walked: a larger graph gains from being planned."""
_PLANNED_KINDS = ("source", "several", "update")  # kinds of operations that need a plan
_NUMPY_DTYPES = {name: np.dtype(name) for name in DTYPES}


def direct_value(root: Tensor) -> np.ndarray | None:
    """The value of a small expression; None when it needs a plan, which also tells of errors."""
    if profile.is_recording():
        return None
    try:
        with store_lock:  # no update of variables in between
            if root.inputs:
                value = quietly(_value, root, {}, config.min_elements(MAX_ELEMENTS), 0)
            else:
                value = _held_value(root)
    except Exception:
        return None
    if root.op.kind == "view":
        value = value.copy()
    if not read_only.is_active():
        root.last = last_seen((value.shape, value if value.size <= 16 else None))
    return value


class _NeedsPlan(Exception):
    """What is asked for is more than one walk over a few nodes."""


def _value(node: Tensor, found: dict[int, np.ndarray], limit: int, depth: int) -> np.ndarray:
    """The value of a node that is not among those `found`, by their ids; it is noted there."""
    spec = node.spec
    elements = spec.elements
    if elements is None:
        elements = spec.count_elements()
    if (
        elements >= limit
        or spec.sparse
        or node.generation != scope._generation
        or depth + len(found) >= MAX_NODES
        or node.controls
    ):
        raise _NeedsPlan
    form = _form(node.op)
    if form is None:
        raise _NeedsPlan
    run, is_bare = form
    arrays = []
    for operand in node.inputs:
        if type(operand) is Constant:
            array = operand.attrs["value"]
        elif type(operand) is Variable:
            if operand.spec.sparse:
                raise _NeedsPlan
            array = operand._array
        else:
            array = found.get(id(operand))
            if array is None:
                array = _value(operand, found, limit, depth + 1)
        arrays.append(array)
    dtype = spec.dtype
    # A comparison gives bool, whatever it compares; else the operands have the result's dtype.
    if is_bare and dtype != "float16" and (dtype != "bool" or arrays[0].dtype.char != "e"):
        value = np.empty(spec.shape, _NUMPY_DTYPES[dtype])  # type: ignore[type-var]
        run(value, *arrays)
    else:
        value = np.asarray(run(None, *arrays, **node.attrs))
    found[id(node)] = value
    return value


def _held_value(node: Tensor) -> np.ndarray:
    """What a variable or a constant holds."""
    if not node.spec.sparse:
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Variable):
            return node._array
    raise _NeedsPlan


@functools.cache
def _form(op: Op) -> tuple[Callable[..., object], bool] | None:
    """The NumPy form of an operation, and whether it is without what it adds for other arrays;
    None for an operation that is more than its NumPy form."""
    if not op.pure or op.kind in _PLANNED_KINDS or op.role is Role.BRANCH:
        return None
    bare = BARE.get(op.numpy)
    return (op.numpy, False) if bare is None else (bare, True)
