"""Results that go past the caches, and rows folded side by side, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_helpers import assert_same, compiled_at_once, kernel, values
from sampling import every

from kbench.engine.codegen import loop_kernel
from kbench.engine.codegen.loop_program import Fold, Input, loop_nest, loop_value
from kbench.engine.kernels import registry
from kbench.engine.runtime import config, cpu_caches

__all__ = ["compiled_at_once"]

KINDS = ("bool", "uint8", "float16", "float32", "float64")


@pytest.fixture
def streaming(monkeypatch):
    """No cache is large enough, and no row too short."""
    monkeypatch.setattr(cpu_caches, "is_streamed", lambda moved, row: True)


def placed(count, dtype, shift):
    """An array that begins `shift` elements after the beginning of a line, and what is around."""
    whole = np.full(count * np.dtype(dtype).itemsize + 512, 7, np.uint8)
    begin = -whole.__array_interface__["data"][0] % 64 + 64 + shift * np.dtype(dtype).itemsize
    return np.ndarray(count, dtype, buffer=whole, offset=begin), whole, begin


@pytest.mark.parametrize("dtype", KINDS)
def test_every_size_and_place_is_written_and_nothing_around(dtype, streaming):
    program = loop_nest((Input(dtype, (True,)),), (loop_value("a0", dtype),), (0,))
    run = kernel(program).run
    for count in (0, 1, 15, 64, 1023, 1024, 1025, 5000):
        x = values(dtype, max(count, 8))[:count]
        for shift in (0, 1, 31):
            out, whole, begin = placed(count, dtype, shift)
            run([out], [x], x.shape)
            np.testing.assert_array_equal(out, x)
            assert (whole[:begin] == 7).all()
            assert (whole[begin + out.nbytes :] == 7).all()


@pytest.mark.parametrize("threads", (1, 2, 5))
def test_rows_broadcasts_and_several_outputs_streamed(threads, streaming, monkeypatch):
    monkeypatch.setattr(config, "num_threads", lambda: threads)
    statements = (loop_value("a0 + a1", "float32"), loop_value("t0 > a2", "bool"))
    inputs = tuple(Input("float32", one) for one in ((True, True), (False, True), (True, False)))
    program = loop_nest(inputs, statements, (0, 1))
    for dims in ((3, 64), (7, 100), (41, 5001), (2, 70_000), (0, 3)):
        random = np.random.default_rng(2)
        x = random.normal(size=dims).astype("float32")
        x.reshape(-1)[:4] = np.array([np.nan, np.inf, -np.inf, -0.0])[: x.size]
        row, column = (random.normal(size=n).astype("float32") for n in dims[::-1])
        total, above = np.empty(dims, "float32"), np.empty(dims, bool)
        kernel(program).run([total, above], [x, row, column], dims)
        np.testing.assert_array_equal(total, x + row)
        np.testing.assert_array_equal(above, x + row > column[:, None])
        x = random.normal(size=(*dims[:-1], 2 * dims[-1])).astype("float32")[:, : dims[-1]]
        kernel(program).run([total, above], [x, row, column], dims)
        np.testing.assert_array_equal(total, x + row)


def test_what_is_computed_in_place_is_not_streamed(streaming):
    program = loop_nest((Input("float32", (True,)),), (loop_value("a0 * 2", "float32"),), (0,))
    x = values("float32", 9000)
    want = x * 2
    kernel(program).run([x], [x], x.shape)
    assert_same(x, want)
    kernel(program).run([x[1:]], [x[:-1]], (8999,))
    assert_same(x[1:], want[:-1] * 2)


@pytest.mark.parametrize("rows", [1, 7, 24, 101, 700])
@pytest.mark.parametrize("columns", [1, 3, 64, 300, 700])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_short_rows_are_gone_over_together(dtype, columns, rows, streaming):
    x = values(dtype, rows * columns + 8)[8:].reshape(rows, columns)
    row, one = values(dtype, columns + 8)[8:], 3
    patterns = (True, True), (False, True), (False, False)
    inputs = tuple(Input(dtype, pattern) for pattern in patterns)
    program = loop_nest(inputs, (loop_value("a0 * a1 - a2", dtype),), (0,))
    with np.errstate(all="ignore"):
        want = x * row - np.array(one, dtype)
    ins = [row, np.array([one], dtype)]
    joins = loop_kernel.rows_to_join(rows, columns)
    assert joins * columns <= 512 or joins == 1
    assert rows % joins == 0
    for given in (x, x.copy(order="F"), np.repeat(x, 2, axis=0)[::2]):
        out = np.empty_like(x, order="C")
        kernel(program).run([out], [given, *ins], x.shape)
        np.testing.assert_array_equal(out, want)
    kernel(program).run([x], [x, *ins], x.shape)  # in place
    np.testing.assert_array_equal(x, want)


RULE = [
    ("small", 1, 1 << 20, False),
    ("long rows", 2, 1 << 20, True),
    ("short rows", 2, 128, False),
    ("whole lines", 2, 256, True),
    ("broken lines", 2, 260, False),
]


@pytest.mark.parametrize(("times", "row", "want"), [r[1:] for r in RULE], ids=[r[0] for r in RULE])
def test_what_no_cache_holds_is_streamed(times, row, want):
    assert cpu_caches.is_streamed(times * cpu_caches.last_level_bytes(), row) is want


SYSTEMS = [
    ({"index0/size": "48K", "index2/size": "1024K", "index3/size": "32M"}, 32 << 20),
    ({"index2/size": "2048K", "index3/size": "480M"}, 32 << 20),  # of dozens of cores
    ({"index0/size": "32K", "index1/size": "nonsense", "index2/size": ""}, 32 << 10),
]


@pytest.mark.parametrize(("files", "want"), SYSTEMS)
def test_the_largest_cache_is_found(tmp_path, files, want):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert cpu_caches.last_level_bytes(tmp_path) == want


CORES = [
    ([("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2048K")], (48, 2048)),
    ([("1", "Instruction", "64K"), ("2", "Unified", "1M"), ("1", "Data", "32K")], (32, 1024)),
    ([("3", "Unified", "32M")], None),
    ([("1", "Data", "none"), ("2", "Unified", "")], None),
    ([], None),
]


@pytest.mark.parametrize(("caches", "want"), CORES)
def test_the_caches_of_a_core_are_found(tmp_path, caches, want):
    """Where the system tells nothing, sizes are usual ones."""
    for number, texts in enumerate(caches):
        place = tmp_path / f"index{number}"
        place.mkdir()
        for name, text in zip(("level", "type", "size"), texts, strict=True):
            (place / name).write_text(text + "\n")
    found = [cpu_caches.core_bytes(level, tmp_path) for level in (1, 2)]
    if want is None:
        assert 1 << 14 <= found[0] <= 1 << 18 <= found[1] <= 1 << 24
    else:
        assert found == [size << 10 for size in want]


@pytest.mark.parametrize("kind", ("sum", "max"))
def test_columns_of_any_number_of_rows(kind):
    inputs = (Input("float32", (True, True, True)), Input("float32", (True, False, True)))
    for expr, count in (("a0", 1), ("a0 * a1", 2)):
        statements = (loop_value(expr, "float32"),)
        program = loop_nest(inputs[:count], statements, (), Fold(kind, 1, 2))
        for rows in (1, 7, 8, 9, 127, 129, 300):
            x = np.round(values("float32", 2 * rows * 33)).reshape(2, rows, 33)  # adds up exactly
            x[0, rows // 2, 5], x[1, -1, 6], x[1, 0, 32] = np.nan, np.inf, -np.inf
            other = np.round(values("float32", 66, seed=5)).reshape(2, 1, 33)
            out = np.empty((2, 33), "float32")
            kernel(program).run([out], [x, other][:count], x.shape)
            with np.errstate(invalid="ignore"):  # an infinity times zero
                want = getattr(x * other if count == 2 else x, kind)(1)
            np.testing.assert_array_equal(out, want)


LAST = ((1, 5), (4, 511), (9, 512), (6, 1300), (2, 300_001))
ACROSS = ((7, 5), (5, 511), (6, 2049), (3, 9000))


@pytest.mark.parametrize("dtype", every(2, ("int8", "float16", "float32", "float64")))
@pytest.mark.parametrize("view", ("last", "first", "middle"))
def test_running_sums_streamed(view, dtype, streaming):
    run = registry.find("cumsum", dtype, view)
    for rows, columns in LAST if view == "last" else ACROSS:
        x = np.zeros((*((3,) if view == "middle" else ()), rows, columns), dtype)
        x[..., ::7] = 1
        x[..., -1, columns // 2] = 3 if dtype == "int8" else np.nan
        out = np.full_like(x, 9)
        run(out, x)
        wide = "int64" if dtype == "int8" else "float64"
        with np.errstate(over="ignore"):  # float16 ends at 65504
            want = np.cumsum(x, axis=-1 if view == "last" else -2, dtype=wide).astype(dtype)
        np.testing.assert_array_equal(out, want)
        run(x, x)
        np.testing.assert_array_equal(x, want)
