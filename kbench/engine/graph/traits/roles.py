"""Traits: what passes ask of an operation, so that none has to know which operation it is.

An operation declares its traits where its gradient stands; the fields are those of `Op`. Here are
the words for them, and the rules that several operations share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

from kbench.engine.core.types import Attrs, Ints

Extents = Sequence[tuple[int, int]]
"""Of each axis, in order, the first entry that is taken and the number of them."""
Pattern = tuple[int, ...]
"""An order of axes: axis i of the result is axis `pattern[i]`."""
PermutedAttrs = Callable[[Attrs, Pattern], Attrs | None]
"""Gives the attributes with which an operation on permuted arrays works on the arrays themselves;
None where there are none."""
ExtentsOf = Callable[[Attrs, Ints], Extents | None]
"""Gives the part of a shape that attributes choose; None where it is no block of neighbours."""


class Role(Enum):
    """What an operation is to a pass that matches several of them. Some are played by a few."""

    BRANCH = auto()
    """It gives one of two operands, by a condition."""
    CHANNELS_LAST = auto()
    """It computes with channels last in memory: a convolution."""
    FILL = auto()
    """It gives the number `value` everywhere."""
    FOLD = auto()
    """It makes one number of those along `axis`, in whatever order they come, as reductions do."""
    IDENTITY = auto()
    """It gives its operand."""
    JOIN = auto()
    """It gives its operands behind each other along `axis`."""
    PART = auto()
    """It gives a part of its first operand, which `extents` tells."""
    PERMUTE = auto()
    """It gives the axes in the order `pattern`."""
    PLACE = auto()
    """It gives its first operand where `extents` tells, and zeros around it."""
    PRODUCT = auto()
    """It sums products of two operands: of matrices, of batches of them."""
    REDUCE_LIKE = auto()
    """It sums over the axes along which the second operand was repeated."""
    REPEAT = auto()
    """It repeats the first operand along `axis`."""
    RESHAPE = auto()
    """It gives the elements of the first operand, in their order, in another shape."""
    SETTLED = auto()
    """It gives its first operand, and 0 for what is nearer to 0 than the second."""


def axis_permuted(attrs: Attrs, pattern: Pattern) -> Attrs:
    """For operations that work along the axis `axis`."""
    return {**attrs, "axis": pattern[attrs["axis"]]}


def window_permuted(count: str) -> PermutedAttrs:
    """For attributes that begin at the axis `first` and go on along as many as `count` has."""

    def start_moved(attrs: Attrs, pattern: Pattern) -> Attrs | None:
        first, number = attrs["first"], len(attrs[count])
        start = pattern[first]
        follows = pattern[first : first + number] == tuple(range(start, start + number))
        return {**attrs, "first": start} if follows else None

    return start_moved
