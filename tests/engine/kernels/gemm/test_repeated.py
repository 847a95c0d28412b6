"""Products that are made again and again: right for what they are for, refused for the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from kernel_helpers import compiled_at_once  # noqa: F401

import kbench as K
from kbench.engine.kernels.gemm import api as gemm
from kbench.engine.kernels.gemm import repeated

RNG = np.random.default_rng(5)


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = K.num_threads()
    K.set_num_threads(request.param)
    yield request.param
    K.set_num_threads(before)


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def known(x: np.ndarray, y: np.ndarray) -> gemm.Product:
    """A product that has met arrays of this form."""
    multiply = gemm.find("product", x.dtype.name)
    assert multiply is not None
    out = np.empty((len(x), y.shape[1]), x.dtype)
    assert not multiply.repeat(out, x, y)
    multiply.keep(out, x, y)
    return multiply


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(64, 64, 64), (13, 31, 7), (128, 128, 128), (300, 170, 90)])
def test_values_are_those_of_the_usual_call(
    size: tuple[int, int, int], dtype: str, threads: int
) -> None:
    rows, columns, depth = size
    x, y = drawn(rows, depth, dtype=dtype), drawn(depth, columns, dtype=dtype)
    multiply = known(x, y)
    for _ in range(3):
        x, y = drawn(rows, depth, dtype=dtype), drawn(depth, columns, dtype=dtype)
        usual, out = (np.full((rows, columns), 77, dtype) for _ in range(2))
        assert multiply.repeat(out, x, y)
        multiply(usual, x, y)
        np.testing.assert_array_equal(out, usual)


@pytest.mark.parametrize("own", [0, 1 << 30])
def test_scratch_memory_of_its_own_or_shared(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned operands are packed, into either."""
    monkeypatch.setattr(repeated, "MAX_OWN_BYTES", own)
    x, y = drawn(90, 80).T, drawn(70, 90).T
    multiply = known(x, y)
    for _ in range(2):
        out = np.full((80, 70), 77, "f")
        assert multiply.repeat(out, x, y)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)


def test_arrays_of_another_form_are_refused() -> None:
    x, y, out = drawn(40, 40), drawn(40, 40), np.empty((40, 40), "f")
    multiply = known(x, y)
    other = drawn(80, 80)
    odd = np.frombuffer(bytearray(40 * 40 * 4 + 1), np.uint8)[1:].view("f").reshape(40, 40)
    cases = [
        (out, other[:39, :40], y), (out, x, other[:40, :41]), (out[:39], x, y), (out, x.T, y),
        (out, other[:40, :40], y), (out, x, other[::2, ::2]), (out, x[::-1], y), (out, odd, y),
        (out, x.astype("d"), y), (out, x.astype(">f4"), y), (np.empty((40, 40)), x, y),
        (other[:40, :40], x, y),
    ]  # fmt: skip
    before = repeated.RepeatedProduct(*_parts_of(multiply, out, x, y))
    for case in cases:
        assert not before.run(*case)
    assert before.run(out, x, y)


def _parts_of(
    multiply: gemm.Product, out: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[repeated.Repeatable, np.ndarray, np.ndarray, np.ndarray]:
    assert multiply._known is not None
    return multiply._known._what, out, x, y


def test_what_would_be_copied_or_is_in_pieces_is_not_kept() -> None:
    multiply = gemm.find("product", "float16")
    assert multiply is not None
    half = drawn(40, 40).astype("float16")
    for _ in range(3):
        out = np.empty((40, 40), "float16")
        multiply.keep(out, half, half)
        assert not multiply.repeat(out, half, half)
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    for _ in range(3):  # the result is an operand
        x, nothing = drawn(40, 40), np.empty((0, 40), "f")
        multiply.keep(x, x, x)
        assert not multiply.repeat(x, x, x)
        multiply.keep(nothing, nothing, x)
        assert not multiply.repeat(nothing, nothing, x)


def test_steps_that_change_their_form_are_met_a_few_times() -> None:
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    y, kept = drawn(30, 30), set()
    for number in range(3 * gemm.MAX_MISSES):
        x, out = drawn(20 + number % 2, 30), np.empty((20 + number % 2, 30), "f")
        made = multiply.repeat(out, x, y)
        multiply.keep(out, x, y)
        assert not made or np.allclose(out, x @ y, 1e-4, 1e-4)
        kept.add(id(multiply._known))
    assert len(kept) <= gemm.MAX_MISSES


def test_threads_of_python_at_once() -> None:
    """Each has a block of parameters of its own."""
    x, y = drawn(64, 64), drawn(64, 64)
    multiply, want = known(x, y), x @ y
    wrong: list[int] = []

    def work() -> None:
        for number in range(200):
            out = np.zeros((64, 64), "f")
            if not multiply.repeat(out, x, y) or not np.allclose(out, want, 1e-4, 1e-4):
                wrong.append(number)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
