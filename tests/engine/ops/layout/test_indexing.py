"""Indexing against NumPy's: any key, with sizes known and unknown, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import every

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
        lambda: by_variable(array, start, size),
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


def by_variable(array: np.ndarray, start: int, size: int) -> Any:
    """`slice` from where a variable says, which nothing follows as a shape; and its slope."""
    x = K.variable(array, "float64")
    part = K.slice(x, K.variable([start], "int32"), [size])
    found, slope = K.function([], [part, K.gradients(K.sum(part), [x])[0]])([])
    assert slope.sum() == found.size
    return found


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


# ------------------------------------------------------------------ gather


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("mode", ["off", "wait"])
def test_gather_by_any_integers_of_any_rank(
    dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    array = arrays_of((5, 2, 3))
    which = (np.arange(24).reshape(2, 1, 3, 4) * 7 % 5).astype(dtype)
    x, i = K.placeholder(ndim=3, dtype="float64"), K.placeholder(ndim=4, dtype=dtype)
    rows = K.gather(x, i)
    (slope,) = K.gradients(K.sum(rows * rows * rows), x)
    (again,) = K.gradients(K.sum(slope * slope), x)
    value, first, second = K.function([x, i], [rows, slope, again])([array, which])
    np.testing.assert_array_equal(value, array[which])
    count = np.bincount(which.ravel())[:, None, None]
    np.testing.assert_allclose(first, 3 * count * array**2, 1e-12)
    np.testing.assert_allclose(second, 36 * count**2 * array**3, 1e-12)


FAR = [("int64", 2**40), ("int64", -(2**40)), ("uint32", 2**32 - 1), ("uint64", 2**64 - 1)]


@pytest.mark.parametrize(("dtype", "index"), FAR)
@pytest.mark.parametrize("mode", ["off", "wait"])
def test_no_index_reaches_foreign_memory(
    dtype: str, index: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    x, i = K.placeholder((None, None)), K.placeholder((None,), dtype=dtype)
    rows = K.gather(x, i)
    which = np.array([0, index, 1], dtype)
    for wanted in (rows, K.gradients(K.sum(rows), x)[0]):
        with pytest.raises(K.ShapeError, match=f"index {index} is out of range for 3 rows"):
            wanted.eval(feed_dict={x: np.ones((3, 4)), i: which})
    if -(2**31) <= index < 2**63:
        with pytest.raises(K.ShapeError, match="out of range"):
            K.variable([[1.0]])[K.constant(index, "int64")]


def test_gather_of_nothing() -> None:
    x, i = K.placeholder((None, 3)), K.placeholder((None,), dtype="int32")
    rows = K.function([x, i], [K.gather(x, i)])
    assert rows([np.zeros((0, 3)), []])[0].shape == (0, 3)
    assert rows([np.zeros((2, 3)), []])[0].shape == (0, 3)
    with pytest.raises(K.ShapeError, match="index 0 is out of range for 0 rows"):
        rows([np.zeros((0, 3)), [0]])


def test_many_small_gradients_add_up_in_float16() -> None:
    x, i = K.variable(np.zeros((1, 1)), "float16"), K.constant([0] * 5000, "int32")
    (slope,) = K.gradients(K.sum(K.gather(x, i) * 0.25), x)
    assert (K.dtype(slope), K.eval(slope).item()) == ("float16", 1250.0)


# ------------------------------------------------------------------ the rest


def test_indices_of_every_kind() -> None:
    array = arrays_of((3, 4))
    x = K.variable(array, "float64")
    two = K.constant(2, dtype="int32")
    last = K.shape(x)[0] - 1
    for part, wanted in (
        (x[np.int64(1)], array[1]),
        (x[()], array),
        (x[two], array[2]),
        (x[K.variable(-1, "int64")], array[-1]),
        (x[last, ::-2], array[2, ::-2]),
        (x[two::-1, None], array[2::-1, None]),
        (x[..., -1], array[..., -1]),
        (x[:, K.variable(1, "uint8") :], array[:, 1:]),
        (K.transpose(x)[1][two], array[2, 1]),
    ):
        np.testing.assert_array_equal(K.eval(part), wanted)


def test_rows_and_entries_unpack() -> None:
    first, (a, b), *rest = K.variable(arrays_of((4, 2)))
    assert K.eval(first).tolist() == [1.0, 2.0]
    assert (K.eval(a), K.eval(b), len(rest)) == (3.0, 4.0, 2)


@pytest.mark.parametrize("axes", [0, -1, [0, 1], (0, 2), [-1, -3], [0, 1, 2], []])
def test_reverse_over_several_axes(axes: Any) -> None:
    array = arrays_of((2, 3, 4))
    x = K.placeholder((None, None, None), dtype="float64")
    wanted = np.flip(array, axes if isinstance(axes, int) else tuple(axes))
    turned = K.reverse(x, axes)
    (slope,) = K.gradients(K.sum(turned * wanted), x)
    value, back = K.function([x], [turned, slope])([array])
    np.testing.assert_array_equal(value, wanted)
    np.testing.assert_array_equal(back, array)


def test_one_hot_of_what_is_out_of_range_is_zero() -> None:
    which = np.array([[0, 2], [3, -1], [2**31 - 1, 1]], "int32")
    value = K.eval(K.one_hot(K.constant(which, "int32"), 3))
    np.testing.assert_array_equal(value, (which[..., None] == np.arange(3)).astype("float32"))
    assert K.eval(K.one_hot(K.constant([1], "int32"), 0)).shape == (1, 0)
    K.set_floatx("float64")
    assert K.dtype(K.one_hot([1], 2)) == "float64"


def test_sizes_beside_computed_ones_stay_known() -> None:
    x = K.placeholder((None, None, 12))
    rows, columns = K.shape(x)[0], K.shape(x)[1]
    assert K.int_shape(K.reshape(x, (rows, columns * 2, 6))) == (None, None, 6)
    joined = K.concatenate([K.shape(x)[:2] * 2, K.constant([3], dtype="int32")])
    tensor = K.reshape(x, joined)
    assert K.int_shape(tensor) == (None, None, 3)
    (value,) = K.function([x], [tensor])([np.zeros((2, 5, 12))])
    assert value.shape == (4, 10, 3)


ENTRIES = {  # one entry of a vector, as a tensor of rank 0
    "x[1]": lambda x: x[1],
    "x[-1]": lambda x: x[-1],
    "x[1][...]": lambda x: x[1][...],
    "x[1][()]": lambda x: x[1][()],
    "x[i]": lambda x: x[K.argmax(x)],
    "stacked": lambda x: K.stack([x[0] * 2, x[1]])[1],
    "gathered": lambda x: K.gather(x, K.constant(1, dtype="int32")),
    "squeezed": lambda x: K.squeeze(x[1:2], 0),
    "folded": lambda x: K.foldl(lambda one, other: one * 2 + other, x),
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "off") for name in ENTRIES), *every(3, ((name, "wait") for name in ENTRIES))],
)
def test_one_entry_joins_a_compiled_loop(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    monkeypatch.setenv("KBENCH_LEAST", "1")
    x, y = K.placeholder((None,)), K.placeholder((None,))
    entry = ENTRIES[name](x)
    outputs = [entry, K.sin(y * entry) + 1, K.sum(y * entry)]
    outputs += K.gradients(outputs[1], [x, y])
    vector = np.array([0.5, 2.0], "float32")
    for size in (3, 5000):
        line = np.linspace(-1, 1, size, dtype="float32")
        number, chain, total, to_vector, to_line = K.function([x, y], outputs)([vector, line])
        assert isinstance(number, np.ndarray) and number.shape == ()
        np.testing.assert_allclose(chain, np.sin(line * number) + 1, 1e-5, 1e-5)
        np.testing.assert_allclose(total, (line * number).sum(), 1e-4, 1e-3)
        np.testing.assert_allclose(to_line, np.cos(line * number) * number, 1e-5, 1e-5)
        slope = (np.cos(line * number) * line).sum()
        np.testing.assert_allclose(to_vector[1], slope, 1e-4, 1e-3)


def test_every_result_of_rank_0_is_an_array() -> None:
    from kbench.engine.ops.layout.indexing import GETITEM
    from kbench.engine.ops.layout.stack import TAKE

    one = GETITEM.numpy(None, np.arange(3.0), items=(("int", 1),))
    assert isinstance(one, np.ndarray) and one.shape == ()
    two = TAKE.numpy(None, np.arange(3.0), axis=0, index=1)
    assert isinstance(two, np.ndarray) and two.shape == ()
