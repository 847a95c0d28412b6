"""Groups with several results, and work done on rows of a product, against the NumPy tier."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import every

from kbench import backend as K
from kbench.engine.codegen.arguments import ITEM_SIZES

Build = Callable[..., list[Any]]


def relu_layer(x: Any, w: Any, b: Any) -> list[Any]:
    return [K.relu(K.bias_add(K.dot(x, w), b))]


def both(x: Any, w: Any, b: Any) -> list[Any]:
    """The value before the activation is needed, too."""
    before = K.dot(x, w) + b
    return [K.tanh(before), before]


def by_row(x: Any, w: Any, b: Any) -> list[Any]:
    return [K.sigmoid(K.dot(x, w) * K.max(x, -1, keepdims=True) - b)]


def mask(x: Any, w: Any, b: Any) -> list[Any]:
    """As in a gradient: another array of the result's shape is read."""
    other = K.square(K.dot(x * 0.5, w)) + b
    return [K.switch(other > 1.0, K.dot(x, w), K.zeros_like(other)), other]


def in_two(x: Any, w: Any, b: Any) -> list[Any]:
    return [K.relu(K.dot(x, w) + K.dot(x * 2.0, w) + b)]


def read_twice(x: Any, w: Any, b: Any) -> list[Any]:
    """The product itself is a result, so that it must be there."""
    product = K.dot(x, w)
    return [K.relu(product + b), product]


LAYERS = [relu_layer, both, by_row, mask, in_two, read_twice]


def values(build: Build, arrays: list[np.ndarray], mode: str, patch: Any) -> tuple[list[Any], Any]:
    """The results in one mode, and the labels of the steps."""
    with patch.context() as here:
        here.setenv("KBENCH_JIT", mode)
        here.setenv("KBENCH_LEAST", "1")
        feeds = [K.placeholder(one.shape, dtype=str(one.dtype)) for one in arrays]
        compiled = K.function(feeds, build(*feeds))
        with K.record() as runs:
            found = compiled(arrays)
        return found, [(one.label, one.form) for one in runs[0].steps]


def operands(rows: tuple[int, ...], depth: int, columns: int, dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(rows[0] * 100 + columns)
    shapes = [(*rows, depth), (depth, columns), (columns,)]
    return [random.normal(size=one).astype(dtype) for one in shapes]


@pytest.mark.parametrize("dtype", every(2, ["float32", "float64", "float16"]))
@pytest.mark.parametrize("build", every(2, LAYERS), ids=lambda one: one.__name__)
def test_layers(build: Build, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = operands((37,), 29, 43, dtype)
    wanted, _ = values(build, arrays, "off", monkeypatch)
    found, labels = values(build, arrays, "wait", monkeypatch)
    near = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}[dtype]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, near, near)
    together = any(label.startswith("dot+") for label, _ in labels)
    assert together == (dtype != "float16" and build is not read_twice), labels


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [(1,), (300,), (4, 50), (0,)], ids=str)
def test_sizes(rows: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = K.num_threads()
    K.set_num_threads(threads)
    try:
        arrays = operands(rows, 130, 257, "float32")
        wanted, _ = values(relu_layer, arrays, "off", monkeypatch)
        found, _ = values(relu_layer, arrays, "wait", monkeypatch)
        np.testing.assert_allclose(found[0], wanted[0], 1e-4, 1e-4)
    finally:
        K.set_num_threads(before)


@pytest.mark.parametrize("columns", [2 * ITEM_SIZES.columns, 2 * ITEM_SIZES.columns + 1])
def test_the_longest_rows(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is one item of the epilogue, as long as no row is cut; longer ones have none."""
    arrays = operands((5,), 3, columns, "float32")
    wanted, _ = values(relu_layer, arrays, "off", monkeypatch)
    found, labels = values(relu_layer, arrays, "wait", monkeypatch)
    np.testing.assert_allclose(found[0], wanted[0], 1e-4, 1e-4)
    assert any(label.startswith("dot+") for label, _ in labels) == (columns % 2 == 0)


def test_what_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = operands((40,), 20, 30, "float32")
    arrays[0][3, 5], arrays[0][7, 1], arrays[2][4] = np.nan, np.inf, -np.inf
    for build in LAYERS:
        wanted, _ = values(build, arrays, "off", monkeypatch)
        found, _ = values(build, arrays, "wait", monkeypatch)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-4)


def test_the_record_of_a_finished_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    arrays = operands((512,), 512, 512, "float32")
    feeds = [K.placeholder(one.shape) for one in arrays]
    compiled = K.function(feeds, relu_layer(*feeds))
    with K.record() as runs:
        compiled(arrays)
    (step,) = runs[0].steps
    assert (step.label, step.form, step.shape) == ("dot+add+relu", "library", (512, 512))
    assert step.bytes == sum(one.nbytes for one in arrays) + 4 * 512 * 512
    assert step.flops == 512 * 512 * (2 * 512 + 2)


# ------------------------------------------------------------------ several results of a loop

STEPS = {
    "double": lambda x: x + x,
    "square": K.square,
    "tanh": K.tanh,
    "shift": lambda x: x - 0.5,
    "positive": K.relu,
}


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6),
    st.sets(st.integers(0, 5), min_size=1, max_size=3),
    st.sampled_from(["none", "sum", "max"]),
    st.sampled_from([None, 0, 1, -1]),
    st.sampled_from(["float16", "float32", "float64"]),
)
def test_values_on_the_way(names: Any, kept: Any, fold: str, axis: Any, dtype: str) -> None:
    """A chain of which some values are results, perhaps folded at its end."""
    patch = pytest.MonkeyPatch()

    def build(x: Any, row: Any) -> list[Any]:
        chain = [x * row]
        for name in names:
            chain.append(STEPS[name](chain[-1]))
        results = [chain[place % len(chain)] for place in sorted(kept)]
        return results + ([getattr(K, fold)(chain[-1], axis)] if fold != "none" else [])

    random = np.random.default_rng(len(names))
    arrays = [random.uniform(-1, 1, shape).astype(dtype) for shape in ((5, 7, 9), (9,))]
    wanted, _ = values(build, arrays, "off", patch)
    found, _ = values(build, arrays, "wait", patch)
    near = {"float16": 5e-2, "float32": 1e-4, "float64": 1e-10}[dtype]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.astype("float64"), other.astype("float64"), near, near)


def test_one_loop_gives_several_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    x = K.placeholder((200, 300))
    first = K.tanh(x)
    second = K.square(first) + 1.0
    compiled = K.function([x], [second, first, K.sum(second)])
    fed = np.random.default_rng(1).normal(size=(200, 300)).astype("float32")
    with K.record() as runs:
        found = compiled([fed])
    assert len([one for one in runs[0].steps if one.form != "view"]) <= 2
    np.testing.assert_allclose(found[1], np.tanh(fed), 1e-5, 1e-6)
    np.testing.assert_allclose(found[0], np.tanh(fed) ** 2 + 1, 1e-5)
    np.testing.assert_allclose(found[2], (np.tanh(fed.astype("float64")) ** 2 + 1).sum(), 1e-5)
