"""The source of the pool: how threads share the items of a range kernel.

The thread that has work leads. It says what there is to do, wakes the others, and begins at once;
whoever is awake claims the next few items, until none are left. So a thread whose core is busy with
something else delays nobody: the others take what it does not. Claims are large at first and small
at the end.

A thread that finds nothing more to do spins for a moment before it sleeps: it looks for new work
again and again, since waking it takes some 40 microseconds. When nothing came several times in a
row, it does so only now and then, as others may need its core.

Others take part only between two moments: when the leader opens the work, and when it has found
nothing left to claim, closes it, and waits for those inside to finish what they have claimed. Each
thread counts itself in before it looks whether the work is open, so that a leader who sees nobody
inside may change everything.

Several calls may be given as rows of a table, which the leader goes through one after the other;
where a row names counters, these begin at zero.

All is in one block of integers. Threads wait by a mutex and conditions of the C library, whose
functions are given by address, like everything else.
"""

from __future__ import annotations

FIELDS = {
    # Each of the first five has a cache line of its own: all threads write to them.
    "OPEN": 0, "INSIDE": 8, "NEXT": 16, "SEATS": 24, "TURN": 32, "LEADER_SLEEPS": 40,
    "STOP": 48, "ADDRESS": 49, "PARAMS": 50, "SHARE": 51, "SPINS": 52,
    "LOCK": 56, "UNLOCK": 57, "WAIT": 58, "SIGNAL": 59,
    "MUTEX": 64, "WORK": 80, "DONE": 96,
}  # fmt: skip
"""Where each integer of the block is; the last three are the beginnings of areas of 128 bytes."""

BLOCK_WORDS = 128
"""Integers of the block: the areas of `FIELDS` and what is behind the last."""

LEADER_SPINS = 2000
"""Times that the leader looks whether the others are done before it sleeps: 20 to 90
microseconds."""

LAUNCH_ROW_WORDS = 5
"""Integers of one launch in a table of launches: address, parameters, items, threads, counters."""

SPIN_BUDGET = 8
"""Waits in vain in a row after which a thread spins only in some: others may need its core."""

SPIN_INTERVAL = 16
"""It spins in one wait of so many then."""

_BODY = '''"""Threads that share the items of range kernels."""
from kbench.engine.intrinsics.atomics import (
    atomic_add,
    atomic_get,
    atomic_set,
    call_1,
    call_2,
    pause,
)
from kbench.engine.jit.numba_backend import entry, inline
from kbench.engine.intrinsics.primitives import call_range, field, store_int64


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
    for row in range(rows, rows + count * ROW_BYTES, ROW_BYTES):
        address, params, stop = field(row, 0), field(row, 1), field(row, 2)
        threads, counters = field(row, 3), field(row, 4)
        if counters != 0:
            atomic_set(counters, 0, 0)
            atomic_set(counters, 8, 0)
        if threads > 1:
            share_out(pool, address, params, 0, stop, threads - 1, threads * share)
        else:
            call_range(address, params, 0, stop)
'''


def source() -> str:
    """The source, with its numbers."""
    numbers = {
        **FIELDS,
        "LEADER_SPINS": LEADER_SPINS,
        "SPIN_BUDGET": SPIN_BUDGET,
        "SPIN_INTERVAL": SPIN_INTERVAL,
        "ROW_BYTES": 8 * LAUNCH_ROW_WORDS,
    }
    head = "\n".join(f"{name} = {value}" for name, value in numbers.items())
    opening, _, rest = _BODY.partition("\n\n\n")
    return f"{opening}\n\n{head}\n\n\n{rest}"
