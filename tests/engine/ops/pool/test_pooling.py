"""Pooling beyond the op table: kernels against the NumPy form, ties, blocks, threads, stops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from cases_pool import pooled
from kernel_helpers import compiled_at_once
from sampling import every

from kbench import backend as K
from kbench.engine.core import cancel
from kbench.engine.core.spec import Spec
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.graph.op import REGISTRY
from kbench.engine.jit.service import service
from kbench.engine.kernels.pool import api as pooling
from kbench.engine.kernels.pool import channel_lanes
from kbench.engine.ops.layout import resize
from kbench.engine.ops.pool import pool_numpy

__all__ = ["compiled_at_once"]

TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-13}
Attrs = dict[str, Any]


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays take the kernels, too, and so do windows for which NumPy would be faster."""
    monkeypatch.setenv("KBENCH_LEAST", "1")
    monkeypatch.setattr(pooling, "MAX_VISITS", 999)
    monkeypatch.setattr(pooling, "MAX_VISITS_BACK", (999, 999))


def kernel_of(name: str, *arrays: np.ndarray, **attrs: Any) -> Any:
    """The compiled form of an op for these arrays."""
    op = REGISTRY[name]
    assert op.kernel is not None
    find = op.kernel(*[Spec(one.shape, one.dtype.name) for one in arrays], **attrs)
    assert find is not None
    return find()


def check_kernel(name: str, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
    """Both forms agree; gives the NumPy form's result."""
    wanted: np.ndarray = REGISTRY[name].numpy(None, *arrays, **attrs)
    out = pool.take(wanted.shape, wanted.dtype)
    out.fill(7)
    kernel_of(name, *arrays, **attrs)(out, *arrays, None)
    tolerance = TOLERANCE[wanted.dtype.name]
    np.testing.assert_allclose(out, wanted, tolerance, tolerance, err_msg=f"{name} {attrs}")
    return wanted


def check_all(x: np.ndarray, g: np.random.Generator, attrs: Attrs) -> None:
    y = check_kernel("pool_max", x, **attrs)
    check_kernel("pool_average", x, **attrs)
    gradient = g.standard_normal(y.shape).astype(x.dtype)
    check_kernel("pool_max_gradient", gradient, x, y, **attrs)
    check_kernel("pool_spread", gradient, x, **attrs)


# ------------------------------------------------------------------ kernels


@pytest.mark.parametrize(
    ("dtype", "inners"),
    [
        pytest.param("float16", (1, 9), marks=pytest.mark.slow),
        ("float32", (1, 3, 8, 9, 40)),
        pytest.param("float64", (16,), marks=pytest.mark.slow),
        pytest.param("float64", (1, 2, 8, 9, 33), marks=pytest.mark.slow),  # four more to compile
    ],
)
@pytest.mark.parametrize("rank", every(3, [2, 1, 3]))
def test_kernels_equal_the_numpy_form(
    rank: int, dtype: str, inners: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(rank)
    longest = {1: 40, 2: 12, 3: 6}[rank]
    for inner, padding in itertools.product(inners, ("valid", "same")):
        monkeypatch.setattr(pooling, "STRIP_CELLS", int(random.choice([1, 50, 400])))
        monkeypatch.setattr(pooling, "MAX_STRIP_CELLS", int(random.choice([1, 300, 4000])))
        lead = random.integers(1, 3, random.integers(0, 3))
        space = random.integers(2, longest, rank)
        window = tuple(int(min(random.integers(1, 6), size)) for size in space)
        strides = tuple(random.integers(1, 4, rank).tolist())
        x = random.integers(-3, 4, (*lead, *space, inner)).astype(dtype)  # many ties
        x.flat[random.integers(0, x.size, 2)] = [np.nan, -np.inf]
        form = {"first": len(lead), "window": window, "strides": strides, "padding": padding}
        check_all(x, random, form)


@pytest.mark.parametrize("inner", [1, 6, 4096, 5000])
def test_kernels_with_long_rows_and_many_lanes(inner: int) -> None:
    random = np.random.default_rng(inner)
    cols = 9000 // inner if inner < 100 else 4
    x = random.standard_normal((1, 3, cols, inner)).astype("float32")
    for stride in (1, 2):
        check_all(
            x,
            random,
            {"first": 1, "window": (2, 3), "strides": (1, stride), "padding": "same"},
        )


@pytest.mark.parametrize("window", [(3, 3), (5, 4), (9, 2)])
@pytest.mark.parametrize("inner", [2, 20])
def test_kernels_with_stride_one_and_many_taps(window: tuple[int, int], inner: int) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 11, 13, inner)).astype("float32")
    for padding in ("valid", "same"):
        check_all(x, random, {"first": 1, "window": window, "strides": (1, 1), "padding": padding})


def test_no_kernel_where_numpy_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    select_kernel = REGISTRY["pool_max_gradient"].kernel
    assert select_kernel is not None
    monkeypatch.undo()
    monkeypatch.setenv("KBENCH_LEAST", "1")
    attrs = {"first": 1, "window": (13, 13), "strides": (1, 1), "padding": "same"}
    specs = [Spec((1, 20, 20, 32), "float32")] * 3
    assert select_kernel(*specs, **attrs) is None  # 169 visits of each cell; NumPy has 26
    monkeypatch.delenv("KBENCH_LEAST")
    attrs["window"] = (2, 2)
    assert select_kernel(*[Spec((1, 4, 4, 2), "float32")] * 3, **attrs) is None
    assert select_kernel(*[Spec((1, 40, 40, 20), "float32")] * 3, **attrs) is not None
    assert select_kernel(*[Spec((1, 40, 40, 20), "int32")] * 3, **attrs) is None


def test_kernels_refuse_arrays_of_other_sizes() -> None:
    attrs = {"first": 1, "window": (2, 2), "strides": (2, 2), "padding": "valid"}
    x = np.zeros((2, 4, 4, 3), "float32")
    call = kernel_of("pool_max", x, **attrs)
    out = np.zeros((2, 2, 2, 3), "float32")
    for wrong in (x[:1], x.astype("float64"), np.zeros((2, 4, 5, 3), "float32")):
        with pytest.raises(ValueError, match="expected"):
            call(out, wrong, None)
    for bad in (out[:1], out.astype("float64"), out[:, ::-1]):
        with pytest.raises(ValueError, match="expected|contiguous"):
            call(bad, x, None)
    call(out, np.broadcast_to(x[:1], x.shape), None)  # strided, so copied
    assert not out.any()


def test_the_same_result_on_any_number_of_threads() -> None:
    x = np.random.default_rng(0).standard_normal((3, 60, 60, 16)).astype("float32")
    image_ = K.placeholder(x.shape)
    results = []
    for threads in (1, 2, 3):
        K.set_num_threads(threads)
        graph = K.pool2d(image_, 3, 2, "same") + K.pool2d(image_, 3, 2, "same", pool_mode="avg")
        wanted = [graph, *K.gradients(K.sum(K.square(graph)), [image_])]
        compiled = K.function([image_], wanted)
        with K.record() as runs:
            results.append(compiled([x]))
        forms = {step.label: step.form for step in runs[-1].steps if step.label.startswith("pool")}
        assert set(forms.values()) == {"library"}
        assert len(forms) == 4
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


# ------------------------------------------------------------------ values


def first_winners(g: np.ndarray, x: np.ndarray, **attrs: Any) -> np.ndarray:
    """The gradient by the rule: cell by cell, row by row, the first of the largest."""
    total = np.zeros(x.shape)
    (rows, cols), (down, across), padding = attrs["window"], attrs["strides"], attrs["padding"]
    top = left = 0
    if padding == "same":
        top = max((g.shape[1] - 1) * down + rows - x.shape[1], 0) // 2
        left = max((g.shape[2] - 1) * across + cols - x.shape[2], 0) // 2
    for n, i, j, c in np.ndindex(*g.shape):
        best = None
        for di, dj in np.ndindex(rows, cols):
            r, s = i * down + di - top, j * across + dj - left
            if not (0 <= r < x.shape[1] and 0 <= s < x.shape[2]):
                continue
            if best is None or x[n, r, s, c] > x[n, best[0], best[1], c]:
                best = (r, s)
        assert best is not None
        total[(n, *best, c)] += g[n, i, j, c]
    return total


@pytest.mark.parametrize("jit", ["off", "wait"])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
def test_ties_go_to_the_first_cell(
    strides: tuple[int, int], padding: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    random = np.random.default_rng(8)
    x = random.integers(0, 3, (2, 6, 7, 3)).astype("float32")
    source = K.variable(x)
    y = K.pool2d(source, (3, 2), strides, padding)
    weight = random.integers(-9, 9, K.int_shape(y)).astype("float32")
    (gradient,) = K.gradients(K.sum(y * K.constant(weight)), [source])
    attrs = {"window": (3, 2), "strides": strides, "padding": padding}
    np.testing.assert_allclose(K.eval(gradient), first_winners(weight, x, **attrs))


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_special_values(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    x = np.full((1, 4, 4, 1), -np.inf, "float32")
    x[0, 0, 1], x[0, 3, 3], x[0, 2, 0] = np.nan, np.inf, 1
    source = K.variable(x)
    largest, mean = (K.pool2d(source, 2, 2, pool_mode=mode) for mode in ("max", "avg"))
    np.testing.assert_array_equal(K.eval(largest).ravel(), [np.nan, -np.inf, 1, np.inf])
    np.testing.assert_array_equal(K.eval(mean).ravel(), [np.nan, -np.inf, -np.inf, np.nan])
    (back,) = K.gradients(K.sum(largest), [source])
    wanted = np.zeros((4, 4))
    wanted[0, 1] = wanted[0, 2] = wanted[2, 0] = wanted[3, 3] = 1
    np.testing.assert_array_equal(K.eval(back)[0, ..., 0], wanted)


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_float16_adds_up_in_float32(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    x = K.variable(np.full((1, 40, 40, 2), 3000), "float16")
    np.testing.assert_array_equal(K.eval(K.pool2d(x, 40, pool_mode="avg")), 3000)
    (back,) = K.gradients(K.sum(K.pool2d(x, 40, 1, "same", pool_mode="avg")), [x])
    assert K.eval(back).dtype == np.float16
    total = K.eval(back).astype(float).sum()
    assert total == pytest.approx(2 * 1600, rel=1e-3)


def test_second_derivative_of_ties_is_that_of_the_winner() -> None:
    x = K.variable(np.ones((1, 2, 2, 1)))
    y = K.square(K.pool2d(x, 2))
    (first,) = K.gradients(K.sum(y), [x])
    (second,) = K.gradients(K.sum(K.square(first)), [x])
    assert K.eval(first).ravel().tolist() == [2, 0, 0, 0]
    assert K.eval(second).ravel().tolist() == [8, 0, 0, 0]


# ------------------------------------------------------------------ blocks and stops


@pytest.mark.parametrize("block", [1, 7, 60, 500])
def test_any_block_gives_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((3, 7, 6, 2))
    attrs = {"first": 1, "window": (3, 2), "strides": (2, 1), "padding": "same"}
    y = pool_numpy.pool_max(None, x, **attrs)
    g = random.standard_normal(y.shape)

    def results() -> list[np.ndarray]:
        return [
            pool_numpy.pool_max(None, x, **attrs),
            pool_numpy.pool_average(None, x, **attrs),
            pool_numpy.pool_max_gradient(None, g, x, y, **attrs),
            pool_numpy.pool_winners(None, x + 1, x, y, **attrs),
            pool_numpy.pool_spread(None, g, x, **attrs),
        ]

    whole = results()
    np.testing.assert_allclose(whole[0], pooled(x, (3, 2), (2, 1), "same"))
    np.testing.assert_allclose(whole[3], whole[0] + 1)
    monkeypatch.setattr(pool_numpy, "BLOCK_ELEMENTS", block)
    for one, wanted in zip(results(), whole, strict=True):
        np.testing.assert_allclose(one, wanted, 1e-14)


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_a_stop_is_honoured_between_blocks(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    x = np.zeros((4, 64, 64, 64), "float32")
    attrs = {"first": 1, "window": (2, 2), "strides": (2, 2), "padding": "valid"}
    cancel.request()
    try:
        with pytest.raises(KeyboardInterrupt):
            if jit == "off":
                pool_numpy.pool_max(None, x, **attrs)
            else:
                out = np.empty((4, 32, 32, 64), "float32")
                kernel_of("pool_max", x, **attrs)(out, x, cancel.check)
    finally:
        cancel.clear()


# ------------------------------------------------------------------ larger images


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("factors", [(2, 3), (1, 2), (2, 1, 3)])
@pytest.mark.parametrize("inner", [1, 3, 20])
def test_kernels_of_repetition(inner: int, factors: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(1)
    shape = (2, *(4, 3, 5)[: len(factors)], inner)
    x = random.standard_normal(shape).astype(dtype)
    attrs: Attrs = {"first": 1, "factors": factors}
    larger = REGISTRY["upsample"].numpy(None, x, **attrs)
    if inner <= pooling.FEW_LANES and dtype != "float16":
        check_kernel("upsample", x, **attrs)
    g = random.standard_normal(larger.shape).astype(dtype)
    check_kernel("block_sum", g, **attrs)


@pytest.mark.parametrize("block", [1, 10, 100])
def test_any_block_enlarges_alike(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    x = np.random.default_rng(2).standard_normal((2, 4, 3, 2))
    source = K.variable(x, "float64")

    def results() -> list[np.ndarray]:
        graphs = [K.resize_images(source, 3, 2, None, how) for how in ("nearest", "bilinear")]
        backs = [K.gradients(K.sum(K.square(one)), [source])[0] for one in graphs]
        return [K.eval(one) for one in graphs + backs]

    whole = results()
    monkeypatch.setattr(resize, "BLOCK_ELEMENTS", block)
    for one, wanted in zip(results(), whole, strict=True):
        np.testing.assert_allclose(one, wanted, 1e-14)


def test_bilinear_keeps_edges_and_constants_exactly() -> None:
    x = np.full((1, 3, 4, 2), 0.1, "float32")
    np.testing.assert_array_equal(K.eval(K.resize_images(K.variable(x), 1, 1, None, "bilinear")), x)
    larger = K.eval(K.resize_images(K.variable(x), 3, 5, None, "bilinear"))
    np.testing.assert_allclose(larger, 0.1, 2e-7)
    x[0, 0, 0] = np.inf
    larger = K.eval(K.resize_images(K.variable(x), 2, 2, None, "bilinear"))
    assert np.isinf(larger[0, 0, 0]).all() and not np.isnan(larger).any()


@pytest.mark.parametrize("dtype", every(3, ["float32", "float16", "float64"]))
@pytest.mark.parametrize("factor", [2, 3, 4, 7])
def test_kernels_of_interpolation(factor: int, dtype: str) -> None:
    random = np.random.default_rng(factor)
    for inner, n in itertools.product((1, 3, 9, 40), (1, 2, 5)):
        x = random.standard_normal((3, n, inner)).astype(dtype)
        larger = check_kernel("interpolate", x, axis=1, factor=factor)
        if dtype != "float16":  # which adds up in blocks of float32 on NumPy
            g = random.standard_normal(larger.shape).astype(dtype)
            back = check_kernel("interpolate_back", g, axis=1, factor=factor)
            inward, outward = np.sum(larger * g), np.sum(back * x)  # transposes of each other
            np.testing.assert_allclose(inward, outward, 1e-4, 1e-4)


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_huge_windows_strides_and_factors_end_soon(
    jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    huge = 2**31 - 1
    x = K.variable(np.arange(12.0).reshape(1, 3, 4, 1))
    whole = K.pool2d(x, huge, 1, "same")
    np.testing.assert_array_equal(K.eval(whole), np.full((1, 3, 4, 1), 11))
    mean = K.pool2d(x, huge, (1, huge), "same", pool_mode="avg")
    np.testing.assert_array_equal(K.eval(mean), np.full((1, 3, 1, 1), 5.5))
    (back,) = K.gradients(K.sum(mean), [x])
    np.testing.assert_allclose(K.eval(back), 0.25)
    assert K.eval(K.pool2d(x, 2, huge)).item() == 5
    none = K.variable(np.zeros((1, 0, 3, 1)))
    for how in ("nearest", "bilinear"):
        larger = K.resize_images(none, huge, 1, None, how)
        assert K.eval(larger).shape == (1, 0, 3, 1)
        assert K.eval(K.gradients(K.sum(larger), [none])[0]).shape == (1, 0, 3, 1)


@pytest.mark.parametrize("dtype", every(3, ["float32", "float16", "float64"]))
@pytest.mark.parametrize("past", [0, 1 << 40])
def test_windows_whose_lanes_are_channels(
    dtype: str, past: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole vectors of channels and the rest; borders, overlaps, cells in no window; NaN."""
    monkeypatch.setattr(channel_lanes, "MIN_STREAMED_BYTES", past)
    random = np.random.default_rng(4)
    windows = [((2, 2), (2, 2)), ((3, 3), (1, 1)), ((3, 2), (2, 3)), ((2, 2), (3, 3))]
    for channels, (window, strides) in itertools.product((16, 23, 64, 113), windows):
        for padding in ("valid", "same"):
            sizes = (2, *random.integers(3, 12, 2), channels)
            x = pool.take(sizes, dtype)
            x[...] = np.round(2 * random.standard_normal(sizes))
            x.flat[random.integers(0, x.size, 3)] = np.nan, np.inf, -np.inf
            attrs = {"first": 1, "window": window, "strides": strides, "padding": padding}
            check_all(x, random, attrs)
    for channels, window in itertools.product((23, 64), ((2, 2), (3, 4))):
        x = pool.take((3, 12, 8, channels), dtype)
        x[...] = np.round(2 * random.standard_normal(x.shape))
        attrs = {"first": 1, "window": window, "strides": window, "padding": "valid"}
        check_all(x, random, attrs)  # each cell lies in one window


@pytest.mark.parametrize(("channels", "steps"), [(32, 1), (3, 2)])
def test_largest_values_that_nobody_reads_are_not_computed(channels: int, steps: int) -> None:
    random = np.random.default_rng(channels)
    image = random.standard_normal((2, 12, 12, channels)).astype("float32")
    image[0, :3, :3] = -0.0
    image[0, 1, 2, 0] = np.nan
    image[1, :4] = -np.inf
    x = K.placeholder(image.shape)
    (back,) = K.gradients(K.pool2d(x, 3, 2), [x])
    call = K.function([x], [back])
    call([image])
    service.wait_idle(60)
    with K.record() as runs:
        (given,) = call([image])
    labels = [step.label for step in runs[-1].steps if step.label.startswith("pool")]
    assert len(labels) == steps
    attrs: Attrs = {"first": 1, "window": (3, 3), "strides": (2, 2), "padding": "valid"}
    ones = np.ones((2, 5, 5, channels), np.float32)
    want = pool_numpy.pool_max_gradient(None, ones, image, **attrs)
    np.testing.assert_array_equal(given, want)
    assert given.sum() == ones.sum()
