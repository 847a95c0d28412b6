"""Locks that the processes of a user share who compile into one folder.

A lock is a byte of one empty file in that folder, locked by `fcntl`. The system gives it up when
the process that holds it ends, however it does; a child of a fork holds none of its parent's. So
nothing has to be cleared up, and a lock is never of somebody who is gone.

They save work and guard nothing: files are written whole or not at all, whoever writes them. So
where there are no such locks (Windows, a folder that can only be read, a server of files without
them, a file that may be somebody else's) each process compiles as if it were alone.

The system may wait for a server of files here. Nobody calls from a thread of the user's, or while
he holds a lock that such a thread needs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kbench.engine.core import fork_safety
from kbench.engine.jit import disk_cache

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

KEY_DIGITS = 12
"""Hexadecimal digits of a kernel's key that say which byte is its lock: 48 bits."""
STUCK_SECONDS = 30.0
"""After which somebody else steps in for whoever compiles a kernel. A process that was stopped
never ends. The longest kernels take 5 s on a core of their own; beside others they get a fifth."""
MAX_STAND_INS = 3
"""Of a kernel; when all of them are stuck, too, everybody compiles it for himself."""

_PLACES = 256
"""Bytes of a kernel: one for whoever compiles it, one for each who steps in."""
_BUSY = (errno.EACCES, errno.EAGAIN)
_files: dict[Path, LockFile] = {}


def shared() -> LockFile | None:
    """The locks of the folder of kernels; None where each process compiles for itself."""
    if fcntl is None or not disk_cache.cacheable():
        return None
    path = disk_cache.folder() / disk_cache.LOCK_NAME
    return _files.setdefault(path, LockFile(path))


@contextlib.contextmanager
def claimed(key: str, waited: float) -> Iterator[bool]:
    """Whether no other process, nor thread, compiles the kernel of that key; until the context is
    left, no other will. `waited` is how long, in seconds, it has been somebody else's."""
    file = shared()
    stand_ins = int(waited / STUCK_SECONDS)
    if file is None or stand_ins > MAX_STAND_INS:
        yield True
        return
    first = int(key[:KEY_DIGITS], 16) * _PLACES
    for place in range(first, first + stand_ins + 1):
        if (taken := file.take(place)) is not False:
            break
    try:
        yield taken is not False
    finally:
        if taken:
            file.give_back(place)


class LockFile:
    """A file that is locked byte by byte; it is open only while this process has a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = fork_safety.lock()
        self._held: set[int] = set()
        self._descriptor = -1
        self._opened: tuple[int, int] | None = None

    def take(self, place: int) -> bool | None:
        """Lock a byte: False if somebody has it, another thread of this process, too; None if
        there are no locks to be had."""
        with self._lock:
            if place in self._held:
                return False
            try:
                if not self._held:
                    self._open()
                taken = _lock_byte(self._descriptor, place)
            except (OSError, OverflowError):
                taken = None
            if taken:
                self._held.add(place)
            self._close_unused()
            return taken

    def give_back(self, place: int) -> None:
        """Unlock a byte that `take` has locked."""
        with self._lock:
            if place not in self._held:  # in a child of a fork
                return
            self._held.discard(place)
            if self._is_open():
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
            self._close_unused()

    def forget(self) -> None:
        """Have no lock, in a child of a fork; those of the parent stay as they are."""
        self._held.clear()
        self._close_unused()

    def _open(self) -> None:
        self._descriptor = open_own(self._path)
        status = os.fstat(self._descriptor)
        self._opened = status.st_dev, status.st_ino

    def _is_open(self) -> bool:
        """Whether the descriptor is still of that file: a program may close all there are."""
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._opened

    def _close_unused(self) -> None:
        if not self._held and self._descriptor >= 0:
            if self._is_open():
                os.close(self._descriptor)
            self._descriptor = -1


def _lock_byte(descriptor: int, place: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def open_own(path: Path) -> int:
    """Open a file that is the user's alone, and make it if there is none.

    Raises:
        OSError: it is a link or no regular file, is another user's, or others may open it: whoever
            can read it can lock it.
    """
    with contextlib.suppress(FileNotFoundError):
        _check(os.lstat(path))  # some devices do something as soon as they are opened
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o600)
    try:
        _check(os.fstat(descriptor))  # it may be another one by now
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OSError("it belongs to another user, or others can open it")


def _forget() -> None:
    for file in list(_files.values()):
        file.forget()


fork_safety.in_child(_forget)
