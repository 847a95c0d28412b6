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


TINY = np.finfo("float32").tiny


def _moments(size: int) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """A gradient, a weight, and the updates of Adam in the form of Keras 3."""
    m, v, p = (K.variable(np.full(size, start, "float32")) for start in (5 * TINY, 0.0, 1.0))
    g = K.placeholder((size,))
    new_m, new_v = m + (g - m) * 0.1, v + (K.square(g) - v) * 0.001
    new_p = p - 0.001 * new_m / (K.sqrt(new_v) + 1e-7)
    return g, p, [(m, new_m), (v, new_v), (p, new_p)]


@pytest.mark.parametrize("size", [50_000, 1_000_000])
def test_on_the_way_to_states_small_numbers_are_zero_and_nowhere_else(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    g, p, updates = _moments(size)
    step = K.function([g], [g * 1e-30, g * g], updates=updates)
    x = K.placeholder((size,))
    halved = K.function([x], [x * 0.5])
    array = np.full(size, 1e-10, "float32")
    for _ in range(12):  # the later ones are replays
        scaled, squared = step([array])
        np.testing.assert_array_equal(scaled, array * np.float32(1e-30))
        np.testing.assert_array_equal(squared, array * array)
        assert (halved([np.full(size, TINY, "float32")])[0] == TINY / 2).all()  # in all threads
    assert np.float32(1e-40) * np.float32(0.5) > 0
    assert (K.get_value(p) < 1).all()


def test_flushed_states_are_those_of_numpy_but_for_the_smallest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    array = np.geomspace(1e-45, 1e-3, 50_000).astype("float32")
    for tier in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", tier)
        g, _, updates = _moments(50_000)
        step = K.function([g], [], updates=updates)
        for _ in range(20):
            step([array])
        found.append([K.get_value(state) for state, _ in updates])
    sources = [one.source() or "" for one in step.bound([array]).steps]
    assert sum("begin_flushing" in source for source in sources) == 1
    for plain, flushed in zip(*found, strict=True):
        np.testing.assert_allclose(flushed, plain, rtol=1e-5, atol=20 * TINY)


def test_a_norm_of_new_states_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold in the kernel that settles them, which gives a new value as they do."""
    found = []
    for tier in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", tier)
        g, _, updates = _moments(50_000)
        norm = K.variable(0.0)
        total = K.sum(K.square(updates[0][1]))
        step = K.function([g], [], updates=[*updates, (norm, total)])
        for number in range(12):
            step([np.full(50_000, number * 0.01, "float32")])
        found.append([K.get_value(norm), *(K.get_value(state) for state, _ in updates)])
    for plain, flushed in zip(*found, strict=True):
        np.testing.assert_allclose(flushed, plain, rtol=1e-5, atol=20 * TINY)
