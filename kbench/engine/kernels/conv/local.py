"""Locally connected layers: windows without borders, whose weights are others at every place.

The windows of all images at one place meet the weights of that place in the tile of convolutions,
which reads both as they lie: rows of pixels that follow each other are one row of products.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, Ints, KernelCall
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import service
from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.conv.launch import MAX_PLANS, Plan, Tiles, copied, plan, result_array

FILTER_LANES = 16
"""Filters come in so many: the tile reads whole vectors of weights."""
ITEM_TILES = 8
"""Tiles of one item; so many images meet the weights of a place while these are in the cache."""

SOURCE = "kernels/conv/sources/local"


def find(_kind: str, dtype: str) -> KernelCall | None:
    """`(out, x, weights, window, strides, cancel_check=None)`, or None while it is not ready.

    x[n, rows, columns, channels], weights[places, window rows * columns * channels, filters] and
    out[n, places, filters], with the places in the order of rows and columns.
    """
    tiles = conv.find_tiles(dtype)
    size = np.dtype(dtype).itemsize
    text = functools.partial(kernel_file.specialized, SOURCE, SIZE=size)
    job = service.find(f"local_run_{dtype}", text)
    return None if tiles is None or job is None else functools.partial(_call, tiles, job)


def _call(
    tiles: Tiles, job: Job, out: Array, x: Array, weights: Array, window: Sequence[int],
    strides: Sequence[int], cancel_check: CancelCheck | None = None,
) -> None:  # fmt: skip
    for array, rank in ((out, 3), (x, 4), (weights, 3)):
        if array.dtype != tiles.dtype or array.ndim != rank:
            shape = list(array.shape)
            raise ValueError(f"expected {tiles.dtype} of rank {rank}, got {array.dtype}{shape}")
    counts = [
        (size - width) // stride + 1
        for size, width, stride in zip(x.shape[1:3], window, strides, strict=True)
    ]
    patch = window[0] * window[1] * x.shape[3]
    wanted = (x.shape[0], counts[0] * counts[1], weights.shape[2])
    valid = min(*counts, *window, *strides) > 0 and weights.shape[:2] == (wanted[1], patch)
    if not valid or out.shape != wanted or wanted[2] % FILTER_LANES:
        raise ValueError(f"x {x.shape}, weights {weights.shape} and result {out.shape} disagree")
    if out.size == 0:
        return
    if patch == 0:
        out.fill(0)
        return
    x, weights = (np.require(array, tiles.dtype, ["C", "A"]) for array in (x, weights))
    into = result_array(out, tiles.dtype, [x, weights])
    sizes = tuple(x.shape), tuple(window), tuple(strides), tuple(counts), wanted[2]
    _planned(tiles, job, *sizes).run(cancel_check, *map(address_of, (into, x, weights)))
    if into is not out:
        copied(out, into).run(cancel_check)


@functools.lru_cache(MAX_PLANS)
def _planned(
    tiles: Tiles, job: Job, x: Ints, window: Ints, strides: Ints, counts: Ints, filters: int
) -> Plan:
    pixel = x[3] * tiles.size
    line, depth = x[2] * pixel, window[1] * x[3]
    table = np.array([(tap * line, tap * depth) for tap in range(window[0])], np.int64)
    share = min(x[0], ITEM_TILES * tiles.most)
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "table": address_of(table), "taps": window[0], "depth": depth,
        "images": x[0], "image_bytes": x[1] * line, "share": share,
        "places": counts[0] * counts[1], "columns": counts[1],
        "row_bytes": strides[0] * line, "column_bytes": strides[1] * pixel, "filters": filters,
    }  # fmt: skip
    items = counts[0] * counts[1] * -(-x[0] // share)
    work = share * window[0] * depth * filters
    fields = kernel_file.parameters_of(SOURCE)
    return plan(job, tiles.dtype, fields, values, items, work, kept=[table])
