"""Rows of chunked arrays as they come to a worker: in pieces, one from each chunk that has some.

The client plans them by row numbers alone (`cut`); tasks of Dask take them out of their chunks
(`take`), where these are; the task that computes shards puts them together (`filled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from kbench.dask.errors import ClusterError
from kbench.engine.core.errors import describe_value

Places = slice | np.ndarray
"""Which rows of an array: those in a row as a slice."""
_Array = TypeVar("_Array")


class Piece(Struct, frozen=True):
    """Rows of one chunk, and where they are to stand among those that are asked for."""

    chunk: int
    rows: Places
    places: Places


class Taken(Struct, frozen=True):
    """In the place of a shard's array: rows of one that comes in pieces."""

    array: int  # which of the arrays that come so
    start: int
    stop: int


class Chunk(Struct, frozen=True):
    """What the array of a chunk is to be."""

    name: str  # of what was given, for errors
    number: int
    shape: tuple[int, ...]


def cut(rows: np.ndarray, firsts: np.ndarray) -> list[Piece]:
    """The pieces of an array that make up `rows`.

    Arguments:
        rows: int64[n], numbers of rows in the order in which they are needed.
        firsts: int64[chunks + 1], the first row of each chunk, and behind them how many rows
            there are.
    """
    chunks = np.searchsorted(firsts, rows, side="right") - 1
    order = np.argsort(chunks, kind="stable")
    ordered = chunks[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return [
        Piece(int(chunks[places[0]]), narrowed(rows[places] - firsts[chunks[places[0]]]),
              narrowed(places))
        for places in np.split(order, starts[1:]) if len(places)
    ]  # fmt: skip


def narrowed(rows: np.ndarray) -> Places:
    """The rows; as a slice, which copies nothing, if one follows the other."""
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return slice(int(rows[0]), int(rows[0]) + len(rows))
    return rows


def take(array: Any, rows: Places, chunk: Chunk) -> np.ndarray:
    """Some rows of a chunk; a task of Dask.

    Raises:
        ClusterError: the chunk is not what its array says of it.
    """
    plain = isinstance(array, np.ndarray) and not np.ma.isMaskedArray(array)
    if not plain or array.shape != chunk.shape:
        told = describe_value(array) if plain else f"a {type(array).__name__}"
        raise ClusterError(
            f"chunk {chunk.number} of {chunk.name} is {told or 'no array'}, where its dask array "
            f"promises a NumPy array of shape {list(chunk.shape)}",
            function="kbench.dask.fit",
        )
    return array[rows]  # type: ignore[no-any-return]


def joined(pieces: Sequence[np.ndarray], places: Sequence[Places]) -> np.ndarray:
    """The rows of all pieces, in the order in which they are needed."""
    if len(pieces) == 1:
        (place,) = places
        if isinstance(place, slice):
            return pieces[0]
    count = sum(len(piece) for piece in pieces)
    rows = np.empty((count, *pieces[0].shape[1:]), np.result_type(*pieces))
    for piece, place in zip(pieces, places, strict=True):
        rows[place] = piece
    return rows


def filled(arrays: tuple[_Array, ...], found: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """A shard's arrays, with its rows of those that came in pieces."""
    return tuple(
        found[array.array][array.start : array.stop] if isinstance(array, Taken) else array
        for array in arrays
    )
