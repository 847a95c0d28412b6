"""The kernels that copy between any strides, and the operations that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_helpers import compiled_at_once
from sampling import every

from kbench import backend as K
from kbench.engine.core import cancel
from kbench.engine.kernels.data import one_hot, strided_copy

__all__ = ["compiled_at_once"]

DTYPES = ("bool", "int8", "float16", "int32", "float32", "int64", "float64")


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays take the kernels, too."""
    monkeypatch.setenv("KBENCH_LEAST", "1")


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def form_of(target: np.ndarray, origin: np.ndarray) -> str:
    """What a copy is done by: "numpy", or a kernel's form."""
    ways = target.shape, target.strides, origin.strides, target.itemsize
    plan = strided_copy._planned(*ways, 1)
    return "numpy" if plan is None else plan[0].form


def assert_copied(target: np.ndarray, around: np.ndarray, origin: np.ndarray) -> None:
    """Every cell of the target is right, and none around it has changed."""
    before = around.copy()
    strided_copy.copy(target, origin)
    got = around.copy()
    around[...] = before
    np.copyto(target, origin)
    np.testing.assert_array_equal(got, around)


# ------------------------------------------------------------------ forms

FORMS: list[tuple[str, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]] = [
    ("tiles", (67, 35), lambda x: x.T),
    ("tiles", (3, 33, 50), lambda x: x.transpose(0, 2, 1)),
    ("tiles", (2, 5, 7, 40), lambda x: x.transpose(0, 3, 1, 2)),
    ("rows", (9, 40, 70), lambda x: x[:, 3:39]),
    ("rows", (6, 5, 66), lambda x: x.transpose(1, 0, 2)),
    ("rows", (40, 90), lambda x: x[::-1]),
    ("rows", (3, 1, 80), lambda x: np.broadcast_to(x, (3, 4, 80))),
    ("cells", (50, 40), lambda x: x[:, ::-1]),
    ("cells", (50, 40), lambda x: x[::2, ::2]),
    ("cells", (50, 40), lambda x: x[:, ::3]),
    ("cells", (30, 41, 3), lambda x: x.transpose(2, 0, 1)),
    ("cells", (3, 30, 41), lambda x: x.transpose(1, 2, 0)),
    ("tiles", (90, 1), lambda x: np.broadcast_to(x, (90, 20))),
    ("cells", (90, 1), lambda x: np.broadcast_to(x, (90, 5))),
]


@pytest.mark.parametrize("dtype", every(2, ["float32", "int8", "float64", "float16"]))
@pytest.mark.parametrize(("form", "shape", "view"), FORMS)
def test_each_form(
    form: str, shape: tuple[int, ...], view: Callable[[np.ndarray], np.ndarray], dtype: str
) -> None:
    origin = view(numbers(shape, dtype))
    whole = numbers(tuple(size + 2 for size in origin.shape), dtype, 1)
    inside = whole[tuple(slice(1, -1) for _ in origin.shape)]
    assert_copied(inside, whole, origin)
    dense = np.empty(origin.shape, dtype)
    if dtype == "float32":
        assert form_of(dense, origin) == form
    strided_copy.copy(dense, origin)
    np.testing.assert_array_equal(dense, origin)


@st.composite
def windows(draw: st.DrawFn, shape: tuple[int, ...], seed: int) -> tuple[int, Any]:
    """What makes an array of that shape in a larger one: order, steps, and directions."""
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, 2, 3]) for _ in shape]))
    turned = draw(st.sets(st.sampled_from(range(len(shape))), max_size=2)) if shape else set()
    return seed, (tuple(order), steps, tuple(turned))


def window(shape: tuple[int, ...], dtype: str, seed: int, how: Any) -> tuple[Any, np.ndarray]:
    order, steps, turned = how
    sizes = [shape[axis] * steps[axis] + 1 for axis in order]
    whole = numbers(tuple(sizes), dtype, seed)
    parts = [slice(0, shape[axis] * steps[axis], steps[axis]) for axis in order]
    view = whole[(*parts, ...)].transpose(np.argsort(order))
    return np.flip(view, turned), whole


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data(), st.lists(st.integers(0, 21), min_size=1, max_size=5), st.sampled_from(DTYPES))
def test_any_strides(data: st.DataObject, sizes: list[int], dtype: str) -> None:
    shape = tuple(sizes)
    target, around = window(shape, dtype, *data.draw(windows(shape, 1)))
    origin, _ = window(shape, dtype, *data.draw(windows(shape, 2)))
    if data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(shape) - 1))
        origin = origin[(slice(None),) * axis + (slice(0, 1),)]
        if not origin.size:
            return
    assert_copied(target, around, origin)


def test_what_no_kernel_copies() -> None:
    x = numbers((40, 40), "float32")
    wanted = x.copy()
    wanted[1:] = x[:-1]
    strided_copy.copy(x[1:], x[:-1])  # overlapping
    np.testing.assert_array_equal(x, wanted)
    raw = np.zeros(4 * 1600 + 1, np.uint8)[1:].view(np.float32).reshape(40, 40)  # misaligned
    strided_copy.copy(raw, x.T)
    np.testing.assert_array_equal(raw, x.T)
    single = np.zeros(())
    strided_copy.copy(single, np.array(3.0))
    assert single == 3
    strided_copy.copy(np.zeros((0, 3)), np.ones((0, 3)))
    with pytest.raises(ValueError, match="read-only"):
        fixed = np.zeros((40, 40), "float32")
        fixed.flags.writeable = False
        strided_copy.copy(fixed, x)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_large_targets_are_written_past_the_caches(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided_copy, "MIN_STREAMED_BYTES", 1 << 10)
    strided_copy._planned.cache_clear()
    for shift in (0, 1, 5):
        x = numbers((30, 3000), dtype)
        whole = numbers((30, 3100), dtype, 1)
        assert_copied(whole[:, shift : shift + 3000], whole, x)
    zeros = np.ones(50_001, dtype)
    strided_copy.zero(zeros, strided_copy.copy)
    assert not zeros.any()
    strided_copy._planned.cache_clear()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(300, 140), (128, 128), (129, 271), (20, 600), (7, 5)])
def test_tiles_past_the_caches_begin_where_lines_do(
    shape: tuple[int, int], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided_copy, "MIN_STREAMED_BYTES", 1)
    monkeypatch.setattr(strided_copy, "LONG_ROW_ELEMENTS", 1)
    strided_copy._planned.cache_clear()
    rows, columns = shape
    for step in (640, 641):  # rows of whole lines, and others
        for right, down in [(0, 0), (0, 1), (3, 0), (5, 15), (16, 17), (12, 31)]:
            x = numbers((columns, step), dtype)
            whole = numbers((rows + 2, step), dtype, 1)
            origin = x[:, right : right + rows].T
            assert_copied(whole[1:-1, down : down + columns], whole, origin)
    strided_copy._planned.cache_clear()


def test_one_and_several_threads_copy_the_same() -> None:
    x = numbers((700, 900), "float32")
    for count in (1, 2, 5):
        K.set_num_threads(count)
        out = np.empty((900, 700), "float32")
        strided_copy.copy(out, x.T)
        np.testing.assert_array_equal(out, x.T)


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_a_stop_is_honoured(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    x = np.ones((3000, 1100), "float32")
    cancel.request()
    try:
        with pytest.raises(KeyboardInterrupt):
            strided_copy.copy(np.empty((1100, 3000), "float32"), x.T, cancel.check)
    finally:
        cancel.clear()


# ------------------------------------------------------------------ one_hot


@pytest.mark.parametrize("width", [1, 5, 64, 5000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_rows_with_a_one(dtype: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    indices = np.array([[0, width - 1, -1], [width, 2, -(2**40)]])
    wanted = (indices[..., None] == np.arange(width)).astype(dtype)
    for stream in (1 << 40, 1):
        monkeypatch.setattr(one_hot, "MIN_STREAMED_BYTES", stream)
        call = one_hot.find("rows", dtype)
        assert call is not None
        out = np.full((2, 3, width), 7, dtype)
        call(out, indices, None)
        np.testing.assert_array_equal(out, wanted)


# ------------------------------------------------------------------ as functions of K


def cases() -> list[tuple[str, Any, np.ndarray]]:
    x = numbers((6, 20, 30), "float32")
    t = K.variable(x)
    return [
        ("concatenate", K.concatenate([t, t[:, :, 3:]], -1), np.concatenate([x, x[:, :, 3:]], -1)),
        ("concatenate", K.concatenate([t, t], 0), np.concatenate([x, x])),
        ("stack", K.stack([t, t + 1], -1), np.stack([x, x + 1], -1)),
        ("stack", K.stack([t, t + 1], 1), np.stack([x, x + 1], 1)),
        ("tile", K.tile(t, (2, 1, 3)), np.tile(x, (2, 1, 3))),
        ("tile", K.tile(t, (9, 7, 3)), np.tile(x, (9, 7, 3))),
        ("repeat_elements", K.repeat_elements(t, 3, 1), np.repeat(x, 3, 1)),
        ("repeat_elements", K.repeat_elements(t, 2, 2), np.repeat(x, 2, 2)),
        ("pad", K.temporal_padding(t, (2, 1)), np.pad(x, ((0, 0), (2, 1), (0, 0)))),
        ("upsample", K.resize_images(t[None], 2, 3, "channels_last"), x.repeat(2, 0).repeat(3, 1)),
        ("place", K.gradients(K.sum(t[:, 2:9, ::2] * 2), [t])[0], _placed(x)),
    ]


def _placed(x: np.ndarray) -> np.ndarray:
    result = np.zeros_like(x)
    result[:, 2:9, ::2] = 2
    return result


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_operations_that_move_data(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    for name, graph, wanted in cases():
        compiled = K.function([], [graph * 1])
        with K.record() as runs:
            (value,) = compiled([])
        np.testing.assert_array_equal(value.reshape(wanted.shape), wanted)
        forms = {step.label: step.form for step in runs[-1].steps}
        assert forms[name] == ("library" if jit == "wait" else "numpy")


def test_results_that_are_views_are_copies() -> None:
    variable = K.variable(numbers((300, 200), "float32"))
    for view in (K.transpose(variable), K.reverse(variable, 0), variable[::2, 1:]):
        first = K.function([], [view])([])[0]
        assert first.flags.c_contiguous and first.flags.writeable
        first[...] = -1
        assert (K.eval(variable) >= 0).all()
        assert (K.function([], [view])([])[0] >= 0).all()
