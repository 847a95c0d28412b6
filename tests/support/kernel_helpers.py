"""What the tests of kernels share: values to compute with, comparisons, a kernel at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kbench.engine.codegen.loop_kernel import request
from kbench.engine.codegen.loop_program import (
    Fold,
    Input,
    LoopProgram,
    Schedule,
    loop_nest,
    loop_value,
)
from kbench.engine.graph.expr.expression import input_leaf, parse
from kbench.engine.graph.expr.numpy_form import numpy_form
from kbench.engine.jit.service import stats

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.fixture(scope="module", autouse=True)
def compiled_at_once():
    """Every request compiles before it returns."""
    patch = pytest.MonkeyPatch()
    patch.setenv("KBENCH_JIT", "wait")
    yield
    patch.undo()


def kernel(program):
    """The program's kernel; a failed compile fails the test with its reason."""
    found = request(program)
    assert found is not None, dict(stats().failures).get(program.name)
    return found


def along(text, dtype, kind):
    """A value of a program of rows of two dims: a fold along each row."""
    return loop_value(text, dtype, Fold(kind, 1, 2))


def down(text, dtype, kind):
    """The same down the columns."""
    return loop_value(text, dtype, Fold(kind, 0, 1))


def row_program(inputs, given, stores, schedule=Schedule.ROWS):
    """A program of rows."""
    return LoopProgram(inputs, given, stores, schedule)


def values(dtype, count=257, seed=3):
    """Values of a dtype that are not special to any function."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if np.dtype(dtype).kind == "f":
        return random.normal(0, 2, count).astype(dtype)
    limits = np.iinfo(dtype)
    edges = np.array([limits.min, limits.max, 0, 1], dtype)
    spread = random.integers(limits.min, limits.max, count - 4, dtype=dtype, endpoint=True)
    return np.concatenate([edges, spread])


def specials(dtype):
    """Values at the edges of a float dtype."""
    tiny = np.finfo(dtype).smallest_subnormal
    big = np.finfo(dtype).max
    parts = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, 3, -2.5, tiny, -tiny, big, -big]
    return np.array(parts, dtype)


def tolerance(dtype):
    return {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}.get(str(dtype), 0)


def assert_same(got, want):
    """Equal within the dtype's rounding; NaN matches NaN."""
    assert got.dtype == want.dtype
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    limit = tolerance(got.dtype)
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit, equal_nan=True)


def compare_forms(rows, arrays, compare):
    """Compare expressions, rows of (expr, dtype), by their loop (one for all) and NumPy forms."""
    leaves = tuple(input_leaf(number) for number in range(len(arrays)))
    inputs = tuple(Input(str(array.dtype), (True,)) for array in arrays)
    size = len(arrays[0])
    looped = [np.empty(size, dtype) for _, dtype in rows]
    statements = tuple(loop_value(*row) for row in rows)
    kernel(loop_nest(inputs, statements, tuple(range(len(rows))))).run(looped, arrays, (size,))
    for (expr, dtype), got in zip(rows, looped, strict=True):
        plain = np.empty(size, dtype)
        numpy_form(parse(expr), leaves, dtype)(plain, *arrays)
        try:
            compare(got, plain)
        except AssertionError as error:
            raise AssertionError(f"{expr} as {dtype}: {error}") from error


def pairs_of(one):
    """Every pair of some values, as two arrays."""
    return [side.copy() for side in np.array(list(itertools.product(one, one)), one.dtype).T]
