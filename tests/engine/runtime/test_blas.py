"""Small matrix products stay on one thread of BLAS, and leave its setting as it was."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from kbench.engine.runtime import blas, threads


class Pool:
    """A BLAS that only counts."""

    def __init__(self, count: int) -> None:
        self.count, self.calls = count, []

    def get_num_threads(self) -> int:
        return self.count

    def set_num_threads(self, count: int) -> None:
        self.count = count
        self.calls.append(count)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    made = Pool(4)
    monkeypatch.setattr(blas.one_thread, "_pools", [made])
    monkeypatch.setattr(threads, "is_compiling", lambda: False)  # of what other tests began
    return made


def multiply(rows: int, inner: int, columns: int, lead: tuple[int, ...] = ()) -> None:
    x, y = np.ones((*lead, rows, inner), "f"), np.ones((*lead, inner, columns), "f")
    out = np.empty((*lead, rows, columns), "f")
    blas.matmul(x, y, out)
    assert (out == inner).all()


def test_only_products_of_a_middle_size_are_limited(pool: Pool) -> None:
    multiply(16, 16, 16)  # so small that BLAS takes one thread anyway
    multiply(300, 300, 300)  # large
    multiply(20, 20, 20, (100,))  # many small ones
    assert pool.calls == []
    multiply(100, 100, 100)
    multiply(100, 100, 100, (2,))
    assert pool.calls == [1, 4, 1, 4]


def test_beside_a_compiler_large_ones_are_limited_too(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "is_compiling", lambda: True)
    multiply(16, 16, 16)
    assert pool.calls == []
    multiply(300, 300, 300)
    assert pool.calls == [1, 4]
    monkeypatch.setattr(blas, "ONE_THREAD_FLOPS_COMPILING", 2 * 300**3 - 1)
    multiply(300, 300, 300)
    assert pool.calls == [1, 4]


def test_the_setting_comes_back_whoever_leaves_last(pool: Pool) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with blas.one_thread:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with blas.one_thread:
        assert pool.count == 1
    assert pool.count == 1, "the other one is still inside"
    leave.set()
    thread.join()
    assert pool.count == 4
    with pytest.raises(ZeroDivisionError), blas.one_thread:
        raise ZeroDivisionError
    assert pool.count == 4


REAL = """
from kbench.engine.runtime import blas

for one in blas._found():
    count = one.get_num_threads()
    with blas.one_thread:
        assert one.get_num_threads() == 1
    assert one.get_num_threads() == count
"""


def test_the_real_one_is_found() -> None:
    """In a process of its own, as threads that other tests have left may be inside."""
    subprocess.run([sys.executable, "-c", REAL], check=True, timeout=60)
