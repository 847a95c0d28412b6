"""The largest or the mean of windows, of a given size or a given number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config

from kbench import backend as K
from kbench.keras3.calls.host import common_dtype
from kbench.keras3.calls.planned import planned
from kbench.keras3.nn.conv import as_given, channels_last, sizes
from kbench.keras3.numpy import index, layout, linear, reduce
from kbench.keras3.numpy.elementwise import float_type
from kbench.keras3.tensor import finish, in_dtype


def _pooled(
    inputs: Any, window: Any, strides: Any, padding: str, data_format: Any, mode: str
) -> Any:
    layout_name = config.standardize_data_format(data_format)
    rank = len(inputs.shape) - 2
    size = sizes(window, rank)
    steps = size if strides is None else sizes(strides, rank)
    dtype = common_dtype(inputs) if mode == "max" else float_type(inputs)
    x = channels_last(in_dtype(inputs, dtype), layout_name)
    flat = rank == 1
    if flat:
        x, size, steps = K.expand_dims(x, 1), (1, *size), (1, *steps)
    run = K.pool3d if rank == 3 else K.pool2d
    found = run(x, size, steps, padding.lower(), "channels_last", mode)
    found = K.squeeze(found, 1) if flat else found
    return finish(as_given(found, layout_name), dtype)


def _pool(mode: str, told: str) -> Callable[..., Any]:
    def pool(
        inputs: Any,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: Any = None,
    ) -> Any:
        return _pooled(inputs, pool_size, strides, padding, data_format, mode)

    pool.__doc__ = told
    return planned(pool)


max_pool = _pool("max", "The largest element of every window.")
average_pool = _pool("avg", "The mean of the cells of every window that lie inside.")


def _edges(size: int, count: int) -> list[tuple[int, int]]:
    """Where windows begin and end, which are spread evenly."""
    return [(i * size // count, -((-(i + 1) * size) // count)) for i in range(count)]


def _axes(inputs: Any, output_size: Any, data_format: Any) -> list[tuple[int, int]]:
    layout_name = config.standardize_data_format(data_format)
    rank = len(inputs.shape) - 2
    first = 1 if layout_name == "channels_last" else 2
    counts = sizes(output_size, rank)
    return [(first + i, count) for i, count in enumerate(counts)]


@planned
def adaptive_average_pool(inputs: Any, output_size: Any, data_format: Any = None) -> Any:
    """The means of so many windows along each axis."""
    x = layout.known(inputs)
    dtype = float_type(x)
    for axis, count in _axes(x, output_size, data_format):
        size = x.shape[axis]
        shares = np.zeros((size, count), "float32")
        for place, (start, stop) in enumerate(_edges(size, count)):
            shares[start:stop, place] = 1.0 / (stop - start)
        turned = linear.tensordot(x, shares.astype(dtype), ([axis], [0]))
        x = layout.moveaxis(turned, -1, axis)
    return x


@planned
def adaptive_max_pool(inputs: Any, output_size: Any, data_format: Any = None) -> Any:
    """The largest elements of so many windows along each axis."""
    x = layout.known(inputs)
    for axis, count in _axes(x, output_size, data_format):
        edges = _edges(x.shape[axis], count)
        widest = max(stop - start for start, stop in edges)
        places = np.array(
            [[min(start + i, stop - 1) for i in range(widest)] for start, stop in edges]
        )
        x = reduce.max(index.take(x, places, axis), axis + 1)
    return x
