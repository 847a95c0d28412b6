"""Whose turn it is to compile: all processes of a user on a host share a few compilers.

A process that has no turn goes on with NumPy. Its thread stands in line, and loads what others
store meanwhile, which is often just what it needs. Whoever is next has the lock of the line until a
compiler is free; a turn is over after some seconds if somebody is in line. So nobody is starved,
and nobody waits for ever for a process that was stopped: after some time in which nothing came,
a process compiles as if it were alone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time

from kbench.engine.jit import compile_locks

TURN_SECONDS = 8.0
"""How long a turn lasts when somebody is in line. Each process that gets one has a compiler to
start: 0.6 s of a core, and 150 MB."""
ASK_SECONDS = 0.1
"""Time between two looks at whether it is somebody's turn: a look takes 20 us, or several messages
to a server of files."""
PATIENCE_SECONDS = 30.0
"""How long a process waits while nothing comes: neither its turn nor a kernel of somebody else's.
Of four that need different kernels each waits for three turns."""
ALONE_SECONDS = 300.0
"""How long it then asks nobody."""

_FIRST = 1 << 60
_LINE = 255


@functools.cache
def _places() -> int:
    """The first of this host's bytes: processes of other hosts may share the folder."""
    name = os.uname().nodename
    return _FIRST + int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) * (_LINE + 1)


class Turns:
    """Those of a process: of how many all processes have together, and for how long it has
    waited."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._patient_until: float | None = None
        self._alone_until = 0.0

    def is_alone(self, now: float) -> bool:
        """Whether the process asks nobody, as nothing came when it did."""
        return now < self._alone_until

    def loses_patience(self, now: float) -> bool:
        """Whether it has waited too long, and asks nobody from now on."""
        self._patient_until = self._patient_until or now + PATIENCE_SECONDS
        if now < self._patient_until:
            return False
        self._patient_until, self._alone_until = None, now + ALONE_SECONDS
        return True

    def note_progress(self) -> None:
        """Something came: it waits anew."""
        self._patient_until = None


class Turn:
    """That of one thread."""

    def __init__(self, turns: Turns) -> None:
        self.is_mine = False
        self._turns = turns
        self._file: compile_locks.LockFile | None = None
        self._place: int | None = None  # its compiler's
        self._is_next = False
        self._ends = self._asks_again = 0.0

    def ask(self) -> bool:
        """Whether it is this thread's turn; until it is, it stands in line."""
        now = time.monotonic()
        if self._place is not None:
            if now < self._ends:
                return True
            self.give_back()  # to have it again, unless somebody is in line
        elif not self.is_mine and now < self._asks_again:
            return False
        self._asks_again = now + ASK_SECONDS
        self.is_mine = self._has_come(now)
        return self.is_mine

    def _has_come(self, now: float) -> bool:
        file = compile_locks.shared()
        if file is not self._file:  # another folder was set
            self.give_back()
            self._file = file
        if file is None or self._turns.is_alone(now):
            return True
        first = _places()
        is_next = self._is_next or file.take(first + _LINE)
        self._is_next = is_next is True
        if is_next is None:
            return True
        if is_next:
            for place in range(first, first + self._turns.count):
                taken = file.take(place)
                if taken is not False:
                    self._begin(place if taken else None, now)
                    return True
        if self._turns.loses_patience(now):
            self._leave_line()
            return True
        return False

    def is_wanted(self) -> bool:
        """Whether others are in line: what is compiled in this turn is for them, too."""
        if self._file is None or self._place is None:
            return False
        line = _places() + _LINE
        is_free = self._file.take(line)
        if is_free:
            self._file.give_back(line)
        return is_free is False

    def _begin(self, place: int | None, now: float) -> None:
        self._place, self._ends = place, now + TURN_SECONDS
        self._turns.note_progress()
        self._leave_line()

    def _leave_line(self) -> None:
        if self._is_next and self._file is not None:
            self._file.give_back(_places() + _LINE)
        self._is_next = False

    def give_back(self) -> None:
        """End the turn, or leave the line."""
        if self._place is not None and self._file is not None:
            self._file.give_back(self._place)
        self._place, self.is_mine = None, False
        self._leave_line()
