"""Loops as one compiled kernel: the same values as step by step, for any cell and any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sampling import every
from scan_cells import CELLS, Cell, both, graph, lstm, random, same, weight

from kbench import backend as K
from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.codegen.scan_program import Access, Loop, Phase, Recurrence, source
from kbench.engine.kernels import scan_kernel
from kbench.engine.runtime import config, pacer, profile


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Small loops are compiled too; the number of threads is put back."""
    monkeypatch.setenv("KBENCH_LEAST", "1")
    threads = config.num_threads()
    yield
    K.set_num_threads(threads)


# ------------------------------------------------------------------ values

SIZES = every(2, [((19, 6, 5, 33),), ((5, 1, 3, 7),), ((1, 3, 2, 1),)])


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", every(2, CELLS))
def test_a_compiled_loop_equals_its_steps(
    name: str, sizes: tuple[int, int, int, int], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds, results, values = graph(name, sizes, dtype)
    plain, compiled, forms = both(monkeypatch, feeds, results, values)
    same(plain, compiled, dtype)
    assert forms == ["scan", "scan"]


@pytest.mark.parametrize("threads", every(2, [4, 1]))
@pytest.mark.parametrize(
    "options",
    every(
        3,
        [
            {"masked": True, "zero_output_for_mask": True, "go_backwards": True},
            {"masked": True},
            {"go_backwards": True, "time_major": True},
        ],
    ),
    ids=str,
)
@pytest.mark.parametrize("name", every(2, ["lstm", "gru"]))
def test_masks_directions_and_threads(
    name: str, options: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    K.set_num_threads(threads)
    feeds, results, values = graph(name, (70, 9, 3, 18), **options)
    plain, compiled, forms = both(monkeypatch, feeds, results, values)
    same(plain, compiled)
    assert forms == ["scan", "scan"]


def test_rows_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    feeds, results, values = graph("lstm", (37, 40, 8, 64))
    found = []
    for threads in (1, 3, 8):
        K.set_num_threads(threads)
        found.append(K.function(feeds, results[:4])(values))
    for one in found[1:]:
        for left, right in zip(found[0], one, strict=True):
            np.testing.assert_array_equal(left, right)


def test_states_become_as_wide_as_a_batch_that_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell, weights, _ = lstm(3, 4, "float32")
    x = K.placeholder((None, None, 3))
    first = [weight(1, 4), K.zeros((1, 4))]
    last, outputs, states = K.rnn(cell, x, first)
    results = [last, outputs, *states, *K.gradients(K.sum(outputs * outputs), [*weights, first[0]])]
    for batch in (1, 6):
        plain, compiled, forms = both(monkeypatch, [x], results, [random(batch, 5, 3)])
        same(plain, compiled)
        assert forms == ["scan", "scan"]


def test_constants_of_a_batch_and_states_that_are_broadcast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, extra = K.placeholder((6, 4, 3)), K.placeholder((6, 5))
    u, v = weight(5, 5), weight(1, 5)

    def step(entry: Any, states: Any) -> Any:
        h = K.tanh(K.dot(states[0], u) + states[1] * v + entry[:, :1] - entry[:, 2:])
        return h, [h]

    last, outputs, _ = K.rnn(step, x, [K.zeros((1, 5))], constants=[extra])
    results = [last, outputs, *K.gradients(K.sum(outputs * outputs), [x, extra, u, v])]
    plain, compiled, forms = both(monkeypatch, [x, extra], results, [random(6, 4, 3), random(6, 5)])
    same(plain, compiled)
    assert forms == ["scan", "scan"]


@pytest.mark.parametrize("sizes", [(0, 4, 3, 2), (3, 0, 3, 2)], ids=["batch", "times"])
def test_nothing_to_do(sizes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, times, features, _ = sizes
    cell, weights, count = lstm(3, 2, "float32")
    x = K.placeholder((None, None, features))
    first = [K.zeros((batch, 2)) for _ in range(count)]
    last, outputs, states = K.rnn(cell, x, first)
    results = [last, outputs, *states, *K.gradients(K.sum(outputs), weights)]
    plain, compiled, _ = both(monkeypatch, [x], results, [random(batch, times, features)])
    same(plain, compiled)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_special_values_stay_in_their_rows(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds, results, values = graph("lstm", (9, 6, 4, 5))
    values[0][3, 2, 1] = value
    plain, compiled, _ = both(monkeypatch, feeds, results[:4], values)
    same(plain, compiled)
    assert np.isfinite(compiled[1][:3]).all() and np.isfinite(compiled[1][4:]).all()


WHOLES: dict[str, Any] = {
    "joined alone": (lambda h: K.concatenate([h]), ["scan", "scan"]),
    "part of two": (lambda h: K.concatenate([h, h])[:, 5:11], ["scan", "scan"]),
    "all rows": (lambda h: h[:, :], ["scan", "scan"]),
    "halves": (lambda h: K.concatenate([h[:, :2], h[:, 2:]]), ["scan", "scan"]),
    "joined alone by rows": (lambda h: K.concatenate([h], axis=0), ["loop", "scan"]),
    "halves by rows": (lambda h: K.concatenate([h[:1], h[1:]], axis=0), ["loop", "loop"]),
}


@pytest.mark.parametrize("name", every(3, WHOLES))
def test_parts_of_a_state_that_are_all_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining what stands alone, or its parts, and taking all of it, forwards and back."""
    build, wanted = WHOLES[name]
    x, u = K.placeholder((4, 5, 6)), weight(6, 6)

    def step(entry: Any, states: Any) -> Any:
        h = K.tanh(K.dot(entry, u) + build(states[0]))
        return h, [h]

    _, outputs, _ = K.rnn(step, x, [x[:, 0]])
    results = [outputs, *K.gradients(K.sum(outputs * outputs), [x, u])]
    plain, compiled, forms = both(monkeypatch, [x], results, [random(4, 5, 6)])
    same(plain, compiled)
    assert forms == wanted


# ------------------------------------------------------------------ folds and maps


@pytest.mark.parametrize("shape", [(50, 3000), (7, 5), (9, 4, 3, 2), (20,)], ids=str)
@pytest.mark.parametrize("fold", ["foldl", "foldr"])
def test_folds_of_any_shape(
    fold: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    K.set_num_threads(4)
    x = K.placeholder(shape)
    total = getattr(K, fold)(lambda acc, row: K.tanh(acc / 2 + row), x)
    results = [total, *K.gradients(K.sum(total * total), [x])]
    plain, compiled, forms = both(monkeypatch, [x], results, [random(*shape)])
    same(plain, compiled)
    assert forms == ["scan", "scan"]


def test_states_of_several_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = K.placeholder((8, 6))
    first = [K.zeros((6,)), K.constant(0, "int32"), K.constant(np.zeros(6, bool), "bool")]

    def step(acc: Any, row: Any) -> Any:
        larger = K.greater(row, acc[0])
        return [K.maximum(acc[0], row), acc[1] + 1, K.switch(larger, larger, acc[2])]

    results = K.foldl(step, x, first)
    plain, compiled, forms = both(monkeypatch, [x], results, [random(8, 6)])
    same(plain, compiled)
    assert forms == ["scan"] and compiled[1] == 8


@pytest.mark.parametrize(
    "step",
    [
        lambda x, h: K.tanh(x + h * K.sum(h)),  # over the rows
        lambda x, h: K.tanh(x + K.dot(K.transpose(h), h)[:3]),  # no fixed matrix
        lambda x, h: K.cumsum(x + h, 1),
        lambda x, h: x + K.random_normal((3, 4)) * 0 + h,
    ],
    ids=["rows", "products", "sums", "random"],
)
def test_other_steps_run_one_by_one(step: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    x = K.placeholder((3, 5, 4))

    def cell(entry: Any, states: Any) -> Any:
        h = step(entry, states[0])
        return h, [h]

    if step(x[:, 0], K.zeros((3, 4))).shape != (3, 4):
        pytest.fail("the cell changes its state")
    last, outputs, _ = K.rnn(cell, x, [K.zeros((3, 4))])
    plain, compiled, forms = both(monkeypatch, [x], [last, outputs], [random(3, 5, 4)])
    same(plain, compiled)
    assert forms == ["loop"]


def test_half_precision_runs_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    x = K.placeholder((3, 5, 4), dtype="float16")
    last, _, _ = K.rnn(lambda e, s: (e + s[0], [e + s[0]]), x, [K.zeros((3, 4), dtype="float16")])
    values = random(3, 5, 4).astype("float16")
    plain, compiled, forms = both(monkeypatch, [x], [last], [values])
    np.testing.assert_array_equal(plain[0], compiled[0])
    assert forms == ["loop"]


# ------------------------------------------------------------------ any cell


UNARY = (K.tanh, K.sigmoid, K.relu, K.square, lambda x: -x, lambda x: x * 0.5 + 0.1)
BINARY = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y,
    K.maximum,
    lambda x, y: K.switch(K.greater(x, y), x * 0.5, y),
)


@st.composite
def cells(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Instructions that build values of one width out of earlier ones."""
    kinds = st.sampled_from(["unary", "binary", "product", "parts", "joined", "bias", "mask"])
    numbers = st.integers(0, 100)
    return draw(st.lists(st.tuples(kinds, numbers, numbers, numbers), min_size=2, max_size=9))


def built(program: Sequence[tuple[Any, ...]], units: int, weights: dict[str, Any]) -> Cell:
    def step(x: Any, states: Any) -> Any:
        known = [x, *states]
        for kind, first, second, third in program:
            a, b = known[first % len(known)], known[second % len(known)]
            if kind == "unary":
                made = UNARY[third % len(UNARY)](a)
            elif kind == "binary":
                made = BINARY[third % len(BINARY)](a, b)
            elif kind == "product":
                made = K.dot(a, weights["square"])
            elif kind == "parts":
                wide = K.dot(a, weights["wide"])
                cut = third % units
                made = wide[:, cut : cut + units] * b
            elif kind == "joined":
                cut = 1 + third % (units - 1)
                made = K.concatenate([a[:, cut:], b[:, :cut]])
            elif kind == "bias":
                made = K.bias_add(a, weights["bias"])
            else:
                made = b + K.cast(a[:, :1] > 0, "float32") * a
            known.append(K.clip(made, -3.0, 3.0))
        return known[-1] + known[-2], [known[-1], known[len(known) // 2]]

    return step


@pytest.mark.slow
@settings(max_examples=14, deadline=None, suppress_health_check=list(HealthCheck))
@given(cells(), st.sampled_from([1, 3, 17]), st.sampled_from([2, 5, 40]), st.booleans())
def test_any_cell_of_what_kernels_know(
    program: list[tuple[Any, ...]], batch: int, units: int, masked: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        weights = {
            "square": weight(units, units),
            "wide": weight(units, 2 * units),
            "bias": weight(units),
        }
        x = K.placeholder((batch, 4, units))
        mask = K.constant(random(batch, 4) > -0.3) if masked else None
        first = [weight(batch, units), weight(batch, units)]
        cell = built(program, units, weights)
        last, outputs, states = K.rnn(cell, x, first, mask=mask)
        slopes = K.gradients(K.sum(K.square(outputs)), [x, *first, *weights.values()])
        results = [last, outputs, *states, *(one for one in slopes if one is not None)]
        plain, compiled, forms = both(patch, [x], results, [random(batch, 4, units)])
        assert set(forms) <= {"scan"}  # there is no loop where no step needs a state
        for one, other in zip(plain, compiled, strict=True):
            scale = max(1.0, float(np.abs(one).max()))
            assert_allclose(other, one, 2e-4, 2e-4 * scale)


# ------------------------------------------------------------------ the kernel itself


def accumulating() -> Recurrence:
    """One state to which each step adds what it reads."""
    accesses = (
        Access("moving", "float32"),
        Access("state", "float32"),
        Access("next", "float32"),
    )
    wide = Input("float32", (True,))
    program = loop_nest((wide, wide), (loop_value("a0 + a1", "float32"),), (0,))
    loop = Loop(program, (0, 1), (2,))
    return Recurrence(accesses, (Phase((), (loop,)),), True)


def test_what_a_kernel_reaches_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    kernel = scan_kernel.request(accumulating())
    assert kernel is not None and kernel.source == source(accumulating())
    x = random(3, 4, 6)
    state = np.zeros((2, 4, 6), "float32")
    kernel.run(3, 4, [x, state, state], [])
    assert_allclose(state[1], x.sum(0), 1e-6)
    wrong = [
        [x[:2], state, state],
        [x[:, :3], state, state],
        [x[:, :, :5], state, state],
        [x.astype("float64"), state, state],
        [random(3, 4, 12)[:, :, ::2], state, state],
        [x, state[:1], state],
        [x, state, np.broadcast_to(np.zeros(6, "float32"), (2, 4, 6))],
    ]
    for arrays in wrong:
        with pytest.raises(ValueError):
            kernel.run(3, 4, arrays, [])


def test_time_is_cut_between_two_looks_at_the_cancel_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feeds, results, values = graph("lstm", (5, 9, 3, 17))
    monkeypatch.setattr(pacer, "TILE_SECONDS", 1e-9)  # one step at a time
    plain, compiled, forms = both(monkeypatch, feeds, results, values)
    same(plain, compiled)
    assert forms == ["scan", "scan"]


def test_the_plan_shows_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    feeds, results, values = graph("simple", (4, 5, 3, 6))
    with profile.record() as runs:
        K.function(feeds, results[:1])(values)
    (step,) = [one for one in runs[0].steps if one.label == "loop"]
    assert step.form == "scan" and step.source is not None
    assert "multiply_rows(" in step.source and "maximum_float(" in step.source


def test_a_long_loop_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    kernel = scan_kernel.request(accumulating())
    assert kernel is not None
    calls: list[int] = []

    def check() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise KeyboardInterrupt

    x = np.broadcast_to(random(1, 1, 4096), (200_000, 1, 4096))
    state = np.zeros((2, 1, 4096), "float32")
    with pytest.raises(KeyboardInterrupt):
        kernel.run(200_000, 1, [x, state, state], [], check)
    assert len(calls) == 3
