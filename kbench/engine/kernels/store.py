"""The folder of compiled kernels: its name, atomic writes, and checksums against damaged files.

Numba keeps object code in `__pycache__` beside a source file. Here the source files are generated
ones, in a folder whose name says for which engine, Python, Numba and CPU they were compiled. Numba
looks at one file only to see whether its cache is stale; a change of any other file of this package
is noticed through the hash in the folder's name.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import warnings
from importlib import metadata
from pathlib import Path

from kbench.engine import config

KEEP_SECONDS = 30 * 24 * 3600

_lock = threading.Lock()
_folders: dict[Path, Path] = {}
_broken: set[Path] = set()


def _digest(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


@functools.cache
def _engine_version() -> str:
    """Hash of this package's sources: an edited helper must not meet yesterday's object code."""
    here = Path(__file__).parent
    texts = [path.read_bytes() for path in sorted(here.glob("*.py"))]
    return _digest(b"".join(texts))


@functools.cache
def machine() -> str:
    """Hash of the processor's name and features: object code runs nowhere else."""
    import llvmlite.binding as binding

    features = str(binding.get_host_cpu_features().flatten())
    return _digest(f"{platform.machine()} {binding.get_host_cpu_name()} {features}")[:8]


@functools.cache
def _folder_name() -> str:
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    versions = "-".join(f"{name}{metadata.version(name)}" for name in ("numba", "llvmlite"))
    return f"kernels-{_engine_version()[:12]}-{python}-{versions}-{machine()}"


def folder() -> Path:
    """The folder for generated sources; a temporary one when the cache cannot be written."""
    root = config.cache_dir()
    with _lock:
        if root not in _folders:
            _folders[root] = _make(root)
        return _folders[root]


def _make(root: Path) -> Path:
    wanted = root / _folder_name()
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(dir=wanted)
        os.close(handle)
        os.unlink(probe)
        _prune(wanted)
        return wanted
    except OSError as error:
        _broken.add(root)
        warnings.warn(
            f"the kernel cache {root} cannot be used ({error}); kernels are compiled anew",
            RuntimeWarning,
            stacklevel=2,
        )
        temporary = tempfile.mkdtemp(prefix="kbench-kernels-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return Path(temporary)


def _prune(current: Path) -> None:
    """Remove folders of other versions that nobody has added to for a month."""
    limit = time.time() - KEEP_SECONDS
    for other in current.parent.glob("kernels-*"):
        try:
            if other != current and other.stat().st_mtime < limit:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue


def cacheable() -> bool:
    """Whether object code is worth keeping: the folder outlives this process."""
    folder()
    return config.cache_dir() not in _broken


def write(name: str, text: str) -> Path:
    """Store a generated source; an equal file is left alone, as its time stamp keys the cache."""
    path = folder() / f"{name}.py"
    try:
        if path.read_text(encoding="utf-8") == text:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    _replace(path, text.encode())
    return path


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    os.replace(temporary, path)


def _objects(path: Path) -> list[Path]:
    return sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ci]"))


def _sum_of(path: Path) -> str:
    return _digest(b"".join(one.read_bytes() for one in _objects(path)))


def verify(path: Path) -> bool:
    """Whether the object code kept for a source is whole; damaged or unsealed files are removed.

    Object code is run as it is found: a flipped bit would crash the process, not raise.
    """
    try:
        if not _objects(path):
            return False
        if path.with_suffix(".sum").read_text(encoding="utf-8") == _sum_of(path):
            return True
    except (OSError, UnicodeDecodeError):
        pass
    discard(path)
    return False


def seal(path: Path) -> None:
    """Write the checksum of the object code just stored."""
    try:
        if _objects(path):
            _replace(path.with_suffix(".sum"), _sum_of(path).encode())
    except OSError:
        pass  # an unsealed kernel is compiled again, nothing else


def discard(path: Path) -> None:
    """Remove the object code kept for a source."""
    for one in _objects(path):
        try:
            one.unlink()
        except OSError:
            continue
