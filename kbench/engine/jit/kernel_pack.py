"""Kernels that were compiled ahead, for all processors of a level: the package `kbench-kernels`.

It is optional, and has a file for each level. Its kernels are found by what they are made from: the
source and the helpers that it imports, whichever Numba compiled them. What a pack lacks, or was
made for another state of kbench, is compiled here as ever. `packaging/kernels/build.py` makes it.

A pack is run as it is found, as the cache is. So it must be the user's or root's, nobody else may
be able to write it, and every kernel of it must have the checksum that its list says.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import site
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from kbench.engine.jit import disk_cache, loader
from kbench.engine.runtime import paths

PACKAGE = "kbench_kernels"
SUFFIX = ".kernels"
MAX_PACK_BYTES = 1 << 28

_FORMAT = b"kbench kernel pack 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8

V3 = "avx2 bmi1 bmi2 f16c fma movbe abm".split()
V4 = "avx512f avx512bw avx512cd avx512dq avx512vl avx512_vbmi2".split()
LEVELS: Mapping[str, Iterable[str]] = {"x86-64-v4": [*V3, *V4], "x86-64-v3": V3}
"""From the levels of x86-64, best first, to the features that the system says they need. What has
AVX-512 without VBMI2 slows down for long vectors, and so is of the level before."""


def level_of(machine: str, features: Iterable[str]) -> str | None:
    """The level of a processor; None where there are no packs for its like."""
    if machine == "aarch64":
        return machine
    if machine not in ("x86_64", "AMD64"):
        return None
    known = set(features)
    return next((name for name, needed in LEVELS.items() if known.issuperset(needed)), None)


@functools.cache
def level() -> str | None:
    """The level of this processor."""
    if not loader.can_run_images():
        return None
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = (line.partition(":") for line in text.splitlines())
    flags = next((flags for name, _, flags in lines if name.strip() == "flags"), "")
    return level_of(platform.machine(), flags.split())


# ------------------------------------------------------------------ the file


class Pack(Struct, frozen=True):
    """The list of a pack's kernels, and where their code begins in the file."""

    path: Path
    kernels: Mapping[str, tuple[int, int, str]]  # by key: offset, length, checksum
    begin: int

    def read(self, text: str) -> tuple[loader.Header, bytes] | None:
        """What was compiled of a source; None if the pack has it not, or it is damaged."""
        entry = self.kernels.get(disk_cache.content_key(text))
        if entry is None:
            return None
        offset, length, checksum = entry
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.begin + offset)
                packed = stream.read(length)
        except OSError:
            return None
        if hashlib.sha256(packed).hexdigest() != checksum:
            return None
        body = zlib.decompress(packed)
        end = int.from_bytes(body[:_LENGTH_BYTES], "little") + _LENGTH_BYTES
        header: loader.Header = json.loads(body[_LENGTH_BYTES:end])
        return header, body[end:]


def write(path: Path, kernels: Iterable[tuple[str, loader.Header, bytes]]) -> int:
    """Write a pack of (source, header, code); gives how many kernels it has."""
    listed: dict[str, tuple[int, int, str]] = {}
    parts: list[bytes] = []
    offset = 0
    for text, header, code in kernels:
        about = json.dumps(header).encode()
        packed = zlib.compress(len(about).to_bytes(_LENGTH_BYTES, "little") + about + code, 9)
        listed[disk_cache.content_key(text)] = (
            offset,
            len(packed),
            hashlib.sha256(packed).hexdigest(),
        )
        parts.append(packed)
        offset += len(packed)
    about = json.dumps(listed).encode()
    head = len(about).to_bytes(_LENGTH_BYTES, "little") + about
    path.write_bytes(_FORMAT + hashlib.sha256(head).digest() + head + b"".join(parts))
    return len(listed)


def open_pack(path: Path) -> Pack:
    """The pack of a file.

    Raises:
        OSError: it cannot be read, or somebody else may have written it.
        ValueError: it is damaged, or no pack.
    """
    paths.check_own(path.parent)
    data = paths.read_regular(path, MAX_PACK_BYTES, own=True)
    begin = len(_FORMAT) + _DIGEST_BYTES
    end = begin + _LENGTH_BYTES + int.from_bytes(data[begin : begin + _LENGTH_BYTES], "little")
    head = data[begin:end]
    digest = data[len(_FORMAT) : begin]
    if not data.startswith(_FORMAT) or hashlib.sha256(head).digest() != digest:
        raise ValueError(f"{path.name} is damaged, or no pack of kernels")
    return Pack(path, json.loads(head[_LENGTH_BYTES:]), end)


# ------------------------------------------------------------------ the one that is installed


def folders() -> list[Path]:
    """Where packages are installed. A folder that is only in the way of imports, as that of a
    program is, does not count: machine code is run without a look."""
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [Path(folder) / PACKAGE for folder in [*site.getsitepackages(), *own]]


@functools.cache
def installed() -> Pack | str:
    """The pack for this processor, or why there is none."""
    own = level()
    if any(name.startswith("NUMBA_CPU_") for name, _ in disk_cache.numba_settings()):
        return "not looked for, as NUMBA_CPU_NAME or NUMBA_CPU_FEATURES names another processor"
    if own is None:
        return "none is made for processors like this one"
    folder = next((folder for folder in folders() if folder.is_dir()), None)
    if folder is None:
        return "kbench-kernels is not installed"
    try:
        return open_pack(folder / f"{own}{SUFFIX}")
    except FileNotFoundError:
        return f"kbench-kernels has nothing for {own}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"that of kbench-kernels cannot be used: {error}"


def is_usable() -> bool:
    """Whether there is one for this processor."""
    return isinstance(installed(), Pack)


def describe() -> str:
    """What is installed, or why nothing is."""
    pack = installed()
    return pack if isinstance(pack, str) else f"{len(pack.kernels)} kernels for {pack.path.stem}"


def read(text: str) -> tuple[loader.Header, bytes] | None:
    """What the installed pack has of a source; None if there is none, or it lacks it."""
    pack = installed()
    return None if isinstance(pack, str) else pack.read(text)
