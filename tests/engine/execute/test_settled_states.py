"""State that shrinks in each step becomes 0, where numbers below the normal ones would be slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K

State = Any
SIZES = (3, 50_000)
STEPS = 4
SHRINKING: dict[str, Callable[[State, Any], Any]] = {
    "moment": lambda m, g: 0.9 * m + 0.1 * g,
    "moment of squares": lambda m, g: m * 0.999 + K.square(g) * 0.001,
    "velocity": lambda m, g: 0.9 * m - 0.01 * g,
    "quotient": lambda m, g: m / 3.0,
    "difference": lambda m, g: m - (m - g) * 0.1,
    "decayed by a tensor": lambda m, g: m * (1.0 - K.exp(g - 1.0)),
}
KEPT: dict[str, Callable[[State, Any], Any]] = {
    "sum": lambda m, g: m + g,
    "given": lambda m, g: g + 1e-40,
    "larger": lambda m, g: K.maximum(m, g),
}


def stepped(
    new: Callable[[State, Any], Any], start: float, dtype: str, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The state and what was returned as its new value, after a few steps without gradients."""
    state = K.variable(np.full(size, start, dtype), dtype=dtype)
    g = K.placeholder((size,), dtype=dtype)
    value = new(state, g)
    step = K.function([g], [K.identity(value)], updates=[K.update(state, value)])
    for _ in range(STEPS):
        (told,) = step([np.zeros(size, dtype)])
    return K.get_value(state), told


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHRINKING)
def test_what_shrinks_becomes_zero(
    name: str, dtype: str, size: int, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    tiny = float(np.finfo(dtype).tiny)
    state, told = stepped(SHRINKING[name], -0.3 * tiny, dtype, size)
    assert not state.any() and not told.any()
    state, told = stepped(SHRINKING[name], 1000 * tiny, dtype, size)
    assert (np.abs(state) >= tiny).all()  # normal numbers are left alone
    np.testing.assert_array_equal(state, told)


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_multiple_of_itself_keeps_every_number(
    name: str, size: int, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    state, _ = stepped(KEPT[name], 1e-40, "float32", size)
    np.testing.assert_array_equal(state, np.float32(1e-40))


def test_halves_keep_theirs() -> None:
    """Below 6e-5 they are no normal numbers, and optimizers work there."""
    state, _ = stepped(SHRINKING["moment"], 3e-5, "float16", 3)
    assert (state > 1e-5).all()


@pytest.mark.parametrize("tier", ["off", "wait"])
def test_what_is_no_number_stays(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    for start in (np.nan, np.inf, -np.inf):
        state, _ = stepped(SHRINKING["moment"], start, "float32", 5)
        np.testing.assert_array_equal(state, np.full(5, start, "float32"))


def test_one_kernel_still_makes_all_moments() -> None:
    """Where others read the new state, they read the settled one: nothing is stored twice."""
    m, v, p = (K.variable(np.ones(50_000, "float32")) for _ in range(3))
    g = K.placeholder((50_000,))
    new_m, new_v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
    new_p = p - 0.001 * new_m / (K.sqrt(new_v) + 1e-7)
    step = K.function([g], [], updates=[(m, new_m), (v, new_v), (p, new_p)])
    assert len(step.bound([np.ones(50_000, "float32")]).steps) == 1
