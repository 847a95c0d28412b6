"""Compiled convolutions compute what their NumPy forms do, values that are not finite included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kbench import backend as K

RANDOM = np.random.default_rng(6)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.normal(size=shape).astype(dtype)


NAMES = ("convolve", "depthwise")
LARGER = [
    (1, {"strides": 3, "padding": "causal"}),
    (1, {"dilation_rate": 4, "padding": "same"}),
    (2, {}),
    (2, {"strides": (2, 3), "padding": "same"}),
    (2, {"dilation_rate": (1, 3), "padding": "same"}),
    (2, {"padding": "same", "data_format": "channels_first"}),
    (3, {"strides": (1, 2, 1), "padding": "same"}),
]
DEPTHWISE = [
    (1, 1, {"strides": 2, "padding": "same"}),
    (1, 3, {"dilation_rate": 3}),
    (2, 1, {"padding": "same"}),
    (2, 2, {"strides": (2, 1), "padding": "same"}),
    (2, 1, {"dilation_rate": (1, 2), "data_format": "channels_first"}),
]


def check_tiers(y: Any, inputs: list[Any], arrays: list[np.ndarray], monkeypatch: Any) -> None:
    """Value and gradients of both tiers agree, and both ran."""
    monkeypatch.setenv("KBENCH_LEAST", "1")
    tensors = [y, *K.gradients(K.sum(y * y), inputs)]
    values = {}
    for tier in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", tier)
        compiled = K.function(inputs, tensors)
        values[tier] = compiled(arrays)
        steps = [one for one in compiled.bound(arrays).chosen if one.label.startswith(NAMES)]
        assert len(steps) >= 3
        assert all((one.form() == "library") == (tier == "wait") for one in steps)
    tolerance = 2e-5 if y.dtype == "float32" else 1e-12
    for value, wanted in zip(values["wait"], values["off"], strict=True):
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(value, wanted, tolerance, tolerance * scale)


def operand_arrays(rank: int, dtype: str, filters: int, options: dict[str, Any]) -> list[Any]:
    sizes = {1: (300,), 2: (25, 19), 3: (9, 8, 7)}[rank]
    shape = (3, 10, *sizes) if "data_format" in options else (3, *sizes, 10)
    return [normal(*shape, dtype=dtype), normal(*(3,) * rank, 10, filters, dtype=dtype)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rank", "options"), LARGER, ids=str)
def test_compiled_equals_numpy(
    rank: int, options: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = operand_arrays(rank, dtype, 17, options)
    inputs = [K.placeholder(one.shape, dtype=dtype) for one in arrays]
    y = getattr(K, f"conv{rank}d")(*inputs, **options)
    check_tiers(y, inputs, arrays, monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rank", "multiplier", "options"), DEPTHWISE, ids=str)
def test_compiled_depthwise_equals_numpy(
    rank: int, multiplier: int, options: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = operand_arrays(rank, dtype, multiplier, options)
    inputs = [K.placeholder(one.shape, dtype=dtype) for one in arrays]
    if rank == 2:
        y = K.depthwise_conv2d(*inputs, **options)
    else:
        y = K.separable_conv1d(*inputs, np.eye(10 * multiplier)[None], **options)
    check_tiers(y, inputs, arrays, monkeypatch)


@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_is_the_same_on_every_tier(
    name: str, position: int, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels leave out what only meets the border, whose zeros make NaN of what is infinite."""
    monkeypatch.setenv("KBENCH_LEAST", "1")
    filters = 3 if name == "conv2d" else 1
    count = 3 if name == "conv2d" else 2
    arrays = [normal(1, 5, 6, 2), normal(3, 3, 2, filters), normal(1, 3, 3, count)]
    arrays[position][(0,) * 4] = value
    inputs = [K.placeholder(one.shape) for one in arrays]
    y = getattr(K, name)(*inputs[:2], strides=2, padding="same")
    tensors = [y, *K.gradients(K.sum(y * inputs[2]), inputs[:2])]
    results = []
    for tier in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", tier)
        results.append(K.function(inputs, tensors)(arrays))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-4)
