"""Small expressions evaluated as they stand: node by node on NumPy, without a plan.

A plan costs some 70 microseconds to make and bind, which pays when it runs often or on much. What
is typed at a prompt runs once, on a few numbers.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from kbench.engine.core.quiet import quietly
from kbench.engine.core.spec import DTYPES
from kbench.engine.graph import scope
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.declare import BARE
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Last, Tensor
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
            value = quietly(_Walk().value, root, 0) if root.inputs else _stored_value(root)
    except Exception:
        return None
    if root.op.kind == "view":
        value = value.copy()
    if not read_only.is_active():
        root.last = Last(value.shape, value if value.size <= 16 else None)
    return value


class _NeedsPlan(Exception):
    """What is asked for is more than one walk over a few nodes."""


class _Walk:
    """One evaluation: the values found so far, by node."""

    __slots__ = ("found", "max_elements")

    def __init__(self) -> None:
        self.max_elements = config.min_elements(MAX_ELEMENTS)
        self.found: dict[int, np.ndarray] = {}

    def value(self, node: Tensor, depth: int) -> np.ndarray:
        """The value of a node that has inputs and was not found yet."""
        spec, op, found = node.spec, node.op, self.found
        shape = spec.shape
        if (
            spec.sparse
            or node.generation != scope._generation
            or depth + len(found) >= MAX_NODES
            or node.controls
            or not _is_plain(op)
            or None in shape
            or math.prod(shape) >= self.max_elements  # type: ignore[arg-type]
        ):
            raise _NeedsPlan
        arrays = []
        for operand in node.inputs:
            array = found.get(id(operand))
            if array is None:
                array = self.value(operand, depth + 1) if operand.inputs else _stored_value(operand)
            arrays.append(array)
        value = found[id(node)] = _computed(node, arrays)
        return value


def _stored_value(node: Tensor) -> np.ndarray:
    """What a variable or a constant holds."""
    if not node.spec.sparse:
        if isinstance(node, Constant):
            return node.attrs["value"]  # type: ignore[no-any-return]
        if isinstance(node, Variable):
            return node._array
    raise _NeedsPlan


@functools.cache
def _is_plain(op: Op) -> bool:
    """Whether an operation is its NumPy form alone."""
    return op.pure and op.kind not in _PLANNED_KINDS and op.role is not Role.BRANCH


def _computed(node: Tensor, arrays: list[np.ndarray]) -> np.ndarray:
    run, dtype, attrs = node.op.numpy, node.spec.dtype, node.attrs
    bare = None if attrs else BARE.get(run)
    # A comparison gives bool, whatever it compares; else the operands have the result's dtype.
    halves = dtype == "float16" or (dtype == "bool" and arrays[0].dtype == np.float16)
    if bare is None or halves:
        return np.asarray(run(None, *arrays, **attrs))
    out = np.empty(node.spec.shape, _NUMPY_DTYPES[dtype])  # type: ignore[type-var]
    bare(out, *arrays)
    return out
