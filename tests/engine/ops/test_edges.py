"""The edges of every row of the op table: sizes of 0 and 1, every dtype, NaN and infinity.

A call either works or is refused with an error of kbench. What works keeps its word: the shape
and the dtype known before evaluation are those of the value, and gradients have those of what
they are gradients of. Nothing warns, and nothing comes from the depths of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from case import Row, Shape, draw, rows
from cases import CASES
from sampling import in_turns

from kbench import backend as K
from kbench.engine.core.spec import DTYPES

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])


def variants(row: Row) -> Iterator[tuple[Shape, ...]]:
    """The row's own shapes, and those with one axis of every operand of size 0 or 1."""
    yield row.shapes
    for axis in range(max(map(len, row.shapes), default=0)):
        for size in (0, 1):
            yield tuple(
                tuple(size if i == axis else one for i, one in enumerate(shape))
                for shape in row.shapes
            )


def operands(row: Row, shapes: Sequence[Shape], dtype: str, special: bool) -> list[np.ndarray]:
    """Drawn arrays; `special` puts NaN and infinity among floats."""
    random = np.random.default_rng(7)
    found = []
    for position, shape in enumerate(shapes):
        array = draw(random, shape, row.case.fixed.get(position, dtype), row.domain(position))
        if special and array.dtype.kind == "f":
            array = np.asarray(random.choice(SPECIAL, shape), array.dtype)
        found.append(array)
    return found


def check_results(row: Row, arrays: Sequence[np.ndarray], known: bool) -> None:
    """Values against what was said of them, and the gradients of the first float result."""
    inputs = [
        K.placeholder(one.shape if known else None, one.ndim, dtype=one.dtype.name)
        for one in arrays
    ]
    results = row.case.symbolic(*inputs, **row.options)
    for result, value in zip(results, K.function(inputs, results)(arrays), strict=True):
        static = K.int_shape(result)
        assert len(static) == value.ndim
        assert all(a in (None, b) for a, b in zip(static, value.shape, strict=True))
        assert K.dtype(result) == value.dtype.name
    floats = [one for one in results if K.dtype(one).startswith("float")]
    found = K.gradients(K.sum(floats[0]), inputs) if floats else []
    pairs = [(g, x) for g, x in zip(found, arrays, strict=bool(floats)) if g is not None]
    for value, (_, x) in zip(K.function(inputs, [g for g, _ in pairs])(arrays), pairs, strict=True):
        assert (value.shape, value.dtype) == (x.shape, x.dtype)


def check(row: Row, dtypes: Sequence[str], known: Sequence[bool]) -> None:
    for shapes in variants(row):
        for dtype in dtypes:
            for special in (False, True) if dtype.startswith("float") else (False,):
                arrays = operands(row, shapes, dtype, special)
                for one in known:
                    try:
                        check_results(row, arrays, one)
                    except K.KbenchError as error:
                        assert error.function, "an error that names no function"


ROWS = list(rows(CASES))
FIRST = list({row.case.name: row for row in reversed(ROWS)}.values())


@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.case.name)
def test_edges(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    check(row, ("float32", "int32"), (False,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "row, dtypes", in_turns(ROWS, lambda row: row.case.name, lambda row: DTYPES), ids=str
)
def test_edges_in_every_dtype(
    row: Row, dtypes: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    check(row, dtypes, (True, False))


@pytest.mark.slow
@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.case.name)
def test_edges_compiled(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")
    check(row, ("float32", "float16", "int32"), (False,))


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [7, 5_003, 40_001])
def test_what_is_chosen_keeps_its_bits(
    tier: str, dtype: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN, infinity and -0.0 on the side that is left out leave no trace on the other."""
    monkeypatch.setenv("KBENCH_JIT", tier)
    random = np.random.default_rng(3)
    condition = random.random((3, size)) < 0.5
    x, y = (random.choice(np.append(SPECIAL, random.normal(size=9)), (3, size)).astype(dtype)
            for _ in range(2))  # fmt: skip
    c, row = K.placeholder((3, size), dtype="bool"), y[:1]
    a, b, r = (K.placeholder(one.shape, dtype=dtype) for one in (x, y, row))
    sides = [(a, b), (b, a), (a, K.zeros_like(a)), (a, r), (r, a), (a, -0.0 * K.ones_like(a))]
    step = K.function([c, a, b, r], [K.switch(c, one, other) for one, other in sides])
    zero, small = np.zeros((), dtype), np.negative(np.zeros((), dtype))
    rights = [(x, y), (y, x), (x, zero), (x, row), (row, x), (x, small)]
    for value, (one, other) in zip(step([condition, x, y, row]), rights, strict=True):
        want = np.where(condition, one, other)
        np.testing.assert_array_equal(value, want)
        np.testing.assert_array_equal(np.signbit(value), np.signbit(want))
