"""Sums of terms on NumPy, made a slab at a time: every element once, none too many at once."""

import numpy as np
import pytest

from kbench.engine.ops.reduce import moments

SHAPES = [(), (1,), (5,), (40,), (3, 4), (1, 50, 1), (2, 3, 5), (2, 8, 3, 2), (100, 3), (0, 3)]
AXES = [None, 0, 1, -1]


@pytest.fixture(params=[1, 7, 64])
def slab(request, monkeypatch):
    monkeypatch.setattr(moments, "SLAB_ELEMENTS", request.param)
    return request.param


def _axes(shape, axis):
    if axis is None:
        return tuple(range(len(shape)))
    return (axis % len(shape),) if shape and -len(shape) <= axis < len(shape) else ()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slabs_cover_a_shape_once(shape, slab):
    seen = np.zeros(shape, int)
    for window in moments._slabs(shape):
        seen[window] += 1
        assert seen[window].size <= slab
    assert (seen == 1).all()


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
def test_values_do_not_depend_on_the_slab(shape, axis, keepdims, slab):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes = _axes(shape, axis)
    wide = x.astype(np.float64)
    total = np.log(np.exp(wide).sum(axes, keepdims=keepdims)) if axes else wide
    variance = moments._variance_numpy(None, x, axis=axes, keepdims=keepdims, dtype="float32")
    joined = moments._logsumexp_numpy(None, x, axis=axes, keepdims=keepdims)
    np.testing.assert_allclose(variance, wide.var(axes, keepdims=keepdims), atol=1e-6)
    np.testing.assert_allclose(joined, total, atol=1e-6)
    assert variance.dtype == joined.dtype == np.float32


def test_no_elements_and_no_finite_ones(slab):
    nothing = np.zeros((0, 3), np.float32)
    lowest = np.full((2, 3), -np.inf, np.float32)
    for x in (nothing, lowest):
        with np.errstate(all="ignore"):  # as plans have it
            joined = moments._logsumexp_numpy(None, x, axis=(0,), keepdims=False)
            spread = moments._variance_numpy(None, x, axis=(0,), keepdims=False, dtype="float32")
        assert (joined == -np.inf).all() and joined.shape == (3,)
        assert np.isnan(spread).all()
