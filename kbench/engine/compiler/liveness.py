"""Which step writes to which buffer: liveness over the schedule, and reuse of freed buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.values import Value
from kbench.engine.core.spec import Spec, Specs, known_size

ALIGN_BYTES = 64
"""A cache line, at which every value begins; another one is left free before and behind each."""
ALLOCATING_KINDS = ("structured", "several")
"""Kinds of ops that allocate what they give."""
MIN_RELEASED_BYTES = 1 << 20
"""Bytes of a value that is let go before the run ends; for less the step would cost more."""


class MemoryLayout(Struct, frozen=True):
    """Offsets into one arena for the slots of intermediate results, and its size in bytes."""

    offsets: dict[int, int]
    arena_bytes: int
    escaping: frozenset[int]
    other_bytes: int  # results of the call, and the peak of what steps allocate themselves
    ending: dict[int, tuple[int, ...]]  # step -> large values that are not read after it

    @property
    def peak_bytes(self) -> int:
        return self.arena_bytes + self.other_bytes


def nbytes(value: Value) -> int:
    """Bytes of a value's array; 0 while its shape is unknown."""
    if isinstance(value.spec, Specs):
        return sum(_bytes(part) for part in value.spec.parts)
    return _bytes(value.spec)


def _bytes(spec: Spec) -> int:
    if spec.sparse:  # as many as there are entries
        return 0
    return (known_size(spec.shape) or 0) * np.dtype(spec.dtype).itemsize


def memory_owners(values: Sequence[Value]) -> list[frozenset[int]]:
    """For each value the slots whose memory its value may lie in."""
    memory: list[frozenset[int]] = []
    for value in values:
        if value.op.kind in ("view", "update") and value.inputs and not value.source:
            memory.append(frozenset().union(*(memory[slot] for slot in value.inputs)))
        else:
            memory.append(frozenset((value.slot,)))
    return memory


def fills_buffer(value: Value) -> bool:
    """True when the step fills a buffer that the plan provides."""
    return not value.source and value.static and not value.op.allocates


Accesses = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]  # what each fills and reads


def _last_uses(values: Sequence[Value], accesses: Accesses, roots: Sequence[int]) -> dict[int, int]:
    """For each slot the last step that looks at its memory; results are needed after all steps."""
    memory = memory_owners(values)
    last_use = dict.fromkeys(range(len(values)), -1)
    for index, (writes, reads) in enumerate(accesses):
        conditions = (condition for condition, _ in values[writes[-1]].guard)
        for slot in (*reads, *conditions):
            for owner in memory[slot]:
                last_use[owner] = index
    for root in roots:
        for owner in memory[root]:
            last_use[owner] = len(accesses)
    return last_use


def assign_arena(values: Sequence[Value], accesses: Accesses, roots: Sequence[int]) -> MemoryLayout:
    """Assign arena offsets to every provided buffer; results of the call get their own memory.

    `accesses` are pairs of the slots that a step fills and the slots that it reads: a group of
    values that runs as one step reads what its members read, when the last of them is due.
    """
    last_use = _last_uses(values, accesses, roots)
    escaping = frozenset(root for root in roots if fills_buffer(values[root]))
    arena = _Arena()
    ending: dict[int, list[int]] = {}
    released: dict[int, tuple[int, ...]] = {}
    allocated = most = 0
    for index, (writes, _) in enumerate(accesses):
        for slot in writes:
            value = values[slot]
            if slot in escaping or not (fills_buffer(value) or value.op.kind in ALLOCATING_KINDS):
                continue
            ending.setdefault(max(last_use[slot], index), []).append(slot)
            if fills_buffer(value):
                arena.take(slot, nbytes(value))
            else:
                allocated += nbytes(value)
                most = max(most, allocated)
        for freed in ending.pop(index, ()):
            if fills_buffer(values[freed]):
                arena.release(freed)
            else:
                allocated -= nbytes(values[freed])
                if nbytes(values[freed]) >= MIN_RELEASED_BYTES and freed not in writes:
                    released[writes[-1]] = (*released.get(writes[-1], ()), freed)
    fresh = sum(nbytes(values[root]) for root in escaping)
    return MemoryLayout(arena.offsets, arena.size, escaping, fresh + most, released)


class _Arena:
    """First-fit allocation in a line of bytes that grows at its end."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.size = 0
        self._sizes: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset

    def take(self, slot: int, size: int) -> None:
        size = -(-max(size, 1) // ALIGN_BYTES) * ALIGN_BYTES + 2 * ALIGN_BYTES
        self._sizes[slot] = size
        for index, (offset, room) in enumerate(self._free):
            if room >= size:
                self.offsets[slot] = offset
                rest = (offset + size, room - size)
                self._free[index : index + 1] = [rest] if rest[1] else []
                return
        if self._free and sum(self._free[-1]) == self.size:
            offset = self._free.pop()[0]
        else:
            offset = self.size
        self.offsets[slot] = offset
        self.size = offset + size

    def release(self, slot: int) -> None:
        self._free.append((self.offsets[slot], self._sizes[slot]))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for offset, size in self._free:
            if merged and sum(merged[-1]) == offset:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((offset, size))
        self._free = merged
