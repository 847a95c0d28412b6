"""Small expressions evaluated as they stand: node by node on NumPy, without a plan.

A plan costs some 70 microseconds to make and bind, which pays when it runs often or on much. What
is typed at a prompt runs once, on a few numbers.
"""

from __future__ import annotations

import functools
import math

import numpy as np

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


def direct_value(root: Tensor) -> np.ndarray | None:
    """The value of a small expression; None when it needs a plan, which also tells of errors."""
    if profile.is_recording():
        return None
    try:
        with np.errstate(all="ignore"), store_lock:  # no update of variables in between
            value = _Walk().value(root, 0) if root.inputs else _stored_value(root)
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

    __slots__ = ("found", "generation", "max_elements")

    def __init__(self) -> None:
        self.max_elements, self.generation = config.min_elements(MAX_ELEMENTS), scope.generation()
        self.found: dict[int, np.ndarray] = {}

    def value(self, node: Tensor, depth: int) -> np.ndarray:
        """The value of a node that has inputs and was not found yet."""
        found = self.found
        spec, op = node.spec, node.op
        shape = spec.shape
        if (
            spec.sparse
            or node.generation != self.generation
            or depth + len(found) >= MAX_NODES
            or node.controls
            or not _is_plain(op)
            or None in shape
            or math.prod(shape) >= self.max_elements  # type: ignore[arg-type]
        ):
            raise _NeedsPlan
        arrays = []
        for operand in node.inputs:
            if operand.inputs:
                array = found.get(id(operand))
                arrays.append(self.value(operand, depth + 1) if array is None else array)
            else:
                arrays.append(_stored_value(operand))
        value = found[id(node)] = _computed(node, arrays)
        return value


def _stored_value(node: Tensor) -> np.ndarray:
    """What a variable or a constant holds."""
    if not node.spec.sparse:
        if isinstance(node, Variable):
            return node._array
        if isinstance(node, Constant):
            return node.value
    raise _NeedsPlan


@functools.lru_cache(None)
def _is_plain(op: Op) -> bool:
    """Whether an operation is its NumPy form alone."""
    return op.pure and op.kind not in _PLANNED_KINDS and op.role is not Role.BRANCH


def _computed(node: Tensor, arrays: list[np.ndarray]) -> np.ndarray:
    run, spec = node.op.numpy, node.spec
    bare = None if node.attrs else BARE.get(run)
    # A comparison gives bool, whatever it compares; else the operands have the result's dtype.
    halves = spec.dtype == "float16" or (spec.dtype == "bool" and arrays[0].dtype == np.float16)
    if bare is None or halves:
        return np.asarray(run(None, *arrays, **node.attrs))
    out = np.empty(spec.shape, spec.dtype)  # type: ignore[type-var]
    bare(out, *arrays)
    return out
