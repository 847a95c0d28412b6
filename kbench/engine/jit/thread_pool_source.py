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

from kbench.engine.jit import kernel_file

# Where each integer of the block is. Each of the first five has a cache line of its own: all
# threads write to them.
OPEN, INSIDE, NEXT, SEATS, TURN = 0, 8, 16, 24, 32
LEADER_SLEEPS = 40
STOP, ADDRESS, PARAMS, SHARE, SPINS = 48, 49, 50, 51, 52
LOCK, UNLOCK, WAIT, SIGNAL = 56, 57, 58, 59
MUTEX, WORK, DONE = 64, 80, 96
"""The beginnings of areas of 128 bytes."""

FIELDS = {
    "LOCK": LOCK, "UNLOCK": UNLOCK, "WAIT": WAIT, "SIGNAL": SIGNAL,
    "MUTEX": MUTEX, "WORK": WORK, "DONE": DONE,
}  # fmt: skip
"""What the C library's functions and locks are found by, before the threads begin."""

BLOCK_WORDS = 128
"""Integers of the block: the areas and what is behind the last."""

LEADER_SPINS = 2000
"""Times that the leader looks whether the others are done before it sleeps: 20 to 90
microseconds."""

LAUNCH_ROW_WORDS = 5
"""Integers of one launch in a table of launches: address, parameters, items, threads, counters."""

SPIN_BUDGET = 8
"""Waits in vain in a row after which a thread spins only in some: others may need its core."""

SPIN_INTERVAL = 16
"""It spins in one wait of so many then."""


def source() -> str:
    """The source."""
    return kernel_file.specialized("intrinsics/sources/thread_pool")
