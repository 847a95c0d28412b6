"""Softmax and logsumexp over other axes than the last, against their NumPy forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import every

from kbench import backend as K
from kbench.engine.compiler import decompose_softmax
from kbench.engine.ops.elementwise.activation import SOFTMAX
from kbench.engine.ops.reduce.moments import LOGSUMEXP

SHAPE = (5, 7, 11)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 100.0])


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    mixed = random.normal(0, 1, SHAPE)
    mixed[:, 2] = random.choice(SPECIAL, (5, 11))
    nothing = np.full(SHAPE, -np.inf)
    nothing[1] = np.inf
    return {"plain": random.normal(0, 50, SHAPE), "special": mixed, "infinite": nothing}


CASES: list[tuple[str, Any, Any]] = [
    *[("softmax", axis, {}) for axis in (0, 1)],
    *[
        ("logsumexp", axes, {"keepdims": keepdims})
        for axes in ((0,), (1,), (0, 1))
        for keepdims in (False, True)
    ],
]


@pytest.mark.parametrize("mode", ["off", "wait"])
@pytest.mark.parametrize("dtype", every(2, ["float32", "float64"]))
@pytest.mark.parametrize("kind", arrays())
@pytest.mark.parametrize(("name", "axis", "options"), every(2, CASES), ids=str)
def test_values(
    name: str, axis: Any, options: Any, kind: str, dtype: str, mode: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(decompose_softmax, "MIN_ELEMENTS", 0)
    monkeypatch.setenv("KBENCH_JIT", mode)
    monkeypatch.setenv("KBENCH_LEAST", "1")
    value = arrays()[kind].astype(dtype)
    x = K.placeholder((*SHAPE[:2], None), dtype=dtype)
    run = K.function([x], [getattr(K, name)(x, axis=axis, **options)])
    (got,) = run([value])
    assert name not in {one.label for one in run.bound([value]).steps}
    with np.errstate(all="ignore"):
        op = SOFTMAX if name == "softmax" else LOGSUMEXP
        wanted = op.numpy(None, value, axis=axis, **options)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, 1e-5 if dtype == "float32" else 1e-13, 1e-30)


def test_an_axis_of_unknown_size_may_be_empty() -> None:
    x = K.placeholder((None, 200, 100))
    run = K.function([x], [K.logsumexp(x, 0), K.softmax(x, 0)])
    total, share = run([np.zeros((0, 200, 100))])
    assert (total == -np.inf).all() and total.shape == (200, 100)
    assert share.shape == (0, 200, 100)
