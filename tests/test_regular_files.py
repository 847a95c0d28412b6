"""What lies where a file should be: pipes, devices, folders, endless files never stop a reader."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.engine import folders

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
        folders.read_regular(tmp_path / "file", 4)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        folders.read_regular(path, 4)
    path.write_bytes(b"four")
    assert folders.read_regular(path, 4) == b"four"
    path.write_bytes(b"fives")
    with pytest.raises(OSError, match="larger than 4 bytes"):
        folders.read_regular(path, 4)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_that_tells_no_size_is_read_up_to_its_limit() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    assert folders.read_regular("/proc/self/status", 1 << 20).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than 4 bytes"):
        folders.read_regular("/proc/self/status", 4)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
@pytest.mark.parametrize(("mode", "fits"), [(0o644, True), (0o664, False), (0o646, False)])
def test_files_that_others_can_write_are_told_apart(tmp_path: Path, mode: int, fits: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    path.chmod(mode)
    assert folders.is_own(path.stat()) == fits
    assert folders.read_regular(path, 4) == b"four"
    if fits:
        assert folders.read_regular(path, 4, own=True) == b"four"
    else:
        with pytest.raises(OSError, match="others can write it"):
            folders.read_regular(path, 4, own=True)
