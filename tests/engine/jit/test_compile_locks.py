"""Locks that processes share who compile into one folder: whose they are, and who has none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbench.engine.jit import compile_locks, disk_cache
from kbench.engine.jit.compile_locks import LockFile
from tests.engine.runtime.test_paths import MADE

pytestmark = [
    pytest.mark.skipif(compile_locks.fcntl is None, reason="this system has no locks of bytes"),
    pytest.mark.timeout(120),
]

SECONDS = 60.0
"""How long a test waits for what must come."""
KEY = "0123456789abcdef"


class Other:
    """Another process, which does what it is told, line by line."""

    def __init__(self, program: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            cwd=Path(__file__).parents[3],
        )

    def told(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        """Its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.told()

    def kill(self) -> None:
        """End it, as the system does where memory is short."""
        self.process.kill()
        self.process.communicate()


# ------------------------------------------------------------------ locks

HOLDER = """
import sys
from pathlib import Path
from kbench.engine.jit.compile_locks import LockFile
file = LockFile(Path(sys.stdin.readline().strip()))
print("here", flush=True)
for line in sys.stdin:
    verb, place = line.split()
    print(getattr(file, verb)(int(place)), flush=True)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Other]:
    """A process that locks bytes of `tmp_path/lock`."""
    holder = Other(HOLDER)
    assert holder.tell(str(tmp_path / "lock")) == "here"
    yield holder
    holder.kill()


def test_a_byte_is_of_one_process(tmp_path: Path, other: Other) -> None:
    file = LockFile(tmp_path / "lock")
    assert other.tell(f"take {1 << 61}") == "True"
    assert file.take(1 << 61) is False and file.take(7) is True
    assert other.tell("take 7") == "False"
    file.give_back(7)
    assert other.tell("take 7") == "True"
    other.tell(f"give_back {1 << 61}")
    assert file.take(1 << 61) is True and file.take(7) is False
    assert (tmp_path / "lock").stat().st_size == 0


def test_what_a_killed_process_had_is_free(tmp_path: Path, other: Other) -> None:
    file = LockFile(tmp_path / "lock")
    assert other.tell("take 7") == "True"
    assert file.take(7) is False
    other.kill()
    assert file.take(7) is True


def test_threads_of_a_process_exclude_each_other(tmp_path: Path) -> None:
    file = LockFile(tmp_path / "lock")
    assert [file.take(7), file.take(7), file.take(8)] == [True, False, True]
    file.give_back(7)
    assert file.take(7) is True


def _descriptors(path: Path) -> int:
    """How many descriptors of this process are of a file."""
    found = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(one) == str(path) for one in found)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
def test_the_file_is_open_only_while_something_is_locked(tmp_path: Path, other: Other) -> None:
    path = tmp_path / "lock"
    file = LockFile(path)
    assert other.tell("take 9") == "True"
    assert file.take(9) is False and _descriptors(path) == 0
    file.take(7)
    file.take(8)
    file.give_back(7)
    assert _descriptors(path) == 1
    file.give_back(8)
    assert _descriptors(path) == 0


def test_a_program_that_closes_all_descriptors_keeps_its_own(tmp_path: Path) -> None:
    """One that has the number now is another file's, which is neither unlocked nor closed."""
    file = LockFile(tmp_path / "lock")
    file.take(7)
    descriptor = file._descriptor
    (tmp_path / "mine").write_text("mine")
    os.close(descriptor)
    mine = os.open(tmp_path / "mine", os.O_RDONLY)
    assert mine == descriptor
    file.give_back(7)
    assert os.read(mine, 4) == b"mine"
    os.close(mine)
    assert file.take(7) is True


def test_a_file_that_was_removed_is_made_again(tmp_path: Path, other: Other) -> None:
    file = LockFile(tmp_path / "lock")
    assert other.tell("take 7") == "True"
    (tmp_path / "lock").unlink()
    assert file.take(7) is True  # nobody is kept from compiling
    file.give_back(7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_none_of_its_parents_locks(tmp_path: Path) -> None:
    """And leaves those alone, also as it ends."""
    program = """
import os, sys, warnings
from pathlib import Path
from kbench.engine.jit import compile_locks
warnings.simplefilter("ignore", DeprecationWarning)
path = Path(sys.argv[1])
file = compile_locks._files[path] = compile_locks.LockFile(path)
assert file.take(7)
for _ in range(2):
    child = os.fork()
    if child == 0:
        assert file._descriptor == -1
        file.give_back(7)
        os._exit(file.take(7) is False and file.take(8) is True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file.take(7))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lock")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=Path(__file__).parents[3],
    )
    assert (done.stdout.split(), done.stderr) == (["1", "False"] * 2, "")


def _others_file(path: Path) -> None:
    path.touch(0o600)
    path.chmod(0o644)  # whoever can read it can lock it


def _link(path: Path) -> None:
    path.with_name("target").touch(0o600)
    path.symlink_to("target")


PLANTED: dict[str, Callable[[Path], object]] = {
    **{kind: make for kind, make in MADE.items() if kind != "terabyte"},
    "a file others may read": _others_file,
    "link to a file": _link,
    "link to nothing": lambda path: path.symlink_to("target"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_what_may_be_somebody_elses_is_not_locked(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    PLANTED[kind](path)
    before = path.lstat()
    assert LockFile(path).take(7) is None
    assert path.lstat() == before
    assert (tmp_path / "target").exists() == (kind == "link to a file")


def test_a_file_of_another_user_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch(0o600)
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    assert LockFile(tmp_path / "lock").take(7) is None


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.EBADF])
def test_a_server_of_files_may_have_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(compile_locks.fcntl, "lockf", refused)
    assert LockFile(tmp_path / "lock").take(7) is None


def test_a_full_disk_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    assert LockFile(tmp_path / "lock").take(7) is None


# ------------------------------------------------------------------ claims


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    return disk_cache.folder()


def _claimed(waited: float) -> bool:
    with compile_locks.claimed(KEY, waited) as is_ours:
        return is_ours


def test_somebody_steps_in_for_a_holder_that_is_stuck(folder: Path) -> None:
    """One after the other; and at last everybody compiles for himself."""
    late = compile_locks.STUCK_SECONDS
    with compile_locks.claimed(KEY, 0.0) as is_ours:
        assert is_ours and not _claimed(0.0) and not _claimed(late - 1)
        with compile_locks.claimed(KEY, late) as stands_in:
            assert stands_in and not _claimed(late) and _claimed(2 * late)
        assert _claimed(late)
    assert _claimed(0.0)
    holders = [compile_locks.claimed(KEY, number * late) for number in range(4)]
    assert [one.__enter__() for one in holders] == [True] * 4
    assert not _claimed(4 * late - 1) and _claimed(4 * late)
    for one in holders:
        one.__exit__(None, None, None)


def test_the_file_of_locks_is_kept(folder: Path) -> None:
    assert _claimed(0.0)
    path = folder / disk_cache.LOCK_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    os.utime(path, (0, 0))
    disk_cache.prune()
    assert path.exists()


def _read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(disk_cache, "_folders", {})
    monkeypatch.setattr(disk_cache, "_unwritable", set())
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="cannot be written"):
        patch.setattr(disk_cache.tempfile, "mkstemp", fail)
        disk_cache.folder()


def test_where_nothing_is_shared_nobody_waits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _read_only(patch)
        assert compile_locks.shared() is None
        with compile_locks.claimed(KEY, 0.0) as first:
            assert first and _claimed(0.0)
    monkeypatch.setattr(compile_locks, "fcntl", None)
    assert compile_locks.shared() is None
    assert list(folder.iterdir()) == []
