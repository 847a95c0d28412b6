"""Recurrent cells, and their graphs run step by step and compiled, for the tests of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kbench import backend as K
from kbench.engine.runtime import profile

Cell = Callable[..., Any]


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    values = np.random.default_rng(sum(shape) + len(shape)).normal(size=shape) * 0.5
    return values.astype(dtype)


def weight(*shape: int, dtype: str = "float32") -> Any:
    return K.variable(random(*shape, dtype=dtype), dtype=dtype)


def both(
    monkeypatch: pytest.MonkeyPatch, feeds: Sequence[Any], results: Sequence[Any], values: Any
) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Results step by step and compiled, and the forms of the loops that ran."""
    monkeypatch.setenv("KBENCH_JIT", "off")
    plain = K.function(feeds, results)(values)
    monkeypatch.setenv("KBENCH_JIT", "wait")
    with profile.record() as runs:
        compiled = K.function(feeds, results)(values)
    forms = [step.form for run in runs for step in run.steps if step.label == "loop"]
    return plain, compiled, forms


def same(plain: Sequence[Any], compiled: Sequence[Any], dtype: str = "float32") -> None:
    limit = {"float32": 2e-5, "float64": 1e-12}.get(dtype, 0)
    for one, other in zip(plain, compiled, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(other, one)
            continue
        finite = np.abs(one[np.isfinite(one)])
        scale = float(finite.max()) if finite.size else 1.0
        assert_allclose(other, one, limit, limit * max(scale, 1e-3), equal_nan=True)


# ------------------------------------------------------------------ cells


def lstm(features: int, units: int, dtype: str) -> tuple[Cell, list[Any], int]:
    w, u = weight(features, 4 * units, dtype=dtype), weight(units, 4 * units, dtype=dtype)
    b = weight(4 * units, dtype=dtype)

    def step(x: Any, states: Any) -> Any:
        h, c = states[:2]
        z = K.bias_add(K.dot(x, w) + K.dot(h, u), b)
        i, f, g, o = (z[:, n * units : (n + 1) * units] for n in range(4))
        c = K.sigmoid(f) * c + K.hard_sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    return step, [w, u, b], 2


def gru(features: int, units: int, dtype: str) -> tuple[Cell, list[Any], int]:
    """As Keras has it: the reset gate before the product, parts of one matrix."""
    w, u = weight(features, 3 * units, dtype=dtype), weight(units, 3 * units, dtype=dtype)

    def step(x: Any, states: Any) -> Any:
        h = states[0]
        mx, inner = K.dot(x, w), K.dot(h, u[:, : 2 * units])
        z = K.sigmoid(mx[:, :units] + inner[:, :units])
        r = K.sigmoid(mx[:, units : 2 * units] + inner[:, units:])
        n = K.tanh(mx[:, 2 * units :] + K.dot(r * h, u[:, 2 * units :]))
        h = z * h + (1 - z) * n
        return h, [h]

    return step, [w, u], 1


def simple(features: int, units: int, dtype: str) -> tuple[Cell, list[Any], int]:
    w, u = weight(features, units, dtype=dtype), weight(units, units, dtype=dtype)

    def step(x: Any, states: Any) -> Any:
        h = K.relu(K.dot(x, w) + K.dot(states[0], K.transpose(u)))
        return h, [h]

    return step, [w, u], 1


def peephole(features: int, units: int, dtype: str) -> tuple[Cell, list[Any], int]:
    """Joined inputs, a swap of states, vectors and scalars beside matrices."""
    w, p = weight(features + units, 2 * units, dtype=dtype), weight(units, dtype=dtype)

    def step(x: Any, states: Any) -> Any:
        h, c = states[:2]
        z = K.dot(K.concatenate([x, h]), w)
        gate = K.sigmoid(z[:, :units] + p * c)
        c = K.softsign(gate * c + (1 - gate) * z[:, units:]) * 0.5
        return K.concatenate([c, h]), [c, h]

    return step, [w, p], 2


CELLS = {"lstm": lstm, "gru": gru, "simple": simple, "peephole": peephole}


def graph(
    name: str,
    sizes: tuple[int, int, int, int],
    dtype: str = "float32",
    masked: bool = False,
    **options: Any,
) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Feeds, results with their gradients, and values of a recurrent layer."""
    batch, times, features, units = sizes
    cell, weights, count = CELLS[name](features, units, dtype)
    x = K.placeholder((batch, times, features), dtype=dtype)
    feeds, values = [x], [random(batch, times, features, dtype=dtype)]
    if masked:
        feeds.append(K.placeholder((batch, times)))
        values.append((random(batch, times) > -0.2).astype("float32"))
        options["mask"] = feeds[1]
    rows = times if options.get("time_major") else batch
    first = [weight(rows, units, dtype=dtype) for _ in range(count)]
    last, outputs, states = K.rnn(cell, x, first, **options)
    loss = K.sum(K.square(outputs)) + K.sum(K.sin(last)) + K.sum(states[-1])
    slopes = K.gradients(loss, [x, *weights, *first])
    return feeds, [last, outputs, *states, *slopes], values
