"""Folds and library kernels against NumPy: every view, dtype and special value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_helpers import (
    FLOATS,
    INTEGERS,
    assert_same,
    compiled_at_once,
    kernel,
    values,
)
from sampling import every

__all__ = ["compiled_at_once"]


from kbench.engine.codegen.loop_program import Fold, Input, loop_nest, loop_value
from kbench.engine.jit.service import stats
from kbench.engine.kernels import registry

# ------------------------------------------------------------------ folds

FOLD_DIMS = [
    ((37,), (0, 1)),
    ((6, 11), (1, 2)),
    ((6, 11), (0, 1)),
    ((6, 11), (0, 2)),
    ((4, 5, 6), (1, 2)),
    ((4, 5, 6), (1, 3)),
    ((4, 5, 6), (0, 2)),
    ((3, 4, 5, 6), (1, 3)),
    ((70, 900), (1, 2)),
    ((900, 5000), (0, 1)),
]
FOLD_KINDS = ("sum", "mean", "prod", "max", "min", "any", "all")


def fold_result(kind, dtype):
    return "bool" if kind in ("any", "all") else dtype


@pytest.mark.parametrize(("dims", "over"), every(2, FOLD_DIMS))
def test_folds_over_any_group_of_dims(dims, over):
    x = np.random.default_rng(5).normal(1, 0.01, dims)
    column = np.random.default_rng(6).normal(1, 0.01, (*dims[:-1], 1))
    inputs = (
        Input("float64", (True,) * len(dims)),
        Input("float64", (*[True] * (len(dims) - 1), False)),
    )
    want = (x * column).sum(tuple(range(*over)))
    out = np.empty(want.shape)
    program = loop_nest(inputs, (loop_value("a0 * a1", "float64"),), (), Fold("sum", *over))
    kernel(program).run([out], [x, column], dims)
    np.testing.assert_allclose(out, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "view"),
    every(8, itertools.product(("bool", *INTEGERS, *FLOATS), ("last", "middle"))),
)
def test_every_fold_of_every_dtype(dtype, view):
    x = values(dtype, 7 * 10 * 11).reshape(7, 10, 11)[..., : 11 if view == "middle" else 1]
    x = np.ascontiguousarray(x if view == "middle" else x.reshape(7, 10))
    for kind in FOLD_KINDS:
        if dtype == "bool" and kind in ("mean", "prod") or (kind == "mean" and dtype in INTEGERS):
            continue
        result = fold_result(kind, "int64" if dtype == "bool" and kind == "sum" else dtype)
        wide = x.astype("float64") if np.dtype(dtype).kind == "f" else x
        with np.errstate(all="ignore"):
            want = np.asarray(getattr(np, kind)(wide, axis=1)).astype(result)
        out = np.empty(want.shape, result)
        found = registry.find(kind, dtype, view)
        assert found is not None, stats().failures
        found(out, x)
        assert_same(out, want)


def test_nan_wins_every_largest_and_smallest():
    x = values("float32", 5 * 300).reshape(5, 300)
    x[2, 250] = np.nan
    x[3, 7] = np.inf
    for kind, view in itertools.product(("max", "min"), ("all", "last", "first")):
        data = x.reshape(-1) if view == "all" else x
        want = getattr(np, kind)(data, axis={"all": 0, "last": 1, "first": 0}[view])
        out = np.empty(want.shape, np.float32)
        registry.find(kind, "float32", view)(out, data)
        np.testing.assert_array_equal(out, want)


def test_folds_of_nothing():
    nothing = np.empty((3, 0), np.float32)
    for kind, want in (("sum", 0), ("prod", 1), ("mean", np.nan)):
        out = np.full(3, 9, np.float32)
        registry.find(kind, "float32", "last")(out, nothing)
        np.testing.assert_array_equal(out, np.full(3, want, np.float32))
    for kind in ("max", "argmax"):
        out = np.empty(3, "int64" if kind == "argmax" else "float32")
        with pytest.raises(ValueError, match="of no elements"):
            registry.find(kind, "float32", "last")(out, nothing)


def test_a_fold_with_whole_outputs_and_a_condition():
    x = values("float32", 12 * 40).reshape(12, 40)
    statements = (loop_value("maximum(a0, 0)", "float32"), loop_value("t0 > 1", "bool"))
    for start, stop in ((1, 2), (0, 1)):
        program = loop_nest(
            (Input("float32", (True, True)),), statements, (0,), Fold("any", start, stop)
        )
        whole, found = np.empty_like(x), np.empty(x.shape[1 - start], bool)
        kernel(program).run([whole, found], [x], x.shape)
        np.testing.assert_array_equal(whole, np.maximum(x, 0))
        np.testing.assert_array_equal(found, (x > 1).any(start))


def test_long_sums_keep_their_digits():
    x = np.random.default_rng(0).normal(1000, 1, (2, 3_000_000)).astype(np.float32)
    for view, data in (("all", x.reshape(-1)), ("last", x), ("first", np.ascontiguousarray(x.T))):
        axis = {"all": 0, "last": 1, "first": 0}[view]
        out = np.empty(np.delete(data.shape, axis), np.float32)
        registry.find("sum", "float32", view)(out, data)
        np.testing.assert_allclose(out, data.sum(axis, dtype="f8"), rtol=2e-7)


# ------------------------------------------------------------------ the library

LIBRARY = [
    *itertools.product(("var", "std", "argmax", "argmin", "cumsum", "cumprod"), registry.VIEWS),
]


def reference(name, x, axis):
    """A library kernel's result in float64."""
    return getattr(np, name)(x, axis=axis)


@pytest.mark.parametrize("dtype", every(3, ("float32", "float64", "float16")))
@pytest.mark.parametrize(("name", "view"), every(5, LIBRARY))
def test_library_kernels(name, view, dtype):
    shape = {"all": (1001,), "last": (5, 403), "first": (67, 29), "middle": (3, 50, 6)}[view]
    axis = {"all": 0, "last": 1, "first": 0, "middle": 1}[view]
    x = np.random.default_rng(8).normal(0, 1, shape).astype(dtype)
    if name == "cumprod":
        x = 1 + x / 64
    want = reference(name, x.astype("float64"), axis)
    out = np.empty(want.shape, "int64" if name.startswith("arg") else dtype)
    registry.find(name, dtype, view)(out, x)
    scale = {"float16": 1e-3, "float32": 3e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(out, want, rtol=scale, atol=scale)


@pytest.mark.parametrize("view", ("last", "first"))
def test_the_first_of_equals_and_the_first_nan_are_found(view):
    rows = [[1, 5, 5, 2], [np.nan, 1, np.nan, 9], [-np.inf] * 4, [3, np.inf, np.inf, np.nan]]
    x = np.tile(np.array(rows, np.float32), (1, 200))
    x = x if view == "last" else np.ascontiguousarray(x.T)
    for name in ("argmax", "argmin"):
        want = getattr(np, name)(x, axis=1 if view == "last" else 0)
        out = np.empty(want.shape, np.int64)
        registry.find(name, "float32", view)(out, x)
        np.testing.assert_array_equal(out, want)


def test_a_running_sum_in_place():
    x = values("float32", 600).reshape(3, 200)
    want = np.empty_like(x)
    registry.find("cumsum", "float32")(want, x)
    registry.find("cumsum", "float32")(x, x)
    np.testing.assert_array_equal(x, want)


@pytest.mark.slow
def test_a_long_running_sum_in_blocks():
    x = np.random.default_rng(2).normal(size=300_000).astype(np.float32)
    out = np.empty_like(x)
    registry.find("cumsum", "float32", "all")(out, x)
    np.testing.assert_allclose(out, np.cumsum(x, dtype="f8"), rtol=1e-6, atol=1e-4)
    ints = np.full(300_000, 2**20, np.int32)
    whole = np.empty_like(ints)
    registry.find("cumsum", "int32", "all")(whole, ints)
    np.testing.assert_array_equal(whole, np.cumsum(ints, dtype=np.int32))


def test_library_arrays_that_do_not_fit_are_refused():
    x, out = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    running = registry.find("cumsum", "float32")
    for wrong in (np.zeros((3, 5), "f4"), np.zeros((3, 4), "f8"), np.zeros((3, 8), "f4")[:, ::2]):
        with pytest.raises(ValueError):
            running(wrong, x)
    with pytest.raises(ValueError):
        running(out.reshape(-1), x.reshape(-1))
    with pytest.raises(ValueError, match="no library kernel"):
        registry.find("median", "float32")
    with pytest.raises(ValueError, match="view"):
        registry.find("sum", "float32", "left")
