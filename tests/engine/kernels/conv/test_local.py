"""The kernel of locally connected layers: its values, what it refuses, and where plans have it."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_helpers import compiled_at_once

from kbench import backend as K
from kbench.engine.jit.service import stats
from kbench.engine.kernels.conv import local
from kbench.engine.ops.conv.local import PRODUCTS
from kbench.engine.runtime import config

__all__ = ["compiled_at_once"]

# (images, space, channels, window, strides, filters)
SIZES = [
    (1, (5, 6), 3, (2, 3), (1, 1), 16),
    (64, (12, 12), 8, (3, 3), (1, 1), 16),
    (15, (9, 7), 1, (3, 2), (2, 1), 32),
    (13, (7, 8), 5, (7, 8), (1, 1), 48),  # one place
    (130, (4, 9), 2, (1, 4), (3, 2), 80),  # more images than one item takes
    (3, (6, 6), 2, (2, 2), (9, 9), 16),  # strides beyond the image
    (2, (1, 11), 4, (1, 3), (1, 2), 16),
]


def operands(size, dtype="float32"):
    images, space, channels, window, strides, filters = size
    random = np.random.default_rng(3)
    counts = [(a - b) // c + 1 for a, b, c in zip(space, window, strides, strict=True)]
    x = random.standard_normal((images, *space, channels)).astype(dtype)
    shape = (counts[0] * counts[1], window[0] * window[1] * channels, filters)
    return x, random.standard_normal(shape).astype(dtype), counts


def run(out, x, weights, window, strides, check=None):
    call = local.find("product", str(out.dtype))
    assert call is not None, stats().failures
    call(out, x, weights, window, strides, check)


def expected(x, weights, window, strides):
    arrays = (one.astype("float64") for one in (x, weights))
    return PRODUCTS.numpy(None, *arrays, window=window, strides=strides)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_values_agree_with_numpy(size, dtype):
    x, weights, _ = operands(size, dtype)
    want = expected(x, weights, *size[3:5])
    guarded = np.full(want.size + 512, 7.5, dtype)
    out = guarded[256:-256].reshape(want.shape)
    run(out, x, weights, *size[3:5])
    close = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(out, want, rtol=0, atol=close * np.abs(want).max())
    assert (guarded[:256] == 7.5).all() and (guarded[-256:] == 7.5).all()


def test_operands_may_be_strided_and_overlap_the_result():
    size = SIZES[1]
    x, weights, _ = operands(size)
    want = expected(x, weights, *size[3:5])
    strided = np.repeat(x, 2, axis=2)[:, :, ::2], np.asfortranarray(weights)
    memory = np.zeros(want.size + weights.size, "float32")
    memory[-weights.size :] = weights.ravel()
    shared = memory[-weights.size :].reshape(weights.shape)
    for arrays, out in ((strided, np.empty(want.shape, "f")), ((x, shared), memory[: want.size])):
        out = out.reshape(want.shape)
        run(out, *arrays, *size[3:5])
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_nan_and_infinity_stay_at_their_places():
    size = SIZES[1]
    for value in (np.nan, np.inf):
        x, weights, _ = operands(size)
        x[7, 5, 5, 3] = value
        want = expected(x, weights, *size[3:5]).astype("float32")
        out = np.empty_like(want)
        run(out, x, weights, *size[3:5])
        np.testing.assert_array_equal(np.isfinite(out), np.isfinite(want))


def test_results_do_not_depend_on_the_number_of_threads():
    size, before = SIZES[4], config.num_threads()
    x, weights, counts = operands(size)
    results = []
    for count in (1, 2, 3):
        config.set_num_threads(count)
        out = np.empty((size[0], counts[0] * counts[1], size[5]), "float32")
        run(out, x, weights, *size[3:5])
        results.append(out)
    config.set_num_threads(before)
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


@pytest.mark.parametrize(
    ("place", "shape"),
    [(0, (1, 20, 16)), (0, (1, 19, 16)), (1, (1, 5, 5, 3)), (2, (16, 17, 16)), (2, (15, 18, 16))],
)
def test_sizes_that_disagree_are_refused(place, shape):
    x, weights, _ = operands(SIZES[0])
    arrays = [np.empty((1, 16, 16), "f"), x, weights]
    arrays[place] = np.ones(shape, "f")
    with pytest.raises(ValueError, match="disagree"):
        run(*arrays, *SIZES[0][3:5])


def test_filters_that_fill_no_vector_and_other_dtypes_are_refused():
    x, weights, _ = operands(SIZES[0])
    with pytest.raises(ValueError, match="disagree"):
        run(np.empty((1, 16, 8), "f"), x, weights[:, :, :8], *SIZES[0][3:5])
    with pytest.raises(ValueError, match="expected float32"):
        run(np.empty((1, 16, 16), "f"), x.astype("f8"), weights, *SIZES[0][3:5])
    with pytest.raises(ValueError, match="read-only"):
        out = np.empty((1, 16, 16), "f")
        out.flags.writeable = False
        run(out, x, weights, *SIZES[0][3:5])


def test_a_call_can_be_stopped():
    class Stopped(Exception):
        pass

    def check():
        raise Stopped

    x, weights, _ = operands(SIZES[1])
    with pytest.raises(Stopped):
        run(np.empty((64, 100, 16), "f"), x, weights, *SIZES[1][3:5], check)


def built(filters, images=None, channels_first=False, rank=2):
    """A layer's function, with the gradients to both operands, and what it is fed."""
    random = np.random.default_rng(5)
    layout = "channels_first" if channels_first else "channels_last"
    space, places = ((12, 12), 100) if rank == 2 else ((40,), 38)
    shape = (4, *space) if channels_first else (*space, 4)
    x = K.placeholder((images, *shape))
    weights = K.variable(random.standard_normal((places, 3**rank * 4, filters)))
    if rank == 2:
        y = K.local_conv2d(x, weights, (3, 3), (1, 1), (10, 10), layout)
    else:
        y = K.local_conv1d(x, weights, (3,), (1,))
    value = random.standard_normal((64, *shape)).astype("float32")
    return x, y, K.gradients(K.sum(K.square(y)), [x, weights]), value


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({"filters": 16}, True),
        ({"filters": 32, "images": 64}, True),
        ({"filters": 64, "rank": 1}, True),
        ({"filters": 24}, False),
        ({"filters": 16, "channels_first": True}, False),
    ],
    ids=str,
)
def test_plans_have_it_in_place_of_patches(arguments, taken, monkeypatch):
    x, y, gradients, value = built(**arguments)
    results = []
    for mode in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", mode)
        forward, whole = K.function([x], [y]), K.function([x], [y, *gradients])
        results.append([*forward([value]), *whole([value])])
        labels = {one.label: one.form() for one in forward.bound([value]).steps}
        assert ("patches" in labels) != taken
        assert labels.get("local_products") == (
            {"off": "numpy", "wait": "library"}[mode] if taken else None
        )
    for plain, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=2e-5 * np.abs(plain).max())
