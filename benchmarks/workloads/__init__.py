"""What is measured: each formula once, written against the names that every library offers.

A formula gets `F`, the functions of one library under Keras' names, and its operands. The same
text so makes the graph for kbench, the NumPy call, the PyTorch call and the traced functions of JAX
and TensorFlow. One file for each family; none knows a library or a clock.
"""

from __future__ import annotations

from workloads import (
    convolution,
    elementwise,
    loops,
    movement,
    norms,
    pooling,
    products,
    randoms,
    recurrent,
    reductions,
    tiny,
    train,
)
from workloads.base import Goal, Workload

__all__ = ["WORKLOADS", "Goal", "Workload"]

_FAMILIES = (
    elementwise, reductions, movement, products, convolution, pooling, norms, randoms, recurrent,
    loops, train, tiny,
)  # fmt: skip

WORKLOADS: dict[str, Workload] = {one.name: one for family in _FAMILIES for one in family.WORKLOADS}
