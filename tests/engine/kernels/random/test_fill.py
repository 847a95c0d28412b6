"""Random numbers on every tier: kernels draw bit for bit what the NumPy form draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import every

import kbench as K
from kbench.engine.intrinsics import philox
from kbench.engine.kernels.random import fill as philox_fill
from kbench.engine.kernels.random import normal

Draw = Callable[..., Any]

# ------------------------------------------------------------------ words and pairs


@pytest.mark.parametrize("first", [0, 1000, 2**24 - 2, 2**40])
def test_kernels_draw_the_words_of_the_generator(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the block number passes 32 bits, and with keys and streams of every kind."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    fill = philox_fill.find("uniform", "float32")
    assert fill is not None
    out = np.empty(3 * philox.RUN_WORDS + 5, "float32")
    for key, stream in ((0, 0), (2**64 - 1, 5), (0x0123456789ABCDEF, 1)):
        fill(out, key, stream, first, (0.0, 1.0, 2.0))
        words = np.concatenate(list(philox.words(key, stream, first, 4))).reshape(-1)
        assert np.array_equal(out, (words >> np.uint32(8))[: out.size] * np.float32(2.0**-24))


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53)])
def test_the_pair_of_normal_numbers_is_accurate(dtype: str, bits: int) -> None:
    """Against a logarithm and a sine in long double, at the ends of the interval too."""
    random = np.random.default_rng(0)
    u, v = (random.integers(0, 2**bits, 200_000) * 2.0**-bits for _ in range(2))
    u[:4] = 0, 2.0**-bits, 1 - 2.0**-bits, 0.5
    v[:10] = 0, 0.25, 0.5, 0.75, 1 - 2.0**-bits, 0.125, 0.375, 0.625, 0.875, 2.0**-bits
    radius = np.sqrt(-2 * np.log(1 - u.astype(np.longdouble)))
    angle = 8 * np.arctan(np.longdouble(1)) * v
    numbers = normal.function("pair", dtype)(u.astype(dtype), v.astype(dtype))
    for got, wanted in zip(numbers, (np.cos(angle), np.sin(angle)), strict=True):
        assert got.dtype == dtype
        error = np.abs(got - radius * wanted)
        assert (error <= 2 * np.finfo(dtype).eps * radius).all()


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53)])
def test_the_inverse_of_the_distribution_is_accurate(dtype: str, bits: int) -> None:
    from scipy import special

    u = np.random.default_rng(1).integers(0, 2**bits, 200_000) * 2.0**-bits
    u[:5] = 0, 1 - 2.0**-bits, 0.5, 2.0**-bits, 0.25
    got = normal.function("within", dtype)(u.astype(dtype))
    assert got.dtype == dtype
    assert got[2] == 0
    assert np.abs(got).max() <= 2
    wanted = np.sqrt(2) * special.erfinv((2 * u - 1) * special.erf(np.sqrt(2)))
    np.testing.assert_allclose(got, wanted, 5e-7 if dtype == "float32" else 2e-15)


# ------------------------------------------------------------------ tiers

DRAWN: list[tuple[str, Callable[..., Any]]] = [
    ("uniform", lambda shape, **k: K.random_uniform(shape, **k)),
    ("uniform 0.1..0.7", lambda shape, **k: K.random_uniform(shape, 0.1, 0.7, **k)),
    ("uniform of nothing", lambda shape, **k: K.random_uniform(shape, 3.0, 3.0, **k)),
    ("normal", lambda shape, **k: K.random_normal(shape, **k)),
    ("normal 0.1, 1/3", lambda shape, **k: K.random_normal(shape, 0.1, 1 / 3, **k)),
    ("normal of no width", lambda shape, **k: K.random_normal(shape, 2.0, 0.0, **k)),
    ("truncated", lambda shape, **k: K.truncated_normal(shape, 1.0, 0.1, **k)),
    ("binomial", lambda shape, **k: K.random_binomial(shape, 0.3, **k)),
    ("never", lambda shape, **k: K.random_binomial(shape, 0.0, **k)),
    ("always", lambda shape, **k: K.random_binomial(shape, 1.0, **k)),
    (
        "dropout",
        lambda shape, dtype, seed: K.dropout(K.ones(shape, dtype=dtype), 0.3, seed=seed),
    ),
    (
        "dropout of rows",
        lambda shape, dtype, seed: K.dropout(
            K.ones((shape[0] // 10, 10), dtype=dtype), 0.3, (shape[0] // 10, 1), seed
        ),
    ),
]


def draws(monkeypatch: pytest.MonkeyPatch, mode: str, node: Any, count: int = 1) -> list[bytes]:
    """The bytes of some evaluations on a tier."""
    monkeypatch.setenv("KBENCH_JIT", mode)
    run = K.function([], [node])
    return [run([])[0].tobytes() for _ in range(count)]


@pytest.mark.parametrize("dtype", every(3, ["float32", "float16", "float64"]))
@pytest.mark.parametrize(("name", "draw"), DRAWN, ids=[row[0] for row in DRAWN])
def test_tiers_draw_the_same_numbers(
    name: str, draw: Draw, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, in every evaluation, whole runs or not, on one thread or two."""
    for size in (8192, 100_000, 204_801):
        wanted = draws(monkeypatch, "off", draw((size,), dtype=dtype, seed=size), 2)
        assert draws(monkeypatch, "wait", draw((size,), dtype=dtype, seed=size), 2) == wanted
    before = K.num_threads()
    for threads in (1, 2):
        K.set_num_threads(threads)
        assert draws(monkeypatch, "wait", draw((size,), dtype=dtype, seed=size), 2) == wanted
    K.set_num_threads(before)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    every(
        4,
        [
            ("int8", -128, 128),
            ("uint8", 3, 200),
            ("int16", -5, 5),
            ("uint16", 0, 1),
            ("int32", -(2**31), 2**31),
            ("uint32", 1, 2**32),
            ("int64", -(2**40), 3 * 2**61),
            ("int64", -(2**63), 2**63),
            ("uint64", 2**63, 2**64),
        ],
    ),
)
def test_tiers_draw_the_same_integers(
    dtype: str, low: int, high: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        mode: draws(monkeypatch, mode, K.random_uniform((30_001,), low, high, dtype, seed=4), 2)
        for mode in ("off", "wait")
    }
    assert found["off"] == found["wait"]
    values = np.frombuffer(found["wait"][0], dtype)
    assert low <= int(values.min()) <= int(values.max()) < high


def test_a_sequence_goes_on_where_another_tier_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = draws(monkeypatch, "off", K.random_normal((20_000,), seed=6), 4)
    mixed = K.random_normal((20_000,), seed=6)
    found = [draws(monkeypatch, mode, mixed)[0] for mode in ("wait", "off", "off", "wait")]
    assert found == wanted
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    "draw", [K.random_uniform, K.random_normal, K.truncated_normal, K.random_binomial]
)
def test_large_arrays_are_drawn_by_kernels(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    with K.record() as runs:
        (wanted,) = K.function([], [draw((300, 200), seed=1)])([])
    assert [step.form for step in runs[-1].steps] == ["library"]
    x = K.placeholder((None, 200))
    with K.record() as runs:
        (value,) = K.function([x], [draw(K.shape(x), seed=1)])([wanted])
    assert [step.form for step in runs[-1].steps] == ["library"]
    assert np.array_equal(value, wanted)
    sizes = K.placeholder((2,), dtype="int32")  # known too late to choose a kernel
    (value,) = K.function([sizes], [draw(sizes, seed=1)])([np.array([300, 200])])
    assert np.array_equal(value, wanted)


def test_kernels_check_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    fill = philox_fill.find("normal", "float32")
    assert fill is not None
    with pytest.raises(ValueError, match="contiguous"):
        fill(np.empty(10), 0, 0, 0)
    with pytest.raises(ValueError, match="contiguous"):
        fill(np.empty((10, 2), "float32")[:, 0], 0, 0, 0)
    assert philox_fill.find("normal", "float16") is None
