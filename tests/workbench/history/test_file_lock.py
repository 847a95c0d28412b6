"""No two sessions write one journal, on systems with either kind of mark."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kbench.workbench.history import file_lock, journal
from kbench.workbench.history.file_lock import try_lock
from kbench.workbench.history.journal import Journal
from kbench.workbench.session import events


class Msvcrt(ModuleType):
    """Windows' module: a mark on a byte, here kept with the whole file by what Linux has."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.bytes: list[tuple[int, int]] = []  # the place and the file's size at each call

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (self.LK_NBLCK, 1)
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        self.bytes.append((place, os.fstat(descriptor).st_size))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.fixture(params=["fcntl", "msvcrt"])
def marks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One kind of mark after the other."""
    stand_in = Msvcrt()
    if request.param == "msvcrt":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    yield
    assert bool(stand_in.bytes) == (request.param == "msvcrt")
    assert all(place > size + 1_000_000_000 for place, size in stand_in.bytes)


@pytest.mark.usefixtures("marks")
def test_a_journal_is_held_until_it_is_closed(tmp_path: Path) -> None:
    made = Journal.create(tmp_path)
    made.record(events.CellStarted(1, "x = 1"))
    assert made.path is not None and journal.is_locked(made.path)
    made.record(events.CellDone(1, 1, True, 0.1))  # behind the row before, whatever the mark moved
    assert [row["event"] for row in journal.read(made.path)] == ["CellStarted", "CellDone"]
    made.close()
    assert not journal.is_locked(made.path)


@pytest.mark.usefixtures("marks")
def test_a_second_session_does_not_write_the_journal_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_WAIT_SECONDS", 0.05)
    first, second = Journal(tmp_path / "j.jsonl"), Journal(tmp_path / "j.jsonl")
    first.record(events.CellStarted(1, "mine"))
    second.record(events.CellStarted(1, "theirs"))
    assert second.problem is not None and "another session" in second.problem
    first.record(events.CellDone(1, 1, True, 0.1))
    codes = [row.get("code") for row in journal.read(tmp_path / "j.jsonl")]
    assert codes == ["mine", None]
    first.close()


@pytest.mark.usefixtures("marks")
def test_whoever_only_looks_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text("")
    with open(path, "rb") as looking, open(path, "a") as writing:
        assert try_lock(looking)
        assert not try_lock(writing)
        monkeypatch.setattr(file_lock.time, "sleep", lambda _seconds: looking.close())
        assert try_lock(writing, wait=True)


def test_the_mark_of_another_process_counts(tmp_path: Path) -> None:
    code = "import sys; from kbench.workbench.session import events"
    code += "; from kbench.workbench.history.journal import *"
    code += "; j = Journal(Path(sys.argv[1])); j.record(events.CellStarted(1, 'x'))"
    code += "; print(flush=True); sys.stdin.read()"
    path = tmp_path / "j.jsonl"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        assert journal.is_locked(path)
        other.kill()
        other.wait()
        assert not journal.is_locked(path)
