"""Between the kernel session's threads and the app's event loop; loads the session off the loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from msgspec import Struct
from textual.message import Message

from kbench.tui.messages import LinkFailed, LinkReady, SessionEvent
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Question, ReplyData

if TYPE_CHECKING:
    from kbench.workbench.history.input_history import History
    from kbench.workbench.session.running_kernels import Kernel
    from kbench.workbench.session.session_interface import Completion, Session

SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter: a key passes three threads on its way to the screen,
and each hand-over waits so long while the session's thread reads a flood of output. By default it
is ten times as much."""
GC_THRESHOLDS = (5_000, 20, 20)
"""Of the collector of unreachable objects: young, middle and old."""


class Opened(Struct):
    """A session that is not started yet, and where the user's files are, if anywhere."""

    session: Session
    history: History | None = None
    folder: Path | None = None


Opener = Callable[[], Opened]


def open_kernel() -> Opened:
    """A session on a kernel process of its own, and the history of all sessions."""
    from kbench.engine.runtime import paths
    from kbench.workbench.history.input_history import History
    from kbench.workbench.session.kernel_session import KernelSession

    return Opened(_smooth(KernelSession()), History(), paths.state_dir())


def open_existing(kernel: Kernel) -> Opened:
    """A session in a kernel that runs already: an `running_kernels.Kernel`."""
    from kbench.engine.runtime import paths
    from kbench.workbench.history.input_history import History
    from kbench.workbench.session.attached_session import AttachedSession

    return Opened(_smooth(AttachedSession(kernel)), History(), paths.state_dir())


def _smooth(session: Session) -> Session:
    """Have the collector pass over all that is loaded once the kernel is there.

    The half a million objects of the packages, looked through each time, stop the screen for 50 ms
    and more. Only for a process that is the workbench's alone.
    """
    from kbench.workbench.session.events import Started

    gc.set_threshold(*GC_THRESHOLDS)
    session.events.subscribe(lambda event: gc.freeze() if isinstance(event, Started) else None)
    return session


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class AskFailed(Exception):
    """The inspector refused or did not answer; the text is for the user."""


class Link:
    """Owns the session. Everything but `start` and `close` is called on the event loop."""

    def __init__(self, post: Callable[[Message], object], opener: Opener = open_kernel) -> None:
        self._post = post
        self._opener = opener
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="kbench-link")
        self.session: Session | None = None
        self.history: History | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def attached(self) -> str:
        """The name of the kernel when it is somebody else's."""
        return str(getattr(self.session, "attached", ""))

    def start(self, opener: Opener | None = None) -> None:
        """Load and start the session in a thread; `LinkReady` or `LinkFailed` follows."""
        self._opener = opener or self._opener
        sys.setswitchinterval(SWITCH_SECONDS)
        threading.Thread(target=self._open, name="kbench-open", daemon=True).start()

    def _open(self) -> None:
        try:
            opened = self._opener()
            session, history = opened.session, opened.history
            older = history.latest() if history is not None else []
            session.events.subscribe(lambda event: self._post(SessionEvent(event)))
            with self._lock:
                if self._closed:
                    return
                self.session, self.history = session, history
                self._post(LinkReady(older, opened.folder))
                session.start()
        except Exception as error:  # whatever it is, the user must read it
            self._post(LinkFailed(f"{type(error).__name__}: {error}"))

    async def ask(self, question: Question[ReplyData], timeout: float = 5.0) -> ReplyData:
        """The inspector's answer.

        Raises:
            AskFailed: refused, timed out, or there is no session yet.
        """
        if self.session is None:
            raise AskFailed("the kernel is not there yet")
        future = asyncio.wrap_future(self.session.request(question.verb, **question.arguments()))
        try:
            reply = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise AskFailed(f"no answer within {timeout:g} s") from None
        try:
            return question.answer(reply)
        except ProtocolError as error:
            raise AskFailed(error.reason) from None

    async def complete(self, code: str, position: int) -> Completion | None:
        """Completions, None without a session."""
        if self.session is None:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self.session.complete, code, position)

    async def call(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Run something slow of the session in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def close(self, failed: bool = False) -> None:
        """End the session; waits until the kernel is gone. `failed`: not as its user wished."""
        with self._lock:
            self._closed = True
            session = self.session
        if session is not None:
            session.journal.unfinished |= failed
            session.shutdown()
        if self.history is not None:
            self.history.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


Work = Callable[[], Awaitable[None]]


class Latest:
    """Runs one request at a time and keeps only the newest that came meanwhile."""

    def __init__(self, start: Callable[[Work], object]) -> None:
        self._start = start
        self._running = False
        self._next: Work | None = None

    def submit(self, work: Work) -> None:
        """Run `work` now, or after the one under way unless a newer one comes."""
        self._next = work
        if not self._running:
            self._running = True
            self._start(self._drain)

    async def _drain(self) -> None:
        try:
            while self._next is not None:
                work, self._next = self._next, None
                await work()
        finally:
            self._running = False
