"""What the laws of operations share: a law gets a node, and gives what is the same and simpler.

A law holds for every value, NaN and signed zeros included. Its name says what it does, and its
docstring is the law. It gives None where it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kbench.engine.core.spec import known_size
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role

Law = Callable[[Tensor], Tensor | None]


def is_number(node: Tensor, number: float) -> bool:
    """Whether a node is a constant of one element, this number."""
    return (
        isinstance(node, Constant) and node.value.size == 1 and bool(np.all(node.value == number))
    )


def repeats_number(node: Tensor, number: float) -> bool:
    """Whether a node of known shape is a number repeated, as the gradient of a sum is."""
    known = node.op.role is Role.REPEAT and known_size(node.spec.shape) is not None
    return known and is_number(node.inputs[0], number)


def same_spec(node: Tensor, other: Tensor) -> bool:
    """Whether one may stand for the other, as far as dtype and shape go."""
    return node.spec.dtype == other.spec.dtype and node.spec.shape == other.spec.shape
