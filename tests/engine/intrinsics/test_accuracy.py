"""Accuracy of the SIMD functions in units of the last place, against wider arithmetic.

float32 functions are compared with float64 ones, float64 functions with 80-bit long doubles where
the machine has them and with mpmath elsewhere and at the hard arguments.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from kernel_helpers import compiled_at_once, kernel

from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.core.special import erf as numpy_erf

__all__ = ["compiled_at_once"]

WIDE = np.longdouble
HAS_LONG = np.finfo(WIDE).nmant >= 63
COUNT = 40_000


def sigmoid(x):
    tail = np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1) / (1 + tail)


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


# name: (reference in a wider dtype, largest error in float32, in float64)
FUNCTIONS = {
    "exp": (np.exp, 1.1, 1.2),
    "expm1": (np.expm1, 1.5, 2.3),
    "log": (np.log, 0.85, 0.9),
    "log1p": (np.log1p, 1.5, 1.5),
    "tanh": (np.tanh, 1.5, 2.1),
    "sigmoid": (sigmoid, 2.0, 2.5),
    "softplus": (softplus, 2.0, 2.2),
    "sqrt": (np.sqrt, 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    "sin": (np.sin, 1.6, 1.0),
    "cos": (np.cos, 1.6, 1.0),
}


def compute(expr, *arrays):
    """An expression over arrays by a compiled loop."""
    dtype = str(arrays[0].dtype)
    inputs = tuple(Input(dtype, (True,)) for _ in arrays)
    out = np.empty_like(arrays[0])
    program = loop_nest(inputs, (loop_value(expr, dtype),), (0,))
    kernel(program).run([out], arrays, out.shape)
    return out


def ulps(got, want):
    """Distance from the exact value in units of the last place of the nearest float."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        nearest = want.astype(dtype)
        unit = np.spacing(np.abs(np.where(np.isfinite(nearest), nearest, 1))).astype(want.dtype)
        far = np.abs(got.astype(want.dtype) - want) / unit
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        finite = np.isfinite(got) & np.isfinite(nearest)
        return np.where(finite, far, np.where(same, 0, np.inf)).astype(float)


def arguments(dtype, count=COUNT, seed=0):
    """Numbers of every magnitude, denormals included, and many where functions bend."""
    random = np.random.default_rng(seed)
    bits = np.uint32 if dtype == "float32" else np.uint64
    everything = random.integers(0, np.iinfo(bits).max, 2 * count, dtype=bits).view(dtype)
    low, high = (-104, 89) if dtype == "float32" else (-746, 710)
    ranges = [(-1, 1), (-20, 20), (low, high), (0.4, 2)]
    spread = [random.uniform(*ends, count).astype(dtype) for ends in ranges]
    return np.concatenate([everything, *spread])


def worst(name, dtype, x):
    """The largest error of a function, and where."""
    wide = np.float64 if dtype == "float32" else WIDE
    with np.errstate(all="ignore"):
        errors = ulps(compute(f"{name}(a0)", x), FUNCTIONS[name][0](x.astype(wide)))
    place = int(errors.argmax())
    return errors[place], x[place]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_functions(name):
    error, where = worst(name, "float32", arguments("float32"))
    assert error <= FUNCTIONS[name][1], where


@pytest.mark.skipif(not HAS_LONG, reason="mpmath rows below cover machines without long doubles")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions(name):
    error, where = worst(name, "float64", arguments("float64"))
    assert error <= FUNCTIONS[name][2], where


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_more_arguments(name):
    for seed in (1, 2):
        for dtype, place in (("float32", 1), ("float64", 2)):
            if dtype == "float32" or HAS_LONG:
                error, where = worst(name, dtype, arguments(dtype, 400_000, seed))
                assert error <= FUNCTIONS[name][place], (dtype, where)


def exact(name, x):
    """A function's value at a float64 in 60 digits, rounded to nothing."""
    with mpmath.workdps(60 + max(0, int(np.log10(abs(x) + 1)))):
        value = mpmath.mpf(float(x))
        forms = {"sigmoid": lambda v: 1 / (1 + mpmath.exp(-v))}
        forms["log1p"] = lambda v: mpmath.log(1 + v)
        forms["softplus"] = lambda v: mpmath.log(1 + mpmath.exp(v))
        forms["rsqrt"] = lambda v: 1 / mpmath.sqrt(v)
        return forms.get(name, getattr(mpmath, name, None))(value)


def exact_errors(name, x):
    got = compute(f"{name}(a0)", x)
    errors = []
    for value, point in zip(got, x, strict=True):
        true = exact(name, point)
        unit = np.spacing(np.abs(got.dtype.type(float(true))))
        errors.append(float(abs(mpmath.mpf(float(value)) - true) / mpmath.mpf(float(unit))))
    return errors


@pytest.mark.parametrize("name", [*FUNCTIONS, "erf"])
def test_float64_functions_against_sixty_digits(name):
    points = np.random.default_rng(9).uniform(-6, 6, 60)
    if name in ("log", "sqrt", "rsqrt", "log1p"):
        points = np.abs(points) + 1e-3
    limit = FUNCTIONS[name][2] if name in FUNCTIONS else 2.0
    assert max(exact_errors(name, points)) <= limit


def test_erf_of_float32():
    special = pytest.importorskip("scipy.special")
    x = np.random.default_rng(1).uniform(-4.5, 4.5, 200_000).astype(np.float32)
    x = np.concatenate([x, arguments("float32", 20_000)])
    with np.errstate(invalid="ignore"):
        errors = ulps(compute("erf(a0)", x), special.erf(x.astype(np.float64)))
    assert errors.max() <= 2, x[errors.argmax()]


def test_erf_of_float32_on_numpy():
    special = pytest.importorskip("scipy.special")
    x = np.random.default_rng(1).uniform(-4.5, 4.5, 200_000).astype(np.float32)
    near = np.logspace(-40, 0.7, 100_000).astype(np.float32)
    steps = np.arange(-300, 300).astype(np.float32) / 128  # between two points of the table
    x = np.concatenate([x, near, steps, arguments("float32", 20_000)])
    whole = x[:420_000].reshape(600, 700)
    out = np.empty((700, 600), np.float32).T
    with np.errstate(invalid="ignore"):  # signalling NaN, which any product tells of
        found, wanted = numpy_erf(x), special.erf(x.astype(np.float64))
        turned = numpy_erf(whole.T)
        assert numpy_erf(whole, out=out) is out
    assert found.dtype == np.float32 and numpy_erf(np.float32(0.5)).shape == ()
    assert ulps(found, wanted).max() <= 2
    np.testing.assert_array_equal(turned.T.reshape(-1), found[:420_000])
    np.testing.assert_array_equal(out.reshape(-1), found[:420_000])
    ends = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    with np.errstate(invalid="raise"):
        found = numpy_erf(ends, out=ends)
    assert found is ends and str(found.tolist()) == "[nan, 1.0, -1.0, 0.0, -0.0]"


# Arguments very near a multiple of pi/2, or far beyond what plain reduction can do.
HARD_ANGLES = [6381956970095103 * 2.0**797, 2.0**1023, 1e22, 1e300, 5.3e15, 710.0, 1e-300]
HARD_ANGLES += [np.pi, np.pi / 2, 3 * np.pi / 2, 2**30 * np.pi, 0.7853981633974483, 1e5, 4e8]


@pytest.mark.parametrize("name", ("sin", "cos"))
def test_hard_angles(name):
    wide = np.array(HARD_ANGLES + [-one for one in HARD_ANGLES])
    assert max(exact_errors(name, wide)) <= 1
    narrow = np.abs(wide[(np.abs(wide) < 1e38) & (np.abs(wide) > 1e-30)]).astype(np.float32)
    narrow = np.concatenate([narrow, np.array([16367173 * 2.0**72, 3.4e38, 1e10], np.float32)])
    got = compute(f"{name}(a0)", narrow)
    for value, point in zip(got, narrow, strict=True):
        true = float(exact(name, np.float64(point)))
        assert abs(float(value) - true) <= 1.6 * np.spacing(np.float32(abs(true))), point


@pytest.mark.parametrize("name", ("sin", "cos"))
def test_angles_close_to_quarter_turns(name):
    turns = np.random.default_rng(3).integers(-63_000, 63_000, 200)
    x = np.concatenate([turns * (np.pi / 2), [1e5, -1e5, 99_999.99]])
    assert max(exact_errors(name, x)) <= 1
    mixed = np.where(np.arange(5000) % 700 == 3, 1e200, np.linspace(-50, 50, 5000))
    errors = exact_errors(name, mixed[::50])
    assert max(errors) <= 1
    whole = compute(f"{name}(a0)", mixed)
    np.testing.assert_allclose(whole, getattr(np, name)(mixed), rtol=1e-12, atol=1e-15)
    mixed[10] = np.nan
    want = getattr(np, name)(mixed)
    np.testing.assert_allclose(compute(f"{name}(a0)", mixed), want, rtol=1e-12, atol=1e-15)


def test_powers_of_float32():
    random = np.random.default_rng(2)
    x = (10 ** random.uniform(-5, 5, 200_000)).astype(np.float32)
    y = random.uniform(-7, 7, x.size).astype(np.float32)
    errors = ulps(compute("pow(a0, a1)", x, y), np.power(x.astype("f8"), y.astype("f8")))
    assert errors.max() <= 0.55
    x = random.integers(-50, 50, 200_000).astype(np.float32)
    y = random.integers(-8, 9, x.size).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), y.astype("f8"))
    got = compute("pow(a0, a1)", x, y)
    assert ulps(got, want).max() <= 0.55
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


INF, NAN, TINY = np.inf, np.nan, 1e-42

# function, argument, value: what floats leave no choice about
SPECIAL = [
    ("exp", [NAN, INF, -INF, 0.0, -0.0, 89.0, -104.0, TINY], [NAN, INF, 0, 1, 1, INF, 0, 1]),
    ("expm1", [NAN, INF, -INF, 0.0, -0.0, TINY], [NAN, INF, -1, 0.0, -0.0, TINY]),
    ("log", [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], [NAN, INF, NAN, -INF, -INF, 0, NAN]),
    ("log1p", [NAN, INF, -1.0, 0.0, -0.0, -2.0, TINY], [NAN, INF, -INF, 0.0, -0.0, NAN, TINY]),
    ("tanh", [NAN, INF, -INF, 0.0, -0.0, TINY, 40], [NAN, 1, -1, 0.0, -0.0, TINY, 1]),
    ("sigmoid", [NAN, INF, -INF, 0.0, -0.0, 40], [NAN, 1, 0, 0.5, 0.5, 1]),
    ("softplus", [NAN, INF, -INF, 300], [NAN, INF, 0, 300]),
    ("sqrt", [NAN, INF, -INF, 0.0, -0.0, -1], [NAN, INF, NAN, 0.0, -0.0, NAN]),
    ("rsqrt", [NAN, INF, 0.0, -0.0, -1, 4], [NAN, 0, INF, -INF, NAN, 0.5]),
    ("sin", [NAN, INF, -INF, 0.0, -0.0, TINY], [NAN, NAN, NAN, 0.0, -0.0, TINY]),
    ("cos", [NAN, INF, -INF, 0.0, -0.0, TINY], [NAN, NAN, NAN, 1, 1, 1]),
    ("erf", [NAN, INF, -INF, 0.0, -0.0, 9, -9], [NAN, 1, -1, 0.0, -0.0, 1, -1]),
]


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize(("name", "given", "wanted"), SPECIAL, ids=[row[0] for row in SPECIAL])
def test_special_values(name, given, wanted, dtype):
    x, want = np.array(given, dtype), np.array(wanted, dtype)
    if dtype == "float64" and name == "exp":
        x[5:7], want[5:7] = (710, -746), (INF, 0)
    got = compute(f"{name}(a0)", x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize(
    ("features", "chosen", "wanted"),
    [
        ("+avx512f,+avx512vbmi2", None, "+avx512f,+avx512vbmi2,-prefer-256-bit"),
        ("+avx512f,-avx512vbmi2", None, None),  # such processors lower their clock
        ("+avx,+avx2", None, None),
        ("+avx512f,+avx512vbmi2", "skylake", None),  # what its user set
    ],
)
def test_which_machines_use_vectors_of_512_bits(monkeypatch, features, chosen, wanted):
    from kbench.engine.jit import numba_backend

    config = numba_backend.numba.core.config
    monkeypatch.setattr(config, "CPU_NAME", chosen)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(numba_backend.numba.core.codegen, "get_host_cpu_features", lambda: features)
    numba_backend.use_whole_vectors()
    assert wanted == config.CPU_FEATURES
