"""Processes of a user that compile into one folder: each kernel once, and in turns."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbench.engine.jit import (
    compile_locks,
    compile_threads,
    compile_turns,
    disk_cache,
    thread_pool,
)
from kbench.engine.jit import service as jit_service
from kbench.engine.jit.compile_locks import LockFile
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.compiling import compiler_process
from tests.engine.jit.test_compile_locks import PLANTED, SECONDS, Other
from tests.engine.jit.test_service import with_driver

__all__ = ["with_driver"]

pytestmark = [
    pytest.mark.skipif(compile_locks.fcntl is None, reason="this system has no locks of bytes"),
    pytest.mark.timeout(120),
]

IMAGE = {"form": "image", "entries": {}, "bases": [], "externals": {}, "numbers": {}}


# ------------------------------------------------------------------ services


class Compiling:
    """Stands for the compilers of a service: each source waits until it may be done."""

    def __init__(self, outcome: str = "stored") -> None:
        self.asked: list[str] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.outcome = outcome

    def compile(self, job: Job) -> None:
        """In place of a service's own."""
        self.asked.append(job.name)
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        if self.outcome == "failed":
            raise compiler_process.CompileError("it cannot be compiled")
        _store(job.name)
        job.seconds = 1.0


def _source(name: str) -> str:
    return f"# {name}"


def _store(name: str) -> None:
    disk_cache.write(name, disk_cache.key_of(_source(name)), IMAGE, b"\xc3" * 16)


class Process:
    """A service that stands for a process of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: str = "stored") -> None:
        self.compiling = Compiling(outcome)
        self.waits = threading.Event()
        self.service = jit_service.Service()
        set_aside, compile_own = self.service.queue.set_aside, self.compiling.compile

        def aside(job: Job, seconds: float) -> None:
            set_aside(job, seconds)
            self.waits.set()

        def compiled(job: Job, *_: object) -> None:
            compile_own(job)
            assert self.service._load(job)

        monkeypatch.setattr(self.service.queue, "set_aside", aside)
        monkeypatch.setattr(self.service, "_compile", compiled)

    def ask(self, name: str) -> Job:
        """A job in the background."""
        job = self.service.submit(name, lambda: _source(name))
        assert job is not None
        return job


@pytest.fixture
def process(with_driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Process]]:
    """Makes what stands for processes with one cache, which has the driver."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(with_driver))
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setattr(compile_turns, "ASK_SECONDS", 0.001)
    monkeypatch.setattr(compile_threads, "LOOK_SECONDS", 0.001)
    made: list[Process] = []

    def make(outcome: str = "stored", turns: int = 9) -> Process:
        made.append(Process(monkeypatch, outcome))
        made[-1].service._turns.count = turns
        return made[-1]

    monkeypatch.setattr(compiler_process, "CompilerProcess", compiler_process.InProcessCompiler)
    monkeypatch.setattr(compiler_process.InProcessCompiler, "__init__", lambda self, urgent: None)
    yield make
    for one in made:
        one.compiling.go_on.set()
        one.service.stop()


def test_what_another_process_compiles_is_waited_for(process: Callable[..., Process]) -> None:
    """And other jobs are done meanwhile."""
    first, second = process(), process()
    first.ask("same")
    assert first.compiling.begun.wait(SECONDS)
    same = second.ask("same")
    assert second.waits.wait(SECONDS)
    other = second.ask("other")
    second.compiling.go_on.set()
    assert other.done.wait(SECONDS)
    assert (same.state, other.state) == ("pending", "ready")
    first.compiling.go_on.set()
    assert same.done.wait(SECONDS)
    assert (same.state, second.compiling.asked) == ("ready", ["other"])
    assert (second.service.stats().compiled, second.service.stats().cache_hits) == (1, 2)


def test_who_fails_keeps_nobody_waiting(process: Callable[..., Process]) -> None:
    first, second = process("failed"), process()
    failed = first.ask("same")
    assert first.compiling.begun.wait(SECONDS)
    same = second.ask("same")
    assert second.waits.wait(SECONDS)
    second.compiling.go_on.set()
    first.compiling.go_on.set()
    assert same.done.wait(SECONDS) and failed.done.wait(SECONDS)
    assert (failed.state, same.state, second.compiling.asked) == ("failed", "ready", ["same"])


def test_a_stuck_process_does_not_keep_a_kernel(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_locks, "STUCK_SECONDS", 1e-3)
    first, second = process(), process()
    first.ask("same")
    assert first.compiling.begun.wait(SECONDS)
    second.compiling.go_on.set()
    same = second.ask("same")
    assert same.done.wait(SECONDS)
    assert (same.state, second.compiling.asked) == ("ready", ["same"])


def test_without_a_turn_stored_kernels_are_loaded(process: Callable[..., Process]) -> None:
    first, second = process(turns=1), process(turns=1)
    first.ask("one")
    assert first.compiling.begun.wait(SECONDS)
    stored, missing = second.ask("stored"), second.ask("missing")
    _store("stored")
    assert stored.done.wait(SECONDS)
    assert (stored.state, missing.state, second.compiling.asked) == ("ready", "pending", [])
    first.compiling.go_on.set()
    second.compiling.go_on.set()
    assert missing.done.wait(SECONDS)
    assert (missing.state, second.compiling.asked) == ("ready", ["missing"])


def test_who_waits_needs_no_turn(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = process(turns=1), process(turns=1)
    first.ask("one")
    assert first.compiling.begun.wait(SECONDS)
    second.compiling.go_on.set()
    behind = second.ask("behind")
    monkeypatch.setenv("KBENCH_JIT", "wait")
    assert second.ask("awaited").state == "ready"
    assert (behind.state, second.compiling.asked) == ("pending", ["awaited"])
    with second.service.warming_up():
        assert behind.done.wait(SECONDS)


def test_a_kernel_waits_for_the_driver_of_another_process(
    process: Callable[..., Process],
) -> None:
    """Without it there would be nothing to run it with, and both threads would wait."""
    key = disk_cache.key_of(thread_pool.source())
    path = disk_cache.code_path("driver", key)
    driver = path.read_bytes()
    path.unlink()
    one = process()
    with compile_locks.claimed(key, 0.0) as is_ours:
        assert is_ours
        one.compiling.go_on.set()
        job = one.ask("kernel")
        assert one.compiling.begun.wait(SECONDS)
        assert (job.state, one.compiling.asked) == ("pending", ["kernel"])
        path.write_bytes(driver)
    assert job.done.wait(SECONDS)
    assert (job.state, one.compiling.asked) == ("ready", ["kernel"])


def test_no_call_of_the_user_asks_for_a_lock(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take long where the folder is another machine's."""
    seen: set[str] = set()
    take = LockFile.take

    def noted(self: LockFile, place: int) -> bool | None:
        seen.add(threading.current_thread().name)
        return take(self, place)

    monkeypatch.setattr(LockFile, "take", noted)
    one = process()
    one.compiling.go_on.set()
    assert one.ask("background").done.wait(SECONDS)
    monkeypatch.setenv("KBENCH_JIT", "wait")
    assert one.ask("awaited").state == "ready"
    assert one.service.wait_idle(SECONDS)
    assert seen == {compile_threads.THREAD_NAME}


@pytest.mark.parametrize("kind", ["link to a file", "pipe", "folder", "a file others may read"])
def test_with_something_planted_each_process_compiles(
    process: Callable[..., Process], kind: str
) -> None:
    PLANTED[kind](disk_cache.folder() / disk_cache.LOCK_NAME)
    first, second = process(turns=1), process(turns=1)
    jobs = [first.ask("same"), second.ask("same")]
    assert first.compiling.begun.wait(SECONDS) and second.compiling.begun.wait(SECONDS)
    first.compiling.go_on.set()
    second.compiling.go_on.set()
    assert all(job.done.wait(SECONDS) for job in jobs)
    assert [job.state for job in jobs] == ["ready", "ready"]


# ------------------------------------------------------------------ processes

ASKS = """
import sys
from kbench.engine.jit.service import service, stats
from kbench.engine.kernels.reduce import argreduce
texts = {
    "one": lambda: argreduce.source("argmax", "float32", True),
    "two": lambda: argreduce.source("argmin", "float64", True),
}
print("here", flush=True)
names = sys.stdin.readline().split()
states = [service.submit(name, texts[name]).state for name in names]
print(*states, stats().compiled, stats().cache_hits, flush=True)
"""


def test_two_processes_compile_each_kernel_once(with_driver: Path) -> None:
    """Each waits for what the other compiles, and neither for ever."""
    environment = {"KBENCH_CACHE_DIR": str(with_driver), "KBENCH_JIT": "wait"}
    both = [Other(ASKS, **environment) for _ in range(2)]
    assert [one.told() for one in both] == ["here", "here"]
    for one, names in zip(both, ("one two\n", "two one\n"), strict=True):
        one.process.stdin.write(names)
        one.process.stdin.flush()
    states = [one.told().split() for one in both]
    for one in both:
        one.process.communicate(timeout=SECONDS)
    assert [row[:2] for row in states] == [["ready"] * 2] * 2
    assert sum(int(row[2]) for row in states) == 2
    assert sum(int(row[3]) for row in states) == 4  # the driver, and the other's


KILLED = """
import threading
from kbench.engine.jit.compiling import compiler_process
from kbench.engine.jit.service import service


class Endless(compiler_process.InProcessCompiler):
    def compile(self, name, text, folder):
        print(name, flush=True)
        threading.Event().wait()


compiler_process.CompilerProcess = lambda urgent: Endless()
service.submit("same", lambda: "# same")
threading.Event().wait()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_a_kernel_whose_process_is_killed_is_compiled(
    process: Callable[..., Process], with_driver: Path
) -> None:
    killed = Other(KILLED, KBENCH_CACHE_DIR=str(with_driver), KBENCH_JIT="auto")
    try:
        assert killed.told() == "same"
        one = process()
        one.compiling.go_on.set()
        same = one.ask("same")
        assert one.waits.wait(SECONDS)
        assert (same.state, one.compiling.asked) == ("pending", [])
    finally:
        killed.kill()
    assert same.done.wait(SECONDS)
    assert (same.state, one.compiling.asked) == ("ready", ["same"])
