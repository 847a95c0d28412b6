"""Compiled convolutions against plain loops: sizes, borders, dtypes, vector widths, threads."""

from __future__ import annotations

import itertools
import time
from functools import partial

import numpy as np
import pytest
from kernel_helpers import compiled_at_once
from sampling import every

from kbench.engine.execute.buffer_pool import pool
from kbench.engine.jit.launch import first_right
from kbench.engine.jit.service import service, stats
from kbench.engine.kernels import registry
from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.conv import direct, tiling
from kbench.engine.kernels.conv.launch import Tiles
from kbench.engine.kernels.depthwise import api as depthwise
from kbench.engine.runtime import config, cpu_caches
from kbench.engine.runtime.workspace import Workspace

__all__ = ["compiled_at_once"]

FLOATS = ("float32", "float64", "float16")
TOLERANCE = {"float16": 2e-2, "float32": 3e-5, "float64": 1e-12}
WAYS = ("forward", "to_input", "to_kernel")
FIND = {
    "forward": partial(conv.find_kernel, "forward"),
    "to_input": partial(conv.find_kernel, "to_input"),
    "to_kernel": partial(conv.find_kernel, "to_kernel"),
}
FIND_DEPTHWISE = {
    "forward": partial(depthwise.find_kernel, "forward"),
    "to_input": partial(depthwise.find_kernel, "to_input"),
    "to_kernel": partial(depthwise.find_kernel, "to_kernel"),
}


def pairs(space, places, window, strides, pads, dilation):
    """Every output place and tap that meet an input place, with that place."""
    for o in np.ndindex(*places):
        for k in np.ndindex(*window):
            steps = zip(o, strides, k, dilation, pads, strict=True)
            i = tuple(a * s + b * d - p for a, s, b, d, p in steps)
            if all(0 <= at < size for at, size in zip(i, space, strict=True)):
                yield o, k, i


def expected(way, x, kernel, g, geometry, deep=False):
    """One of the three results in float64, place by place."""
    x, kernel, g = (one.astype("float64") for one in (x, kernel, g))
    out = np.zeros_like({"forward": g, "to_input": x, "to_kernel": kernel}[way])
    window = kernel.shape[:-2]
    for o, k, i in pairs(x.shape[1:-1], g.shape[1:-1], window, *geometry):
        at_x, at_g, tap = x[:, *i], g[:, *o], kernel[k]
        if deep:
            at_x, at_g = at_x[..., None], at_g.reshape(len(g), *tap.shape)
        if way == "forward":
            out[:, *o] += (at_x * tap).reshape(len(g), g.shape[-1]) if deep else at_x @ tap
        elif way == "to_input":
            out[:, *i] += (at_g * tap).sum(-1) if deep else at_g @ tap.T
        else:
            out[k] += (at_x * at_g).sum(0) if deep else at_x.T @ at_g
    return out


def operands(space, window, places, images, channels, filters, dtype, deep=False):
    random = np.random.default_rng(3)
    shapes = [
        (images, *space, channels),
        (*window, channels, filters),
        (images, *places, channels * filters if deep else filters),
    ]
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def inputs_of(way, x, kernel, g):
    return {"forward": (x, kernel), "to_input": (g, kernel), "to_kernel": (g, x)}[way]


def check_all(x, kernel, g, geometry, run, deep=False):
    """Every way's result, written into an array that is full of NaN, against the loops."""
    for way in WAYS:
        want = expected(way, x, kernel, g, geometry, deep)
        out = np.full(want.shape, np.nan, x.dtype)
        run(way, out, *inputs_of(way, x, kernel, g), *geometry)
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        worst = float(np.abs(out - want).max(initial=0)) / scale
        assert worst < TOLERANCE[str(x.dtype)], f"{way}: off by {worst:.2g}"


def run_found(way, out, first, second, *geometry):
    call = FIND[way](str(out.dtype), out.ndim - 2)
    assert call is not None, stats().failures
    call(out, first, second, *geometry)


def run_depthwise(way, out, first, second, *geometry):
    call = FIND_DEPTHWISE[way](str(out.dtype))
    assert call is not None, stats().failures
    call(out, first, second, *geometry)


# (space, window, places, strides, pads, dilation, images, channels, filters)
SIZES = [
    ((9,), (3,), (7,), (1,), (0,), (1,), 2, 3, 5),
    ((33,), (5,), (33,), (1,), (2,), (1,), 1, 16, 32),
    ((33,), (5,), (33,), (1,), (2,), (1,), 3, 100, 64),  # blocks of channels share a row
    ((40,), (3,), (38,), (1,), (4,), (2,), 3, 5, 20),  # causal
    ((2100,), (3,), (1051,), (2,), (2,), (1,), 2, 4, 9),  # rows cut into pieces
    ((7, 6), (3, 3), (7, 6), (1, 1), (1, 1), (1, 1), 2, 4, 33),
    ((7, 6), (3, 2), (3, 3), (2, 2), (0, 0), (1, 1), 2, 3, 70),
    ((15, 15), (7, 7), (8, 8), (2, 2), (3, 3), (1, 1), 2, 3, 64),
    ((12, 9), (3, 3), (8, 5), (1, 1), (0, 0), (2, 2), 1, 130, 48),
    ((8, 8), (1, 1), (4, 4), (2, 2), (0, 0), (1, 1), 2, 17, 31),
    ((5, 31), (2, 3), (9, 40), (1, 1), (4, 5), (1, 1), 1, 2, 1),  # most of it is border
    ((6, 7), (3, 3), (2, 2), (3, 4), (1, 1), (1, 1), 2, 6, 16),  # strides beyond the window
    ((13, 13), (3, 3), (13, 13), (1, 1), (1, 1), (1, 1), 3, 96, 17),
    ((3, 3), (3, 3), (1, 1), (1, 1), (0, 0), (1, 1), 40, 8, 8),
    ((4, 4), (2, 2), (9, 9), (1, 1), (20, 20), (3, 3), 1, 3, 3),  # sees nothing but border
    ((5, 6, 7), (2, 3, 2), (5, 4, 7), (1, 1, 1), (1, 0, 1), (1, 1, 1), 2, 3, 9),
    ((6, 5, 8), (3, 3, 3), (3, 3, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1, 16, 40),
    ((5, 5, 5), (2, 2, 2), (3, 3, 3), (1, 1, 1), (0, 0, 0), (2, 2, 2), 1, 4, 260),
]

ONES = ((1, 1), (1, 1), (1, 1))
AS_IT_IS = ((1, 1), (0, 0), (1, 1))

# One tap: full blocks of 6, 12 or 14 places, and of two vectors of filters, are computed together.
ONE_TAP = [
    ((6, 7), (1, 1), (6, 7), *AS_IT_IS, 2, 8, 64),
    ((1, 13), (1, 1), (1, 13), *AS_IT_IS, 1, 12, 32),
    ((5, 17), (1, 1), (5, 17), *AS_IT_IS, 1, 4, 33),  # one place and one filter too many
    ((7, 12), (1, 1), (7, 12), *AS_IT_IS, 1, 6, 64),  # a depth that is not a multiple of 4
    ((4, 31), (1, 1), (4, 31), *AS_IT_IS, 3, 20, 31),
    ((3, 3), (1, 1), (3, 3), *AS_IT_IS, 19, 16, 100),
    ((9, 57), (1, 1), (5, 29), (2, 2), (0, 0), (1, 1), 2, 20, 96),
    ((5, 28), (1, 1), (9, 33), (1, 1), (2, 3), (1, 1), 2, 8, 32),  # a border of zeros
    ((8, 8), (2, 2), (4, 4), (2, 2), (0, 0), (1, 1), 5, 32, 8),  # one tap for each gradient
    ((50,), (3,), (50,), (1,), (1,), (1,), 2, 4, 40),  # three columns are one tap
]


@pytest.mark.parametrize("dtype", every(2, FLOATS))
@pytest.mark.parametrize("size", SIZES + ONE_TAP, ids=str)
def test_every_way_agrees_with_loops(size, dtype):
    space, window, places, *geometry, images, channels, filters = size
    arrays = operands(space, window, places, images, channels, filters, dtype)
    check_all(*arrays, geometry, run_found)


# (rows, columns, taps of rows and of columns, channels, filters, most parts)
SUMS = [
    (32, 252, 1, 5, 128, 128, 8),
    (32 * 56, 56, 1, 1, 64, 64, 64),
    (32 * 56, 56, 3, 3, 64, 64, 64),
    (64 * 8, 8, 5, 5, 128, 128, 2),
    (32 * 14, 14, 3, 3, 256, 192, 2),
    (8, 20, 1, 3, 4, 8, 1),
]


@pytest.mark.parametrize("sizes", SUMS, ids=str)
def test_there_are_few_partial_sums_and_many_items(sizes):
    """Of a large kernel each would be cleared, added to and joined for longer than it computes."""
    rows, columns, taps, column_taps, channels, filters, most_parts = sizes
    places = tuple(range(column_taps))
    axis = tiling.WindowAxis(places, places, columns)
    cut = tiling.cut_sums(rows, axis, taps, channels, filters, 4, packs=False)
    assert cut.parts <= most_parts
    assert cut.items >= min(tiling.MIN_ITEMS, -(-rows // cut.together))


@pytest.mark.slow
def test_random_sizes():
    random = np.random.default_rng(11)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        rank = int(random.integers(1, 4))
        most = {1: 40, 2: 11, 3: 5}[rank]
        space, places = random.integers(1, most, (2, rank)).tolist()
        window = random.integers(1, 5, rank).tolist()
        strides, dilation = random.integers(1, 4, (2, rank)).tolist()
        pads = random.integers(-1, 6, rank).tolist()
        images = int(random.integers(1, 4))
        channels, filters = random.choice([1, 2, 3, 5, 16, 33, 64, 130], 2).tolist()
        dtype = FLOATS[random.integers(3)]
        geometry = strides, pads, dilation
        arrays = operands(space, window, places, images, channels, filters, dtype)
        check_all(*arrays, geometry, run_found)
        if rank == 2:
            many = int(random.integers(1, 4))
            arrays = operands(space, window, places, images, channels, many, dtype, deep=True)
            check_all(*arrays, geometry, run_depthwise, deep=True)


# (space, window, places, strides, pads, dilation, images, channels, multiplier)
DEPTHWISE = [
    ((7, 6), (3, 3), (7, 6), (1, 1), (1, 1), (1, 1), 2, 64, 1),
    ((20, 21), (3, 3), (20, 21), (1, 1), (1, 1), (1, 1), 3, 17, 1),
    ((9, 8), (3, 2), (4, 4), (2, 2), (0, 0), (1, 1), 2, 3, 2),
    ((9, 9), (5, 5), (9, 9), (1, 1), (4, 4), (2, 2), 1, 130, 1),
    ((1, 30), (1, 4), (1, 15), (1, 2), (0, 1), (1, 1), 4, 8, 3),
    ((1, 1500), (1, 3), (1, 1500), (1, 1), (0, 1), (1, 1), 2, 4, 1),  # rows cut into pieces
    ((6, 7), (2, 2), (3, 2), (3, 4), (1, 1), (1, 1), 2, 5, 1),
    ((4, 4), (2, 2), (9, 9), (1, 1), (20, 20), (3, 3), 1, 3, 1),
    # three rows at once where all taps are inside, of which some are left over
    ((5, 4), (3, 3), (5, 4), (1, 1), (1, 1), (1, 1), 1, 53, 1),
    ((8, 12), (3, 3), (6, 10), (1, 1), (0, 0), (1, 1), 2, 20, 1),
    ((22, 13), (3, 5), (11, 13), (2, 1), (1, 2), (1, 1), 1, 33, 1),
    ((9, 11), (2, 3), (5, 6), (2, 2), (1, 1), (1, 1), 2, 16, 1),
    ((3, 9), (5, 3), (3, 9), (1, 1), (2, 1), (1, 1), 2, 7, 1),  # never all of them
    ((12, 5), (3, 1), (12, 5), (1, 1), (3, 0), (3, 1), 1, 65, 1),
]


@pytest.mark.parametrize("dtype", every(2, FLOATS))
@pytest.mark.parametrize("size", DEPTHWISE, ids=str)
def test_every_depthwise_way_agrees_with_loops(size, dtype):
    space, window, places, *geometry, images, channels, many = size
    arrays = operands(space, window, places, images, channels, many, dtype, deep=True)
    check_all(*arrays, geometry, run_depthwise, deep=True)


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "most"), [(8, 6), (4, 12), (4, 6)])
def test_tiles_of_other_machines(lanes, most):
    """What AVX2, NEON and SSE would run; this machine's own tile is in every other test."""
    text = conv.tile_text("float32").replace("geometry(DTYPE)", str((lanes, most)))
    job = service.submit(f"conv_tiles_float32_{lanes}x{most}", lambda: text)
    assert job is not None and job.state == "ready", stats().failures
    host = conv.find_tiles("float32")
    assert host is not None
    entries = (job.module.wide, job.module.narrow, job.module.whole)
    addresses = (int(one.address) for one in entries)
    tiles = Tiles("float32", lanes, most, *addresses, host.pack, host.gather, host.reduce)
    ways = {way: getattr(direct, way) for way in WAYS}

    def run(way, out, first, second, strides, pads, dilation):
        def three(array, kernel):
            shape = (1,) + array.shape if kernel else (array.shape[0], 1, *array.shape[1:])
            return array.reshape(shape)

        into = three(out, way == "to_kernel")
        into = np.ascontiguousarray(into)
        arrays = three(first, False), three(second, way != "to_kernel")
        geometry = (1, *strides), (0, *pads), (1, *dilation)
        shapes = [array.shape for array in (into, *arrays)]
        made = [one for one in ways[way](tiles, *shapes, *geometry) if one is not None]
        workspace = Workspace()
        first_right(one.prepare(into, *arrays, workspace) for one in made).run(None)
        np.copyto(out, into.reshape(out.shape))

    planar = [size for size in SIZES + ONE_TAP if len(size[0]) == 2]
    for space, window, places, *geometry, images, channels, filters in planar:
        arrays = operands(space, window, places, images, channels, filters, "float32")
        check_all(*arrays, geometry, run)


# ------------------------------------------------------------------ how they are called


def large(dtype="float32"):
    """Operands with work enough for several threads and tiles."""
    return operands((30, 30), (3, 3), (30, 30), 8, 24, 40, dtype)


def test_results_do_not_depend_on_the_number_of_threads():
    before = config.num_threads()
    wide = operands((30, 30), (3, 3), (30, 30), 8, 64, 1, "float32", deep=True)
    point = operands((30, 31), (1, 1), (30, 31), 8, 64, 72, "float32")
    for arrays, run, geometry in (
        (large(), run_found, ONES), (wide, run_depthwise, ONES), (point, run_found, AS_IT_IS)
    ):  # fmt: skip
        for way in WAYS:
            results = []
            for count in (1, 2, 3):
                config.set_num_threads(count)
                shape = {"forward": 2, "to_input": 0, "to_kernel": 1}[way]
                out = np.empty_like(arrays[shape])
                run(way, out, *inputs_of(way, *arrays), *geometry)
                results.append(out)
            config.set_num_threads(before)
            assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


def test_strided_operands_overlaps_and_views():
    x, kernel, g = large()
    want = np.empty_like(g)
    run_found("forward", want, x, kernel, *ONES)
    turned = np.asfortranarray(x), np.ascontiguousarray(kernel[::-1])[::-1]
    out = np.full((8, 30, 30, 80), np.nan, "float32")[..., ::2]
    run_found("forward", out, *turned, *ONES)
    np.testing.assert_array_equal(out, want)
    square = operands((9, 9), (3, 3), (9, 9), 2, 16, 16, "float32")
    want = expected("forward", *square, ONES)
    run_found("forward", square[0], square[0], square[1], *ONES)  # the result replaces its input
    np.testing.assert_allclose(square[0], want, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_one_tap_gives_each_place_what_it_would_get_alone(dtype):
    """Whatever stands beside it: blocks of places keep the order of sums, NaN and infinities."""
    x, kernel, g = operands((9, 31), (1, 1), (9, 31), 2, 24, 72, dtype)
    x[0, 3, 5, 7], x[1, 8, 30, 0], x[1, 0, 0, 23] = np.nan, np.inf, -np.inf
    out = np.empty_like(g)
    run_found("forward", out, x, kernel, *AS_IT_IS)
    assert np.argwhere(~np.isfinite(out).all(-1)).tolist() == [[0, 3, 5], [1, 0, 0], [1, 8, 30]]
    assert np.isnan(out[0, 3, 5]).all()
    np.testing.assert_array_equal(out[1, 8, 30], np.inf * kernel[0, 0, 0])
    np.testing.assert_array_equal(out[1, 0, 0], -np.inf * kernel[0, 0, 23])
    for first in range(0, 31, 5):
        piece = x[:, :, first : first + 5]
        alone = np.empty((*piece.shape[:3], 72), dtype)
        run_found("forward", alone, piece, kernel, *AS_IT_IS)
        np.testing.assert_array_equal(out[:, :, first : first + 5], alone)


@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_depthwise_gives_each_place_what_it_would_get_alone(dtype):
    """Also beside NaN and infinities, which reach the places around them and one channel only."""
    x, kernel, g = operands((11, 10), (3, 3), (11, 10), 2, 37, 1, dtype, deep=True)
    x[0, 4, 5, 36], x[1, 10, 0, 0] = np.nan, np.inf
    out = np.empty_like(g)
    run_depthwise("forward", out, x, kernel, *ONES)
    odd = np.zeros_like(out, bool)
    odd[0, 3:6, 4:7, 36], odd[1, 9:, :2, 0] = True, True
    np.testing.assert_array_equal(~np.isfinite(out), odd)
    assert np.isnan(out[0, 3:6, 4:7, 36]).all() and np.isinf(out[1, 9:, :2, 0]).all()
    for row, column in itertools.product(range(11), range(10)):
        alone = np.empty((2, 1, 1, 37), dtype)
        run_depthwise("forward", alone, x, kernel, (1, 1), (1 - row, 1 - column), (1, 1))
        np.testing.assert_array_equal(alone[:, 0, 0], out[:, row, column])


@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_depthwise_gradients_keep_odd_values_where_they_belong(dtype):
    """NaN and infinities reach the taps that meet them, in their channel."""
    x, kernel, g = operands((17, 30), (3, 3), (17, 30), 2, 37, 1, dtype, deep=True)
    want = expected("to_kernel", x, kernel, g, ONES, deep=True)
    g[0, 4, 5, 36], g[1, 0, 0, 0] = np.nan, np.inf  # the second one is met by four taps
    out = np.empty_like(kernel)
    run_depthwise("to_kernel", out, g, x, *ONES)
    odd = np.zeros_like(out, bool)
    odd[:, :, 36], odd[1:, 1:, 0] = True, True
    np.testing.assert_array_equal(~np.isfinite(out), odd)
    np.testing.assert_allclose(out[~odd], want[~odd], rtol=1e-3, atol=1e-3)


def test_nothing_outside_of_the_result_is_written():
    sizes = [(run_found, size) for size in SIZES + ONE_TAP]
    for run, size in sizes + [(run_depthwise, size) for size in DEPTHWISE]:
        space, window, places, *geometry, images, channels, filters = size
        deep = run is run_depthwise
        arrays = operands(space, window, places, images, channels, filters, "float32", deep)
        for way in WAYS:
            like = arrays[{"forward": 2, "to_input": 0, "to_kernel": 1}[way]]
            guarded = np.full(like.size + 512, 7.5, "float32")
            run(way, guarded[256:-256].reshape(like.shape), *inputs_of(way, *arrays), *geometry)
            assert (guarded[:256] == 7.5).all() and (guarded[-256:] == 7.5).all()


def test_sizes_of_zero_give_zeros_or_nothing():
    for images, channels, filters in itertools.product((0, 2), (0, 3), (0, 4)):
        arrays = operands((5, 4), (2, 2), (4, 3), images, channels, filters, "float32")
        check_all(*arrays, ((1, 1), (0, 0), (1, 1)), run_found)
        deep = operands((5, 4), (2, 2), (4, 3), images, channels, filters, "float32", deep=True)
        check_all(*deep, ((1, 1), (0, 0), (1, 1)), run_depthwise, deep=True)
    empty = operands((0, 4), (2, 2), (3, 3), 1, 3, 4, "float32")
    check_all(*empty, ((1, 1), (1, 0), (1, 1)), run_found)


def test_arrays_that_do_not_fit_are_refused():
    x, kernel, g = large()
    call = conv.find_kernel("forward", "float32", 2)
    wrong = [
        (g, x[:3], kernel, *ONES),
        (g, x[..., :5], kernel, *ONES),
        (g[..., :7], x, kernel, *ONES),
        (g, x.astype("float64"), kernel, *ONES),
        (g, x[0], kernel, *ONES),
        (g, x, kernel, (0, 1), *ONES[1:]),
        (g, x, kernel, (1,), *ONES[1:]),
        (g, x, kernel, *ONES[:2], (1, -1)),
        (g, x, kernel, (1, 1), (2**40, 0), (1, 1)),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError):
            call(*arguments)
    fixed = g.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        call(fixed, x, kernel, *ONES)
    deep = operands((5, 5), (3, 3), (5, 5), 2, 4, 2, "float32", deep=True)
    for way in WAYS:
        first, second = inputs_of(way, *deep)
        out = np.empty((2, 5, 5, 5) if way != "to_kernel" else (3, 3, 5, 2), "float32")
        with pytest.raises(ValueError, match="disagree"):
            FIND_DEPTHWISE[way]("float32")(out, first, second, *ONES)


def test_a_call_can_be_stopped_and_the_next_one_is_whole():
    arrays = operands((64, 64), (7, 7), (64, 64), 8, 64, 64, "float32")
    geometry = ((1, 1), (3, 3), (1, 1))
    looks = []

    class Stopped(Exception):
        pass

    def check():
        looks.append(None)
        if len(looks) == stop:
            raise Stopped

    for number, way in enumerate(WAYS):
        out, whole = np.empty((2, *arrays[(2, 0, 1)[number]].shape), "float32")
        looks, stop = [], 0
        run = FIND[way]("float32", 2)
        run(whole, *inputs_of(way, *arrays), *geometry, check)
        assert len(looks) > 2  # 5 billion products: a look about every 15 ms
        for at in (1, 2):
            looks, stop = [], at
            with pytest.raises(Stopped):
                run(out, *inputs_of(way, *arrays), *geometry, check)
        run(out, *inputs_of(way, *arrays), *geometry)
        np.testing.assert_array_equal(out, whole)


def test_none_without_a_compiler_or_for_other_dtypes(monkeypatch):
    assert conv.find_kernel("forward", "int32", 2) is None
    assert conv.find_kernel("forward", "float32", 4) is None
    assert depthwise.find_kernel("forward", "bool") is None
    monkeypatch.setenv("KBENCH_JIT", "off")
    assert conv.find_kernel("forward", "float32", 2) is None
    assert depthwise.find_kernel("to_kernel", "float32") is None


def test_the_library_knows_them():
    for family in ("conv", "depthwise"):
        assert (f"{family}_forward", "float64", "all") in registry.catalogue()
        for way in WAYS:
            assert registry.find(f"{family}_{way}", "float32", "all") is not None


def test_what_suits():
    assert conv.is_profitable("forward", (3, 3, 64, 64), 8 * 56 * 56)
    assert not conv.is_profitable("forward", (3, 3, 4, 4), 16)  # too little work
    assert conv.is_profitable("to_kernel", (1, 1, 64, 64), 8 * 56 * 56)
    assert not conv.is_profitable("forward", (3, 3, 64, 1), 8 * 56 * 56)  # one column of results
    assert conv.is_profitable("to_input", (3, 3, 64, 1), 8 * 56 * 56)
    assert not conv.is_profitable("to_input", (3, 3, 2, 32), 8 * 56 * 56)
    assert conv.is_profitable("to_kernel", (3, 3, 2, 32), 8 * 56 * 56)


@pytest.mark.parametrize("dtype", FLOATS[:2])
@pytest.mark.parametrize("side", [1, 3])
def test_results_written_past_the_caches_are_the_same(side, dtype, monkeypatch):
    arrays = operands((6 + side, 27 + side), (side, side), (7, 28), 2, 8, 64, dtype)
    results = []
    for size in (0, 1 << 40):
        monkeypatch.setattr(direct, "MIN_STREAMED_BYTES", size)
        direct._planned.cache_clear()
        out = pool.take(arrays[2].shape, dtype)
        out.fill(7)
        conv.find_kernel("forward", dtype, 2)(out, *arrays[:2], (1, 1), (0, 0), (1, 1))
        results.append(out)
    direct._planned.cache_clear()
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", FLOATS[:2])
@pytest.mark.parametrize("way", WAYS[:2])
def test_depthwise_results_written_past_the_caches_are_the_same(dtype, way, monkeypatch):
    x, kernel, g = operands((9, 40), (3, 3), (9, 40), 2, 48, 1, dtype, deep=True)
    results = []
    for size in (0, 1 << 40):
        monkeypatch.setattr(cpu_caches, "last_level_bytes", lambda size=size: size)
        depthwise._planned.cache_clear()
        out = pool.take(x.shape, dtype)
        out.fill(7)
        first = x if way == "forward" else g
        FIND_DEPTHWISE[way](dtype)(out, first, kernel, (1, 1), (1, 1), (1, 1))
        results.append(out)
    depthwise._planned.cache_clear()
    np.testing.assert_array_equal(*results)
