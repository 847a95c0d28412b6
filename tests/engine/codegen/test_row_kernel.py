"""The kernel of a row program by itself: what it reads, and which calls and programs it refuses."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from kernel_helpers import along, down, row_program

from kbench.engine.codegen import row_kernel
from kbench.engine.codegen.loop_program import Input, LoopProgram, Schedule, loop_value
from kbench.engine.codegen.row_sweeps import Sweeps
from kbench.engine.codegen.writers import kernel_source
from kbench.engine.codegen.writers.running_folds import STRETCH

F = "float32"
FULL, COLUMN, ROW = (Input(F, one) for one in ((True, True), (False, True), (True, False)))


def _kernel(program: LoopProgram) -> row_kernel.RowKernel:
    with mock.patch.dict("os.environ", {"KBENCH_JIT": "wait"}):
        found = row_kernel.request(program)
    assert found is not None
    return found


def test_inputs_of_any_strides() -> None:
    nodes = (loop_value("a0 * a1 + a2", F), along("t0", F, "max"), loop_value("t0 - t1", F))
    kernel = _kernel(row_program((FULL, COLUMN, ROW), nodes, (1, 2)))
    random = np.random.default_rng(3)
    whole = random.normal(size=(60, 80)).astype(F)
    x = {"cut": whole[5:45:2, 3:33], "turned": whole[:30, :20].T, "reversed": whole[19::-1, 29::-1]}
    column, row = (
        random.normal(size=60).astype(F)[::2],
        random.normal(size=(20, 3)).astype(F)[:, :1],
    )
    for one in x.values():
        outs = [np.empty(20, F), np.empty((20, 30), F)]
        kernel.run(outs, [one, column, row], (20, 30))
        want = one * column + row
        np.testing.assert_allclose(outs[0], want.max(1), rtol=1e-6)
        np.testing.assert_allclose(outs[1], want - want.max(1, keepdims=True), atol=1e-6)


def test_an_input_that_the_result_overwrites_is_copied() -> None:
    nodes = (along("a0", F, "sum"), loop_value("a0 / t0", F))
    kernel = _kernel(row_program((FULL,), nodes, (1,)))
    x = np.random.default_rng(4).uniform(1, 2, (50, 70)).astype(F)
    want = x / x.sum(1, keepdims=True)
    kernel.run([x], [x], x.shape)
    np.testing.assert_allclose(x, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("outs", "ins", "dims"),
    [
        ([(4, 5)], [(4, 6)], (4, 6)),
        ([(4, 6)], [(4, 5)], (4, 6)),
        ([(4, 6), (4, 6)], [(4, 6)], (4, 6)),
        ([(4, 6)], [], (4, 6)),
        ([(4, 6)], [(4, 6)], (24,)),
        ([(0, 6)], [(0, 6)], (0, 6)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    outs: list[tuple[int, ...]], ins: list[tuple[int, ...]], dims: tuple[int, ...]
) -> None:
    nodes = (along("a0", F, "sum"), loop_value("a0 - t0", F))
    kernel = _kernel(row_program((FULL,), nodes, (1,)))
    with pytest.raises(ValueError):
        kernel.run([np.zeros(one, F) for one in outs], [np.zeros(one, F) for one in ins], dims)


@pytest.mark.parametrize("wrong", [-1, 20])
def test_a_pick_outside_its_row_is_refused(wrong: int) -> None:
    picks = np.zeros(30, "int64")
    picks[7] = wrong
    nodes = (along("a0 + a1", F, "pick"),)
    kernel = _kernel(row_program((FULL, Input("int64", (True, False))), nodes, (0,)))
    with pytest.raises(ValueError, match="picks"):
        kernel.run([np.empty(30, F)], [np.ones((30, 20), F), picks], (30, 20))


def test_long_rows_that_are_kept_are_refused() -> None:
    values = (
        loop_value("exp(a0)", F),
        along("t0", F, "sum"),
        loop_value("t0 * t1", F),
        along("t2", F, "max"),
    )
    program = row_program((FULL,), values, (3,))
    assert Sweeps(program).kept == {0} and not Sweeps(program).homes
    size = row_kernel.MAX_KEPT_COLUMNS + 1
    x, most = np.zeros((2, size), F), np.empty((2, 1), F)
    with pytest.raises(ValueError, match="columns"):
        _kernel(program).run([most], [x], x.shape)
    longer = row_program((FULL,), values, (3,), Schedule.LONG_ROWS)
    assert not Sweeps(longer).kept
    _kernel(longer).run([most], [x], x.shape)
    np.testing.assert_array_equal(most, np.float32(size))


def test_long_rows_keep_what_can_lie_in_a_result() -> None:
    """The exponentials of a softmax lie where the shares are stored, which are made of them."""
    values = (loop_value("exp(a0)", F), along("t0", F, "sum"), loop_value("t0 / t1", F))
    program = row_program((FULL,), values, (2,), Schedule.LONG_ROWS)
    assert Sweeps(program).kept == {0} and Sweeps(program).homes == {0: 0}
    size = row_kernel.MAX_KEPT_COLUMNS + 1
    x = np.random.default_rng(0).normal(size=(3, size)).astype(F)
    out = np.empty_like(x)
    _kernel(program).run([out], [x], x.shape)
    grown = np.exp(x, dtype="float64")
    np.testing.assert_allclose(out, grown / grown.sum(1, keepdims=True), rtol=1e-6)
    more = (loop_value("sin(a0)", F), along("t3", F, "max"), loop_value("t2 + t3 * t4", F))
    two = row_program((FULL,), (*values, *more), (5,), Schedule.LONG_ROWS)
    assert not Sweeps(two).kept  # two values, and one place


@pytest.mark.parametrize("columns", [1, 70, 4095, 4096, 4160, 4351, 9001])
def test_wide_rows_are_folded_by_stretches_and_short_ones_by_a_short_source(
    columns: int,
) -> None:
    values = (
        along("a0", F, "max"),
        loop_value("a0 - t0", F),
        along("t1", F, "sum"),
        along("a0", F, "first"),
        loop_value("t0 + t2 + t3", F),
    )
    few = {"exp(a0)": 1, "a0 * a1": 2}  # of dear values, and of two inputs
    x = np.random.default_rng(5).integers(-9, 9, (7, columns)).astype(F)
    lengths = []
    for schedule in (Schedule.ROWS, Schedule.WIDE_ROWS, Schedule.LONG_ROWS):
        kernel, out = _kernel(row_program((FULL,), values, (4,), schedule)), np.empty(7, F)
        kernel.run([out], [x], x.shape)
        top = x.max(1, keepdims=True)
        np.testing.assert_array_equal(out, top[:, 0] + (x - top).sum(1) + x[:, 0])
        lengths.append(len(kernel.source))
        for text, stretches in few.items():
            dear = (loop_value(text, F), along("t0", F, "sum"))
            source = kernel_source.source(row_program((FULL, FULL), dear, (1,), schedule))
            by_stretches = stretches > 1 and schedule is not Schedule.ROWS
            assert (f"range(left, whole, {stretches * STRETCH})" in source) == by_stretches
    assert 2 * lengths[0] < lengths[1] == lengths[2]


_WIDTHS = (1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 95, 96, 100, 127, 128)


@pytest.mark.parametrize(
    ("dtype", "kinds"),
    [(F, ("max", "sum")), ("float64", ("min", "sum")), ("float16", ("max", "sum"))],
)
def test_short_rows_give_what_rows_give_and_write_nothing_beside_them(
    dtype: str, kinds: tuple[str, str]
) -> None:
    """One dear sweep, which has masks for what is left over, between two cheap ones."""
    extreme, total = kinds
    values = (
        along("a0", dtype, extreme),
        loop_value("exp(a0 - t0)", dtype),
        along("t1", dtype, total),
        along("a0", dtype, "prod"),
        loop_value("t1 / t2", dtype),
        down("t1", dtype, "sum"),
    )
    inputs, stores = (Input(dtype, (True, True)),), (3, 4, 5)
    rows, short = (
        _kernel(row_program(inputs, values, stores, schedule))
        for schedule in (Schedule.ROWS, Schedule.SHORT_ROWS)
    )
    random = np.random.default_rng(6)
    for width, is_finite in itertools.product(_WIDTHS, (True, False)):
        x = random.uniform(0.9, 1.1, (37, width)).astype(dtype)
        if not is_finite:
            x[3, width // 2] = np.nan  # and so each sum down the columns
            x[5, -1] = -np.inf if extreme == "max" else np.inf
        found = []
        for kernel in (rows, short):
            wholes = [np.full(size + 128, 7, dtype) for size in (37, x.size, width)]
            outs = [whole[64:-64] for whole in wholes]
            kernel.run(outs, [x], x.shape)
            assert all((edge == 7).all() for one in wholes for edge in (one[:64], one[-64:]))
            found.append(outs)
        for one, other in zip(*found, strict=True):
            rtol = 2e-3 if dtype == "float16" else 1e-6
            np.testing.assert_allclose(one, other, rtol=rtol)
    with pytest.raises(ValueError, match="128 columns, got 129"):
        x = np.ones((2, 129), dtype)
        short.run([np.empty(size, dtype) for size in (2, 258, 129)], [x], x.shape)


def test_wrong_programs_are_refused() -> None:
    fold = down("a0", F, "sum")
    wrong = [
        ((fold, loop_value("t0 + 1", F)), (1,)),
        ((loop_value("a0", "text"),), (0,)),
        ((loop_value("a0", F),), ()),
    ]
    for nodes, outputs in wrong:
        with pytest.raises(ValueError):
            row_program((FULL,), nodes, outputs)
    for fold in (along("a0", F, "median"), down("a0", F, "middle"), down("a0", F, "max")):
        with pytest.raises(ValueError):
            row_program((FULL,), (fold,), (0,))
