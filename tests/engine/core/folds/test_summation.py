"""Sums on every tier: exact but for their last digit, whatever the axis and however many."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sampling import every

from kbench import backend as K
from kbench.engine.core.folds.summation import added
from kbench.engine.ops.reduce.reduction import count
from kbench.engine.runtime import config

TIERS = ("off", "wait")
Build = Callable[..., Sequence[Any]]


def run(tier: str, build: Build, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of `build` on one tier, of kernels on one thread and on two, which agree."""
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KBENCH_JIT", tier)
        inputs = [K.placeholder(one.shape, dtype=one.dtype.name) for one in arrays]
        step = K.function(inputs, list(build(*inputs)))
        before = config.num_threads()
        for threads in (1, 2):
            config.set_num_threads(threads)
            results.append([np.asarray(one) for one in step(list(arrays))])
        config.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    return results[0]


def numbers(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers that are hard to add up."""
    random = np.random.default_rng(len(shape))
    x = random.random(shape)
    if kind == "equal":
        x = np.full(shape, 0.1)
    elif kind == "large columns":
        x += 1e8 * (np.arange(shape[-1]) % 3 == 0)
    elif kind == "alternating":
        x = (1e4 + x) * (-1.0) ** np.arange(x.size).reshape(shape)
    elif kind == "falling":
        x = 10.0 ** np.linspace(6, -6, x.size).reshape(shape)
    return x.astype(dtype)


KINDS = ("random", "equal", "large columns", "alternating", "falling")
AXES: list[tuple[tuple[int, ...], Any]] = [
    ((3001, 67), 0),
    ((67, 3001), 1),
    ((200_003,), 0),
    ((9, 1001, 33), 1),
    ((400, 7, 90), (0, 2)),
    ((30_000, 3), 0),
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", every(3, ["float32", "float64", "float16"]))
@pytest.mark.parametrize(("shape", "axis"), every(2, AXES), ids=str)
def test_sums_err_less_than_by_halves(tier: str, dtype: str, shape: Any, axis: Any) -> None:
    """float16 and float32 are rounded once; float64 not as often as there are halves."""
    unit = np.finfo(dtype).eps / 2
    small = dtype == "float16"
    for kind in KINDS[:2] if small else KINDS:
        x = numbers(kind, shape, dtype)
        with np.errstate(over="ignore"):
            lines = x * np.asarray(3, dtype) + np.asarray(1, dtype)
        found = run(
            tier, lambda x: [K.sum(x, axis), K.mean(x, axis), K.sum(x * 3.0 + 1.0, axis)], x
        )
        for number, value in enumerate(found):
            terms = (lines if number == 2 else x).astype(np.longdouble)
            many = terms.size // terms.sum(axis).size if number == 1 else 1
            exact, size = terms.sum(axis) / many, np.abs(terms).sum(axis) / many
            fits = np.abs(exact) < np.finfo(dtype).max
            often = np.log2(terms.size / terms.sum(axis).size) - 1 if dtype == "float64" else 1e-6
            error = np.abs(value - exact)
            assert (error <= unit * 1.001 * (np.abs(exact) + often * size))[fits].all(), kind


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("shape", "axis"), every(2, AXES), ids=str)
def test_sums_of_what_is_dear_err_less_than_by_halves(tier: str, shape: Any, axis: Any) -> None:
    """SIMD adds them in float32, but not many at a time."""
    for kind in KINDS:
        x = np.abs(numbers(kind, shape, "float32"))
        roots, total = run(tier, lambda x: [K.sqrt(x), K.sum(K.sqrt(x), axis)], x)
        terms = roots.astype(np.longdouble)
        exact = terms.sum(axis)
        often = np.log2(terms.size / exact.size)
        assert (np.abs(total - exact) <= np.finfo("float32").eps / 2 * often * exact).all(), kind


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("axis", [0, 1, None, (0, 2)], ids=str)
@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
def test_equal_numbers_have_no_variance(tier: str, axis: Any, dtype: str) -> None:
    shape = (1000, 12, 5) if axis == (0, 2) else (1000, 60)
    for value in (1e8, 0.1, 123_456_789.0, -1e30):
        x = np.full(shape, value, dtype)
        variance, deviation, mean = run(
            tier, lambda x: [K.var(x, axis), K.std(x, axis), K.mean(x, axis)], x
        )
        assert (variance == 0).all() and (deviation == 0).all()
        if dtype == "float32":
            assert (mean == x.flat[0]).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_variances_do_not_cancel_whatever_the_mean(tier: str, axis: Any) -> None:
    random = np.random.default_rng(0)
    for middle, away in ((1e4, 1.0), (1e8, 8.0), (-3e7, 100.0)):
        x = (middle + away * random.normal(size=(2000, 30))).astype("float32")
        x[0] = 0  # as far away as can be, and first
        wide = x.astype("float64")
        found = run(tier, lambda x: [K.var(x, axis), K.std(x, axis), K.mean(x, axis)], x)
        for value, want in zip(
            found, (wide.var(axis), wide.std(axis), wide.mean(axis)), strict=True
        ):
            np.testing.assert_allclose(value, want, 1.2e-7)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("size", every(2, [1e-30, 1e-23, 1e19, 1e25, 3e37]))
def test_deviations_are_finite_where_they_can_be(tier: str, axis: Any, size: float) -> None:
    x = (size * np.random.default_rng(0).uniform(-9, 9, (600, 30))).astype("float32")
    wide = x.astype("float64")
    deviation, mean, length = run(
        tier, lambda x: [K.std(x, axis), K.mean(K.abs(x), axis), K.l2_normalize(x, axis)], x
    )
    np.testing.assert_allclose(deviation, wide.std(axis), 1.2e-7)
    np.testing.assert_allclose(mean, np.abs(wide).mean(axis), 1.2e-7)
    if size > 1:
        whole = np.sqrt(np.square(wide).sum(axis, keepdims=True))
        np.testing.assert_allclose(length, wide / whole, 1e-5, 1e-7)


@pytest.mark.parametrize("tier", TIERS)
def test_batches_far_from_zero_are_normalized(tier: str) -> None:
    x = (1e4 + np.random.default_rng(0).normal(size=(5000, 16))).astype("float32")
    wide = x.astype("float64")
    normed, mean, variance = run(
        tier, lambda x: K.normalize_batch_in_training(x, None, None, [0]), x
    )
    np.testing.assert_allclose(variance, wide.var(0), 1.2e-7)
    np.testing.assert_allclose(mean, wide.mean(0), 6e-8)
    want = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-3)
    np.testing.assert_allclose(normed, want, 0, 1e-3)  # half a digit of the mean is 5e-4


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", every(2, ["cumsum", "cumprod"]))
def test_running_totals_err_in_their_last_digit(tier: str, axis: int, name: str) -> None:
    x = np.full((4, 50_000) if axis else (50_000, 4), 0.1 if name == "cumsum" else 1.0001, "f4")
    (value,) = run(tier, lambda x: [getattr(K, name)(x, axis)], x)
    exact = getattr(np, name)(x.astype("float64"), axis)
    np.testing.assert_allclose(value, exact, 7e-8)


@pytest.mark.parametrize("kind", every(2, KINDS))
@pytest.mark.parametrize(("shape", "axis"), every(2, [*AXES[:4], ((1_000_001,), 0)]), ids=str)
def test_running_sums_of_doubles_keep_what_they_lose(kind: str, shape: Any, axis: int) -> None:
    """A few are added by themselves, so that errors do not grow with the length."""
    x = numbers(kind, shape, "float64")
    found = [run(tier, lambda x: [K.cumsum(x, axis)], x)[0] for tier in TIERS]
    assert (np.abs(found[0] - found[1]) <= 1e-15 * np.cumsum(np.abs(x), axis)).all()
    terms = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)[:, 0]
    for value in found:
        line = np.moveaxis(value, axis, 0).reshape(x.shape[axis], -1)[:, 0]
        for at in np.unique(np.geomspace(1, len(line), 30).astype(int)):
            error = line[at - 1] - math.fsum(terms[:at])
            assert abs(error) <= 1e-15 * math.fsum(abs(terms[:at])), at


@pytest.mark.parametrize("tier", TIERS)
def test_running_sums_of_doubles_that_overflow(tier: str) -> None:
    x = np.zeros((20_000, 3))
    x[70], x[500, 0], x[500, 1], x[9000, 2] = (1e308, 1, -1e308), np.inf, 1e308, np.nan
    x[80, 0] = 1e308
    with np.errstate(all="ignore"):
        want = np.cumsum(x, 0)
    for axis, given in ((0, x), (1, x.T.copy())):
        (value,) = run(tier, lambda x, a=axis: [K.cumsum(x, a)], given)
        np.testing.assert_allclose(value if axis == 0 else value.T, want, 1e-15)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
def test_a_deviation_of_zero_has_no_slope(tier: str, dtype: str) -> None:
    x = np.full((500, 40), 0.1, dtype)
    for axis in (0, 1, None):
        (slope,) = run(tier, lambda x, a=axis: K.gradients(K.sum(K.std(x, a)), [x]), x)
        assert np.isnan(slope).all()


# ------------------------------------------------------------------ products


def levelled(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers as far from 1 as the dtype goes, whose product over axes is near 1."""
    random, far = np.random.default_rng(0), {"float16": 4, "float32": 30, "float64": 300}[dtype]
    powers = random.uniform(-far, far, shape)
    powers -= powers.mean(axes, keepdims=True)
    powers = np.clip(powers, -far, far)
    return (10.0**powers * random.choice([-1, 1], shape)).astype(dtype)


def exact_product(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    mantissas, exponents = np.frexp(x.astype(np.longdouble))
    powers = np.log2(np.abs(mantissas)).sum(axes) + exponents.sum(axes)
    return np.asarray(np.exp2(powers) * np.sign(x.astype(float)).prod(axes))


@pytest.mark.parametrize("dtype", every(3, ["float32", "float16", "float64"]))
@pytest.mark.parametrize(("shape", "axis"), every(2, AXES), ids=str)
def test_no_product_overflows_on_the_way(dtype: str, shape: Any, axis: Any) -> None:
    """Not on NumPy, not in a loop and not along a row, where others fold the same values."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    x = levelled(shape, axes, dtype)
    want = exact_product(x, axes)
    fits = np.abs(np.log2(np.abs(want))) < np.log2(np.finfo(dtype).max) - 1
    assert fits.mean() > 0.2
    found = {}
    for tier in TIERS:
        found[tier] = run(
            tier,
            lambda x: [K.prod(x, axis), K.prod(K.exp(x * 0.0) * x, axis), K.max(x, axis)],
            x,
        )
        for value in found[tier][:2]:
            error = 1e-3 if dtype == "float16" else 2e-7 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(value[fits].astype(float), want[fits].astype(float), error)
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, 1e-3 if dtype == "float16" else 1e-7)


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
@pytest.mark.parametrize("axis", [0, 1])
def test_products_of_special_numbers(dtype: str, axis: int) -> None:
    large, small = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    rows = [
        ([large] * 5 + [small] * 3, np.inf),
        ([small] * 3 + [-1] + [large] * 2, -0.0),
        ([large, large, 0.0], 0.0),
        ([large, large, -0.0], -0.0),
        ([large, large, 0.0, np.inf], np.nan),
        ([small, small, -np.inf], -np.inf),
        ([small, small, np.nan], np.nan),
        ([small, 2.0], 2 * small),
        ([small, 0.5], 0.0),
        ([large / 2, 2.0, 3.0, 0.25], large * 0.75),
        ([small, large, small, large], (float(small) * float(large)) ** 2),
    ]
    x = np.ones((len(rows), 3000), dtype)
    for number, (values, _) in enumerate(rows):
        x[number, 200 : 200 + 250 * len(values) : 250] = values
    want = np.array([value for _, value in rows], dtype)
    for tier in TIERS:
        (value,) = run(tier, lambda x: [K.prod(x, axis)], x if axis else x.T.copy())
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(value[known]), np.signbit(want[known]))
        np.testing.assert_allclose(value, want, 1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", every(3, ["float32", "float16", "float64"]))
@pytest.mark.parametrize(("shape", "axis"), every(2, AXES[:4]), ids=str)
def test_no_running_product_overflows_on_the_way(dtype: str, shape: Any, axis: int) -> None:
    x = levelled(shape, (axis,), dtype)
    parts, powers = np.frexp(x.astype(np.longdouble))
    log = np.cumsum(np.log2(np.abs(parts)), axis) + np.cumsum(powers, axis)
    with np.errstate(over="ignore"):
        want = np.exp2(log)
    want = want * np.cumprod(np.sign(x.astype(float)), axis)
    fits = np.abs(log) < np.log2(np.finfo(dtype).max) - 1
    assert fits.any()
    for tier in TIERS:
        (value,) = run(tier, lambda x: [K.cumprod(x, axis)], x)
        error = 1e-3 if dtype == "float16" else 2e-7 if dtype == "float32" else 2e-10
        np.testing.assert_allclose(value[fits].astype(float), want[fits].astype(float), error)
        assert np.isinf(value[log > np.log2(np.finfo(dtype).max) + 1]).all()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    ("shape", "axis"), [((1000, 3), (0,)), ((33, 5, 70), (0, 2)), ((3, 5000, 7), (1,)), ((9,), ())]
)
def test_numpy_adds_by_halves(shape: Any, axis: Any, order: Any) -> None:
    x = np.asarray(np.random.default_rng(0).random(shape), order=order)
    for keepdims in (False, True):
        want = x.astype(np.longdouble).sum(axis, keepdims=keepdims)
        np.testing.assert_allclose(added(x, axis, keepdims), want.astype(float), 2e-15)


def test_a_number_of_elements_does_not_wrap_around() -> None:
    x = K.placeholder((None, None, 0))
    step = K.function([x], [count(x, (0, 1), "float32")])
    assert step([np.zeros((65_536, 65_536, 0), "float32")])[0] == 2.0**32


# ------------------------------------------------------------------ where values are equal

TIES: dict[str, Build] = {
    "a product": lambda x, y: [K.greater(x * y - x, y * x - x), K.cast(x * y - x, "float64")],
    "squares": lambda x, y: [K.greater(x * x - y * y, (x - y) * (x + y)), x * x - y * y],
    "a line": lambda x, y: [K.greater_equal(x * 3.0 + y, y + x * 3.0), x * 3.0 + y],
    "a remainder": lambda x, y: [K.equal(x * y + (-x) * y, 0.0), x * y - y * x],
    "a fold": lambda x, y: [K.sum(K.cast(K.greater(x * y + y, y * x + y), "int32"), 0)],
    "a row": lambda x, y: [K.equal(x * x + y, K.max(x * x + y, 1, keepdims=True))],
}


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
@pytest.mark.parametrize("name", TIES)
def test_products_and_sums_are_those_of_numpy(name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    arrays = [(random.integers(-30, 31, (200, 100)) / 7).astype(dtype) for _ in range(2)]
    for one, other in zip(*(run(tier, TIES[name], *arrays) for tier in TIERS), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
def test_a_root_as_a_power(dtype: str) -> None:
    x = np.resize(np.array([-np.inf, -0.0, 0.0, 4.0, -1.0, np.nan, np.inf], dtype), 20_000)
    for tier in TIERS:
        (value,) = run(tier, lambda x: [K.pow(x, 0.5)], x)
        np.testing.assert_array_equal(value[:7], [np.inf, 0, 0, 2, np.nan, np.nan, np.inf])
        assert not np.signbit(value[1])


# ------------------------------------------------------------------ products of matrices


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
def test_long_products_are_added_in_blocks(dtype: str) -> None:
    depth = 60_000
    x, y = np.full((64, depth), 0.1, dtype), np.full((depth, 64), 0.3, dtype)
    (value,) = run("wait", lambda x, y: [K.batch_dot(x, y)], x[None], y[None])
    exact = x[0].astype(np.longdouble) @ y[:, 0].astype(np.longdouble)
    error = np.abs(value / exact - 1).max() / np.finfo(dtype).eps
    assert error < 300  # one after the other makes some thousands


# ------------------------------------------------------------------ sums within other operations

MILLION = 1_000_000


def _slope(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient, by a parameter, of a sum over everything that the parameter takes part in."""
    return lambda w: K.gradients(K.sum(build(w)), [w])[0]


def _tenths(*shape: int) -> Any:
    return K.constant(np.full(shape, 0.1, "float32"))


HIDDEN_SUMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "dot, one column": (_slope(lambda w: K.dot(_tenths(MILLION, 1), w)), (1, 1)),
    "dot, some columns": (_slope(lambda w: K.dot(_tenths(MILLION, 1), w)), (1, 3)),
    "dot, one target": (_slope(lambda w: K.dot(_tenths(MILLION, 3), w)), (3, 1)),
    "dot, matrices": (_slope(lambda w: K.dot(_tenths(MILLION, 3), w)), (3, 2)),
    "batch_dot": (_slope(lambda w: K.batch_dot(_tenths(1, MILLION, 1), w)), (1, 1, 2)),
    "conv2d": (_slope(lambda w: K.conv2d(_tenths(1, 1000, 1000, 1), w)), (1, 1, 1, 2)),
    "depthwise": (_slope(lambda w: K.depthwise_conv2d(_tenths(1, 1000, 1000, 1), w)), (1, 1, 1, 2)),
    "bias": (_slope(lambda w: K.bias_add(K.zeros((MILLION, 3)), w) * 0.1), (3,)),
    "repeat": (_slope(lambda w: K.repeat_elements(w, MILLION, 0) * 0.1), (1,)),
    "resize": (_slope(lambda w: K.resize_images(w, 1000, 1000, None) * 0.1), (1, 1, 1, 3)),
    "volumes": (_slope(lambda w: K.resize_volumes(w, 100, 100, 100, None) * 0.1), (1, 1, 1, 1, 3)),
    "gather": (
        _slope(lambda w: K.gather(w, K.constant(np.zeros(MILLION), "int32")) * 0.1),
        (1, 2),
    ),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", every(3, HIDDEN_SUMS))
def test_a_million_terms_add_up_wherever_they_are_added(
    tier: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slope that sums a million tenths: one chain of float32 would be 1 % off."""
    monkeypatch.setenv("KBENCH_JIT", tier)
    build, shape = HIDDEN_SUMS[name]
    w = K.variable(np.ones(shape, "float32"))
    found = np.asarray(K.function([], [build(w)])([])[0], "float64")
    assert np.abs(found / (np.float64(np.float32(0.1)) * MILLION) - 1).max() < 2e-5


@pytest.mark.parametrize("tier", TIERS)
def test_a_large_window_is_averaged_as_well(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    x = K.placeholder((1, 1000, 1000, 3))
    mean = K.function([x], [K.pool2d(x, (1000, 1000), pool_mode="avg")])
    found = mean([np.full((1, 1000, 1000, 3), 0.1, "float32")])[0]
    assert np.abs(found / np.float64(np.float32(0.1)) - 1).max() < 2e-5


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "shape",
    [(1031, 16), (9, 17, 33, 3), (5, 3, 400, 2), (0, 4), (3, 0, 4), (0, 9, 4), (70_000, 1)],
    ids=str,
)
def test_short_rows_are_added_side_by_side(dtype: str, shape: tuple[int, ...]) -> None:
    """Every set of axes, of arrays in any order of memory: the same sums, and the same shape."""
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    for given in (x, x[::-1], np.asfortranarray(x)):
        for count_axes in range(1, x.ndim + 1):
            for axis in itertools.combinations(range(x.ndim), count_axes):
                for keepdims in (False, True):
                    want = np.add.reduce(given, axis=axis, dtype="float64", keepdims=keepdims)
                    value = added(given, axis, keepdims)
                    assert value.dtype == "float64" and value.shape == np.shape(want)
                    np.testing.assert_allclose(value, want, 1e-12, 1e-10)
