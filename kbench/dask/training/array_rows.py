"""Rows of an array of Dask, which lie on the workers: what Keras slices in place of an array."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from dask.delayed import delayed
from msgspec import Struct

from kbench.dask.training import pieces
from kbench.dask.training.program import FIT
from kbench.engine.core.errors import ArgumentError, shown


class HeldArray(Struct):
    """An array of Dask whose chunks are computed, or will be, and stay on the workers."""

    name: str  # what the caller of `fit` calls it
    client: Any
    array: Any  # of futures, one for each chunk: rows are cut, other axes are not
    firsts: np.ndarray

    @classmethod
    def all_of(cls, client: Any, arrays: dict[str, Any]) -> dict[str, HeldArray]:
        """Have the chunks of arrays computed, by their names, without waiting for them.

        Tasks of a step go before chunks that no step needs yet.
        """
        found = client.persist(list(arrays.values()), priority=-1) if arrays else []
        return {
            name: cls(name, client, array, np.cumsum([0, *array.chunks[0]], dtype=np.int64))
            for name, array in zip(arrays, found, strict=True)
        }

    def release(self) -> None:
        """Keep the chunks no longer."""
        self.array = None

    def taken(self, rows: np.ndarray) -> tuple[list[Any], list[pieces.Places]]:
        """Tasks of Dask that give pieces, and where these are to stand."""
        if self.array is None:
            raise ArgumentError(
                f"{self.name} was a dask array; its rows are available only while fit runs, "
                "and it has ended",
                function=FIT,
            )
        cut = pieces.cut(rows, self.firsts)
        inner = (0,) * (self.array.ndim - 1)
        tasks = []
        for piece in cut:
            shape = int(self.array.chunks[0][piece.chunk]), *self.array.shape[1:]
            future = self.array.dask[(self.array.name, piece.chunk, *inner)]
            key = f"kbench-rows-{uuid.uuid4().hex}"
            tasks.append(
                delayed(pieces.take, pure=False)(
                    future,
                    piece.rows,
                    pieces.Chunk(self.name, piece.chunk, shape),
                    dask_key_name=key,
                )
            )
        return tasks, [piece.places for piece in cut]


class ArrayRows:
    """Some rows of a held array, by their numbers: has the shape of an array, and no values here.

    A slice or a list of rows gives others of the same array. `np.asarray` fetches them.
    """

    def __init__(self, held: HeldArray, rows: range | np.ndarray) -> None:
        self.held, self.rows = held, rows
        self.dtype = held.array.dtype
        self.shape = (len(rows), *map(int, held.array.shape[1:]))
        self.ndim = len(self.shape)

    @classmethod
    def whole(cls, held: HeldArray) -> ArrayRows:
        """All rows of an array."""
        return cls(held, range(int(held.firsts[-1])))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)}, rows of the dask array {self.held.name}>"

    def __getitem__(self, key: slice | Sequence[int] | np.ndarray) -> ArrayRows:
        if isinstance(key, slice):
            return self._of(self.rows[key])
        numbers = np.asarray(key)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ArgumentError(
                f"rows of the dask array {self.held.name} are taken by a slice or a list of "
                f"numbers, got {shown(key)}; np.asarray fetches them",
                function=FIT,
            )
        return self._of(_picked(self.rows, numbers.astype(np.int64)))

    def _of(self, rows: range | np.ndarray) -> ArrayRows:
        found = object.__new__(ArrayRows)
        found.held, found.rows, found.dtype = self.held, rows, self.dtype
        found.shape, found.ndim = (len(rows), *self.shape[1:]), self.ndim
        return found

    def taken(self) -> tuple[list[Any], list[pieces.Places]]:
        """Tasks of Dask that give the rows in pieces, and where these are to stand."""
        return self.held.taken(_picked(self.rows, np.arange(len(self.rows))))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Fetch the rows from the workers."""
        tasks, places = self.taken()
        if not tasks:
            return np.empty(self.shape, dtype or self.dtype)
        client = self.held.client
        rows = pieces.joined(client.gather(client.compute(tasks)), places)
        return rows if dtype is None else rows.astype(dtype, copy=False)


def _picked(rows: range | np.ndarray, places: np.ndarray) -> np.ndarray:
    """The rows at some places, as int64; a range is not written out for it."""
    if not isinstance(rows, range):
        return np.asarray(rows[places], np.int64)
    if places.size and not -len(rows) <= places.min() <= places.max() < len(rows):
        raise IndexError(f"a row is out of range for {len(rows)} rows")
    found = np.where(places < 0, places + len(rows), places)
    return np.asarray(rows.start + rows.step * found, np.int64)
