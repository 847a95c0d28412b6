"""Compiled convolutions compute what their NumPy forms do, values that are not finite included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        steps = [one for one in compiled.bound(arrays).steps if one.label.startswith(NAMES)]
        assert len(steps) >= 3
        assert all((one.form() in ("library", "winograd")) == (tier == "wait") for one in steps)
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


VIEWS = {
    "reversed": lambda x: K.reverse(x, (1, 2)),
    "channels reversed": lambda x: K.reverse(x, -1),
    "every second": lambda x: x[:, ::2, 1:],
    "permuted": lambda x: K.permute_dimensions(x, (3, 2, 1, 0)),
    "spread": lambda x: x[:, :1] + K.zeros_like(x),
}


@pytest.mark.parametrize("tier", ["off", "wait"])
@pytest.mark.parametrize("view", VIEWS)
def test_operands_that_are_views(view: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_LEAST", "1")
    monkeypatch.setenv("KBENCH_JIT", tier)
    x = K.placeholder((4, 6, 5, 4))
    seen, kernel = VIEWS[view](x), K.variable(normal(2, 3, 4, 3))
    y = K.conv2d(seen, kernel, padding="same")
    g = K.reverse(K.variable(normal(*K.int_shape(y))), (0, 3))
    tensors = [y, *K.gradients(K.sum(y * g), [x, kernel]), seen, g]
    value, to_x, to_kernel, seen_value, g_value = K.function([x], tensors)([normal(4, 6, 5, 4)])
    again = K.variable(np.ascontiguousarray(seen_value))
    y = K.conv2d(again, kernel, padding="same")
    wanted = K.function([], [y, *K.gradients(K.sum(y * K.constant(g_value)), [again, kernel])])([])
    np.testing.assert_allclose(value, wanted[0], 1e-4, 1e-5)
    np.testing.assert_allclose(to_kernel, wanted[2], 1e-4, 1e-4)
    np.testing.assert_allclose(to_x.sum(), wanted[1].sum(), 1e-3, 1e-3)


SIDES = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(*[st.tuples(*[st.integers(1, top)] * rank) for top in (9, 3, 3)])
)


@given(
    SIDES,
    st.tuples(*[st.integers(1, 4)] * 3),
    st.sampled_from(["valid", "same"]),
    st.sampled_from(["channels_last", "channels_first"]),
    st.sampled_from(["float16", "float32", "float64"]),
    st.booleans(),
)
def test_any_convolution_on_both_tiers(
    sides: Any, counts: Any, padding: str, layout: str, dtype: str, spread: bool
) -> None:
    sizes, window, steps = sides
    rank, (images, channels, filters) = len(sizes), counts
    reaches = [(w - 1) * (s if spread else 1) + 1 for w, s in zip(window, steps, strict=True)]
    if padding == "valid" and any(map(int.__gt__, reaches, sizes)):
        return
    last = layout == "channels_last"
    shape = (images, *sizes, channels) if last else (images, channels, *sizes)
    arrays = [normal(*shape, dtype=dtype), normal(*window, channels, filters, dtype=dtype)]
    inputs = [K.placeholder(one.shape, dtype=dtype) for one in arrays]
    option = {"dilation_rate" if spread else "strides": steps}
    function = getattr(K, f"conv{rank}d")
    y = function(*inputs, padding=padding, data_format=layout, **option)
    tensors = [y, *K.gradients(K.sum(y * y), inputs)]
    values = []
    for tier in ("off", "wait"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KBENCH_LEAST", "1")
            patch.setenv("KBENCH_JIT", tier)
            values.append(K.function(inputs, tensors)(arrays))
    tolerance = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12}[dtype]
    for one, other in zip(*values, strict=True):
        scale = float(np.abs(one).max()) if one.size else 0.0
        np.testing.assert_allclose(one, other, tolerance, tolerance * scale)
