"""Indexing against NumPy's: any key, with sizes known and unknown, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbench import backend as K

BOUND = st.one_of(st.none(), st.integers(-6, 6))
STEP = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
ITEM = st.one_of(
    st.integers(-6, 6),
    st.builds(slice, BOUND, BOUND, STEP),
    st.just(None),
    st.just(Ellipsis),
)
KEY = st.lists(ITEM, max_size=5).map(tuple)
SHAPE = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def arrays_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape) + 1


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(SHAPE, KEY)
def test_any_key(shape: tuple[int, ...], key: Any) -> None:
    array = arrays_of(shape)
    known, unknown = K.variable(array, "float64"), K.placeholder(ndim=array.ndim, dtype="float64")
    try:
        wanted = array[key]
    except IndexError:
        with pytest.raises(K.KbenchError):
            K.eval(known[key])
        with pytest.raises(K.KbenchError):
            unknown[key].eval(feed_dict={unknown: array})
        return
    part = known[key]
    assert K.int_shape(part) == wanted.shape
    np.testing.assert_array_equal(K.eval(part), wanted)
    late = unknown[key]
    assert all(a in (None, b) for a, b in zip(K.int_shape(late), wanted.shape, strict=True))
    np.testing.assert_array_equal(late.eval(feed_dict={unknown: array}), wanted)
    back = np.zeros(shape)
    back[key] = wanted
    (gradient,) = K.gradients(part * part / 2, known)
    np.testing.assert_array_equal(K.eval(gradient), back)


NUMBERS = st.integers(-6, 6)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 4), NUMBERS, NUMBERS, NUMBERS)
def test_numbers_that_are_computed(size: int, index: int, start: int, stop: int) -> None:
    array = arrays_of((size, 3))
    x = K.placeholder((None, 3), dtype="float64")
    i, a, b = (K.placeholder((), dtype="int32") for _ in range(3))
    picked, block = x[i], x[a:b, ::-1]
    feeds = {x: array, i: index, a: start, b: stop}
    np.testing.assert_array_equal(block.eval(feed_dict=feeds), array[start:stop, ::-1])
    if -size <= index < size:
        np.testing.assert_array_equal(picked.eval(feed_dict=feeds), array[index])
    else:
        with pytest.raises(K.ShapeError, match="out of (range|bounds)"):
            picked.eval(feed_dict=feeds)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 5), NUMBERS, st.integers(-2, 6))
def test_slice_never_leaves_the_tensor(length: int, start: int, size: int) -> None:
    array = arrays_of((length,))
    fits = start >= 0 and size >= -1 and start + max(size, 0) <= length
    unknown = K.placeholder((None,), dtype="float64")
    ways = [
        lambda: K.eval(K.slice(K.variable(array, "float64"), [start], [size])),
        lambda: K.slice(unknown, [start], [size]).eval(feed_dict={unknown: array}),
        lambda: computed(array, start, size),
    ]
    for way in ways:
        if fits:
            stop = None if size == -1 else start + size
            np.testing.assert_array_equal(way(), array[start:stop])
        else:
            with pytest.raises(K.KbenchError):
                way()


def computed(array: np.ndarray, start: int, size: int) -> Any:
    """`slice` with numbers that are known only at evaluation."""
    x = K.placeholder((None,), dtype="float64")
    first, count = K.placeholder((1,), dtype="int32"), K.placeholder((1,), dtype="int32")
    part = K.slice(x, first, count)
    return part.eval(feed_dict={x: array, first: [start], count: [size]})


GATHER: list[tuple[Any, str]] = [
    ([0, 2], ""),
    ([-1], "index -1 is out of range for 3 rows"),
    ([3], "index 3 is out of range for 3 rows"),
    ([[0, 1], [2, 0]], ""),
    ([], ""),
]


@pytest.mark.parametrize(("indices", "error"), GATHER)
def test_gather_checks_every_index(indices: Any, error: str) -> None:
    array = arrays_of((3, 2))
    which = np.array(indices, "int32")
    x, i = K.variable(array, "float64"), K.placeholder(ndim=which.ndim, dtype="int32")
    late = K.gather(x, i)
    if error:
        with pytest.raises(K.ShapeError, match=error):
            K.gather(x, which)
        with pytest.raises(K.ShapeError, match=error):
            late.eval(feed_dict={i: which})
        return
    np.testing.assert_array_equal(late.eval(feed_dict={i: which}), array[which])
    np.testing.assert_array_equal(K.eval(K.gather(x, which)), array[which])
