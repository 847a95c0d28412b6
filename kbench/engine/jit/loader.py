"""Running stored kernels: from the bytes of a file to functions at addresses.

An image (see `linker`) is copied to memory that may then be executed but no longer be written. That
takes well below a millisecond, and neither LLVM nor Numba. Where object code could not be made an
image (another processor or system), LLVM loads it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from typing import Any, TypedDict

from msgspec import Struct

_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 0x02, 0x20


class Header(TypedDict, total=False):
    """What is stored beside compiled code: how it is loaded, and the integers of its source."""

    form: str
    key: str
    seconds: float
    numbers: dict[str, int]
    entries: dict[str, int]
    bases: list[int]
    externals: dict[str, list[int]]
    objects: list[tuple[str, str, int]]


class Function(Struct, frozen=True):
    """A compiled function: where its code begins."""

    address: int


class Loaded:
    """What a source defined, by name: its functions, with an `address` each, and its integers."""

    def __init__(self, functions: dict[str, int], numbers: dict[str, int]) -> None:
        self.__dict__.update({name: Function(place) for name, place in functions.items()})
        self.__dict__.update(numbers)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the source of this kernel defines no {name!r}")


def can_run_images() -> bool:
    """Whether this process can run images at all."""
    return sys.platform.startswith("linux") and sys.maxsize > 2**32


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@functools.cache
def _outside(name: str) -> int:
    """The address of a function of the C library."""
    try:
        found = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if not found:
        raise OSError(f"this system has no {name!r}")
    return found


def lasting_memory(size: int) -> int:
    """The address of zeros that are never freed: a thread may use them as the process ends.

    Raises:
        OSError: there is none.
    """
    kind = _PRIVATE | _ANONYMOUS
    address = _library().mmap(None, size, _READ | _WRITE, kind, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for compiled code")
    return int(address)


def load_image(header: Header, code: bytes) -> Loaded:
    """The functions of an image.

    Raises:
        OSError: the system does not allow it.
    """
    filled = bytearray(code)
    address = lasting_memory(len(filled))
    for place in header["bases"]:
        (inside,) = struct.unpack_from("<q", filled, place)
        struct.pack_into("<q", filled, place, address + inside)
    for name, places in header["externals"].items():
        outside = _outside(name)
        for place in places:
            (addend,) = struct.unpack_from("<q", filled, place)
            struct.pack_into("<q", filled, place, outside + addend)
    ctypes.memmove(address, bytes(filled), len(filled))
    if _library().mprotect(address, len(filled), _READ | _EXECUTE):
        error = ctypes.get_errno()
        _library().munmap(address, len(filled))
        raise OSError(error, "compiled code may not be executed")
    functions = {name: address + place for name, place in header["entries"].items()}
    return Loaded(functions, header["numbers"])


_engines: list[object] = []
"""LLVM's loaders, kept for good: code may be running."""


def load_objects(header: Header, code: bytes) -> Loaded:
    """The functions of object code, loaded by LLVM; takes long when it is the first."""
    import llvmlite.binding as llvm

    import kbench.engine.jit.numba_backend  # noqa: F401 (brings the functions that code may refer to)

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    functions, start = {}, 0
    target = llvm.Target.from_default_triple()
    for name, symbol, size in header["objects"]:
        machine = target.create_target_machine(jit=True, codemodel="jitdefault")
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code[start : start + size]))
        engine.finalize_object()
        functions[name] = int(engine.get_function_address(symbol))
        _engines.append(engine)
        start += size
    return Loaded(functions, header["numbers"])
