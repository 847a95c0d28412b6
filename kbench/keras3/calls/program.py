"""Traced programs that are run once and traced again: the same structure keeps its function.

A loop of one's own traces its loss anew for each batch, because Python may do something else each
time. What it has built is compared instead: operations, what they are given, shapes, dtypes,
variables and numbers. Only the values of arrays, such as those of a batch, may differ between two
programs that are run by one function; they are fed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeGuard

import numpy as np

from kbench import backend as K
from kbench.api.operations import (
    Constant,
    Placeholder,
    Tensor,
    Variable,
    rebuild,
    settings_in_force,
    walk,
    with_inputs,
)
from kbench.keras3.calls.planned import Plans

MAX_PROGRAMS = 16
"""Programs of a generation: two or three losses, each with batches of a few sizes."""

programs = Plans(most=MAX_PROGRAMS)


def _is_fed(node: Tensor) -> TypeGuard[Constant | Placeholder]:
    """Whether it is an array, or rows, whose values nobody knew while the program was built."""
    if isinstance(node, Constant):
        return node.value.ndim > 0 and node.spec.value is None
    return isinstance(node, Placeholder) and node.spec.sparse and node.default is not None


def _value(node: Constant | Placeholder) -> Any:
    return node.value if isinstance(node, Constant) else node.default


def _entry(node: Tensor, numbers: dict[int, int]) -> Hashable:
    """What a node does, by the numbers of its inputs; None where that cannot be compared."""
    if _is_fed(node):
        return "fed", node.spec.shape, node.spec.dtype, node.spec.sparse
    if isinstance(node, Constant):
        return "constant", node.value.shape, node.value.dtype.str, node.value.tobytes()
    if isinstance(node, Variable):
        return "variable", id(node), node.spec.shape, node.spec.dtype
    if not node.op.pure or node.controls or node.op.kind == "source":
        return None
    attributes = tuple(sorted(node.attrs.items(), key=lambda entry: entry[0]))
    try:
        hash(attributes)
    except TypeError:
        return None
    inputs = tuple(numbers[id(operand)] for operand in node.inputs)
    return node.op, inputs, node.spec.shape, node.spec.dtype, attributes, repr(attributes)


def _key(nodes: Sequence[Tensor], roots: Sequence[Tensor]) -> Hashable:
    """Equal for two programs that compute the same from what is fed; None where none is equal."""
    numbers: dict[int, int] = {}
    entries = []
    for node in nodes:
        entry = _entry(node, numbers)
        if entry is None:
            return None
        numbers[id(node)] = len(numbers)
        entries.append(entry)
    return settings_in_force(), tuple(entries), tuple(numbers[id(root)] for root in roots)


def evaluate(roots: Sequence[Tensor], name: str) -> list[np.ndarray]:
    """The values of all, computed together, by the function of an earlier program if one is equal.

    The nodes of a kept function stay alive with it, so that no id of a variable is used again.
    """
    if not roots:
        return []
    nodes = walk(roots)
    key = _key(nodes, roots)
    if key is None:
        return list(K.function([], list(roots), name=name)([]))
    fed: list[Any] = [node for node in nodes if _is_fed(node)]
    function: Any = programs.get(key)
    if function is None:
        inputs = {
            id(node): K.placeholder(node.spec.shape, dtype=node.spec.dtype, sparse=node.spec.sparse)
            for node in fed
        }

        def visit(node: Tensor, operands: tuple[Tensor, ...]) -> Tensor:
            return with_inputs(node, tuple(inputs.get(id(x), x) for x in operands))

        outputs = [inputs.get(id(root), root) for root in rebuild(roots, set(), visit)]
        function = K.function(list(inputs.values()), outputs, name=name)
        programs.put(key, function)
    return list(function([_value(node) for node in fed]))
