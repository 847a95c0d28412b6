"""Keys wait until the key before them has led where it leads.

A key travels from the app to the focused widget and back up, and what it asks for, such as a
dialog, may be some messages away. Meanwhile a key typed right behind it would still reach the pane
that had the focus before. So after a key that can lead elsewhere a probe is sent the same way,
again and again until it has found nothing changed; keys that come before it is back wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from textual.app import App

QUIET_ROUNDS = 3
"""Probes that find nothing changed before keys go on: no key here leads further than over two
widgets."""
LOST_PROBE_SECONDS = 0.02
"""Seconds after which a probe may have gone with a widget that was removed."""
MAX_HOLD_SECONDS = 1.0
"""Seconds for which a key is held at most: later it would surprise whoever typed it."""


class KeyProbe(Message):
    """Went the way of a key, behind it."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


class KeyQueue:
    """Lets keys through to `forward` one after the other. Runs within the app's own messages."""

    def __init__(self, app: App[int], forward: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._forward = forward
        self._waiting: deque[events.Event] = deque()
        self._blocked = False
        self._since = 0.0
        self._number = 0
        self._rounds_left = 0
        self._seen: tuple[object, object] = (None, None)
        self._probe_timer: asyncio.TimerHandle | None = None
        self._opening = 0  # dialogs that open once the kernel has answered

    @property
    def busy(self) -> bool:
        """Whether a key is still on its way."""
        return self._blocked

    async def take(self, event: events.Event) -> None:
        """A key, or pasted text, now or when its turn comes."""
        if self._blocked and self._app.is_running:
            self._waiting.append(event)
        else:
            await self._deliver(event)

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Around what a key has begun and what ends with a dialog."""
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    async def take_probe(self, message: KeyProbe) -> None:
        """The message is back."""
        if message.number == self._number and self._blocked:
            await self._probe_back()

    async def _deliver(self, event: events.Event) -> None:
        typed = isinstance(event, events.Paste) or (
            isinstance(event, events.Key) and event.is_printable
        )
        into = self._app.focused if self._app.screen_stack else None
        await self._forward(event)
        text = isinstance(into, (Input, TextArea)) and not getattr(into, "commanding", False)
        if not (typed and text):
            self._blocked, self._rounds_left, self._since = True, QUIET_ROUNDS, time.monotonic()
            self._send_probe()

    def _send_probe(self) -> None:
        app = self._app
        self._number += 1
        if not app.screen_stack:
            return
        self._seen = app.screen, app.focused
        (app.focused or app.screen).post_message(KeyProbe(self._number))
        self._wait()

    def _wait(self) -> None:
        """Look again although no message may come."""
        number = self._number
        loop = asyncio.get_running_loop()
        self._probe_timer = loop.call_later(
            LOST_PROBE_SECONDS, lambda: self._app.call_later(self._check_probe, number)
        )

    async def _check_probe(self, number: int) -> None:
        """The message is not back: is there still whom it was sent to?"""
        if number != self._number or not self._blocked:
            return
        here = self._app.screen_stack and self._seen == (self._app.screen, self._app.focused)
        if here and time.monotonic() - self._since < MAX_HOLD_SECONDS:
            self._wait()
        else:
            await self._probe_back()

    async def _probe_back(self) -> None:
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        app = self._app
        here = (app.screen, app.focused) if app.screen_stack else (None, None)
        self._rounds_left = QUIET_ROUNDS if here != self._seen else self._rounds_left - 1
        if time.monotonic() - self._since > MAX_HOLD_SECONDS:
            if self._opening:  # they were meant for a dialog that has not come
                self._waiting.clear()
            await self._unblock()
        elif self._opening and self._rounds_left <= 0:
            self._rounds_left = 1
            self._number += 1
            self._wait()
        elif self._rounds_left > 0:
            self._send_probe()
        else:
            await self._unblock()

    async def _unblock(self) -> None:
        self._blocked = False
        while self._waiting and not self._blocked:
            await self._deliver(self._waiting.popleft())
