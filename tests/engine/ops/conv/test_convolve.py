"""What the rows of the op table do not say of convolution: blocks, memory, identities, tiers."""

from __future__ import annotations

import itertools
import math
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from cases_conv import convolved, depthwise, taps_seen
from hypothesis import given
from hypothesis import strategies as st

from kbench import backend as K
from kbench.engine.core import cancel
from kbench.engine.ops.conv import convolve_numpy, windows
from kbench.engine.ops.conv import depthwise as depthwise_ops

RANDOM = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.normal(size=shape).astype(dtype)


# ------------------------------------------------------------------ windows


@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from("vsc"),
)
def test_counts_and_borders_agree(
    size: int, window: int, stride: int, dilation: int, letter: str
) -> None:
    padding = {"v": "valid", "s": "same", "c": "causal"}[letter]
    reach = windows.reach(window, dilation)
    if padding == "valid" and reach > size:
        with pytest.raises(K.ShapeError, match="is larger than spatial axis 0"):
            windows.window_counts((size,), (window,), (stride,), padding, (dilation,))
        return
    (count,) = windows.window_counts((size,), (window,), (stride,), padding, (dilation,))
    ((before, after),) = windows.pads_of((size,), (window,), (stride,), padding, (dilation,))
    starts = range(0, before + size + after - reach + 1, stride)
    assert count == len(starts)
    assert windows.window_count(size, window, stride, padding, dilation) == count
    assert before <= after or padding == "causal"
    assert before < reach


def test_what_is_unknown_stays_unknown() -> None:
    assert windows.window_count(None, 3, 2, "valid") is None
    assert windows.window_count(8, None, 2, "valid") is None
    assert windows.window_count(8, None, 2, "same") == 4
    assert windows.window_counts((None, 5), (3, None), (1, 1), "valid") == (None, None)


@pytest.mark.parametrize("value", [2, (2,), [2], np.array([2]), np.int64(2), np.array(2)])
def test_integers_in_every_form(value: Any) -> None:
    assert windows.checked_ints(value, 1, "strides") == (2,)


# ------------------------------------------------------------------ blocks


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 9), st.integers(1, 200))
def test_blocks_cover_everything_once_in_order(sizes: list[int], unit: int, budget: int) -> None:
    seen = np.zeros(sizes, int)
    for box in convolve_numpy.blocks(tuple(sizes), unit, budget):
        seen[box] += 1
        part = seen[box]
        assert part.flags.c_contiguous
        assert part.size * unit <= max(budget, unit)
    assert (seen == 1).all()


GEOMETRY = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        *[st.tuples(*[st.integers(1, top)] * rank) for top in (6, 3, 3, 3)],
        st.sampled_from(["valid", "same", "causal"]),
        st.sampled_from([1, 7, 60, 1 << 20]),
    )
)


@given(GEOMETRY, st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))
def test_all_three_products_for_any_blocks(
    geometry: Any, images: int, channels: int, filters: int
) -> None:
    """Strides and dilation together, which K refuses, are right too."""
    sizes, window, strides, dilation, padding, budget = geometry
    reaches = [windows.reach(w, d) for w, d in zip(window, dilation, strict=True)]
    if padding == "valid" and any(r > size for r, size in zip(reaches, sizes, strict=True)):
        return
    starts = tuple(
        -before for before, _ in windows.pads_of(sizes, window, strides, padding, dilation)
    )
    counts, seen = taps_seen(sizes, window, strides, padding, dilation)
    x, kernel = normal(images, *sizes, channels), normal(*window, channels, filters)
    g = normal(images, *counts, filters)
    wanted = [np.zeros(one.shape) for one in (g, x, kernel)]
    for place, tap, cell in seen:
        at, on = (slice(None), *place), (slice(None), *cell)
        wanted[0][at] += x[on].astype(float) @ kernel[tap]
        wanted[1][on] += g[at].astype(float) @ kernel[tap].T
        wanted[2][tap] += x[on].astype(float).T @ g[at]
    got = [np.full(one.shape, np.nan, "float32") for one in wanted]
    before_blocks = convolve_numpy.MAX_GATHERED_ELEMENTS
    convolve_numpy.MAX_GATHERED_ELEMENTS = budget
    try:
        convolve_numpy.correlate(got[0], x, kernel, strides, starts, dilation)
        convolve_numpy.correlate_to_input(got[1], g, kernel, strides, starts, dilation)
        convolve_numpy.correlate_to_kernel(got[2], g, x, strides, starts, dilation)
    finally:
        convolve_numpy.MAX_GATHERED_ELEMENTS = before_blocks
    for value, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(value, right, 1e-5, 1e-5)


def test_depthwise_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, kernel = normal(3, 7, 6, 3, dtype="float64"), normal(3, 2, 3, 2, dtype="float64")
    inputs = [K.variable(x, dtype="float64"), K.variable(kernel, dtype="float64")]
    y = K.depthwise_conv2d(*inputs, strides=2, padding="same")
    tensors = [y, *K.gradients(K.sum(y * y), inputs)]
    whole = K.function([], tensors)([])
    np.testing.assert_allclose(whole[0], depthwise(x, kernel, 2, "same"), 1e-12, 1e-12)
    monkeypatch.setattr(depthwise_ops, "BLOCK_ELEMENTS", 20)
    for value, right in zip(K.function([], tensors)([]), whole, strict=True):
        np.testing.assert_allclose(value, right, 1e-12, 1e-12)


def test_memory_beside_the_result_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    x, kernel = normal(2, 96, 96, 16), normal(7, 7, 16, 4)
    patches = 2 * 96 * 96 * 49 * 16 * 4
    out = np.empty((2, 96, 96, 4), "float32")
    gradient = np.empty(kernel.shape, "float32")
    sides = ((1, 1), (-3, -3), (1, 1))
    tracemalloc.start()
    try:
        convolve_numpy.correlate(out, x, kernel, *sides)
        convolve_numpy.correlate_to_kernel(gradient, out, x, *sides)
        convolve_numpy.correlate_to_input(x, out, kernel, *sides)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 7 << 20 < patches / 7


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize(
    "options",
    [
        {"strides": 2**31 - 1, "padding": "same"},
        {"strides": 150},
        {"dilation_rate": 2**31 - 1, "padding": "same"},
        {"dilation_rate": (140, 70)},
    ],
    ids=str,
)
def test_windows_far_apart_or_spread_far(
    options: dict[str, Any], name: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and time go with the cells that are seen, not with the reach of a window."""
    monkeypatch.setenv("KBENCH_JIT", tier)
    monkeypatch.setenv("KBENCH_LEAST", "1")
    x, kernel = normal(1, 300, 200, 1), normal(3, 3, 1, 2)
    inputs = [K.variable(x), K.variable(kernel)]
    y = getattr(K, name)(*inputs, **options)
    value, to_x, to_kernel = K.function([], [y, *K.gradients(K.sum(y), inputs)])([])
    if options.get("strides", 1) == 1 and "padding" in options:
        wanted = x * kernel[1, 1]
    else:
        wanted = convolved(x, kernel, **options)
    np.testing.assert_allclose(value, wanted, 1e-4, 1e-5)
    np.testing.assert_allclose((to_x * x).sum(), wanted.sum(), 1e-3, 1e-3)
    np.testing.assert_allclose((to_kernel * kernel).sum(), wanted.sum(), 1e-3, 1e-3)


@pytest.mark.parametrize("tier", ["off", "wait"])
def test_a_stop_is_honoured(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    x = K.variable(normal(1, 40, 40, 8))
    y = K.conv2d(x, K.variable(normal(3, 3, 8, 8)))
    compiled = K.function([], [y])
    compiled([])
    big = K.function([], [K.conv2d(K.zeros((16, 96, 96, 32)), K.ones((9, 9, 32, 64)))])
    timer = threading.Timer(0.4, cancel.request)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                big([])
    finally:
        timer.cancel()
        cancel.clear()
    assert compiled([])[0].shape == (1, 38, 38, 8)


# ------------------------------------------------------------------ identities


def test_a_window_of_one_is_a_dot_product() -> None:
    x, kernel = K.variable(normal(2, 5, 4, 3)), K.variable(normal(1, 1, 3, 6))
    wanted = K.dot(x, kernel[0, 0])
    np.testing.assert_allclose(*K.function([], [K.conv2d(x, kernel), wanted])([]), 1e-6, 1e-6)


def test_ranks_agree_where_an_axis_has_one_place() -> None:
    x, kernel = K.variable(normal(2, 9, 3)), K.variable(normal(3, 3, 4))
    options = {"padding": "same", "dilation_rate": 2}
    one = K.conv1d(x, kernel, **options)
    two = K.conv2d(x[:, None], kernel[None], **options)[:, 0]
    three = K.conv3d(x[:, :, None, None], kernel[:, None, None], **options)[:, :, 0, 0]
    values = K.function([], [one, two, three])([])
    np.testing.assert_allclose(values[0], values[1], 1e-6, 1e-6)
    np.testing.assert_allclose(values[0], values[2], 1e-6, 1e-6)


def test_transposed_is_the_gradient() -> None:
    x, kernel = K.variable(normal(2, 9, 8, 3)), K.variable(normal(3, 2, 3, 4))
    y = K.conv2d(x, kernel, (2, 3), "same")
    g = K.variable(normal(*K.int_shape(y)))
    (gradient,) = K.gradients(K.sum(y * g), [x])
    back = K.conv2d_transpose(g, kernel, (None, 9, 8, 3), (2, 3), "same")
    assert K.int_shape(back) == (2, 9, 8, 3)
    np.testing.assert_array_equal(*K.function([], [gradient, back])([]))


def test_causal_sees_nothing_later() -> None:
    x, kernel = K.variable(normal(1, 8, 2)), K.variable(normal(3, 2, 2))
    y = K.conv1d(x, kernel, padding="causal", dilation_rate=2)
    (gradient,) = K.gradients(K.sum(y[:, 4]), [x])
    value = K.eval(gradient)[0].any(-1)
    assert value.tolist() == [True, False, True, False, True, False, False, False]


def test_separable_is_depthwise_then_pointwise() -> None:
    x, first = K.variable(normal(2, 6, 6, 3)), K.variable(normal(3, 3, 3, 2))
    second = K.variable(normal(1, 1, 6, 5))
    whole = K.separable_conv2d(x, first, second, 2, "same")
    parts = K.conv2d(K.depthwise_conv2d(x, first, 2, "same"), second)
    np.testing.assert_array_equal(*K.function([], [whole, parts])([]))


def test_local_with_the_same_kernel_everywhere_is_a_convolution() -> None:
    kernel = normal(2, 3, 3, 4)
    everywhere = np.tile(kernel.reshape(1, 18, 4), (12, 1, 1))
    x = K.variable(normal(2, 5, 5, 3))
    wanted = K.conv2d(x, K.variable(kernel))
    got = K.local_conv2d(x, K.variable(everywhere), (2, 3), (1, 1), (4, 3))
    np.testing.assert_allclose(*K.function([], [got, wanted])([]), 1e-5, 1e-5)


# ------------------------------------------------------------------ shapes that are tensors


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize("form", ["vector", "list", "shape", "fed"])
def test_output_shape_at_evaluation(layout: str, form: str) -> None:
    last = layout == "channels_last"
    x = K.placeholder((None, None, None, 3) if last else (None, 3, None, None))
    kernel = K.variable(normal(2, 2, 5, 3))
    sizes = K.shape(x)
    fed: list[Any] = []
    if form == "vector":
        scale = [1, 2, 2, 1] if last else [1, 1, 2, 2]
        shape: Any = sizes * scale + ([0, 0, 0, 2] if last else [0, 2, 0, 0])
    elif form == "fed":
        shape = K.placeholder((4,), dtype="int32")
        fed = [[2, 6, 8, 5] if last else [2, 5, 6, 8]]
    else:
        rows, columns = (sizes[1] * 2, sizes[2] * 2) if last else (sizes[2] * 2, sizes[3] * 2)
        batch = sizes[0] if form == "shape" else None
        shape = (batch, rows, columns, 5) if last else (batch, 5, rows, columns)
    y = K.conv2d_transpose(x, kernel, shape, (2, 2), "same", layout)
    (gradient,) = K.gradients(K.sum(y * y), [kernel])
    inputs = [x, shape] if form == "fed" else [x]
    array = normal(2, 3, 4, 3) if last else normal(2, 3, 3, 4)
    value, slope = K.function(inputs, [y, gradient])([array, *fed])
    assert value.shape == ((2, 6, 8, 5) if last else (2, 5, 6, 8))
    assert slope.shape == (2, 2, 5, 3)
    assert K.int_shape(y)[1 if not last else 3] == 5


def test_zero_output_positions_of_a_transposed_convolution_with_gaps() -> None:
    y = K.conv2d_transpose(K.ones((1, 2, 2, 1)), K.ones((1, 1, 1, 1)), (1, 5, 5, 1), 3)
    wanted = np.zeros((5, 5))
    wanted[::3, ::3] = 1
    np.testing.assert_array_equal(K.eval(y)[0, :, :, 0], wanted)


# ------------------------------------------------------------------ dtypes and values


def test_images_of_bytes_meet_a_float_kernel() -> None:
    x = RANDOM.integers(0, 255, (1, 5, 5, 3)).astype("uint8")
    kernel = normal(3, 3, 3, 2)
    value = K.eval(K.conv2d(K.variable(x, dtype="uint8"), K.variable(kernel)))
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, convolved(x.astype(float), kernel), 1e-4, 1e-3)


def test_the_wider_float_wins() -> None:
    y = K.conv1d(K.zeros((1, 5, 2), "float16"), K.zeros((2, 2, 3), "float64"))
    assert K.dtype(y) == "float64"


@pytest.mark.parametrize("name", ["conv1d", "depthwise"])
def test_float16_sums_in_float32(name: str) -> None:
    """In float16 a sum of ones would stop at 2048."""
    x = K.ones((1, 64, 64, 1), "float16")
    kernel = K.ones((64, 64, 1, 1), "float16")
    y = K.conv2d(x, kernel) if name == "conv1d" else K.depthwise_conv2d(x, kernel)
    assert K.eval(y).item() == 4096


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_is_seen(value: float) -> None:
    x = np.zeros((1, 6, 6, 1), "float32")
    x[0, 2, 3, 0] = value
    y = K.eval(K.conv2d(K.variable(x), K.ones((3, 3, 1, 1)), padding="same"))[0, :, :, 0]
    seen = np.zeros((6, 6), bool)
    seen[1:4, 2:5] = True
    np.testing.assert_array_equal(~np.isfinite(y), seen)


def test_lists_and_arrays_are_operands() -> None:
    y = K.conv1d([[[1.0], [2.0], [4.0]]], K.ones((2, 1, 1)))
    assert K.dtype(K.conv1d(K.ones((1, 3, 1)), np.ones((2, 1, 1)))) == "float32"
    assert K.dtype(y) == "float32"
    assert K.eval(y).ravel().tolist() == [3.0, 6.0]


# ------------------------------------------------------------------ plan and layouts


def test_the_plan_tells_the_work() -> None:
    x, kernel = K.variable(normal(2, 9, 9, 4)), K.variable(normal(3, 3, 4, 8))
    y = K.conv2d(x, kernel)
    gradients = K.gradients(K.sum(y), [x, kernel])
    with K.record() as runs:
        K.function([], [y, *gradients])([])
    work = {step.label: step.flops for step in runs[0].steps}
    products = 2 * math.prod((2, 7, 7, 8)) * math.prod((3, 3, 4))
    assert work["convolve"] == products
    assert work["convolve_to_kernel"] == products
    assert work["convolve_to_input"] == 2 * math.prod((2, 9, 9, 4)) * 9 * 8


def test_every_pair_of_layouts_is_the_same_convolution() -> None:
    x, kernel = normal(2, 6, 5, 3), normal(2, 3, 3, 4)
    for strides, padding in itertools.product((1, (2, 1)), ("valid", "same")):
        last = K.conv2d(K.variable(x), kernel, strides, padding)
        moved = K.variable(np.ascontiguousarray(np.moveaxis(x, -1, 1)))
        first = K.conv2d(moved, kernel, strides, padding, "channels_first")
        one, other = K.function([], [last, first])([])
        np.testing.assert_allclose(one, np.moveaxis(other, 1, -1), 1e-6, 1e-6)
