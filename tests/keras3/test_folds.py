"""Folds over axes at once and in a step: which axes there are, and the shapes of what they give."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops
from keras3_traces import in_a_trace

OVER_MANY = """sum prod mean var std all any max min amax amin ptp logsumexp median quantile nansum
nanprod nanmean nanvar nanstd nanmax nanmin nanmedian nanquantile""".split()
OVER_ONE = "argmax argmin nanargmax nanargmin".split()
NOT_KEPT = "average count_nonzero cumsum cumprod nancumsum nancumprod".split()


def _fold(name):
    function = getattr(ops, name)
    rest = (0.5,) if "quantile" in name else ()
    return lambda x, **options: function(x, *rest, **options)


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("name", OVER_MANY + OVER_ONE + NOT_KEPT)
def test_a_scalar_has_no_axes(name, place):
    fold, scalar = _fold(name), np.array(3, "float32")
    for axis in (place, (place,)) if name in OVER_MANY else (place,):
        with pytest.raises(ValueError, match=f"{name}: axis {place} is out of bounds"):
            fold(scalar, axis=axis)
        with pytest.raises(ValueError, match=f"axis {place} is out of"):
            in_a_trace(lambda x, axis=axis: fold(x, axis=axis), [scalar])


@pytest.mark.parametrize("shape", [(), (4,), (1, 3), (2, 3, 4), (2, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("name", OVER_MANY + OVER_ONE)
def test_axes_that_are_kept(name, shape):
    fold, x = _fold(name), np.linspace(-2, 3, int(np.prod(shape)), dtype="float32").reshape(shape)
    axes = [None, *range(-len(shape), len(shape))]
    axes += [(0,), (0, -1), (-1, 1)] if len(shape) > 2 and name in OVER_MANY else []
    for axis in axes:
        kept = lambda x, axis=axis: fold(x, axis=axis, keepdims=True)  # noqa: E731
        wanted, left_out = np.max(x, axis=axis, keepdims=True), fold(x, axis=axis)
        for found in (kept(x), in_a_trace(kept, [x])[0]):
            assert found.shape == wanted.shape, axis
            np.testing.assert_allclose(found.reshape(left_out.shape), left_out, rtol=1e-5)
