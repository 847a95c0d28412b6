"""Processes that share a folder of kernels: each kernel is compiled by one of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbench.engine.core import fork_safety
from kbench.engine.jit import compile_threads, disk_cache, thread_pool
from kbench.engine.jit import service as jit_service
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.compiling import compile_lock, compiler_process
from kbench.engine.jit.compiling.compile_lock import claimed
from kbench.engine.runtime import threads
from tests.engine.jit.test_service import with_driver

__all__ = ["with_driver"]

pytestmark = [
    pytest.mark.skipif(compile_lock.fcntl is None, reason="this system has no such locks"),
    pytest.mark.timeout(120),
]

SECONDS = 60.0
"""How long a test waits for what must come."""
KEY = "0123456789abcdef"
IMAGE = {"form": "image", "entries": {}, "bases": [], "externals": {}, "numbers": {}}


def _store(name: str, key: str = "") -> None:
    disk_cache.write(name, key or disk_cache.key_of(_source(name)), IMAGE, b"\xc3" * 16)


def _source(name: str) -> str:
    return f"# {name}"


# ------------------------------------------------------------------ locks


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the lock of a kernel lies, in an empty cache."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    return disk_cache.folder() / f"some-{KEY}.lock"


def test_a_kernel_is_claimed_by_one(lock: Path) -> None:
    with claimed("some", KEY) as first, claimed("some", KEY) as second:
        assert (first, second, lock.stat().st_mode & 0o777) == (True, False, 0o600)
        with claimed("other", KEY) as other:
            assert other
    with claimed("some", KEY) as again:
        assert again
    assert list(lock.parent.iterdir()) == []


def test_a_kernel_that_cannot_be_compiled_is_let_go(lock: Path) -> None:
    with pytest.raises(ValueError, match="no kernel"), claimed("some", KEY):
        raise ValueError("it defines no kernel")
    with claimed("some", KEY) as again:
        assert again


def test_what_is_stored_by_now_is_not_compiled(lock: Path) -> None:
    _store("some", KEY)
    with claimed("some", KEY) as is_ours:
        assert not is_ours
    disk_cache.code_path("some", KEY).write_bytes(b"half a file")
    with claimed("some", KEY) as is_ours:
        assert is_ours


def test_a_process_that_is_killed_holds_nothing(lock: Path) -> None:
    program = f"""
import time
from kbench.engine.jit.compiling.compile_lock import claimed
with claimed("some", {KEY!r}) as is_ours:
    print(is_ours, flush=True)
    time.sleep({SECONDS})
"""
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        with claimed("some", KEY) as is_ours:
            assert not is_ours
    finally:
        other.kill()
        other.communicate()
    with claimed("some", KEY) as is_ours:
        assert is_ours and lock.exists()
    assert not lock.exists()


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to("target"),
    "file that cannot be opened": lambda path: path.parent.chmod(0o500),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_where_a_lock_cannot_lie_each_compiles(lock: Path, kind: str) -> None:
    IN_THE_WAY[kind](lock)
    try:
        with claimed("some", KEY) as first, claimed("some", KEY) as second:
            assert first and (second or (kind.startswith("file") and os.getuid() == 0))
        assert not (lock.parent / "target").exists()
    finally:
        lock.parent.chmod(0o700)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_server_of_files_may_have_no_locks(
    lock: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(compile_lock.fcntl, "flock", refused)
    with claimed("some", KEY) as first, claimed("some", KEY) as second:
        assert first and second


def test_a_full_disk_has_no_lock(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with claimed("some", KEY) as first, claimed("some", KEY) as second:
        assert first and second


def test_who_does_not_share_needs_no_lock(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with claimed("some", "") as is_ours:
        assert is_ours
    monkeypatch.setattr(compile_lock, "fcntl", None)
    with claimed("some", KEY) as first, claimed("some", KEY) as second:
        assert first and second and list(lock.parent.iterdir()) == []


# ------------------------------------------------------------------ services


class Compiling(compiler_process.InProcessCompiler):
    """In place of a compiler: what is named `shared` another process compiles."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.tried = threading.Event()

    def compile(self, name: str, text: str, folder: Path, shared_key: str = "") -> str | None:
        """The key of what is stored at once; None for what another process compiles."""
        self.asked.append((name, bool(shared_key)))
        if name == "shared" and shared_key:
            self.tried.set()
            return None
        _store(name)
        return disk_cache.key_of(text)


class Process:
    """A service, with what compiles for it."""

    def __init__(self, compiling: Compiling) -> None:
        self.compiling = compiling
        self.service = jit_service.Service()

    def ask(self, name: str) -> Job:
        """A job in the background."""
        job = self.service.submit(name, lambda: _source(name))
        assert job is not None
        return job


@pytest.fixture
def process(with_driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """One with a cache that has the driver."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(with_driver))
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setattr(compile_threads, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(threads, "compilers", 0)
    compiling = Compiling()
    monkeypatch.setattr(compiler_process, "CompilerProcess", lambda urgent: compiling)
    one = Process(compiling)
    yield one
    one.service.stop()


def test_what_another_process_compiles_is_loaded_once_it_is_there(process: Process) -> None:
    """Other kernels are compiled meanwhile. A core is left to no compiler, but what repeats is not
    captured without the kernel."""
    shared = process.ask("shared")
    assert process.compiling.tried.wait(SECONDS)
    other = process.ask("other")
    assert other.done.wait(SECONDS)
    assert (shared.state, other.state) == ("pending", "ready")
    end = time.monotonic() + SECONDS
    while not process.service.queue.aside:
        assert time.monotonic() < end
    assert process.service.is_compiling()
    _store("shared")
    assert shared.done.wait(SECONDS)
    assert (shared.state, shared.was_cached, other.was_cached) == ("ready", True, False)
    assert not process.service.is_compiling()


@pytest.mark.parametrize("mode", ["auto", "wait"])
def test_a_process_that_is_stuck_keeps_no_kernel(
    process: Process, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    limit = "STUCK_SECONDS" if mode == "auto" else "AWAITED_STUCK_SECONDS"
    monkeypatch.setattr(compile_threads, limit, 0.01)
    shared = process.ask("shared")
    assert shared.done.wait(SECONDS)
    assert (shared.state, process.compiling.asked[-1]) == ("ready", ("shared", False))
    assert len(process.compiling.asked) > 1


def test_what_waits_for_another_process_ends_with_the_service(process: Process) -> None:
    process.ask("shared")
    assert process.compiling.tried.wait(SECONDS)
    process.service.stop()
    assert not process.service._threads and not process.service.is_compiling()


def test_a_kernel_is_ready_after_the_driver_of_another_process(process: Process) -> None:
    """Without it there is nothing to run it with, and the thread must not wait for that."""
    path = disk_cache.code_path("driver", disk_cache.key_of(thread_pool.source()))
    driver = path.read_bytes()
    path.unlink()
    compile_own = process.compiling.compile

    def compiled(name: str, *rest: object) -> str | None:
        return None if name == "driver" else compile_own(name, *rest)  # type: ignore[arg-type]

    process.compiling.compile = compiled  # type: ignore[method-assign, assignment]
    job = process.ask("kernel")
    end = time.monotonic() + SECONDS
    while len(process.service.queue.aside) < 2:
        assert time.monotonic() < end
    assert job.state == "pending"
    whole = path.with_suffix(".whole")  # who reads half of a file throws it away
    whole.write_bytes(driver)
    whole.replace(path)
    assert job.done.wait(SECONDS) and job.state == "ready"


def test_who_sees_a_kernel_finds_no_compiler_at_work(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the thread takes to look for its next job; nothing is captured until then."""
    go_on = threading.Event()
    plain = process.service._compile

    def slow(*arguments: object) -> None:
        plain(*arguments)  # type: ignore[arg-type]
        assert go_on.wait(SECONDS)

    monkeypatch.setattr(process.service, "_compile", slow)
    job = process.ask("kernel")
    assert threads.is_compiling()
    assert process.service.wait_idle(SECONDS)
    assert (job.state, process.service.is_compiling()) == ("ready", False)
    go_on.set()


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


@pytest.mark.slow
def test_two_processes_compile_each_kernel_once(with_driver: Path) -> None:
    """Each waits for what the other compiles, and neither for ever."""
    environment = {**os.environ, "KBENCH_CACHE_DIR": str(with_driver), "KBENCH_JIT": "wait"}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", ASKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[3],
        )
        for _ in range(2)
    ]
    assert [one.stdout and one.stdout.readline() for one in both] == ["here\n"] * 2
    for one, names in zip(both, ("one two\n", "two one\n"), strict=True):
        assert one.stdin is not None
        one.stdin.write(names)
        one.stdin.flush()
    rows = [one.communicate(timeout=SECONDS)[0].split() for one in both]
    assert [row[:2] for row in rows] == [["ready"] * 2] * 2
    assert sum(int(row[2]) for row in rows) == 2
    assert sum(int(row[3]) for row in rows) == 4  # the driver, and the other's


def test_no_fork_happens_while_a_compiler_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child would keep a pipe open whose end the parent waits for, as long as it lives."""
    seen = []

    def look(*_: object, **__: object) -> None:
        seen.append(threading.get_ident() in fork_safety.unforked._inside)
        raise OSError("no processes here")

    monkeypatch.setattr(subprocess, "Popen", look)
    with pytest.raises(OSError, match="no processes here"):
        compiler_process.CompilerProcess()
    assert seen == [True] and threading.get_ident() not in fork_safety.unforked._inside
