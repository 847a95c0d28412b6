"""The library compiles while a session waits at its prompt, so that later cells find its kernels.

It begins once nothing has run for some time, takes one kernel after the other, and pauses as soon
as a cell runs. What a cell asks for comes first anyway. Where the whole library has been compiled,
or comes with the package `kbench-kernels`, nothing is done.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kbench.engine.jit import disk_cache, kernel_pack
from kbench.engine.jit.service import service
from kbench.engine.kernels import registry
from kbench.engine.runtime import config

IDLE_SECONDS = 20.0
"""Time without a cell before it begins: whoever types something is not to notice it."""
LOOK_SECONDS = 0.5
"""Longest time between two looks at whether a cell runs."""

_NAME = "library"


class IdleWarmup:
    """Compiles the library between cells. `pause` as a cell begins, `resume` as it ends."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._running = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def resume(self) -> None:
        """Nothing runs from now on."""
        self._running.clear()
        if self._thread is None and config.jit_mode() == "auto":
            self._thread = threading.Thread(target=self._work, name="kbench-idle", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """A cell runs."""
        self._running.set()

    def stop(self) -> None:
        """Do nothing more."""
        self._stopped.set()

    def _work(self) -> None:
        if not self._wait_until_idle() or _is_compiled():  # seen late: a session starts at once
            return
        left = registry.catalogue()
        while left:
            left = self._compile(left)
            if config.jit_mode() != "auto" or (left and not self._wait_until_idle()):
                return
        _note_compiled()

    def _wait_until_idle(self) -> bool:
        """Wait until nothing has run for the time that is set; False when it is to stop."""
        quiet = 0.0
        while quiet < self._idle_seconds:
            if self._stopped.wait(LOOK_SECONDS):
                return False
            busy = self._running.is_set() or service.pending()
            quiet = 0.0 if busy else quiet + LOOK_SECONDS
        return True

    def _compile(self, entries: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        """Compile until a cell runs; gives the entries that are left."""
        for number, entry in enumerate(entries):
            registry.find(*entry)
            while service.pending():
                if self._running.is_set() or self._stopped.is_set():
                    return list(entries[number:])
                service.wait_for_change(LOOK_SECONDS)
            registry.find(*entry)  # some ask for more once they have the first
        return []


def _key() -> str:
    return disk_cache.key_of(repr(registry.catalogue()))


def _is_compiled() -> bool:
    """Whether all of the library has been compiled here, or ahead."""
    return kernel_pack.is_usable() or disk_cache.source_path(_NAME, _key()).is_file()


def _note_compiled() -> None:
    disk_cache.write_source(_NAME, _key(), "# All kernels of the library have been compiled.\n")
