"""Any graph at all: drawn at random, planned and run, it equals NumPy, and so do its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbench import backend as K

UNARY = {
    "sin": (K.sin, np.sin),
    "square": (K.square, np.square),
    "negative": (lambda x: -x, np.negative),
    "times one": (lambda x: x * 1, lambda x: x),
    "transpose": (K.transpose, np.transpose),
    "reverse": (lambda x: K.reverse(x, 0), lambda x: x[::-1]),
    "cumsum": (lambda x: K.cumsum(x, 1), lambda x: np.cumsum(x, 1)),
    "rows": (lambda x: K.sum(x, 1, keepdims=True) + x * 0, lambda x: x * 0 + x.sum(1)[:, None]),
    "columns": (lambda x: x - K.max(x, 0), lambda x: x - x.max(0)),
    "reshape": (
        lambda x: K.reshape(K.flatten(x), K.shape(x)),
        lambda x: x,
    ),
    "clip": (lambda x: K.clip(x, -1, 1), lambda x: np.clip(x, -1, 1)),
    "roll": (
        lambda x: K.concatenate([x[1:], x[:1]], 0),
        lambda x: np.concatenate([x[1:], x[:1]], 0),
    ),
    "double": (lambda x: K.cast(K.cast(x, "float64"), "float32"), lambda x: x),
}
BINARY = {
    "add": (lambda x, y: x + y, np.add),
    "multiply": (lambda x, y: x * y, np.multiply),
    "maximum": (K.maximum, np.maximum),
    # Operands may be equal, and rounding shall not pick another result: their sums have a distance
    # here, and there the result is continuous.
    "branch": (
        lambda x, y: K.switch(K.sum(x) > K.sum(y) + 0.37, lambda: K.cumsum(x, 0), K.sin(y)),
        lambda x, y: np.cumsum(x, 0) if x.sum() > y.sum() + 0.37 else np.sin(y),
    ),
    "where": (lambda x, y: K.switch(x > y, x - y, y * 0), lambda x, y: np.where(x > y, x - y, 0)),
}
STEP = st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 30), st.integers(0, 30))


def build(steps: list[Any], leaves: list[Any], side: int) -> list[Any]:
    """The values after each step, symbolic (side 0) or of NumPy (side 1), kept small."""
    values = list(leaves)
    for name, first, second in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        if name in UNARY:
            result = UNARY[name][side](x)
        else:
            result = BINARY[name][side](x, y)
        scale = 0.25 if name in ("cumsum", "square", "multiply", "branch") else 1.0
        values.append(result * scale)
    return values


@pytest.mark.parametrize(
    ("size", "examples", "mode"),
    [
        (3, 100, "off"),
        (150, 60, "off"),
        pytest.param(150, 40, "wait", marks=pytest.mark.slow),
    ],
    ids=["small", "large", "fused"],
)
def test_random_graphs(
    size: int, examples: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.lists(STEP, min_size=1, max_size=12), st.integers(0, 99))
    def check(steps: list[Any], seed: int) -> None:
        random = np.random.default_rng(seed)
        arrays = [random.uniform(-1, 1, (size, size)).astype("float32") for _ in range(2)]
        inputs = [K.placeholder((None, size)), K.placeholder((size, size))]
        outputs = build(steps, inputs, 0)[2:]
        wanted = build(steps, [one.astype("float64") for one in arrays], 1)[2:]
        for kept in (slice(None), slice(-1, None)):
            values = K.function(inputs, outputs[kept])(arrays)
            for got, reference in zip(values, wanted[kept], strict=True):
                limit = np.abs(reference).max() + 1
                np.testing.assert_allclose(got, reference, 1e-3, 1e-4 * limit)

    check()


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=6), st.integers(0, 99))
def test_gradients_of_random_graphs(steps: list[Any], seed: int) -> None:
    random = np.random.default_rng(seed)
    arrays = [random.uniform(-1, 1, (3, 3)) for _ in range(2)]
    inputs = [K.placeholder((None, 3), dtype="float64"), K.placeholder((3, 3), dtype="float64")]
    steps = [step for step in steps if step[0] != "double"]
    loss = K.sum(build(steps, inputs, 0)[-1] * 0.5)
    found = K.gradients(loss, inputs)
    run = K.function(inputs, [loss])
    for position, gradient in enumerate(found):
        direction = random.uniform(-1, 1, (3, 3))
        sides = []
        for step in (1e-6, -1e-6):
            moved = [one.copy() for one in arrays]
            moved[position] += step * direction
            sides.append(run(moved)[0])
        slope = (sides[0] - sides[1]) / 2e-6
        value = 0.0
        if gradient is not None:
            (array,) = K.function(inputs, [gradient])(arrays)
            value = float((array * direction).sum())
        assert value == pytest.approx(slope, rel=1e-5, abs=1e-6)
