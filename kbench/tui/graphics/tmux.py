"""Who looks at this pane of tmux.

A picture goes through tmux to the terminals that show the pane then. One that is attached later, or
showed another window, has no part of it, and tmux tells a program of neither.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from kbench.engine.runtime.environment import env

ANSWER_SECONDS = 2.0
"""In which tmux answers."""
WATCH_SECONDS = 2.0
"""Between two looks whether those who have a picture are still there: a system call each, no more.
Only while nobody is there, or who has come has no name yet, tmux is asked as often, which takes
some 5 ms."""
NAME_SECONDS = 30
"""After it was attached, in which a terminal may still tell tmux what it is."""
_PANE = "#{allow-passthrough} #{window_id}"
_CLIENT = "#{client_pid} #{client_created} #{window_id} #{client_termtype}"


class Client(NamedTuple):
    """A terminal in which this pane is on the screen; `name` is what it says of itself."""

    pid: int
    created: str
    name: str


def clients() -> frozenset[Client] | None:
    """Those of this pane; None where tmux hands nothing on to them, or does not answer."""
    import subprocess

    pane = env("TMUX_PANE")
    target = ["-t", pane] if pane else []
    command = ["tmux", "display-message", "-p", *target, _PANE, ";", "list-clients", "-F", _CLIENT]
    try:
        told = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    first, *lines = told.stdout.decode(errors="replace").splitlines() or [""]
    allowed, _, ours = first.partition(" ")
    if allowed not in ("1", "on", "all"):
        return None
    rows = (line.split(" ", 3) for line in lines)
    found = (row for row in rows if len(row) == 4 and row[2] == ours and row[0].isdecimal())
    return frozenset(Client(int(pid), created, name) for pid, created, _, name in found)


def is_there(client: Client) -> bool:
    """Whether a terminal is still attached: its program runs on this machine."""
    try:
        os.kill(client.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def may_tell_its_name(client: Client) -> bool:
    """Whether a terminal was attached just now and tmux does not know yet what it is."""
    if client.name or not client.created.isdecimal():
        return False
    return time.time() - int(client.created) < NAME_SECONDS


class Viewers:
    """The terminals that show the pane; `came` is called with all of them when one has come.

    They are watched until tmux no longer hands anything on to them.
    """

    def __init__(self, came: Callable[[frozenset[Client]], None]) -> None:
        self._came = came
        self.known: frozenset[Client] = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._again = False

    async def begin(self) -> frozenset[Client]:
        """Those that there are; from now on they are watched."""
        found = await asyncio.to_thread(clients)
        self.known = found or frozenset()
        if found is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        return self.known

    def look(self) -> None:
        """Find out who looks now, beside the event loop; once more if that is under way."""
        if self._looking is not None and not self._looking.done():
            self._again = True
            return
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            self._again = False
            found = await asyncio.to_thread(clients)
            if found is None and self._watching is not None:
                self._watching.cancel()
            now = found or frozenset()
            new, self.known = now - self.known, now
            if new:
                self._came(now)
            if not self._again:
                return

    async def _watch(self) -> None:
        """Look whenever one of them has gone, and while there is none or one is new."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            stay = self.known and all(map(is_there, self.known))
            if not stay or any(map(may_tell_its_name, self.known)):
                self.look()

    def stop(self) -> None:
        """Call nobody any more."""
        for task in (self._looking, self._watching):
            if task is not None:
                task.cancel()
