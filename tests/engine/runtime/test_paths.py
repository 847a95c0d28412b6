"""What lies where a file should be: pipes, devices, folders, endless files never stop a reader."""

from __future__ import annotations

import contextlib
import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.engine.runtime import paths

# ------------------------------------------------------------------ what may lie there


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # an address has at most 107 bytes
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def _sparse(path: Path) -> None:
    with open(path, "wb") as stream:
        stream.truncate(1 << 40)


MADE: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "terabyte": _sparse,
}
if hasattr(os, "mkfifo"):
    MADE |= {
        "pipe": os.mkfifo,
        "link to a pipe": lambda path: (
            os.mkfifo(path.with_name("other")),
            path.symlink_to(path.with_name("other")),
        ),
        "zeros": lambda path: path.symlink_to("/dev/zero"),
        "nothing": lambda path: path.symlink_to("/dev/null"),
        "terminal": lambda path: path.symlink_to("/dev/tty"),
        "socket": _socket,
        "circle": lambda path: path.symlink_to(path),
    }


@pytest.fixture(params=MADE)
def odd(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    """What makes something odd at a path."""
    return MADE[request.param]


pytestmark = pytest.mark.timeout(60)


def test_only_regular_files_of_that_size_are_read(
    tmp_path: Path, odd: Callable[[Path], object]
) -> None:
    odd(tmp_path / "file")
    with pytest.raises(OSError, match=r"not a regular file|larger than 4 bytes|symbolic links"):
        paths.read_regular(tmp_path / "file", 4)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        paths.read_regular(path, 4)
    path.write_bytes(b"four")
    assert paths.read_regular(path, 4) == b"four"
    path.write_bytes(b"fives")
    with pytest.raises(OSError, match="larger than 4 bytes"):
        paths.read_regular(path, 4)


def test_reading_takes_memory_for_what_a_file_holds_and_not_for_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    tracemalloc.start()
    try:
        assert len(paths.read_regular(path, 1 << 26)) == 100_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_that_tells_no_size_is_read_up_to_its_limit() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    assert paths.read_regular("/proc/self/status", 1 << 20).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than 4 bytes"):
        paths.read_regular("/proc/self/status", 4)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(("mode", "fits"), [(0o644, True), (0o664, None), (0o646, False)])
def test_files_that_others_can_write_are_told_apart(
    tmp_path: Path, mode: int, fits: bool | None, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_is_private", lambda _group: private)
    fits = private if fits is None else fits
    path = tmp_path / "file"
    path.write_bytes(b"four")
    path.chmod(mode)
    assert paths.is_own(path.stat()) == fits
    assert paths.read_regular(path, 4) == b"four"
    if fits:
        assert paths.read_regular(path, 4, own=True) == b"four"
    else:
        with pytest.raises(OSError, match="others can write it"):
            paths.read_regular(path, 4, own=True)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no users")
@pytest.mark.parametrize(
    ("group", "others", "alone"),
    [("ada", [], True), ("ada", ["ada"], True), ("ada", ["bob"], False), ("users", [], False)],
)
def test_a_group_is_private_that_has_the_users_name_and_nobody_else(
    group: str, others: list[str], alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grp
    import pwd

    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", lambda _user: SimpleNamespace(pw_name="ada"))
    known = SimpleNamespace(gr_name=group, gr_mem=others)
    monkeypatch.setattr(grp, "getgrgid", lambda _group: known)
    assert paths._is_private(1000) == alone
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert not paths._is_private(1000)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of folders")
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    paths.check_own(tmp_path)
    for mode in (0o757, 0o1777):
        tmp_path.chmod(mode)
        with pytest.raises(OSError, match="belongs to another user, or others can write it"):
            paths.check_own(tmp_path)


# ------------------------------------------------------------------ who reads


def _reads(folder: Path) -> dict[str, tuple[Path, Callable[[], object]]]:
    """Files that kbench reads, and what reads them."""
    from kbench.engine.inspect import roofline
    from kbench.tui.keys import keymap
    from kbench.tui.session import ui_state, unsent_input
    from kbench.workbench.history import journal, session_archive
    from kbench.workbench.lessons import lesson_progress
    from kbench.workbench.session import running_kernels

    progress = lesson_progress.Progress(folder / "progress.json")
    (folder / unsent_input.FOLDER).mkdir()
    return {
        "keys": (folder / "keys.toml", lambda: keymap.load(folder / "keys.toml")),
        "preset": (folder / "keys2.toml", lambda: keymap.choose(folder / "keys2.toml", "vi")),
        "remembered": (folder / ui_state.FILE, lambda: ui_state.load(folder)),
        "draft": (folder / unsent_input.FOLDER / "1.txt", lambda: unsent_input.take(folder)),
        "progress": (folder / "progress.json", progress._load),
        "connection": (
            folder / "k.json",
            lambda: running_kernels.read_connection(folder / "k.json"),
        ),
        "journal": (folder / "j.jsonl", lambda: journal.read(folder / "j.jsonl")),
        "held": (folder / "j2.jsonl", lambda: journal.is_locked(folder / "j2.jsonl")),
        "sessions": (folder / "j3.jsonl", lambda: session_archive.unfinished(folder)),
        "history": (folder / "h.sqlite", lambda: _remember(folder / "h.sqlite")),
        "limits": (folder / "limits.json", lambda: roofline._read(folder / "limits.json")),
    }


def _remember(path: Path) -> None:
    from kbench.workbench.history import input_history

    with contextlib.closing(input_history.History(path)) as history:
        history.add("1")


READERS = ("keys", "preset", "remembered", "draft", "progress", "connection", "journal", "held")
READERS += ("sessions", "history", "limits")


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_is_never_held_up(
    tmp_path: Path, odd: Callable[[Path], object], reader: str
) -> None:
    from kbench.workbench.session.running_kernels import AttachError

    path, read = _reads(tmp_path)[reader]
    odd(path)
    try:
        read()
    except (OSError, AttachError):
        return  # told in words where it is asked for by name
