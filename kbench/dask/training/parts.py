"""Sums over the shards of a batch, added up two by two in an order that the shards alone decide.

A shard is a leaf of a binary tree. `merged` joins what it is given and adds whichever neighbours
are both there. So the sum has the same bits, whoever adds first and whichever worker had a shard.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

Place = tuple[int, int]
"""Level and number of a node of the tree; leaves are of level 0."""


class Work(Struct, frozen=True):
    """What a worker has done for a step, for those who look."""

    address: str
    shards: int
    rows: int
    seconds: float  # from the first shard's begin to the last one's end
    received: int  # bytes of inputs, and of weights if they came for this step
    returned: int  # bytes of what it gave
    waited: float = 0.0  # seconds of these for other shards


class Part(Struct):
    """Sums over some of the shards: arrays by place in the tree, and who did the work."""

    shards: int  # of the whole batch
    sums: dict[Place, list[np.ndarray]] = field(default_factory=dict)
    work: list[Work] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for arrays in self.sums.values() for array in arrays)

    @property
    def total(self) -> list[np.ndarray]:
        """The sums over all shards; KeyError as long as some are missing."""
        return self.sums[self._root]

    @property
    def _root(self) -> Place:
        return (max(self.shards - 1, 0).bit_length(), 0)


def merged(parts: Iterable[Part]) -> Part:
    """One part of several; may write into the arrays of those that are given."""
    found: Part | None = None
    for part in parts:
        if found is None:
            found = Part(part.shards)
        found.sums.update(part.sums)
        found.work.extend(part.work)
    assert found is not None
    _add_neighbours(found)
    return found


def _add_neighbours(part: Part) -> None:
    level, width = 0, part.shards
    while width > 1:
        for number in range(0, width, 2):
            left, right = (level, number), (level, number + 1)
            above = (level + 1, number // 2)
            if right[1] >= width:  # the last one of an odd count has no neighbour
                if left in part.sums:
                    part.sums[above] = part.sums.pop(left)
            elif left in part.sums and right in part.sums:
                part.sums[above] = _added(part.sums.pop(left), part.sums.pop(right))
        level, width = level + 1, -(-width // 2)


def _added(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
    for place, (array, other) in enumerate(zip(first, second, strict=True)):
        if array.flags.writeable:
            np.add(array, other, out=array)
        else:  # as it came over a connection
            first[place] = np.add(array, other)
    return first
