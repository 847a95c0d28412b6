"""The folder of compiled kernels: keys, atomic writes, and checksums against damaged files.

A file's name ends in a hash of all that its code depends on: the generated source, the helpers
that it imports, what compiles, and the processor. So a file is never stale: what is asked for is
there or it is not. Code is run as it is found, so a file is believed only if it is the user's own,
whole, and says itself that it is what its name says.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from kbench.engine.core import fork_safety
from kbench.engine.jit.loader import Header
from kbench.engine.runtime import paths

KEEP_SECONDS = 30 * 24 * 3600
"""How long a file is kept that nobody has asked for."""

MAX_FILE_BYTES = 1 << 26
"""Bytes of a file, at most; the longest have some hundred thousand."""

_FORMAT = b"kbench kernel 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_HEADER_BYTES = len(_FORMAT) + _DIGEST_BYTES
_PROBE_BYTES = 1 << 16  # of a file that is written to see whether the disk takes any
_IMPORTED = "from kbench.engine."
_ENGINE = Path(__file__).resolve().parents[1]
_ALWAYS = frozenset({"jit/numba_backend", "jit/compiling/linker"})

_lock = fork_safety.lock()
_folders: dict[Path, Path] = {}
_unwritable: set[Path] = set()


def _digest(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


# ------------------------------------------------------------------ what code depends on


def _imported(text: str) -> set[str]:
    """The engine's files that a source imports from, as paths below the engine."""
    found = set()
    for statement in text.split(_IMPORTED)[1:]:
        module, _, rest = statement.partition(" import ")
        end = ")" if rest.startswith("(") else "\n"
        names = rest.partition(end)[0].lstrip("(").split(",")
        place = module.replace(".", "/")
        if (_ENGINE / f"{place}.py").is_file():
            found.add(place)
        else:  # a room: what is imported are files in it
            found |= {f"{place}/{name.split()[0]}" for name in names if name.strip()}
    return found


@functools.cache
def _helper(name: str) -> tuple[str, frozenset[str]]:
    """The hash of one of the engine's files, and the files it imports from."""
    try:
        text = (_ENGINE / f"{name}.py").read_text(encoding="utf-8")
    except OSError:
        return "", frozenset()
    return _digest(text), frozenset(_imported(text))


def _helpers(text: str) -> list[str]:
    """Hashes of all files that a source depends on: an edited helper makes another kernel."""
    seen: set[str] = set()
    left = _imported(text) | _ALWAYS
    while left:
        seen |= left
        left = {name for file in left for name in _helper(file)[1]} - seen
    return [_helper(name)[0] for name in sorted(seen)]


@functools.cache
def machine() -> str:
    """Hash of the processor's name and features: object code runs nowhere else."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            lines = stream.read(8192).split("\n\n")[0].splitlines()
        facts = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
        facts += [line for line in lines if line.startswith(("vendor_id", "cpu family", "model\t"))]
        facts += [line for line in lines if line.startswith("CPU ")]
        found = "\n".join(facts)
    except OSError:
        found = ""
    return _digest(f"{platform.machine()} {found or _described_by_llvm()}")[:8]


def _described_by_llvm() -> str:
    import llvmlite.binding as binding

    features = binding.get_host_cpu_features().flatten()
    return f"{binding.get_host_cpu_name()} {features}"


@functools.cache
def _compilers() -> str:
    """Hash of what turns a source into code: versions of Python, Numba and llvmlite, settings."""
    found = [sys.implementation.cache_tag or "", sys.platform]
    for package in ("numba", "llvmlite"):
        spec = importlib.util.find_spec(package)  # looks for it, does not import it
        version = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
        found.append(version.read_text(encoding="utf-8") if version else "none")
    return _digest(repr((found, numba_settings())))


def numba_settings() -> list[tuple[str, str]]:
    """What the environment tells Numba, which makes other code of it."""
    return sorted(setting for setting in os.environ.items() if setting[0].startswith("NUMBA_"))


def content_key(text: str) -> str:
    """The hash of a source and of the helpers that it imports: of what it says, whoever compiles
    it for whatever processor."""
    return _digest("\n".join([text, *_helpers(text)]))


def key_of(text: str) -> str:
    """The hash of a source and of all that its code depends on."""
    return _digest("\n".join([text, *_helpers(text), _compilers(), machine()]))


# ------------------------------------------------------------------ the folder


def folder() -> Path:
    """The folder of kernels; a temporary one when the cache cannot be written."""
    root = paths.cache_dir()
    known = _folders.get(root)
    if known is not None:
        return known
    with _lock:
        if root not in _folders:
            _folders[root] = _make(root)
        return _folders[root]


def _make(root: Path) -> Path:
    wanted = root / "kernels"
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_others_out(wanted)
        probe = wanted / f"probe-{os.getpid()}"
        _replace(probe, bytes(_PROBE_BYTES))  # a full disk takes new files, but nothing in them
        probe.unlink()
        return wanted
    except OSError as error:
        _unwritable.add(root)
        warnings.warn(
            f"the kernel cache {root} cannot be written ({error}); "
            "each process compiles again what is missing in it",
            RuntimeWarning,
            stacklevel=2,
        )
        temporary = tempfile.mkdtemp(prefix="kbench-kernels-")
        atexit.register(_remove, temporary, os.getpid())
        return Path(temporary)


def _remove(temporary: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked child's
        shutil.rmtree(temporary, ignore_errors=True)


def _keep_others_out(place: Path) -> None:
    """See to it that nobody else can put files into the folder: what lies in it is run.

    Raises:
        OSError: it belongs to somebody else, who can do so at any time.
    """
    status = place.stat()
    if paths.is_own(status):
        return
    if status.st_uid != os.getuid():
        raise OSError("it belongs to another user")
    place.chmod(status.st_mode & 0o755)  # made so by a loose umask, say; files are looked at one
    # by one, as ever


def use_folder(place: Path) -> None:
    """Keep kernels in this folder: that of the process this one compiles for."""
    with _lock:
        _folders[paths.cache_dir()] = place


def prune() -> None:
    """Remove kernels that nobody has asked for in a month, and folders of earlier versions."""
    limit = time.time() - KEEP_SECONDS
    here = folder()
    former = here.parent.glob("kernels-*") if cacheable() else ()
    for other in [*here.iterdir(), *former]:
        try:
            if other.stat().st_mtime < limit:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        except OSError:
            continue


def cacheable() -> bool:
    """Whether the folder outlives this process."""
    folder()
    return paths.cache_dir() not in _unwritable


# ------------------------------------------------------------------ files


def _locate(file: str) -> Path:
    """Where a file lies: in the folder, else in the cache that can only be read, if it is there."""
    path, root = folder() / file, paths.cache_dir()
    if root in _unwritable and not path.exists():
        kept = root / "kernels" / file
        path = kept if kept.exists() else path
    return path


def source_path(name: str, key: str) -> Path:
    """Where a source can be read, once it is compiled."""
    return _locate(f"{name}-{key}.py")


def code_path(name: str, key: str) -> Path:
    """Where the code of a source is kept."""
    return folder() / f"{name}-{key}.kernel"


def write_source(name: str, key: str, text: str) -> Path:
    """Store a generated source, for messages and whoever wants to read it."""
    path = folder() / f"{name}-{key}.py"
    _replace(path, text.encode())
    return path


def write(name: str, key: str, header: Header, code: bytes) -> None:
    """Store what was compiled of a source."""
    about = json.dumps({**header, "key": key}).encode()
    body = len(about).to_bytes(4, "little") + about + code
    _replace(code_path(name, key), _FORMAT + hashlib.sha256(body).digest() + body)


def read(name: str, key: str) -> tuple[Header, bytes] | None:
    """What was compiled of a source; None if it never was, or its file is not to be believed."""
    path = _locate(code_path(name, key).name)
    try:
        found = _checked(paths.read_regular(path, MAX_FILE_BYTES, own=True), key)
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found is None:
        discard(name, key)
    elif age > KEEP_SECONDS / 10:
        _touch(path)
    return found


def _checked(data: bytes, key: str) -> tuple[Header, bytes] | None:
    body = data[_HEADER_BYTES:]
    if (
        not data.startswith(_FORMAT)
        or data[len(_FORMAT) : _HEADER_BYTES] != hashlib.sha256(body).digest()
    ):
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    header: Header = json.loads(body[4:end])
    return (header, body[end:]) if header["key"] == key else None


def is_kept(*made_of: str) -> bool:
    """Whether `keep_text` has kept what is made of these, as far as a look at the folder tells."""
    return _kept(*made_of).is_file()


def _kept(*made_of: str) -> Path:
    return _locate(f"text-{_digest(chr(0).join(made_of))}.py")


def keep_text(text_of: Callable[[], str], *made_of: str) -> str:
    """A text that takes a while to make, and is made of these and `text_of` alone."""
    path = _kept(*made_of)
    with contextlib.suppress(OSError, ValueError):
        data = paths.read_regular(path, MAX_FILE_BYTES, own=True).decode()
        told, _, text = data.partition("\n")
        if told == f"# {_digest(text)}":
            if time.time() - path.stat().st_mtime > KEEP_SECONDS / 10:
                _touch(path)
            return text
    text = text_of()
    with contextlib.suppress(OSError):
        _replace(folder() / path.name, f"# {_digest(text)}\n{text}".encode())
    return text


def _touch(path: Path) -> None:
    for file in (path, path.with_suffix(".py")):
        try:
            os.utime(file)
        except OSError:
            continue


def discard(name: str, key: str) -> None:
    """Remove what lies where the code of a source is kept."""
    _clear(code_path(name, key))


def _clear(path: Path) -> None:
    """Remove whatever is there, also what is no file."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        return


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        try:
            os.replace(temporary, path)
        except IsADirectoryError:
            _clear(path)
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
