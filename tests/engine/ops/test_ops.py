"""Runs the op table: values, dtypes, shapes, unknown sizes, gradients, and every tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from case import FLOATS, Case, Row, rows
from cases import CASES, COMPARE, ELEMENTWISE
from sampling import every, first_of_each

from kbench import backend as K

ROWS = list(rows(CASES))
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}


def variables(arrays: Sequence[np.ndarray]) -> list[Any]:
    return [K.variable(one, dtype=one.dtype.name) for one in arrays]


def placeholders(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Placeholders that know no size at all."""
    return [K.placeholder(ndim=one.ndim, dtype=one.dtype.name) for one in arrays]


def compare(row: Row, dtype: str, got: np.ndarray, wanted: Any) -> None:
    """dtype and shape exactly; values as exactly as the dtype allows."""
    target = row.case.result_dtype(dtype)
    wanted = np.asarray(wanted)
    assert got.dtype == target
    assert got.shape == wanted.shape
    with np.errstate(all="ignore"):
        wanted = wanted.astype(target)
    tolerance = TOLERANCE.get(target, 0) * row.case.scale
    if row.case.result == "same" and target == "float64":
        tolerance = TOLERANCE["float64"] * row.case.scale
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_value_dtype_and_shape(row: Row) -> None:
    for dtype in row.case.dtypes:
        arrays = row.arrays(dtype)
        results = row.case.symbolic(*variables(arrays), **row.options)
        expected = row.case.reference(arrays, **row.options)
        for result, wanted in zip(results, expected, strict=True):
            value = K.eval(result)
            compare(row, dtype, value, wanted)
            assert K.int_shape(result) == value.shape, "all sizes were known"
            assert K.dtype(result) == value.dtype.name


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_unknown_sizes(row: Row) -> None:
    dtype = "float32" if "float32" in row.case.dtypes else row.case.dtypes[0]
    arrays = row.arrays(dtype)
    inputs = placeholders(arrays)
    results = row.case.symbolic(*inputs, **row.options)
    values = K.function(inputs, results)(arrays)
    expected = row.case.reference(arrays, **row.options)
    for result, value, wanted in zip(results, values, expected, strict=True):
        compare(row, dtype, value, wanted)
        static = K.int_shape(result)
        assert len(static) == value.ndim
        assert all(a in (None, b) for a, b in zip(static, value.shape, strict=True))
        assert K.dtype(result) == value.dtype.name


# ------------------------------------------------------------------ gradients


def weighted(results: Sequence[Any], weights: Sequence[np.ndarray]) -> Any:
    """A scalar that every element of every result changes differently."""
    terms = [
        K.sum(one * K.constant(weight, dtype="float64"))
        for one, weight in zip(results, weights, strict=True)
    ]
    return terms[0] if len(terms) == 1 else sum(terms[1:], terms[0])


def numeric_gradient(run: Any, arrays: list[np.ndarray], position: int) -> np.ndarray:
    """Central differences of the scalar `run(arrays)[0]` for one operand."""
    step = 1e-5
    result = np.zeros(arrays[position].shape)
    for index in np.ndindex(*arrays[position].shape):
        sides = []
        for sign in (1, -1):
            moved = [one.copy() for one in arrays]
            moved[position][index] += sign * step
            sides.append(run(moved)[0])
        result[index] = (sides[0] - sides[1]) / (2 * step)
    return result


def check_gradients(loss: Any, inputs: list[Any], arrays: list[np.ndarray], which: Any) -> None:
    found = K.gradients(loss, inputs)
    run = K.function(inputs, [loss])
    for position, gradient in enumerate(found):
        if not which(position):
            assert gradient is None
            continue
        wanted = numeric_gradient(run, arrays, position)
        if gradient is None:
            assert not wanted.any()
            continue
        (value,) = K.function(inputs, [gradient])(arrays)
        assert value.dtype == np.float64
        assert value.shape == arrays[position].shape
        np.testing.assert_allclose(value, wanted, 1e-6, 1e-7)


def gradient_rows(smooth: bool) -> list[Row]:
    # A rounding cast is a staircase to finite differences; test_autodiff.py has its rule.
    chosen = [row for row in ROWS if "float64" in row.case.dtypes and row.case.name != "cast"]
    return [row for row in chosen if row.case.smooth] if smooth else chosen


def inputs_of(arrays: Sequence[np.ndarray], known: bool) -> list[Any]:
    if known:
        return [K.placeholder(one.shape, dtype=one.dtype.name) for one in arrays]
    return placeholders(arrays)


def one_of_each(found: list[Row]) -> list[Any]:
    """The first row of each function is quick, the others slow."""
    return first_of_each(lambda row: row.case.name, found)


@pytest.mark.parametrize("row", gradient_rows(smooth=False), ids=str)
def test_gradient(row: Row) -> None:
    check_gradient_of(row, known=False)


@pytest.mark.parametrize("row", one_of_each(gradient_rows(smooth=False)), ids=str)
def test_gradient_of_known_sizes(row: Row) -> None:
    check_gradient_of(row, known=True)


def check_gradient_of(row: Row, known: bool) -> None:
    arrays = row.arrays("float64")
    inputs = inputs_of(arrays, known)
    results = row.case.symbolic(*inputs, **row.options)
    if K.dtype(results[0]) not in FLOATS:
        assert all(one is None for one in K.gradients(results[0], inputs))
        return
    random = np.random.default_rng(1)
    shapes = [np.shape(one) for one in row.case.reference(arrays, **row.options)]
    loss = weighted(results, [random.uniform(0.5, 1.5, shape) for shape in shapes])
    check_gradients(loss, inputs, arrays, row.case.has_gradient)


@pytest.mark.parametrize("row", one_of_each(gradient_rows(smooth=True)), ids=str)
def test_second_derivative(row: Row) -> None:
    arrays = row.arrays("float64")
    inputs = inputs_of(arrays, known=True)
    results = row.case.symbolic(*inputs, **row.options)
    random = np.random.default_rng(2)
    shapes = [np.shape(one) for one in row.case.reference(arrays, **row.options)]
    loss = weighted(results, [random.uniform(0.5, 1.5, shape) for shape in shapes])
    first = [one for one in K.gradients(loss, inputs) if one is not None]
    again = K.sum(K.stack([K.sum(one * one) for one in first]))
    check_gradients(again, inputs, arrays, row.case.has_gradient)


@pytest.mark.parametrize("dtype", every(2, ["float16", "float32"]))
@pytest.mark.parametrize("row", gradient_rows(smooth=False), ids=str)
def test_gradients_keep_shape_and_dtype(row: Row, dtype: str) -> None:
    if dtype not in row.case.dtypes:
        dtype = "float64"
    arrays = row.arrays(dtype)
    inputs = variables(arrays)
    loss = row.case.symbolic(*inputs, **row.options)[0]
    for source, gradient in zip(inputs, K.gradients(loss, inputs), strict=True):
        if gradient is not None:
            assert K.dtype(gradient) == K.dtype(source)
            value = K.eval(gradient)
            assert value.shape == K.int_shape(source) == K.int_shape(gradient)
            assert value.dtype.name == K.dtype(source)


# ------------------------------------------------------------------ special values

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 88.0, -104.0, 1e30]
REFERENCE = {
    "relu": lambda x, **_options: np.maximum(x, 0),
    "sqrt": lambda x: np.sqrt(np.where(x < 0, 0, x)),
    "elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "softsign": None,  # inf / inf is NaN in both, except where |x| + 1 rounds
    "hard_sigmoid": None,
}


def special_cases() -> list[Case]:
    chosen = [case for case in ELEMENTWISE if len(case.shapes[0]) == 1]
    return [case for case in chosen if REFERENCE.get(case.name, True) is not None]


@pytest.mark.parametrize(
    ("case", "tier"),
    [
        *((case, "numpy") for case in special_cases()),
        *every(5, ((case, "fused") for case in special_cases())),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_special_values(case: Case, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait" if tier == "fused" else "off")
    array = np.tile(np.array(SPECIAL, dtype="float32"), 1 if tier == "numpy" else 2000)
    options = case.options[0]
    x = K.placeholder((None,))
    (value,) = K.function([x], case.symbolic(x, **options))([array])
    reference = REFERENCE.get(case.name) or case.numpy
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(array, **options)).astype("float32")
    np.testing.assert_allclose(value, wanted, 3e-6, 1e-44)


# ------------------------------------------------------------------ tiers

LARGE = {1: [(300, 200)], 2: [(300, 200), (200,)], 3: [(300, 1), (300, 200), (200,)]}
FUSED = [
    Row(case, case.shapes[0], case.options[-1])
    for case in CASES
    if case in ELEMENTWISE or case in COMPARE or case.name in ("where", "logical_not", "cast")
    if case.name != "positive"  # computes nothing
    if not (case.name == "cast" and case.call)  # of sparse tensors
]
FOLDS = [
    Row(case, ((130, 70, 5),), options)
    for case in CASES
    if case.name in ("sum", "max", "min", "prod", "any", "all", "mean")
    and len(case.shapes[0][0]) == 3
    for options in case.options
]


def run_large(row: Row, dtype: str, shapes: Any) -> tuple[list[np.ndarray], np.ndarray, set[str]]:
    arrays = row.arrays(dtype, shapes)
    inputs = placeholders(arrays)
    (result,) = row.case.symbolic(*inputs, **row.options)
    compiled = K.function(inputs, [result])
    with K.record() as runs:
        (value,) = compiled(arrays)
    return arrays, value, {step.form for step in runs[-1].steps}


def is_left_to_numpy(row: Row, dtype: str) -> bool:
    """Integer division and powers refuse values, which a loop cannot; rounding leaves integers."""
    return row.case.name in ("floordiv", "mod", "pow", "power", "round") and dtype not in FLOATS


def check_large(row: Row, dtype: str, shapes: Any, patch: pytest.MonkeyPatch, form: str) -> None:
    values = {}
    for mode in ("off", "wait"):
        patch.setenv("KBENCH_JIT", mode)
        arrays, values[mode], forms = run_large(row, dtype, shapes)
        compiled = mode == "wait" and not is_left_to_numpy(row, dtype)
        assert (form in forms) == compiled, f"{mode} ran as {forms}"
    (wanted,) = row.case.reference(arrays, **row.options)
    tolerance = 3 * TOLERANCE.get(row.case.result_dtype(dtype), 0) * row.case.scale
    for value in values.values():
        assert value.dtype == row.case.result_dtype(dtype)
        with np.errstate(all="ignore"):
            target = np.asarray(wanted).astype(value.dtype)
        np.testing.assert_allclose(value, target, tolerance, tolerance)


@pytest.mark.parametrize("row", every(3, FUSED), ids=str)
def test_fused_equals_unfused(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = row.options.get("dtype")  # a cast to the same dtype computes nothing
    usual = [one for one in ("float32",) if one in row.case.dtypes]
    dtype = next(one for one in (*usual, *row.case.dtypes) if one != taken)
    check_large(row, dtype, LARGE[len(row.shapes)], monkeypatch, "fused")


@pytest.mark.slow
@pytest.mark.parametrize("row", FUSED, ids=str)
def test_fused_equals_unfused_for_every_dtype(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in set(row.case.dtypes) - {row.options.get("dtype")}:
        check_large(row, dtype, LARGE[len(row.shapes)], monkeypatch, "fused")


WAYS = [*((row, "off") for row in FOLDS), *every(8, ((row, "wait") for row in FOLDS))]


@pytest.mark.parametrize(("row", "tier"), WAYS, ids=str)
def test_large_reductions(row: Row, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    domain = (0.999, 1.001) if row.case.name == "prod" else (-3.0, 3.0)
    random = np.random.default_rng(3)
    array = random.uniform(*domain, row.shapes[0]).astype("float32")
    x = K.placeholder(ndim=3)
    (value,) = K.function([x], row.case.symbolic(x, **row.options))([array])
    (wanted,) = row.case.reference([array], **row.options)
    assert value.shape == np.shape(wanted)
    np.testing.assert_allclose(value, wanted, 2e-4 if row.case.name == "prod" else 1e-5, 2e-2)


# ------------------------------------------------------------------ ops without operands

RANGES = [(5,), (2, 9), (2, 9, 3), (9, 2, -3), (3, 3), (2, -4), (-3,)]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("arguments", RANGES, ids=str)
def test_ranges(arguments: tuple[Any, ...], dtype: str) -> None:
    start, stop = (0, *arguments)[:2] if len(arguments) == 1 else arguments[:2]
    wanted = np.arange(start, stop, *arguments[2:])
    value = K.eval(K.arange(*arguments, dtype=dtype))
    np.testing.assert_array_equal(value, wanted.astype(dtype))
    assert value.dtype == dtype


@pytest.mark.parametrize("arguments", [*RANGES, (0.5, 2.0, 0.25), (2.0, -1.0, -0.5)], ids=str)
def test_ranges_whose_ends_are_fed(arguments: tuple[Any, ...]) -> None:
    """The count follows from each call; what follows from a variable follows its new value."""
    ends, step = arguments[:2], arguments[2:]
    kind = "int32" if isinstance(arguments[0], int) else "float32"
    holes = [K.placeholder((), dtype=kind) for _ in ends]
    tensor = K.arange(holes[0], holes[1] if len(ends) > 1 else None, *step)
    assert (K.int_shape(tensor), K.dtype(tensor)) == ((None,), kind)
    compute = K.function(holes, [tensor])
    for more in (0, 3, -20):
        fed = [*ends[:-1], ends[-1] + more]
        start, stop = fed if len(fed) > 1 else (0, fed[0])
        np.testing.assert_array_equal(compute(fed)[0], np.arange(start, stop, *step))
    variable = K.variable(2, dtype="int32")
    tensor = K.arange(variable)
    K.set_value(variable, 4)
    np.testing.assert_array_equal(K.eval(tensor), [0, 1, 2, 3])


def test_ranges_and_classes_as_many_as_a_size_that_is_fed() -> None:
    x, labels = K.placeholder((None, None)), K.placeholder((None,), dtype="int32")
    size = K.shape(x)[1]
    compute = K.function([x, labels], [K.arange(size), K.one_hot(labels, size)])
    for width in (4, 0, 2):
        found = compute([np.zeros((3, width)), [1, 9, 0]])
        np.testing.assert_array_equal(found[0], np.arange(width))
        np.testing.assert_array_equal(found[1], np.array([[1], [9], [0]]) == np.arange(width))
    known = K.one_hot(labels, K.shape(K.placeholder((3, 4)))[1])
    assert K.int_shape(known) == (None, 4)


def test_a_range_of_fractions_is_not_truncated() -> None:
    value = K.eval(K.arange(0, 1, 0.25))
    assert value.dtype == K.floatx()
    np.testing.assert_array_equal(value, [0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize("draw", [K.random_bernoulli, K.random_binomial])
@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_draws_ones_as_often_as_asked(draw: Any, dtype: str) -> None:
    value = K.eval(draw((100, 200), p=0.3, dtype=dtype, seed=5))
    assert value.dtype == dtype
    assert set(np.unique(value).tolist()) == {0.0, 1.0}
    assert abs(float(value.astype("float64").mean()) - 0.3) < 4 * np.sqrt(0.3 * 0.7 / value.size)
