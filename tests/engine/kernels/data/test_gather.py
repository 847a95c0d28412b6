"""The kernels that move rows by index: values, and that no index reaches foreign memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_helpers import compiled_at_once
from sampling import every

from kbench import backend as K
from kbench.engine.core import cancel
from kbench.engine.graph.op import REGISTRY
from kbench.engine.kernels.data import gather, scatter_add
from kbench.engine.ops.layout import gather as rows_by_index

__all__ = ["compiled_at_once"]

TAKEN = ("bool", "int8", "uint16", "float16", "int32", "float32", "int64", "float64")
ADDED = ("float16", "float32", "float64", "int32", "uint8")


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays take the kernels, too."""
    monkeypatch.setenv("KBENCH_LEAST", "1")


def table(rows: int, width: int, dtype: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, width)) * 20).astype(np.int32).astype(dtype)


def take(x: np.ndarray, indices: Any) -> np.ndarray:
    call = gather.find_take(x.dtype.name, int(np.prod(x.shape[1:])))
    assert call is not None
    out = np.full((*np.shape(indices), *x.shape[1:]), 1, x.dtype)
    call(out, x, np.asarray(indices), None)
    return out


def added(g: np.ndarray, indices: Any, rows: int) -> np.ndarray:
    call = scatter_add.find_add(g.dtype.name)
    assert call is not None
    out = np.full((rows, *g.shape[1:]), 1, g.dtype)
    call(out, g, np.asarray(indices), None)
    return out


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("dtype", TAKEN)
def test_rows_by_index(dtype: str, width: int) -> None:
    x = table(7, width, dtype)
    for indices in ([], [6], [0, 0, 6, 3], np.array([[1, 2], [5, 6]], "uint8")):
        chosen = np.asarray(indices, dtype=getattr(indices, "dtype", np.int32))
        np.testing.assert_array_equal(take(x, chosen), x[chosen])


@pytest.mark.parametrize("width", [1, 3, 16, 33, 70])
@pytest.mark.parametrize("dtype", every(2, ADDED))
def test_rows_added_up(dtype: str, width: int) -> None:
    random = np.random.default_rng(width)
    indices = random.integers(0, 5, 40)
    g = table(40, width, dtype, 3)
    total = np.zeros((6, width), "float64" if dtype[0] == "f" else dtype)
    np.add.at(total, indices, g)
    np.testing.assert_array_equal(added(g, indices, 6), total.astype(dtype))
    np.testing.assert_array_equal(added(g[:0], indices[:0], 6), 0)


def test_strided_misaligned_and_overlapping_operands() -> None:
    x = table(8, 12, "float32")
    np.testing.assert_array_equal(take(x[::2, ::3], [3, 0]), x[::2, ::3][[3, 0]])
    raw = np.zeros(8 * 8 + 4, np.uint8)[4:].view(np.float32).reshape(8, 2)  # not on whole words
    raw[...] = x[:, :2]
    np.testing.assert_array_equal(take(raw, [7, 1]), x[[7, 1], :2])
    call = gather.find_take("float32", 12)
    assert call is not None
    wanted = x[[1, 0, 2]]
    call(x[:3], x, np.array([1, 0, 2]), None)
    np.testing.assert_array_equal(x[:3], wanted)
    halves = added(x[:, ::2], [0] * 8, 1)
    np.testing.assert_allclose(halves, x[:, ::2].sum(axis=0, keepdims=True))


def test_halves_do_not_add_up_in_halves() -> None:
    g = np.ones((5000, 3), "float16")
    assert added(g, np.zeros(5000, "int32"), 2)[0].tolist() == [5000] * 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", every(2, [1, 3, 16, 70, 5000]))
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_named_often_are_rounded_once(dtype: str, width: int, threads: int) -> None:
    """And all forms, of few rows and of many, give the bits of NumPy."""
    K.set_num_threads(threads)
    random, most = np.random.default_rng(0), scatter_add.MAX_PLAIN_TERMS
    for rows, many in ((3, 300), (200, 300), (1000, 30), (40, 40 * most)):
        indices = np.minimum(random.zipf(1.5, many) - 1, rows - 1).astype("int32")
        g = random.standard_normal((many, width)).astype(dtype)
        exact = np.zeros((rows, width))
        np.add.at(exact, indices, g.astype("float64"))
        often = np.bincount(indices, minlength=rows) > most
        found = added(g, indices, rows)
        np.testing.assert_array_equal(found[often], exact[often].astype(dtype))
        np.testing.assert_allclose(found, exact.astype(dtype), 1e-3, 1e-3)
        table = np.zeros((rows, width), dtype)
        np.testing.assert_array_equal(found, rows_by_index._scatter_numpy(None, g, indices, table))


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("width", [(), (4,), (64,)])
def test_long_sums_of_gradients_are_accurate(
    tier: str, width: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    x, indices = K.placeholder((3, *width)), K.placeholder((None,), dtype="int32")
    step = K.function([x, indices], K.gradients(K.sum(K.gather(x, indices) * 0.1), [x]))
    many = 1_000_000 // max((1, *width))
    (slope,) = step([np.zeros((3, *width), "float32"), np.ones(many, "int32")])
    np.testing.assert_allclose(slope[1], np.float32(0.1) * np.float64(many), 6e-8)
    assert not slope[[0, 2]].any()


@pytest.mark.parametrize("width", [2, 200])
def test_the_same_sums_on_any_number_of_threads(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    g = random.standard_normal((3000, width)).astype("float32")
    indices = random.integers(0, 10, 3000)
    monkeypatch.setattr(scatter_add, "MAX_UNCHECKED_ELEMENTS", 50_000)
    sums = []
    for threads in (1, 2, 5):
        K.set_num_threads(threads)
        sums.append(added(g, indices, 10))
    for one in sums[1:]:
        np.testing.assert_array_equal(sums[0], one)


# ------------------------------------------------------------------ indices that are no rows

WRONG = [[0, 5], [-1, 0], [2**40], [-(2**40)], [np.iinfo("int64").min]]


@pytest.mark.parametrize("indices", [*WRONG, np.array([2**64 - 1], "uint64")])
def test_no_index_leaves_the_table(indices: Any) -> None:
    x = table(5, 3, "float32")
    out = np.full((len(indices), 3), 9, "float32")
    call, add = gather.find_take("float32", 3), scatter_add.find_add("float32")
    assert call is not None and add is not None
    with pytest.raises(IndexError, match="5 rows"):
        call(out, x, np.asarray(indices), None)
    with pytest.raises(IndexError, match="5 rows"):
        add(x, out, np.asarray(indices), None)
    assert (out == 9).all()
    np.testing.assert_array_equal(x, table(5, 3, "float32"))
    with pytest.raises(IndexError):
        call(out[:1], x[:0], np.array([0]), None)


def test_arrays_of_other_sizes_are_refused() -> None:
    x = table(5, 3, "float32")
    call, add = gather.find_take("float32", 3), scatter_add.find_add("float32")
    assert call is not None and add is not None
    rows = np.array([1, 2])
    out = np.zeros((2, 3), "float32")
    for result, source in ((out[:1], x), (out, x.astype("int32")), (out, x[:, :2]), (out.T, x)):
        with pytest.raises(ValueError, match="expected|contiguous"):
            call(result, source, rows, None)
    with pytest.raises(ValueError, match="expected 6 elements"):
        add(x, out[:1], rows, None)


@pytest.mark.parametrize("jit", ["off", "wait"])
@pytest.mark.parametrize(("index", "rows"), [(4, 4), (-1, 4), (0, 0)])
def test_the_error_names_index_and_rows(
    index: int, rows: int, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    x, indices = K.placeholder((None, 3)), K.placeholder((None,), dtype="int32")
    picked = K.gather(x, indices)
    (back,) = K.gradients(K.sum(picked), [x])
    feeds = {x: np.zeros((rows, 3)), indices: np.array([0, 0, index][rows == 0 :])}
    for graph in (picked, back):
        with pytest.raises(K.ShapeError) as caught:
            graph.eval(feed_dict=feeds)
        assert f"index {index} is out of range for {rows} rows" in str(caught.value)
        assert caught.value.function == ("gather" if graph is picked else "gradients")
        assert any(one.spec == f"float32[{rows}, 3]" for one in caught.value.operands)


# ------------------------------------------------------------------ as functions of K


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 4), max_size=2).map(tuple),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
    st.sampled_from(["float16", "float32", "float64"]),
    st.integers(0, 99),
)
def test_gather_and_its_gradients(
    rows: int, rest: tuple[int, ...], where: tuple[int, ...], dtype: str, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(-4, 5, (rows, *rest)).astype(dtype)
    indices = random.integers(0, rows, where).astype("int64")
    weight = random.integers(-4, 5, (*where, *rest)).astype(dtype)
    table_, chosen = K.placeholder(x.shape, dtype=dtype), K.placeholder(where, dtype="int64")
    picked = K.gather(table_, chosen)
    (back,) = K.gradients(K.sum(K.square(picked) * K.constant(weight, dtype)), [table_])
    (again,) = K.gradients(K.sum(back * back), [table_])
    values = K.function([table_, chosen], [picked, back, again])([x, indices])
    first = np.zeros(x.shape)
    np.add.at(first, indices, 2.0 * weight * x[indices])
    second = np.zeros(x.shape)
    np.add.at(second, indices, 2.0 * weight * (2 * first)[indices])
    np.testing.assert_array_equal(values[0], x[indices])
    np.testing.assert_array_equal(values[1], first.astype(dtype))
    np.testing.assert_array_equal(values[2], second.astype(dtype))


def test_large_tables_take_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBENCH_LEAST")
    x = K.placeholder((5000, 64))
    picked = K.gather(x, K.constant(np.arange(900) * 5, dtype="int32"))
    compiled = K.function([x], [picked, *K.gradients(K.sum(K.square(picked)), [x])])
    with K.record() as runs:
        compiled([np.ones((5000, 64))])
    forms = {step.label: step.form for step in runs[-1].steps}
    assert forms["gather"] == forms["scatter_add"] == "library"


@pytest.mark.parametrize("name", ["take", "add"])
def test_a_stop_is_honoured(name: str) -> None:
    x = np.zeros((3000, 64), "float32")
    call = gather.find_take("float32", 64) if name == "take" else scatter_add.find_add("float32")
    assert call is not None
    cancel.request()
    try:
        with pytest.raises(KeyboardInterrupt):
            call(np.empty_like(x), x, np.arange(3000), cancel.check)
    finally:
        cancel.clear()


@pytest.mark.parametrize("part", [1, 5, 100])
def test_numpy_moves_rows_in_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_by_index, "CELLS_PER_CANCEL_CHECK", part)
    random = np.random.default_rng(part)
    x = random.integers(-5, 6, (7, 2, 3)).astype("float16")
    rows = random.integers(0, 7, (4, 5))
    picked = REGISTRY["gather"].numpy(None, x, rows)
    np.testing.assert_array_equal(picked, x[rows])
    total = np.zeros(x.shape)
    np.add.at(total, rows, picked)
    np.testing.assert_array_equal(REGISTRY["scatter_add"].numpy(None, picked, rows, x), total)
    empty = REGISTRY["gather"].numpy(None, x[:0], rows[:0])
    assert empty.shape == (0, 5, 2, 3)
    cancel.request()
    try:
        with pytest.raises(KeyboardInterrupt):
            REGISTRY["scatter_add"].numpy(None, picked, rows, x)
    finally:
        cancel.clear()
