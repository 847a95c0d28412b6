"""Functions of Python made of compiled code: what every small call pays for, at a fraction of it.

Asking an array for its address takes half a microsecond in Python, and calling a kernel by `ctypes`
as much again: more than a small kernel itself. So both are done by compiled functions of the form
that CPython calls without detours, in less than a tenth of that. They read two words that every
array begins with, its type and the address of its data; on an interpreter where an array does not
begin so, which is tried out first, they are not used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine.jit import loader

_ONE, _SEVERAL = 0x0008, 0x0080  # flags of a method: of one argument, of an array of them

FILE = "intrinsics/sources/fast_call"

AddressOf = Callable[[np.ndarray], int]
"""From an array to where its data begins."""
RangeCall = Callable[[int, np.ndarray, int, int], None]
"""Runs a kernel: its address, its parameter block, the first item, the one behind the last."""


def slow_address(array: np.ndarray) -> int:
    """As `address_of`, by the array's buffer where it has one that may be written to."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError, BufferError):  # read-only, empty or not contiguous
        return int(array.ctypes.data)


address: AddressOf = slow_address
"""What `address_of` calls, once it is compiled; asked for by `fast_call.address` in each call."""


def address_of(array: np.ndarray) -> int:
    """Where an array's data begins."""
    return address(array)


def _table() -> np.ndarray:
    """What the compiled functions need of the interpreter."""
    python = ctypes.pythonapi
    names = ("PyType_IsSubtype", "PyLong_FromSsize_t", "PyNumber_AsSsize_t", "Py_IncRef")
    subtype, number, size, keep = (
        ctypes.cast(getattr(python, name), ctypes.c_void_p).value for name in names
    )
    return np.array([id(np.ndarray), subtype, number, size, keep, id(None)], np.uint64)


def _method(name: bytes, address: int, flags: int, table: np.ndarray) -> Any:
    """A built-in function whose `self` is the table."""
    definition = loader.lasting_memory(4 * 8)
    text = ctypes.create_string_buffer(name)
    _kept.append(text)
    words = (ctypes.c_int64 * 4).from_address(definition)
    words[0], words[1], words[2] = ctypes.addressof(text), address, flags
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(definition, table, None)


_kept: list[object] = []


def _begin_as_expected() -> bool:
    block = np.arange(24.0)[3:]
    words = (ctypes.c_size_t * 3).from_address(id(block))
    return words[1] == id(np.ndarray) and words[2] == block.ctypes.data


def install(module: loader.Loaded) -> RangeCall | None:
    """Take over `address_of`, and give the call of a kernel with a parameter block; None where
    compiled functions cannot be had, and all stays as it is.
    """
    global address
    try:
        if not _begin_as_expected():
            return None
        table = _table()
        compiled: AddressOf = _method(b"address_of", module.address_of.address, _ONE, table)
        call: RangeCall = _method(b"call", module.call.address, _SEVERAL, table)
    except (AttributeError, OSError):
        return None
    address = compiled
    return call
