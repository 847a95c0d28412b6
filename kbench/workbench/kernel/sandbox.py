"""Runs a piece of code beside the user's program, within a time, and stops it when a cell begins.

It runs on a thread of its own that only looks (`engine/runtime/read_only.py`). The state of numpy's
and Python's random numbers is put back behind it. What does not stop, such as one long call of
NumPy's, is left to its end; nobody waits for it.
"""

from __future__ import annotations

import ctypes
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from kbench.engine.core import cancel, fork_safety
from kbench.engine.graph import scope
from kbench.engine.runtime import read_only

ENGINE_STOP_SECONDS = 0.03
"""That the engine's own way to stop gets before Python's, and Python's each time."""
STOP_SECONDS = 0.25
"""After which what does not stop is left alone."""
MAX_STUCK_THREADS = 2
"""Threads left alone, from which on nothing new is begun."""
REST_SECONDS = 0.02
"""For which the state of the random numbers is watched, to see whether other threads draw."""


Value = TypeVar("Value", covariant=True)  # whoever has an outcome only reads it
Result = TypeVar("Result", covariant=True)
UnraisableHook = Callable[["sys.UnraisableHookArgs"], object]


class Halted(BaseException):
    """Raised in the thread that shall stop."""


class _SilencedHalts:
    """While somebody is stopped: keeps quiet of a `Halted` that Python could not raise.

    It may come as the collector calls finalizers, which swallow it with a report; it is sent again.
    """

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._count = 0
        self._before = self._own = sys.unraisablehook

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before = sys.unraisablehook
                self._own = sys.unraisablehook = _without_halted(self._before)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and sys.unraisablehook is self._own:
                sys.unraisablehook = self._before


def _without_halted(before: UnraisableHook) -> UnraisableHook:
    def hook(report: sys.UnraisableHookArgs) -> None:
        if not issubclass(report.exc_type, Halted):
            before(report)

    return hook


_silenced_halts = _SilencedHalts()


class Outcome(Generic[Value], Struct):
    """What became of it. `stopped`: '', 'time', 'cell' (one began), 'stuck' (others still run)."""

    value: Value | None = None
    error: BaseException | None = None
    stopped: str = ""
    seconds: float = 0.0
    used_random: bool = False  # from numpy's or Python's random numbers


class _RandomState:
    """The state of the random numbers that a program shares with whoever runs beside it."""

    def __init__(self) -> None:
        self._numpy, self._python = np.random.get_state(), random.getstate()

    def moved(self) -> bool:
        """Whether anybody has drawn since."""
        now: Any = np.random.get_state()
        then: Any = self._numpy
        same = now[0] == then[0] and now[2:] == then[2:] and np.array_equal(now[1], then[1])
        return not same or random.getstate() != self._python

    def restore(self) -> bool:
        """Put it back; True when it was another."""
        if not self.moved():
            return False
        np.random.set_state(self._numpy)
        random.setstate(self._python)
        return True


class _Draws:
    """Undoes what is drawn beside the program, by all that runs there at a time.

    They share the state from before the first of them: who put back a state of its own would keep
    what another had drawn until then.
    """

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._before: _RandomState | None = None
        self._running = 0
        self._moves = 0

    def begin(self) -> _Visit:
        """Somebody begins to run beside the program."""
        with self._lock:
            if self._before is None:
                self._before, self._running = _RandomState(), 0
            self._running += 1
            return _Visit(self._before, self._moves)

    def end(self, visit: _Visit) -> bool:
        """It has ended; whether anybody has drawn meanwhile, which is undone."""
        with self._lock:
            if visit.before is self._before:
                self._moves += visit.before.restore()
                self._running -= 1
                if not self._running:
                    self._before = None
            return self._moves != visit.moves

    def undo(self) -> None:
        """The program goes on: what is drawn from now on may be its own."""
        with self._lock:
            if self._before is not None:
                self._moves += self._before.restore()
                self._before = None


class _Visit(NamedTuple):
    before: _RandomState
    moves: int  # times that draws were undone, until it began


_draws = _Draws()
ALONE = fork_safety.lock()
"""Held by whoever runs something again, to see whether that draws: one of all sandboxes."""


def others_draw() -> bool:
    """Whether another thread draws random numbers within a moment, in which the caller rests."""
    state = _RandomState()
    time.sleep(REST_SECONDS)
    return state.moved()


class _Job(Generic[Result]):
    """One thread, from its beginning to its end."""

    def __init__(self, action: Callable[[], Result], visit: _Visit | None) -> None:
        self.outcome: Outcome[Result] = Outcome()
        self.wake = threading.Event()  # it is done, or a cell has begun
        self.lock = fork_safety.lock()
        self.begun = self.over = False
        self.visit = visit
        self._action = action
        self.thread = threading.Thread(target=self._run, name="kbench-beside", daemon=True)

    def _run(self) -> None:
        outcome, began = self.outcome, time.perf_counter()
        try:
            with self.lock:
                if self.over:  # it was stopped before it began
                    return
                self.begun = True
            try:
                with read_only.evaluation(), scope.name_scope("watch"), np.errstate(all="ignore"):
                    outcome.value = self._action()
            except BaseException as error:  # SystemExit too: it must not end anything
                outcome.error = error
            finally:
                outcome.seconds = time.perf_counter() - began
                with self.lock:
                    self.over = True
        except Halted as error:  # it came before the action, or as that ended by itself
            self.over = True
            if outcome.value is None and outcome.error is None:
                outcome.error = error
        self.wake.set()

    def ended(self, seconds: float) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def halt(self) -> bool:
        """Stop the thread: the engine's way first, then Python's. False when it goes on."""
        with self.lock:
            if not self.begun:  # on a busy machine
                self.over = True
                return True
        ident = self.thread.ident or 0
        cancel.request(ident)
        deadline = time.monotonic() + STOP_SECONDS
        if self.ended(ENGINE_STOP_SECONDS):
            return True
        while time.monotonic() < deadline:
            with self.lock:
                if not self.over and not _imports(ident):
                    kind = ctypes.py_object(Halted)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), kind)
            if self.ended(ENGINE_STOP_SECONDS):
                return True
        return False


def _imports(ident: int) -> bool:
    """Whether a thread is within an import, which would leave half a module when it is stopped."""
    frame = sys._current_frames().get(ident)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Sandbox:
    """One thing at a time beside the program. `block` and `unblock` come with each cell.

    Without `restores_random` the state of the random numbers is left alone, for what draws none.
    """

    def __init__(self, restores_random: bool = True) -> None:
        self._restores_random = restores_random
        self._lock = fork_safety.lock()
        self._turn = fork_safety.lock()  # held by whoever runs something
        self._job: _Job[object] | None = None
        self._blocked = False
        self._stuck: list[threading.Thread] = []

    @property
    def blocked(self) -> bool:
        """Whether a cell runs, so that nothing is begun."""
        return self._blocked

    def block(self) -> None:
        """A cell begins: what runs shall stop. Returns at once."""
        _draws.undo()
        self.close()

    def close(self) -> None:
        """Stop what runs, undo its draws, and begin nothing more. Returns at once."""
        with self._lock:
            self._blocked = True
            self._restore_random()
            if self._job is not None:
                self._job.wake.set()

    def unblock(self) -> None:
        """The cell has ended."""
        self._blocked = False

    def halt(self) -> None:
        """Stop what runs, as its user asks."""
        with self._lock:
            if self._job is not None:
                self._job.wake.set()

    def _restore_random(self) -> None:
        """Undo draws, once, and never after a cell has begun: then they may be the cell's."""
        job = self._job
        if job is not None and job.visit is not None:
            visit, job.visit = job.visit, None
            job.outcome.used_random = _draws.end(visit)

    def run_in_cell(
        self, action: Callable[[], Result], seconds: float, wait: float = 0.0
    ) -> Outcome[Result]:
        """As `run`, while a cell runs whose thread asks for it, and so waits.

        What still stops from before the cell has `wait` seconds for it; then nothing is run.
        """
        if not self._turn.acquire(timeout=wait):
            return Outcome(stopped="stuck")
        try:
            return self._run(action, seconds, in_cell=True)
        finally:
            self._turn.release()

    def run(self, action: Callable[[], Result], seconds: float) -> Outcome[Result]:
        """Run `action` for at most `seconds`; its result, or what stopped it."""
        with self._turn:
            return self._run(action, seconds, in_cell=False)

    def _run(self, action: Callable[[], Result], seconds: float, in_cell: bool) -> Outcome[Result]:
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        if len(self._stuck) >= MAX_STUCK_THREADS:
            return Outcome(stopped="stuck")
        with self._lock:
            if self._blocked and not in_cell:
                return Outcome(stopped="cell")
            job = _Job(action, _draws.begin() if self._restores_random else None)
            self._job = job
        job.thread.start()
        try:
            job.wake.wait(seconds)
        except BaseException:  # an interrupt of whoever waits
            self._abandon(job)
            raise
        outcome = job.outcome
        if not job.over:
            stopped = "cell" if self._blocked and not in_cell else "time"
            with _silenced_halts:
                gone = job.halt()
            if not gone:
                self._stuck.append(job.thread)
                outcome = Outcome(seconds=seconds)
            late = not job.begun
            if late or not gone or isinstance(outcome.error, (Halted, KeyboardInterrupt)):
                outcome.stopped = stopped
        with self._lock:
            self._restore_random()
            outcome.used_random = job.outcome.used_random
            self._job = None
        return outcome

    def _abandon(self, job: _Job[object]) -> None:
        """Stop a job whose outcome nobody waits for any more."""
        with _silenced_halts:
            if not job.halt():
                self._stuck.append(job.thread)
        with self._lock:
            self._restore_random()
            self._job = None
