"""The terminal, where Textual's own driver leaves it alone: when it vanishes, or is taken up twice.

A terminal that is gone reads as empty for ever. Who ignores SIGHUP, as below `nohup`, would then
read it in a loop, and a thread that writes to it would end while the app waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from kbench.tui.graphics.graphics import Graphics
from kbench.tui.keys.bursts import BurstParser

if TYPE_CHECKING:
    from textual.app import App

TERMINAL_POLL_SECONDS = 2.0
"""Seconds between looks at the terminal, where the system does not tell of its end."""


class SurvivingStream:
    """A stream to a terminal; what cannot be written once the terminal is gone is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if there is still somebody who reads it."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Likewise."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TerminalDriver(LinuxDriver):
    """Tells the app, by its `terminal_gone`, that there is no terminal any more."""

    def __init__(self, app: App[int], **options: Any) -> None:
        drawn_on = sys.__stderr__  # which Textual's thread writes to
        if drawn_on is not None and not isinstance(drawn_on, SurvivingStream):
            setattr(sys, "__stderr__", SurvivingStream(drawn_on))  # noqa: B010 - typed as final
        self._strip: Callable[[str], str] | None = None
        super().__init__(app, **options)
        self._bench = app
        self._graphics: Graphics = getattr(app, "graphics", None) or Graphics()
        self._in_application_mode = False  # the screen is ours
        self._own_loop: asyncio.AbstractEventLoop | None = None
        if app.no_color:
            from kbench.tui.text.no_colours import stripped

            self._strip = stripped

    def write(self, data: str) -> None:
        """Draw; some styles, as that of a link below the mouse, come to no filter of the app."""
        data = data if self._strip is None else self._strip(data)
        super().write(self._graphics.written(data))

    def start_application_mode(self) -> None:
        """Take the screen; from the first time on, watch whether there is one."""
        self._in_application_mode = True
        if self._own_loop is None:
            self._own_loop = asyncio.get_running_loop()
            gone: Callable[[], None] = getattr(self._bench, "terminal_gone", self._bench.exit)
            threading.Thread(
                target=self._watch, args=(gone,), name="kbench-terminal", daemon=True
            ).start()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if os.isatty(self.fileno):
            self._graphics.use(super().write, self.fileno)
            self._heed_resizes(self._own_loop)

    def _heed_resizes(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the app of each, also of one to the same size: that is how programs such as dtach
        say that there is another terminal."""
        textual = signal.getsignal(signal.SIGWINCH)
        resized: Callable[[], object] = getattr(self._bench, "terminal_resized", lambda: None)

        def heed(number: int, frame: FrameType | None) -> None:
            if callable(textual):
                textual(number, frame)
            loop.call_soon_threadsafe(self._bench.call_later, resized)

        signal.signal(signal.SIGWINCH, heed)

    def stop_application_mode(self) -> None:
        """Give the screen back, and what the terminal keeps of pictures."""
        self._graphics.leave()
        super().stop_application_mode()
        self._in_application_mode = False

    def close(self) -> None:
        """The end: nothing that the terminal could still say is waited for."""
        self._graphics.stop()
        super().close()

    def resume_application_mode(self) -> None:
        """Go on. Some signals to go on had none to stop before: the screen is ours already.

        A terminal that vanishes sends one, too. Textual would read the keys in one thread more.
        """
        if not self._in_application_mode:
            super().resume_application_mode()
        elif self._own_loop is not None and os.isatty(self.fileno):
            # Not within the signal's handler, which may have broken into a write.
            self._own_loop.call_soon_threadsafe(self._retake)

    def _retake(self) -> None:
        """Whoever had the terminal meanwhile has left it in another state."""
        self.suspend_application_mode()
        self.start_application_mode()
        self._bench.refresh(layout=True)

    def run_input_thread(self) -> None:
        """Read the keys; text that comes as a burst of them is pasted."""
        made = partial(BurstParser, answers=self._graphics.answers)
        setattr(linux_driver, "XTermParser", made)  # noqa: B010 - what the thread makes
        super().run_input_thread()

    def _watch(self, gone: Callable[[], None]) -> None:
        """Wait for the end of the terminal, which costs nothing until then."""
        poller = select.poll()
        poller.register(self.fileno, 0)  # for nothing but its end, of which poll always tells
        while os.isatty(self.fileno):
            if poller.poll(TERMINAL_POLL_SECONDS * 1000):
                time.sleep(
                    TERMINAL_POLL_SECONDS / 20
                )  # not the end after all: a system that cannot wait for it
        self._bench.call_later(gone)
