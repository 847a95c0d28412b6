"""The tiers against each other: NumPy's form, the same in blocks, and compiled kernels.

Hypothesis draws functions of the op table, shapes with sizes of 0 and 1 among them, dtypes, axes
and special values. The results must agree: floats to a few units in the last place, NaN and
infinity at the same places, integers and bool exactly.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import hypothesis.extra.numpy as shapes_of
import numpy as np
import pytest
from case import FLOATS, Case, Row, draw, rows
from cases import CASES, COMPARE, ELEMENTWISE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import every, in_turns

from kbench import backend as K

TIERS = {
    "numpy": {"KBENCH_JIT": "off"},
    "blocked": {"KBENCH_JIT": "off", "KBENCH_LEAST": "1"},
    "compiled": {"KBENCH_JIT": "wait", "KBENCH_LEAST": "1"},
}
UNITS = 16  # in the last place: how far two tiers may be apart
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 88.0, -104.0, 6e4, -1.0])
DRAWN = [*ELEMENTWISE, *COMPARE]
FOLDS = ("sum", "max", "min", "prod", "mean")
CHAINED = ("sin", "cos", "tanh", "sigmoid", "square", "softplus", "abs", "relu", "elu")
JOINED = ("add", "multiply", "maximum", "minimum", "subtract")


def quickly(examples: int) -> Callable[[Any], Any]:
    """Settings of a property test: as many examples, however long a compile takes."""
    return settings(
        max_examples=examples, suppress_health_check=[HealthCheck.too_slow], deadline=None
    )


# ------------------------------------------------------------------ running and comparing


Build = Callable[..., Sequence[Any]]


def on_tier(tier: str, arrays: Sequence[np.ndarray], build: Build) -> list[np.ndarray] | type:
    """The results of `build(*placeholders)` on one tier, or the class of the error."""
    with mock.patch.dict(os.environ, TIERS[tier]):
        inputs = [K.placeholder(ndim=one.ndim, dtype=one.dtype.name) for one in arrays]
        try:
            return list(K.function(inputs, list(build(*inputs)))(list(arrays)))
        except K.KbenchError as error:
            return type(error)


def size_of(arrays: Sequence[np.ndarray]) -> float:
    """The largest finite magnitude that occurs."""
    finite = [np.abs(one[np.isfinite(one)].astype("float64")) for one in arrays]
    return max([1.0, *(float(one.max()) for one in finite if one.size)])


def agree(wanted: Any, got: Any, units: float, scale: float) -> None:
    """Fail unless two tiers gave the same."""
    if isinstance(wanted, type) or isinstance(got, type):
        assert wanted is got
        return
    for one, other in zip(wanted, got, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other)
            continue
        step = units * float(np.finfo(one.dtype).eps)
        np.testing.assert_allclose(
            other.astype("float64"), one.astype("float64"), step, step * scale
        )


def compare(arrays: Sequence[np.ndarray], build: Build, units: float, scale: float) -> None:
    wanted = on_tier("numpy", arrays, build)
    for tier in ("blocked", "compiled"):
        agree(wanted, on_tier(tier, arrays, build), units, scale)


# ------------------------------------------------------------------ one function, perhaps folded


@dataclass(frozen=True)
class Call:
    """One function of the table on drawn arrays, with a fold of its result or without."""

    case: Case
    options: dict[str, Any]
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    special: bool
    seed: int
    fold: str | None
    axis: Any
    keepdims: bool

    def arrays(self) -> list[np.ndarray]:
        random = np.random.default_rng(self.seed)
        row = Row(self.case, self.shapes, self.options)
        found = []
        for position, shape in enumerate(self.shapes):
            dtype = self.case.fixed.get(position, self.dtype)
            array = draw(random, shape, dtype, row.domain(position))
            if self.special and array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    chosen = random.choice(SPECIAL, shape).astype(dtype)
                if self.fold and dtype == "float16":
                    # A kernel folds what has not been rounded to float16: exp(88) is no infinity.
                    few = np.isfinite(chosen) & (np.abs(chosen) > 8)
                    chosen = np.where(few, np.sign(chosen) * 8, chosen)
                array = np.where(random.random(shape) < 0.5, chosen, array)
            found.append(np.asarray(array, dtype))
        return found

    def build(self, *inputs: Any) -> list[Any]:
        (result,) = self.case.symbolic(*inputs, **self.options)
        if self.fold is None:
            return [result]
        name = self.fold
        if K.dtype(result) == "bool":
            name = "any" if name in ("sum", "max") else "all"
        return [getattr(K, name)(result, self.axis, self.keepdims)]

    def units(self) -> float:
        """A sum may be off by a unit for every few elements, a product by one for each."""
        count = int(np.prod(np.broadcast_shapes(*self.shapes), dtype=np.int64))
        return UNITS * (1 + count / 8 if self.fold in ("sum", "mean", "prod") else 1)


@st.composite
def calls(draw_one: st.DrawFn) -> Call:
    case = draw_one(st.sampled_from(DRAWN))
    count = len(case.shapes[0])
    shapes = draw_one(
        shapes_of.mutually_broadcastable_shapes(
            num_shapes=count, min_dims=0, max_dims=4, min_side=0, max_side=5
        )
    )
    rank = len(shapes.result_shape)
    axis: Any = None
    if rank and draw_one(st.booleans()):
        axis = tuple(draw_one(st.sets(st.integers(0, rank - 1), min_size=1)))
    return Call(
        case,
        draw_one(st.sampled_from(list(case.options))),
        draw_one(st.sampled_from(list(case.dtypes))),
        shapes.input_shapes,
        draw_one(st.booleans()),
        draw_one(st.integers(0, 999)),
        draw_one(st.sampled_from([None, None, *FOLDS])),
        axis,
        draw_one(st.booleans()),
    )


def check_call(call: Call) -> None:
    arrays = call.arrays()
    compare(arrays, call.build, call.units(), size_of(arrays) if call.fold else 1.0)


@pytest.mark.slow
@given(calls())
@quickly(60)
def test_functions(call: Call) -> None:
    check_call(call)


@pytest.mark.slow
@given(calls())
@quickly(700)
def test_many_functions(call: Call) -> None:
    check_call(call)


# ------------------------------------------------------------------ functions over an axis

OVER_AXIS = ("softmax", "logsumexp", "argmax", "argmin", "cumsum", "cumprod")


@st.composite
def over_axis(draw_one: st.DrawFn) -> tuple[str, np.ndarray, Any]:
    """A function over one axis, or several neighbouring ones, with its array."""
    name = draw_one(st.sampled_from(OVER_AXIS))
    floats_only = name in ("softmax", "logsumexp")
    dtype = draw_one(st.sampled_from([*FLOATS, *(() if floats_only else ("int32", "int64"))]))
    shape = draw_one(shapes_of.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))
    axis: Any = draw_one(st.integers(-len(shape), len(shape) - 1))
    if name == "logsumexp" and draw_one(st.booleans()):
        axis = tuple(draw_one(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    random = np.random.default_rng(draw_one(st.integers(0, 999)))
    array = np.asarray(random.integers(-4, 5, shape), dtype)  # with ties
    if dtype in FLOATS and draw_one(st.booleans()):
        array = np.asarray(random.normal(0, 2, shape), dtype)
        array[random.random(shape) < 0.1] = random.choice([np.nan, np.inf, -np.inf])
    return name, array, axis


def check_over_axis(call: tuple[str, np.ndarray, Any]) -> None:
    name, array, axis = call
    units = UNITS * max(1, array.size)
    compare([array], lambda x: [getattr(K, name)(x, axis=axis)], units, size_of([array]))


@pytest.mark.slow
@given(over_axis())
@quickly(80)
def test_functions_over_an_axis(call: tuple[str, np.ndarray, Any]) -> None:
    check_over_axis(call)


@pytest.mark.slow
@given(over_axis())
@quickly(1000)
def test_many_functions_over_an_axis(call: tuple[str, np.ndarray, Any]) -> None:
    check_over_axis(call)


# ------------------------------------------------------------------ chains, which are fused


@st.composite
def chains(draw_one: st.DrawFn) -> tuple[list[np.ndarray], Callable[..., list[Any]]]:
    """Arrays, and what makes a chain of functions of them: every value, the last one folded."""
    table = {case.name: case for case in CASES}
    shapes = draw_one(
        shapes_of.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=5)
    )
    dtypes = draw_one(st.tuples(st.sampled_from(FLOATS), st.sampled_from(FLOATS)))
    steps = draw_one(st.lists(st.sampled_from([*CHAINED, *JOINED]), min_size=2, max_size=6))
    picks = draw_one(st.lists(st.integers(0, 99), min_size=12, max_size=12))
    fold = draw_one(st.sampled_from([None, "sum", "max", "mean"]))
    random = np.random.default_rng(draw_one(st.integers(0, 999)))
    arrays = [
        np.asarray(random.uniform(-2, 2, shape), dtype)
        for shape, dtype in zip(shapes.input_shapes, dtypes, strict=True)
    ]

    def build(*inputs: Any) -> list[Any]:
        values = list(inputs)
        for index, name in enumerate(steps):
            operands = [values[picks[2 * index] % len(values)]]
            if name in JOINED:
                operands.append(values[picks[2 * index + 1] % len(values)])
            values += table[name].symbolic(*operands)
        last = values[-1] if fold is None else getattr(K, fold)(values[-1])
        return [last, *values[2:]]

    return arrays, build


def check_chain(arrays: Sequence[np.ndarray], build: Callable[..., list[Any]]) -> None:
    """The last value, computed alone, against the one that NumPy gives among all the others."""
    values = on_tier("numpy", arrays, build)
    assert not isinstance(values, type)
    count = max(1, *(one.size for one in values))
    lowest = min((one.dtype for one in (*arrays, *values)), key=lambda one: one.itemsize)
    rough = float(np.finfo(lowest).eps) / float(np.finfo(values[0].dtype).eps)
    units = 4 * UNITS * rough * count
    for tier in ("blocked", "compiled"):
        got = on_tier(tier, arrays, lambda *inputs: build(*inputs)[:1])
        agree(values[:1], got, units, size_of([*arrays, *values]))


@given(chains())
@quickly(25)
def test_chains(chain: tuple[list[np.ndarray], Callable[..., list[Any]]]) -> None:
    check_chain(*chain)


@pytest.mark.slow
@given(chains())
@quickly(300)
def test_many_chains(chain: tuple[list[np.ndarray], Callable[..., list[Any]]]) -> None:
    check_chain(*chain)


# ------------------------------------------------------------------ every row of the op table

ROWS = list(rows(CASES))


def check_row(row: Row, dtype: str) -> None:
    """All results of one row, compiled against NumPy's."""
    arrays = row.arrays(dtype)
    build = functools.partial(row.case.symbolic, **row.options)
    wanted, got = (on_tier(tier, arrays, build) for tier in ("numpy", "compiled"))
    assert not isinstance(wanted, type)
    count = max(1, *(one.size for one in [*arrays, *wanted]))
    agree(wanted, got, UNITS * count * row.case.scale, size_of([*arrays, *wanted]))


@pytest.mark.parametrize("row", every(16, ROWS), ids=str)
def test_rows(row: Row) -> None:
    check_row(row, "float32" if "float32" in row.case.dtypes else row.case.dtypes[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "row, dtypes", in_turns(ROWS, lambda row: row.case.name, lambda row: row.case.dtypes), ids=str
)
def test_rows_in_every_dtype(row: Row, dtypes: Sequence[str]) -> None:
    for dtype in dtypes:
        check_row(row, dtype)
