"""Which two-dimensional slice of an array is shown, and the text form of it: `[0, :, :, 3]`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.core.errors import ArgumentError


class Slice(Struct, frozen=True):
    """One index per axis, and the axes shown as rows and columns (None when there is none)."""

    index: tuple[int, ...]
    row_axis: int | None
    col_axis: int | None

    def __str__(self) -> str:
        shown = (self.row_axis, self.col_axis)
        texts = [":" if axis in shown else str(at) for axis, at in enumerate(self.index)]
        return f"[{', '.join(texts)}]"

    def of(self, array: np.ndarray) -> np.ndarray:
        """The slice as a view of rank 2."""
        shown = (self.row_axis, self.col_axis)
        key = tuple(slice(None) if axis in shown else at for axis, at in enumerate(self.index))
        part = array[key]
        if self.row_axis is not None and self.col_axis is not None:
            return part.T if self.row_axis > self.col_axis else part
        return part.reshape(1, -1) if self.row_axis is None else part.reshape(-1, 1)


def first(shape: Sequence[int]) -> Slice:
    """The last two axes at index 0 of all others."""
    rank = len(shape)
    return Slice((0,) * rank, rank - 2 if rank > 1 else None, rank - 1 if rank else None)


def parse(text: str, shape: Sequence[int]) -> Slice:
    """Read `0, :, :, 3`, with or without brackets; at most two colons, `...` for leading axes.

    Raises:
        ArgumentError: another number of entries than axes, an index that the axis does not have,
            or more than two colons.
    """
    words = [word.strip() for word in text.strip().removeprefix("[").removesuffix("]").split(",")]
    words = [word for word in words if word]
    if words.count("...") == 1:
        place = words.index("...")
        words[place : place + 1] = [":"] * (len(shape) - len(words) + 1)
    if len(words) != len(shape):
        raise ArgumentError(f"{len(shape)} entries are needed, one per axis; got {len(words)}")
    shown = [axis for axis, word in enumerate(words) if word == ":"]
    if len(shown) > 2:
        raise ArgumentError(f"at most two axes can be shown; {len(shown)} have a colon")
    index = tuple(
        0 if word == ":" else _index(word, axis, shape[axis]) for axis, word in enumerate(words)
    )
    row_axis = shown[0] if len(shown) == 2 else None
    return Slice(index, row_axis, shown[-1] if shown else None)


def _index(word: str, axis: int, size: int) -> int:
    try:
        index = int(word)
    except ValueError:
        raise ArgumentError(f"axis {axis}: {word!r} is neither an index nor a colon") from None
    if not -size <= index < size:
        raise ArgumentError(f"index {index} is out of range for axis {axis} of size {size}")
    return index % size
