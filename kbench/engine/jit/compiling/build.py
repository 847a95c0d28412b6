"""From the source of a kernel to the file that is kept of it. Loads Numba and LLVM."""

from __future__ import annotations

import time
import types

from kbench.engine.jit import disk_cache, loader
from kbench.engine.jit.compiling import linker
from kbench.engine.jit.numba_backend import Entry


def build(name: str, text: str) -> str:
    """Compile a source and store what is needed to run it; gives the key it is stored under.

    Raises:
        Exception: whatever is wrong with the source, from Numba or LLVM.
    """
    begun = time.perf_counter()
    key = disk_cache.key_of(text)
    path = disk_cache.write_source(name, key, text)
    module = types.ModuleType(f"kbench_kernels_{name}")
    exec(compile(text, str(path), "exec"), module.__dict__)
    entries = {
        defined: value for defined, value in vars(module).items() if isinstance(value, Entry)
    }
    if not entries:
        raise ValueError(f"{name} defines no kernel")
    numbers = {defined: value for defined, value in vars(module).items() if type(value) is int}
    header, code = _image(entries) if loader.can_run_images() else (None, b"")
    if header is None:
        header, code = _objects(entries)
    header |= {"numbers": numbers, "seconds": round(time.perf_counter() - begun, 3)}
    disk_cache.write(name, key, header, code)
    return key


def _image(entries: dict[str, Entry]) -> tuple[loader.Header | None, bytes]:
    try:
        linked = linker.link(
            [entry.object for entry in entries.values()],
            [entry.symbol for entry in entries.values()],
        )
    except linker.UnlinkableError:
        return None, b""
    places = {name: linked.entries[entry.symbol] for name, entry in entries.items()}
    header: loader.Header = {
        "form": "image",
        "entries": places,
        "bases": linked.bases,
        "externals": linked.externals,
    }
    return header, bytes(linked.code)


def _objects(entries: dict[str, Entry]) -> tuple[loader.Header, bytes]:
    listed = [(name, entry.symbol, len(entry.object)) for name, entry in entries.items()]
    return {"form": "objects", "objects": listed}, b"".join(
        entry.object for entry in entries.values()
    )
