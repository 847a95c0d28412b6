"""The graph of a map, as Dask knows it: the function once, and a task for each chunk."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import dask.array as da
import distributed
import numpy as np
from dask.base import tokenize
from dask.delayed import Delayed
from dask.layers import ArrayBlockwiseDep

from kbench.dask import arrays, figures, worker
from kbench.dask.mapped import Chunk, Mapped
from kbench.dask.payload import pack
from kbench.dask.rows.analysis import Known
from kbench.dask.rows.states import Rows
from kbench.engine.execute.function import Function


class _Places(ArrayBlockwiseDep):
    """Gives the task of each chunk its number, first row and rows."""

    def __init__(self, chunks: tuple[Any, ...]) -> None:
        super().__init__((chunks,))
        self.firsts = np.cumsum([0, *chunks])

    def __getitem__(self, idx: tuple[int, ...]) -> tuple[int, int | None, int | None]:
        (index,) = idx
        rows, first = self.chunks[0][index], self.firsts[index]
        if np.isnan(rows) or np.isnan(first):
            return index, None, None
        return index, int(first), int(rows)

    def __dask_tokenize__(self) -> tuple[str, object]:
        return "kbench places", self.chunks


def lazy(
    function: Function,
    found: arrays.Given,
    outputs: Sequence[Known],
    batch: int | None,
    name: str,
) -> list[Any]:
    """The dask arrays of a map."""
    per = [one.state.per for one in outputs if isinstance(one.state, Rows)]
    payload = pack(Mapped(function, found.constants, per, batch))
    client = _client()
    key = f"kbench-payload-{payload.hash}"
    shapes = [array.chunks for array in found.arrays]
    job = f"kbench-map-{tokenize(key, [array.name for array in found.arrays], shapes)}"
    figures.expect(job, name, len(found.chunks), key)
    if client is not None:
        worker.prepare(client)
        figures.follow(client)
    blocks: list[Any] = []
    for array in found.arrays:
        blocks += [array, tuple(range(array.ndim))]
    held = Delayed(key, {key: payload})  # a key of its own, on which all chunks depend
    ends = (held, None, _Places(found.chunks), (0,), *blocks)
    if len(outputs) == 1:
        return [_array(Chunk(job, True), job, outputs[0], per[0], ends)]
    whole = da.blockwise(
        Chunk(job, False), (0,), *ends, name=job, align_arrays=False, meta=np.empty(0, object)
    )
    return [
        _array(operator.getitem, f"{job}-{place}", one, size, (whole, (0,), place, None))
        for place, (one, size) in enumerate(zip(outputs, per, strict=True))
    ]


def _array(task: Any, name: str, one: Known, per: int, ends: tuple[Any, ...]) -> Any:
    """An array of which each chunk is what a task gives."""
    sizes = {
        axis: (np.nan if size is None else size,)
        for axis, size in enumerate(one.spec.shape)
        if axis
    }
    taken = {axis for ind in ends[1::2] if ind is not None for axis in ind}
    return da.blockwise(
        task,
        tuple(range(one.spec.ndim)),
        *ends,
        name=name,
        align_arrays=False,
        new_axes={axis: size for axis, size in sizes.items() if axis not in taken},
        adjust_chunks={
            0: lambda rows: rows * per,
            **{axis: size for axis, size in sizes.items() if axis in taken},
        },
        meta=np.empty((0,) * one.spec.ndim, one.spec.dtype),
    )


def _client() -> Any:
    """The client of a cluster that would compute, if there is one."""
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return client if client.status == "running" and not client.asynchronous else None
