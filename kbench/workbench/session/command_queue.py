"""How other threads reach the session's: closures in a queue, and a socket that wakes its poll."""

from __future__ import annotations

import contextlib
import queue
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import fork_safety

if TYPE_CHECKING:
    from kbench.workbench.session.wire import Wire


class CommandQueue:
    """Closures posted by any thread and run by one."""

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = fork_safety.lock()
        self._open = True
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)

    def post(self, command: Callable[[], None]) -> bool:
        """Have `command` run by the owner's thread, after those before; False when it is gone."""
        with self._lock:
            if not self._open:
                return False
            self._commands.put(command)
            with contextlib.suppress(BlockingIOError):  # then enough wake-ups are under way
                self._wake_out.send(b"x")
        return True

    def wait(self, wire: Wire | None, patience: float | None) -> None:
        """Sleep until something was posted, a socket of `wire` is readable, or time is up."""
        if wire is None:
            select.select([self._wake_in], [], [], patience)
        else:
            wire.poll(self._wake_in.fileno(), patience)
        try:
            while self._wake_in.recv(4096):
                pass
        except (BlockingIOError, OSError):
            pass

    def next(self) -> Callable[[], None] | None:
        """The next closure, None when there is none."""
        try:
            return self._commands.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Take nothing more; what was posted can still be had by `next`."""
        with self._lock:
            self._open = False
            self._wake_out.close()
            self._wake_in.close()
