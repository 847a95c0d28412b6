"""Threads that share the items of range kernels; `jit/thread_pool_source.py` says how."""

from kbench.engine.intrinsics.atomics import (
    atomic_add,
    atomic_get,
    atomic_set,
    call_1,
    call_2,
    pause,
)
from kbench.engine.intrinsics.primitives import call_range, field, store_int64
from kbench.engine.jit.numba_backend import entry, inline
from kbench.engine.jit.thread_pool_source import (
    ADDRESS,
    DONE,
    INSIDE,
    LAUNCH_ROW_WORDS,
    LEADER_SLEEPS,
    LEADER_SPINS,
    LOCK,
    MUTEX,
    NEXT,
    OPEN,
    PARAMS,
    SEATS,
    SHARE,
    SIGNAL,
    SPIN_BUDGET,
    SPIN_INTERVAL,
    SPINS,
    STOP,
    TURN,
    UNLOCK,
    WAIT,
    WORK,
)


@entry(4)
def serial(address, params, start, stop):
    call_range(address, params, start, stop)


@inline
def claim_items(pool):
    address, params = field(pool, ADDRESS), field(pool, PARAMS)
    stop, share = field(pool, STOP), field(pool, SHARE)
    while True:
        left = stop - atomic_get(pool, NEXT)
        if left <= 0:
            return
        size = max(1, left // share)
        if size > 64:
            size = size // 64 * 64
        start = atomic_add(pool, NEXT, size)
        if start >= stop:
            return
        call_range(address, params, start, min(stop, start + size))


@inline
def take_part(pool):
    atomic_add(pool, INSIDE, 1)
    if atomic_get(pool, OPEN) == 1 and atomic_add(pool, SEATS, -1) > 0:
        claim_items(pool)
    if atomic_add(pool, INSIDE, -1) == 1 and atomic_get(pool, LEADER_SLEEPS) == 1:
        call_1(field(pool, LOCK), pool + 8 * MUTEX)
        call_1(field(pool, SIGNAL), pool + 8 * DONE)
        call_1(field(pool, UNLOCK), pool + 8 * MUTEX)


@inline
def spin(pool, seen, spins):
    for _ in range(spins):
        if atomic_get(pool, TURN) != seen:
            return True
        pause()
    return False


@entry(2)
def idle(pool, spins):
    spin(pool, atomic_get(pool, TURN), spins)


@entry(1)
def worker_loop(pool):
    mutex = pool + 8 * MUTEX
    seen, spin_budget, waits = 0, 0, 0
    while True:
        waits += 1
        spin_budget -= 1
        spins = field(pool, SPINS) if spin_budget > 0 or waits % SPIN_INTERVAL == 0 else 0
        if spin(pool, seen, spins):
            spin_budget = SPIN_BUDGET
        else:
            call_1(field(pool, LOCK), mutex)
            while atomic_get(pool, TURN) == seen:
                call_2(field(pool, WAIT), pool + 8 * WORK, mutex)
            call_1(field(pool, UNLOCK), mutex)
        seen = atomic_get(pool, TURN)
        take_part(pool)


@inline
def share_out(pool, address, params, start, stop, seats, share):
    mutex = pool + 8 * MUTEX
    store_int64(pool, ADDRESS, address)
    store_int64(pool, PARAMS, params)
    store_int64(pool, STOP, stop)
    store_int64(pool, SHARE, share)
    atomic_set(pool, NEXT, start)
    atomic_set(pool, SEATS, seats)
    atomic_set(pool, OPEN, 1)
    call_1(field(pool, LOCK), mutex)
    atomic_add(pool, TURN, 1)
    call_1(field(pool, UNLOCK), mutex)
    for _ in range(seats):
        call_1(field(pool, SIGNAL), pool + 8 * WORK)
    claim_items(pool)
    atomic_set(pool, OPEN, 0)
    for _ in range(LEADER_SPINS):
        if atomic_get(pool, INSIDE) == 0:
            return
        pause()
    call_1(field(pool, LOCK), mutex)
    atomic_set(pool, LEADER_SLEEPS, 1)
    while atomic_get(pool, INSIDE) != 0:
        call_2(field(pool, WAIT), pool + 8 * DONE, mutex)
    atomic_set(pool, LEADER_SLEEPS, 0)
    call_1(field(pool, UNLOCK), mutex)


@entry(8)
def lead(pool, address, params, start, stop, seats, share, spins):
    store_int64(pool, SPINS, spins)
    share_out(pool, address, params, start, stop, seats, share)


@entry(5)
def repeat(pool, rows, count, share, spins):
    store_int64(pool, SPINS, spins)
    for row in range(rows, rows + count * 8 * LAUNCH_ROW_WORDS, 8 * LAUNCH_ROW_WORDS):
        address, params, stop = field(row, 0), field(row, 1), field(row, 2)
        threads, counters = field(row, 3), field(row, 4)
        if counters != 0:
            atomic_set(counters, 0, 0)
            atomic_set(counters, 8, 0)
        if threads > 1:
            share_out(pool, address, params, 0, stop, threads - 1, threads * share)
        else:
            call_range(address, params, 0, stop)
