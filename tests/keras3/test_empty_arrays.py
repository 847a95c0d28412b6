"""Functions of arrays without elements: the same values and errors at once and in a step."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops, tree
from keras3_traces import in_a_trace

from kbench.api.operations import ArgumentError, ShapeError

VALUES = {  # name -> function, shape of its operand, shapes of results, their one value
    "max_of_others": (lambda x: ops.max(x, -1), (0, 3), [(0,)], None),
    "max_from": (lambda x: ops.max(x, initial=1.0), (3, 0), [()], 1),
    "min_kept": (lambda x: ops.min(x, 0, keepdims=True), (3, 0), [(1, 0)], None),
    "argmax_of_others": (lambda x: ops.argmax(x, -1), (0, 3), [(0,)], None),
    "nanargmin_of_others": (lambda x: ops.nanargmin(x, -1), (0, 3), [(0,)], None),
    "sort": (ops.sort, (3, 0), [(3, 0)], None),
    "sort_flat": (lambda x: ops.sort(x, None), (3, 0), [(0,)], None),
    "argsort": (ops.argsort, (3, 0), [(3, 0)], None),
    "argpartition": (lambda x: ops.argpartition(x, 0), (3, 0), [(3, 0)], None),
    "median_of_others": (lambda x: ops.median(x, -1), (0, 3), [(0,)], None),
    "quantiles_of_others": (lambda x: ops.quantile(x, [0.1, 0.5], -1), (0, 3), [(2, 0)], None),
    "quantile_kept": (lambda x: ops.quantile(x, 0.5, -1, keepdims=True), (0, 3), [(0, 1)], None),
    "top_k_of_others": (lambda x: ops.top_k(x, 1), (0, 3), [(0, 1), (0, 1)], None),
    "top_none": (lambda x: ops.top_k(x, 0), (2, 3), [(2, 0), (2, 0)], None),
    "take_none": (lambda x: ops.take(x, np.zeros((0, 2), int), -1), (3, 0), [(3, 0, 2)], None),
    "take_of_others": (lambda x: ops.take(x, [2], -1), (0, 3), [(0, 1)], None),
    "take_along_none": (
        lambda x: ops.take_along_axis(x, np.zeros((3, 0), int), -1), (3, 0), [(3, 0)], None
    ),
    "multi_hot_of_none": (
        lambda x: ops.multi_hot(ops.cast(x, "int32"), 3), (2, 0), [(2, 3)], 0
    ),
    "sparsemax": (ops.sparsemax, (3, 0), [(3, 0)], None),
    "fft": (lambda x: ops.fft((x, x)), (3, 0), [(3, 0)] * 2, None),
    "fft2": (lambda x: ops.fft2((x, x)), (3, 0), [(3, 0)] * 2, None),
    "rfft_of_zeros": (lambda x: ops.rfft(x, 5), (3, 0), [(3, 3)] * 2, 0),
    "segment_max_of_none": (
        lambda x: ops.segment_max(x, np.zeros(0, int), 2), (0,), [(2,)], -np.inf
    ),
    "attention_to_nothing": (
        lambda x: ops.dot_product_attention(np.ones((1, 2, 1, 4), "float32"), x, x),
        (1, 0, 1, 4), [(1, 2, 1, 4)], 0,
    ),
    "map": (lambda x: ops.map(lambda row: row[:2] + 1, x), (0, 3), [(0, 2)], None),
    "map_to_pairs": (
        lambda x: ops.vectorized_map(lambda row: (ops.sum(row), row), x), (0, 3),
        [(0,), (0, 3)], None,
    ),
    "scan": (
        lambda x: ops.scan(
            lambda carry, row: (carry + row, ops.cast(row, "int32")), np.ones(3, "float32"), x
        ),
        (0, 3), [(3,), (0, 3)], 1,
    ),
}  # fmt: skip
NONE = "has no elements to choose from"
REFUSED = {  # name -> function, shape of its operand, error
    **{
        name: (getattr(ops, name), (3, 0), f"{name}: x is float32[3, 0], and axis 1 {NONE}")
        for name in ("max", "min", "amax", "amin", "argmax", "argmin", "median")
    },
    **{
        f"{name}_of_the_first": (
            lambda x, name=name: getattr(ops, name)(x, 0),
            (0, 3),
            f"{name}: x is float32[0, 3], and axis 0 {NONE}",
        )
        for name in ("max", "argmin", "ptp", "nanmax", "nanmin", "nanargmax", "median", "nanmedian")
    },
    **{
        name: (
            lambda x, name=name: getattr(ops, name)(x, 0.5, -1),
            (2, 0),
            f"{name}: x is float32[2, 0], and axis -1 {NONE}",
        )
        for name in ("quantile", "percentile", "nanquantile", "nanpercentile")
    },
    "top_k": (
        lambda x: ops.top_k(x, 5),
        (2, 3),
        "top_k: x is float32[2, 3], whose last axis has 3 elements; k is 5",
    ),
    "argpartition": (
        lambda x: ops.argpartition(x, 5, 0),
        (2, 3),
        "argpartition: x is float32[2, 3], whose axis 0 has 2 elements; kth is 5",
    ),
    "take": (
        lambda x: ops.take(x, [0], -1),
        (3, 0),
        "take: x is float32[3, 0], whose axis 1 has no elements; indices is int64[1] and asks",
    ),
    "take_along_axis": (
        lambda x: ops.take_along_axis(x, np.zeros((3, 1), int), -1),
        (3, 0),
        "take_along_axis: x is float32[3, 0], whose axis 1 has no elements; indices is",
    ),
    "correlate": (
        lambda x: ops.correlate(x, np.ones(2, "float32")),
        (0,),
        "correlate: x1 is float32[0], x2 is float32[2]; both need elements",
    ),
    "rfft": (
        ops.rfft,
        (3, 0),
        "rfft: x is float32[3, 0], whose last axis has no elements; give fft_length",
    ),
    "irfft": (
        lambda x: ops.irfft((x, x)),
        (3, 0),
        "irfft: real is float32[3, 0], whose last axis has no elements; give fft_length",
    ),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", VALUES)
def test_results_have_their_shapes_and_values(name):
    function, shape, shapes, value = VALUES[name]
    array = np.zeros(shape, "float32")
    at_once = [np.asarray(one) for one in tree.flatten(function(array))]
    later = in_a_trace(function, [array])
    assert [one.shape for one in at_once] == shapes
    for one, other in zip(at_once, later, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
        if one.size:
            np.testing.assert_array_equal(one, np.full(one.shape, value, one.dtype))


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_what_is_missing(name):
    function, shape, words = REFUSED[name]
    array = np.ones(shape, "float32")
    for call in (lambda: function(array), lambda: in_a_trace(function, [array])):
        with pytest.raises((ShapeError, ArgumentError)) as caught:
            call()
        assert words in str(caught.value)


def test_a_scan_of_nothing_may_keep_nothing():
    def kept_nowhere(carry, row):
        return carry + row, None

    def kept_by_name(carry, row):
        return carry, {"row": row, "one": 1, "none": None}

    nothing = np.zeros((0, 2), "float32")
    carry, found = ops.scan(kept_nowhere, np.ones(2, "float32"), nothing)
    assert (carry.tolist(), found) == ([1, 1], None)
    found = ops.scan(kept_by_name, np.ones(2, "float32"), nothing)[1]
    assert (found["row"].shape, found["one"].shape, found["none"]) == ((0, 2), (0,), None)


def test_segments_of_nothing_are_none():
    assert ops.segment_sum(np.zeros((0, 3), "float32"), np.zeros(0, "int32")).shape == (0, 3)


def test_grey_pictures_are_copied_when_they_are_grey_already():
    picture = np.ones((1, 2, 2, 1), "float32")
    found = ops.image.rgb_to_grayscale(picture, data_format="channels_last")
    assert not np.shares_memory(found, picture)
    np.testing.assert_array_equal(found, picture)
