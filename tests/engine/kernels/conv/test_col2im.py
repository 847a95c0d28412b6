"""The gradient of a convolution to an input with few channels, against the NumPy form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_helpers import compiled_at_once

from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.conv import col2im
from kbench.engine.ops.conv import convolve_numpy
from kbench.engine.runtime import config

__all__ = ["compiled_at_once"]

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
WINDOWS = ((3, 3), (7, 7), (1, 5), (2, 4), (1, 1))
STRIDES = ((1, 1), (2, 2), (3, 1), (1, 4))


@pytest.fixture(autouse=True)
def taken(monkeypatch):
    """Counts how often this form was taken."""
    taken, way = [], col2im.way

    def counted(*arguments):
        taken.append(1)
        return way(*arguments)

    monkeypatch.setattr(col2im, "way", counted)
    return taken


def check(dtype, random, channels, window, strides, pads, dilation=(1, 1)):
    rows, columns, filters = random.integers((24, 15, 16), (70, 30, 40))
    reach = [(width - 1) * spacing for width, spacing in zip(window, dilation, strict=True)]
    places = [
        (size + 2 * pad - far - 1) // step + 1
        for size, pad, far, step in zip((rows, columns), pads, reach, strides, strict=True)
    ]
    g = random.standard_normal((2, *places, filters)).astype(dtype)
    g[0, 1, 1, 2], g[1, -1, -1, 0] = np.nan, np.inf
    kernel = random.standard_normal((*window, channels, filters)).astype(dtype)
    out = np.full((2, rows, columns, channels), 7, dtype)
    wanted = np.empty_like(out)
    conv.find_kernel("to_input", dtype, 2)(out, g, kernel, strides, pads, dilation)
    starts = tuple(-pad for pad in pads)
    convolve_numpy.correlate_to_input(wanted, g, kernel, strides, starts, dilation)
    error = TOLERANCE[dtype] * np.nanmax(np.abs(np.where(np.isinf(wanted), 0, wanted)))
    np.testing.assert_allclose(out, wanted, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_sizes_borders_and_strides(dtype, taken):
    random = np.random.default_rng(5)
    lanes = conv.find_tiles(dtype).lanes  # with more channels the direct form fills half of them
    count = 0
    for channels, window, strides in itertools.product((1, 3, 4), WINDOWS, STRIDES):
        for pads in ((0, 0), (1, 2), (3, 3)):
            if pads[0] < window[0] and pads[1] < window[1]:
                check(dtype, random, channels, window, strides, pads)
                count += 2 * channels <= lanes
    check(dtype, random, 3, (3, 3), (1, 1), (2, 1), (2, 1))
    assert len(taken) == count + (2 * 3 <= lanes)


def test_results_do_not_depend_on_the_number_of_threads():
    random = np.random.default_rng(6)
    g = random.standard_normal((3, 53, 53, 64)).astype("float32")
    kernel = random.standard_normal((7, 7, 3, 64)).astype("float32")
    before, results = config.num_threads(), []
    for count in (1, 2, 5):
        config.set_num_threads(count)
        results.append(np.empty((3, 112, 112, 3), "float32"))
        conv.find_kernel("to_input", "float32", 2)(results[-1], g, kernel, (2, 2), (0, 0), (1, 1))
    config.set_num_threads(before)
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
