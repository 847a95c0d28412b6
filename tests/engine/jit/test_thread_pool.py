"""The threads that share a kernel's items: every item once, by any number of threads, and again."""

from __future__ import annotations

import functools
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_helpers import compiled_at_once, kernel

from kbench.engine.codegen.arguments import Binding
from kbench.engine.codegen.loop_program import Input, loop_nest, loop_value
from kbench.engine.jit import fast_call, thread_pool
from kbench.engine.jit.service import service
from kbench.engine.runtime import config, threads

__all__ = ["compiled_at_once"]

COUNTING = loop_nest((Input("int64", (True,)),), (loop_value("a0 + 1", "int64"),), (0,))
"""In place: an item that is run twice counts two, one that is left out none."""


@functools.cache
def _pools():
    kernel(COUNTING)
    module = service.job("driver").module
    return {"own": thread_pool.ThreadPool(module), "executors": thread_pool.ExecutorPool(module)}


@pytest.fixture(scope="module")
def pools():
    return _pools()


def _count(pool, items, count, first=0, repeats=1):
    """Let a pool add one to each item; gives the items."""
    x = np.zeros(items, np.int64)
    params, _ = Binding(COUNTING, (items,)).parameters([x], [x])
    address = kernel(COUNTING)._job.address
    for _ in range(repeats):
        pool.run(address, params.__array_interface__["data"][0], first, items, count)
    return x


@pytest.mark.parametrize("kind", ["own", "executors"])
@pytest.mark.parametrize("count", [2, 3, 8, 17])
@pytest.mark.parametrize("items", [1, 2, 7, 64, 65, 1000, 300_001])
def test_every_item_is_run_once(pools, kind, count, items):
    np.testing.assert_array_equal(_count(pools[kind], items, count), 1)


def test_a_range_may_begin_anywhere(pools):
    for kind in pools:
        x = _count(pools[kind], 1000, 3, first=399)
        assert x[:399].sum() == 0 and (x[399:] == 1).all()


def test_nothing_is_no_work(pools):
    assert len(_count(pools["own"], 0, 2)) == 0


@given(items=st.integers(0, 5000), count=st.integers(2, 9), repeats=st.integers(1, 20))
def test_threads_that_come_late_disturb_nothing(items, count, repeats):
    pool = _pools()["own"]
    np.testing.assert_array_equal(_count(pool, items, count, repeats=repeats), repeats)


@pytest.mark.slow
def test_many_short_runs_in_a_row(pools):
    assert (_count(pools["own"], 129, 4, repeats=20_000) == 20_000).all()


def test_idle_threads_soon_use_no_processor(pools):
    """They look for new work for a moment only; not at all where a compiler needs the cores."""
    for _ in range(20):
        _count(pools["own"], 1000, 4, repeats=3)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


@pytest.mark.parametrize("spins", [0, 1, 1000])
def test_threads_that_spin_longer_or_not_at_all(pools, monkeypatch, spins):
    pool = pools["own"]
    _count(pool, 10, 4)
    monkeypatch.setattr(pool, "_spins", spins)
    for pause in (0, 0.0001, 0.002):
        x = np.zeros(257, np.int64)
        for _ in range(100):
            x += _count(pool, 257, 4)
            time.sleep(pause)
        np.testing.assert_array_equal(x, 100)


def test_one_thread_asks_nothing_of_the_others(pools, monkeypatch):
    """How long a look takes is found out when there are threads that look, and only once."""
    pool = pools["own"]
    asked = []
    monkeypatch.setattr(pool, "_spins_in", lambda seconds: asked.append(seconds) or 1)
    monkeypatch.setattr(pool, "_helpers", 0)
    for _ in range(3):
        pool._start_workers(1)
    assert not asked


def test_looks_fill_a_moment(pools):
    pool = pools["own"]
    spins = pool._spins_in(thread_pool.SPIN_SECONDS)
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        pool._idle(pool._block, spins)
        times.append(time.perf_counter() - begun)
    assert thread_pool.SPIN_SECONDS / 3 < min(times) < thread_pool.SPIN_SECONDS * 3


def test_fewer_threads_than_before(pools):
    for count in (5, 2, 4, 3):
        assert (_count(pools["own"], 10_001, count, repeats=50) == 50).all()


def test_callers_take_turns():
    x = [np.zeros(200_001, np.int64) for _ in range(4)]
    run = kernel(COUNTING).run

    def work(mine):
        for _ in range(100):
            run([mine], [mine], mine.shape)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in x]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((mine == 100).all() for mine in x)


def test_one_thread_needs_no_others(monkeypatch):
    monkeypatch.setattr(service.driver, "_pool", None)
    before = config.num_threads()
    x = np.zeros(500_000, np.int64)
    try:
        config.set_num_threads(1)
        kernel(COUNTING).run([x], [x], x.shape)
    finally:
        config.set_num_threads(before)
    assert (x == 1).all()


def test_without_posix_threads_the_standard_library_serves(monkeypatch):
    def refused(module):
        raise AttributeError("pthread_mutex_lock")

    monkeypatch.setattr(thread_pool, "ThreadPool", refused)
    made = thread_pool.Driver(service.job("driver").module)
    x = np.zeros(500_000, np.int64)
    params, _ = Binding(COUNTING, x.shape).parameters([x], [x])
    monkeypatch.setattr(threads, "count", lambda: 3)
    made.run(kernel(COUNTING)._job.address, params, 0, x.size, True)
    assert (x == 1).all()


# ------------------------------------------------------------------ functions of Python


class Special(np.ndarray):
    """A user's own kind of array."""


def _arrays():
    block = np.arange(24.0).reshape(4, 6)
    yield from (block, block[1:, 2:], block[::-1], block.T, block[:0], block[1, 2, None])
    yield from (block.astype("float16"), np.zeros((), bool), block.view(Special)[2:])
    read_only = np.frombuffer(b"12345678", np.uint8)
    yield from (read_only, np.broadcast_to(read_only, (3, 8)), np.zeros(3, "U2"))


def test_addresses_are_what_arrays_say():
    kernel(COUNTING)
    assert fast_call.address is not fast_call.slow_address
    for array in _arrays():
        want = array.__array_interface__["data"][0]
        assert fast_call.address_of(array) == fast_call.slow_address(array) == want


@pytest.mark.parametrize(
    "thing", [None, 5, [1.0], b"123", memoryview(b"123")], ids=lambda one: type(one).__name__
)
def test_only_arrays_have_addresses(thing):
    kernel(COUNTING)
    with pytest.raises(SystemError):
        fast_call.address_of(thing)


def test_a_short_call_takes_a_kernel_and_its_parameters():
    address = kernel(COUNTING)._job.address
    call = service.driver._short
    x = np.zeros(9, np.int64)
    params, _ = Binding(COUNTING, x.shape).parameters([x], [x])
    before = sys.getrefcount(params), sys.getrefcount(x)
    given = [call(address, params, np.int64(2), 9) for _ in range(100)]
    after = sys.getrefcount(params), sys.getrefcount(x)
    assert given == [None] * 100 and before == after
    assert (x[:2] == 0).all() and (x[2:] == 100).all()
    wrong = [(), (address,), (address, params, 0), (address, [1], 0, 9), (0, params, 0, 9)]
    wrong += [(address, params, -1, 9), (address, params, 0, -9), (address, params, 0, 9, 0)]
    for arguments in wrong:
        with pytest.raises(SystemError):
            call(*arguments)
    with pytest.raises(TypeError):
        call(address, params, 0, "9")
    assert (x[2:] == 100).all()


def test_other_interpreters_take_the_long_way(monkeypatch):
    kernel(COUNTING)
    monkeypatch.setattr(fast_call, "_begin_as_expected", lambda: False)
    made = thread_pool.Driver(service.job("driver").module)
    assert made._short == made._by_ctypes
    x = np.zeros(9, np.int64)
    params, _ = Binding(COUNTING, x.shape).parameters([x], [x])
    made.run(kernel(COUNTING)._job.address, params, 0, 9, False)
    assert (x == 1).all()
