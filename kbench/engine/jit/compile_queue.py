"""Kernels on their way: which are still to be compiled, and which of them comes next.

Until its kernels are ready, a caller computes with NumPy. The time of that is what they would have
saved. So the next to be compiled are those without which callers have spent most, for the length of
their sources: a compiler takes about as long as a source is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, field

from kbench.engine.jit import loader
from kbench.engine.jit.compiling import compiler_process
from kbench.engine.runtime.pacer import Pacer

DRIVER = "driver"
"""Name of what runs all other kernels, and so comes before them."""
LEAST_CHARACTERS = 500
"""Characters of a source that would take as long as what each compile takes at least."""

Compiler = compiler_process.CompilerProcess | compiler_process.InProcessCompiler


class Job(Struct, eq=False):
    """One source on its way to being a kernel."""

    name: str
    text: Callable[[], str]
    state: str = "pending"  # then 'ready' or 'failed'
    key: str = ""
    module: loader.Loaded | None = None
    path: Path | None = None
    was_cached: bool = False
    seconds: float = 0.0
    reason: str = ""
    address: int = 0
    crashes: int = 0
    waiting: int = 0  # callers that do nothing else
    compiler: Compiler | None = None
    restarted: bool = False
    elsewhere_since: float = 0.0  # when another process was first found to compile it
    done: threading.Event = field(default_factory=threading.Event)
    pacer: Pacer | None = None
    written: str = ""  # the source, until its code is there
    guess: int = 0  # of the length of a source that nobody has written yet; 0 for all others

    def paced(self, seconds: float) -> Pacer:
        """How fast it runs here; `seconds` of an element are the guess until it has."""
        self.pacer = self.pacer or Pacer(seconds)
        return self.pacer

    @property
    def loaded(self) -> loader.Loaded:
        """What its source defined, once it is ready."""
        assert self.module is not None
        return self.module

    @property
    def length(self) -> int:
        """Characters of the source, about as many as long as it is not written."""
        return len(self.written) or self.guess or len(self.source)

    @property
    def source(self) -> str:
        """The generated source, as compiled."""
        text = self.written or self.text()
        if self.state == "pending":
            self.written = text
        return text


class CompileQueue:
    """Jobs that wait for a compiler. Whoever changes it holds the service's lock."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        """Those that wait; always the same list."""
        self.taken: set[Job] = set()
        """Those that a thread is busy with."""
        self.aside: dict[Job, float] = {}
        """Those that nobody looks at before a time."""
        self._here = threading.local()
        self._missed: dict[frozenset[Job], float] = {}

    def put(self, job: Job, first: bool = False) -> None:
        """Let a job wait; as the first of its like if it has been at a compiler before."""
        self.taken.discard(job)
        self.jobs.insert(0 if first else len(self.jobs), job)

    def take(self) -> Job:
        """The job that is to be compiled now, which waits no longer."""
        gains = self._gains()
        job = max(self.jobs, key=lambda job: (job.name == DRIVER, job.waiting > 0, gains[job]))
        self.jobs.remove(job)
        self.taken.add(job)
        return job

    def set_aside(self, job: Job, seconds: float) -> None:
        """Look at a job no sooner than after some seconds."""
        self.taken.discard(job)
        self.aside[job] = time.monotonic() + seconds

    def recall(self) -> None:
        """Let those wait again that were set aside for long enough."""
        now = time.monotonic()
        for job in [job for job, end in self.aside.items() if now >= end]:
            del self.aside[job]
            self.put(job, first=True)

    def clear(self) -> None:
        """Take no job any more."""
        self.jobs.clear()
        self.aside.clear()

    def miss(self, job: Job) -> None:
        """This thread has asked for a kernel that is not ready, and goes on with NumPy."""
        missed: set[Job] = self._here.__dict__.setdefault("missed", set())
        missed.add(job)

    def hold(self) -> set[Job]:
        """What this thread has missed so far, put aside while a step runs steps of its own: until
        `restore` these are charged for what they miss by themselves."""
        held: set[Job] = self._here.__dict__.pop("missed", set())
        return held

    def restore(self, held: set[Job]) -> None:
        """Go on with what was put aside."""
        self._here.missed = held

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Meanwhile this thread asks for no kernel that nobody has asked for: it computes what a
        kernel that is on its way will do, and more of them would only come later with it."""
        before = self.is_muted()
        self._here.muted = True
        try:
            yield
        finally:
            self._here.muted = before

    def is_muted(self) -> bool:
        """Whether this thread asks for nothing new."""
        return bool(self._here.__dict__.get("muted"))

    def charge(self, begun: float) -> float:
        """Charge the time since then to the kernels that this thread has missed meanwhile, which
        are needed together; gives the time now."""
        now = time.perf_counter()
        missed: set[Job] | None = self._here.__dict__.pop("missed", None)
        if missed:
            together = frozenset(missed)
            self._missed[together] = self._missed.get(together, 0.0) + now - begun
        return now

    def _gains(self) -> dict[Job, float]:
        """By job the best of what it may save: the time without kernels that are needed together,
        for the length of those of their sources that still wait."""
        lengths = {job: LEAST_CHARACTERS + job.length for job in (*self.jobs, *self.aside)}
        gains = dict.fromkeys(lengths, 0.0)
        for together, seconds in self._missed.copy().items():
            left = lengths.keys() & together
            if not left:
                self._missed.pop(together, None)
            for job in left:
                gains[job] = max(gains[job], seconds / sum(map(lengths.__getitem__, left)))
        return gains
