"""Winograd's convolution: its values, where it is taken, and where it leaves to the direct form."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from kernel_helpers import compiled_at_once
from sampling import every

from kbench import backend as K
from kbench.engine.jit.service import stats
from kbench.engine.kernels.conv import api as conv
from kbench.engine.kernels.winograd import api as winograd
from kbench.engine.runtime import config
from tests.engine.kernels.conv.test_direct import expected, inputs_of, operands, run_found

__all__ = ["compiled_at_once"]

WAYS = ("forward", "to_input", "to_kernel")
PLACE = {"forward": 2, "to_input": 0, "to_kernel": 1}  # of the result among the operands
ONES = ((1, 1), (1, 1), (1, 1))


@pytest.fixture
def taken(monkeypatch):
    """Counts the calls that Winograd's form has answered."""
    counts = {"taken": 0}

    def counting(make):
        def counted(*arguments):
            way = make(*arguments)
            return way and SimpleNamespace(prepare=functools.partial(prepare, way))

        return counted

    def prepare(way, *arrays):
        prepared = way.prepare(*arrays)

        def check_after():
            done = prepared.check_after()
            counts["taken"] += done
            return done

        return prepared._replace(check_after=check_after)

    for name in ("convolution", "spread", "to_kernel"):
        monkeypatch.setattr(winograd, name, counting(getattr(winograd, name)))
    return counts


def exactly(monkeypatch, way, out, first, second, geometry):
    """The direct form's result."""
    with monkeypatch.context() as patch:
        patch.setenv("KBENCH_EXACT", "1")
        run_found(way, out, first, second, *geometry)


# (space, places, pads, images, channels, filters)
SIZES = [
    ((24, 24), (24, 24), (1, 1), 1, 16, 16),
    ((23, 25), (23, 25), (1, 1), 2, 16, 40),
    ((25, 22), (23, 20), (0, 0), 2, 33, 17),
    ((19, 30), (21, 32), (2, 2), 1, 20, 31),
    ((17, 40), (21, 38), (3, 0), 1, 16, 64),  # sees nothing but border at first
    ((30, 12), (28, 12), (0, 2), 2, 17, 16),  # borders that differ at the two ends
    ((8, 8), (8, 8), (1, 1), 9, 24, 16),
    ((22, 28), (20, 20), (-1, -4), 2, 16, 16),  # a part of the image
    ((8, 8), (8, 8), (1, 1), 33, 24, 17),  # few tiles for each part of the gradient's sums
    ((9, 130), (9, 130), (1, 1), 1, 16, 16),  # a row has more tiles than are added up at once
]


DILATED = [
    ((24, 24), (24, 24), (2, 2), 1, 16, 16, (2, 2)),
    ((47, 50), (47, 50), (2, 3), 1, 16, 40, (2, 3)),  # phases of two sizes
    ((25, 60), (23, 56), (0, 0), 2, 33, 17, (1, 2)),
    ((61, 22), (55, 24), (0, 2), 2, 20, 16, (3, 1)),
    ((40, 33), (37, 41), (5, 8), 2, 17, 16, (3, 2)),  # borders beyond the window's reach
    ((70, 70), (60, 60), (-1, -3), 1, 16, 20, (3, 3)),  # a part of the image
    ((31, 30), (31, 30), (10, 9), 3, 16, 16, (8, 8)),  # few pixels of each phase
]


# (space, window, places, strides, pads, images, channels, filters)
SPREAD = [
    ((48, 48), (4, 4), (24, 24), (2, 2), (1, 1), 1, 16, 16),
    ((47, 50), (5, 5), (24, 25), (2, 2), (2, 2), 2, 20, 33),  # phases of two sizes
    ((46, 51), (5, 5), (23, 26), (2, 2), (1, 2), 1, 17, 16),
    ((50, 46), (6, 5), (24, 21), (2, 2), (0, 0), 1, 16, 24),
    ((30, 60), (3, 4), (30, 30), (1, 2), (1, 1), 1, 16, 16),  # strides along one axis
    ((54, 57), (7, 7), (18, 19), (3, 3), (2, 2), 2, 16, 16),
    ((49, 49), (4, 4), (22, 26), (2, 2), (-2, 3), 1, 16, 18),
]


@pytest.mark.parametrize("size", SPREAD, ids=str)
def test_the_gradient_to_an_input_of_strides_agrees_with_loops(size, taken):
    space, window, places, strides, pads, *counts = size
    arrays = operands(space, window, places, *counts, "float32")
    geometry = strides, pads, (1, 1)
    want = expected("to_input", *arrays, geometry)
    guarded = np.full(want.size + 512, 7.5, "float32")
    out = guarded[256:-256].reshape(want.shape)
    run_found("to_input", out, *inputs_of("to_input", *arrays), *geometry)
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-5 * np.abs(want).max())
    assert (guarded[:256] == 7.5).all() and (guarded[-256:] == 7.5).all()
    assert taken["taken"] == 1, stats().failures


# (space, window, places, pads, images, channels, filters, dilation)
DEEP = [
    ((4, 24, 24), (3, 3, 3), (4, 24, 24), (1, 1, 1), 1, 16, 16, (1, 1, 1)),
    ((5, 23, 25), (2, 3, 3), (4, 23, 25), (0, 1, 1), 2, 17, 33, (1, 1, 1)),
    ((6, 12, 30), (3, 3, 3), (6, 12, 30), (2, 1, 2), 1, 20, 16, (2, 1, 2)),
    ((3, 16, 28), (1, 3, 3), (3, 14, 26), (0, 0, 0), 2, 16, 40, (1, 1, 1)),
    ((2, 20, 20), (5, 3, 3), (6, 20, 20), (4, 1, 1), 2, 16, 16, (1, 1, 1)),  # more border than not
    ((7, 30, 22), (3, 3, 3), (3, 26, 20), (-1, -1, 0), 1, 16, 18, (1, 1, 1)),
]


@pytest.mark.parametrize("size", every(3, [(one,) for one in DEEP]), ids=str)
def test_values_agree_with_loops_over_three_axes(size, taken):
    space, window, places, pads, *counts, dilation = size
    arrays = operands(space, window, places, *counts, "float32")
    geometry = ((1, 1, 1), pads, dilation)
    for way in WAYS:
        want = expected(way, *arrays, geometry)
        out = np.full(want.shape, 7.5, "float32")
        run_found(way, out, *inputs_of(way, *arrays), *geometry)
        np.testing.assert_allclose(out, want, rtol=0, atol=2e-5 * np.abs(want).max())
    assert taken["taken"] == 3, stats().failures


@pytest.mark.parametrize("size", every(2, [(one,) for one in SIZES + DILATED]), ids=str)
def test_values_agree_with_loops(size, taken):
    space, places, pads, *counts = size
    dilation = counts[3] if counts[3:] else (1, 1)
    arrays = operands(space, (3, 3), places, *counts[:3], "float32")
    geometry = ((1, 1), pads, dilation)
    for way in WAYS:
        want = expected(way, *arrays, geometry)
        guarded = np.full(want.size + 512, 7.5, "float32")
        out = guarded[256:-256].reshape(want.shape)
        run_found(way, out, *inputs_of(way, *arrays), *geometry)
        np.testing.assert_allclose(out, want, rtol=0, atol=2e-5 * np.abs(want).max())
        assert (guarded[:256] == 7.5).all() and (guarded[-256:] == 7.5).all()
    assert taken["taken"] == 3, stats().failures


# ------------------------------------------------------------------ how far it errs

HARD = {  # what makes the transforms lose most, of numbers around 0
    "as drawn": lambda x: x,
    "of one sign": np.abs,
    "alternating": lambda x: np.abs(x) * (-1.0) ** np.indices(x.shape).sum(0),
    "by pairs": lambda x: np.abs(x) * np.where(np.indices(x.shape).sum(0) // 2 % 2, 1, -1),
    "far from zero": lambda x: x + 1000,
    "of all sizes": lambda x: x * 10.0 ** np.resize(np.arange(-6, 7), x.shape),
    "one large": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size // 2, 1e6, x),
    "channels that cancel": lambda x: (
        np.repeat(x[..., ::2], 2, -1) * np.resize([1, -1 - 1e-6], x.shape)
    ),
}
BOUNDS = {False: 1e-4, True: 3e-5}  # as the README says, of the largest sum of absolute products


def errors(way, inputs, arrays, geometry, exact):
    """The largest error, by the largest sum of absolute products."""
    want = expected(way, *arrays, geometry)
    whole = expected(way, *[np.abs(one) for one in arrays], geometry).max()
    out = np.empty(want.shape, "float32")
    K.set_exact(exact)
    run_found(way, out, *inputs, *geometry)
    return float(np.abs(out - want).max() / whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channels", [16, 512])
def test_errors_stay_below_what_is_promised(kind, way, channels, taken):
    arrays = operands((28, 28), (3, 3), (28, 28), 4, channels, 16, "float32")
    arrays[PLACE[way] - 2] = HARD[kind](arrays[PLACE[way] - 2]).astype("float32")
    for exact, bound in BOUNDS.items():
        assert errors(way, inputs_of(way, *arrays), arrays, ONES, exact) < bound
    assert taken["taken"] == 1, stats().failures


@pytest.mark.parametrize("kind", HARD)
def test_errors_of_strides_stay_below_what_is_promised(kind, taken):
    space, window, places, strides, pads, *counts = SPREAD[0]
    arrays = operands(space, window, places, *counts, "float32")
    arrays[2] = HARD[kind](arrays[2]).astype("float32")
    geometry = strides, pads, (1, 1)
    for exact, bound in BOUNDS.items():
        found = errors("to_input", inputs_of("to_input", *arrays), arrays, geometry, exact)
        assert found < bound
    assert taken["taken"] == 1, stats().failures


def test_float16_is_computed_in_float32(taken):
    arrays = operands((24, 24), (3, 3), (24, 24), 1, 16, 16, "float16")
    out = np.empty_like(arrays[2])
    run_found("forward", out, arrays[0], arrays[1], *ONES)
    want = expected("forward", *arrays, ONES)
    np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-3)
    assert taken["taken"] == 1


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e38])
def test_what_is_not_finite_stays_where_it_belongs(value, monkeypatch):
    for place in range(2):
        for way in WAYS:
            arrays = operands((24, 24), (3, 3), (24, 24), 1, 16, 16, "float32")
            inputs = inputs_of(way, *arrays)
            inputs[place].reshape(-1)[777] = value
            out, want = (np.empty(arrays[PLACE[way]].shape, "f4") for _ in range(2))
            with np.errstate(all="ignore"):
                run_found(way, out, *inputs, *ONES)
                exactly(monkeypatch, way, want, *inputs, ONES)
            assert np.array_equal(np.isfinite(out), np.isfinite(want))
            if not np.isfinite(want).all():
                np.testing.assert_array_equal(out, want)


def test_results_do_not_depend_on_the_number_of_threads(taken):
    before = config.num_threads()
    arrays = operands((56, 56), (3, 3), (56, 56), 4, 32, 48, "float32")
    for way in WAYS:
        results = []
        for count in (1, 2, 3):
            config.set_num_threads(count)
            out = np.empty_like(arrays[PLACE[way]])
            run_found(way, out, *inputs_of(way, *arrays), *ONES)
            results.append(out)
        config.set_num_threads(before)
        assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
    assert taken["taken"] == 9


def test_the_direct_form_is_taken_elsewhere(taken, monkeypatch):
    def shapes(channels=16, filters=16, space=(24, 24), images=1):
        return operands(space, (3, 3), space, images, channels, filters, "float32")

    for few in (shapes(channels=8), shapes(filters=8), shapes(space=(9, 9)), shapes(space=(8, 7))):
        run_found("forward", np.empty_like(few[2]), few[0], few[1], *ONES)
    arrays = operands((24, 24), (3, 3), (12, 12), 4, 16, 16, "float32")
    run_found("forward", np.empty_like(arrays[2]), *arrays[:2], (2, 2), *ONES[1:])
    run_found("forward", np.empty_like(arrays[2]), *arrays[:2], *ONES[:2], (7, 5))
    run_found("to_kernel", np.empty_like(arrays[1]), arrays[2], arrays[0], (2, 2), *ONES[1:])
    for window, strides in (((3, 3), (2, 2)), ((9, 9), (2, 2)), ((4, 4), (3, 3))):
        back = operands((48, 48), window, (24, 24), 2, 16, 16, "float32")
        run_found("to_input", np.empty_like(back[0]), back[2], back[1], strides, *ONES[1:])
    large = operands((14, 14), (3, 3), (14, 14), 8, 96, 96, "float32")
    run_found("to_kernel", np.empty_like(large[1]), large[2], large[0], *ONES)
    double = [one.astype("float64") for one in shapes()]
    run_found("forward", np.empty_like(double[2]), *double[:2], *ONES)
    whole = shapes()
    exactly(monkeypatch, "forward", np.empty_like(whole[2]), *whole[:2], ONES)
    deep = operands((3, 24, 24), (1, 3, 3), (3, 24, 24), 1, 16, 16, "float32")
    call = conv.find_kernel("forward", "float32", 3)
    call(np.empty_like(deep[2]), *deep[:2], (2, 1, 1), (2, 1, 1), (1, 1, 1))
    assert taken["taken"] == 0
    run_found("forward", np.empty_like(whole[2]), *whole[:2], *ONES)
    assert taken["taken"] == 1


def test_a_call_can_be_stopped():
    arrays = operands((56, 56), (3, 3), (56, 56), 1, 32, 32, "float32")

    class Stopped(Exception):
        pass

    def check():
        raise Stopped

    with pytest.raises(Stopped):
        conv.find_kernel("forward", "float32", 2)(
            np.empty_like(arrays[2]), *arrays[:2], *ONES, check
        )


def test_a_plan_says_which_form_ran(monkeypatch):
    monkeypatch.setenv("KBENCH_JIT", "wait")
    x, kernel = K.placeholder((4, 24, 24, 16)), K.variable(np.ones((3, 3, 16, 16)) / 9)
    y = K.conv2d(x, kernel, padding="same")
    step = K.function([x], [y, *K.gradients(K.sum(y * y), [x, kernel])])
    arrays = [np.ones((4, 24, 24, 16), "float32")]
    for exact, form in ((False, "winograd"), (True, "library")):
        K.set_exact(exact)
        step(arrays)
        found = [one for one in step.bound(arrays).steps if one.label.startswith("conv")]
        assert [one.form() for one in found] == [form] * 3
