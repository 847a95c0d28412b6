"""What is known of a value of a graph with respect to the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor


class Free(Struct, frozen=True):
    """It depends on no row, nor on how many there are."""


class Rows(Struct, frozen=True):
    """`axis` holds the rows in their order, `per` entries of each, which depend on that row alone
    and not on how many rows there are."""

    axis: int
    per: int = 1


class Sizes(Struct, frozen=True):
    """Integers that tell sizes: entry i is `counts[i]` times the number of rows, where that is
    known; for 0 it does not depend on the rows. A scalar has one entry."""

    counts: tuple[int | None, ...]


class Several(Struct, frozen=True):
    """The results of an operation that has several."""

    parts: tuple[State, ...]


class Mixed(Struct, frozen=True):
    """It depends on several rows, or may do so, since `node`, which `why` tells."""

    node: Tensor
    why: str


State: TypeAlias = "Free | Rows | Sizes | Several | Mixed"
FREE = Free()


class Mixes(Exception):
    """Raised by a rule: the result of an operation is mixed. The text goes on after its name."""


OVER_ROWS = "goes over the batch axis"
BY_PLACE = "meets a value that has a size of its own along the batch axis"
BY_COUNT = "depends on the number of rows"
UNKNOWN = "may let rows see each other, as far as is known"
NOT_IN_LINE = "brings the batch axis of one operand to another axis of the other"


def sized(counts: Sequence[int | None]) -> State:
    """Sizes, or what they come to where no entry has to do with the rows."""
    return Sizes(tuple(counts)) if any(count != 0 for count in counts) else FREE


def alike(states: Sequence[State]) -> Rows:
    """The one state of operands that are all rows along the same axis; Mixes for others."""
    first = states[0]
    if not isinstance(first, Rows) or any(state != first for state in states):
        raise Mixes(mismatch(states))
    return first


def mismatch(states: Sequence[State]) -> str:
    """Why operands, of which at least one has rows, do not go together."""
    if any(isinstance(state, Sizes) for state in states):
        return BY_COUNT
    return BY_PLACE if FREE in states else NOT_IN_LINE
