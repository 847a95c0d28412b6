"""Where kbench keeps what outlives a process, where Keras keeps its settings, and how such files
are read: not what makes the reader wait, fills the memory, or may be of somebody else."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from kbench.engine.runtime.environment import env


def cache_dir() -> Path:
    """Folder of compiled kernels: KBENCH_CACHE_DIR, else the user's cache folder."""
    asked = env("KBENCH_CACHE_DIR")
    return Path(asked) if asked else _user_dirs().user_cache_path


def state_dir() -> Path:
    """Folder of history, journal and lesson progress: KBENCH_STATE_DIR, else the user's."""
    asked = env("KBENCH_STATE_DIR")
    return Path(asked) if asked else _user_dirs().user_state_path


def _user_dirs() -> Any:
    import platformdirs

    return platformdirs.PlatformDirs("kbench", appauthor=False)


def keras_home() -> Path:
    """Folder of keras.json: $KERAS_HOME, else ~/.keras, else below the temp folder."""
    asked = env("KERAS_HOME")
    if asked:
        return Path(asked)
    home = Path.home()
    base = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    return base / ".keras"


# ------------------------------------------------------------------ reading


MAX_TEXT_BYTES = 1 << 26
"""Bytes of a text file that people or kbench have written, at most."""


_PIECE_BYTES = 1 << 12


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file of UTF-8, line ends as they are written anywhere.

    Raises:
        OSError: as of `read_regular`. UnicodeDecodeError: not UTF-8.
    """
    text = read_regular(path, MAX_TEXT_BYTES).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_own(status: os.stat_result) -> bool:
    """Whether nobody else can have written a file or folder, as far as the system knows users.

    A group may write it that is the user's alone: many systems give each user one, and have it
    write what he makes. Root's files are written by root.
    """
    if not hasattr(os, "getuid"):
        return True
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o002:
        return False
    return not status.st_mode & 0o020 or _is_private(status.st_gid)


def _is_private(group: int) -> bool:
    """Whether a group has the user's name, and no other member."""
    import grp
    import pwd

    if os.getuid() == 0:
        return False
    try:
        name, known = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return known.gr_name == name and set(known.gr_mem) <= {name}


def check_own(folder: Path) -> None:
    """OSError where somebody else can put files into a folder, or what it says of the folder."""
    if not is_own(os.stat(folder)):
        raise OSError(f"the folder {folder} belongs to another user, or others can write it")


def read_regular(path: str | os.PathLike[str], most: int, *, own: bool = False) -> bytes:
    """The content of a regular file of at most `most` bytes.

    A pipe or a device is never waited for, and no endless one is read. With `own` the file must
    be the user's or root's, and one that nobody else can write.

    Raises:
        OSError: FileNotFoundError and whatever else the system says; or in plain words, that it
            is no regular file, larger than that, or may be somebody else's.
    """
    _check(os.stat(path), most, own)  # some devices do something as soon as they are opened
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NOCTTY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        _check(os.fstat(descriptor), most, own)  # it may be another one by now
        # As much as there is: a read takes memory for all that it is asked for.
        piece = max(os.fstat(descriptor).st_size + 1, _PIECE_BYTES)
        parts: list[bytes] = []
        left = most + 1  # it may grow meanwhile, and some have no size
        while left > 0 and (part := stream.read(min(piece, left))):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise OSError(f"larger than {most:,} bytes")
    return b"".join(parts)


def _check(status: os.stat_result, most: int, own: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    if status.st_size > most:
        raise OSError(f"larger than {most:,} bytes")
    if own and not is_own(status):
        raise OSError("it belongs to another user, or others can write it")
