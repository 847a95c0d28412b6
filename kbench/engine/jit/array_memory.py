"""What compiled code has to know of an array: where it lies, whether it can be used as it is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from kbench.engine.core.types import Array
from kbench.engine.jit.fast_call import address_of

_copy: Callable[[Array, Array], object] = np.copyto


def use_copy(copy: Callable[[Array, Array], object]) -> None:
    """Have `contiguous_copy` use a compiled copy, `copy(target, source)`, in place of NumPy's."""
    global _copy
    _copy = copy


def contiguous_copy(array: Array) -> Array:
    """A contiguous copy."""
    result = np.empty(array.shape, array.dtype)
    _copy(result, array)
    return result


def describe_array(array: Array) -> str:
    """An array in the words of an error."""
    return f"{array.dtype}{list(array.shape)}" + ("" if array.flags.c_contiguous else " strided")


def can_write_to(out: Array, dtype: str, inputs: Sequence[Array]) -> bool:
    """Whether compiled code can write results of a dtype to `out` itself while it reads inputs."""
    flags = out.flags
    if not (out.dtype == dtype and flags.c_contiguous and flags.aligned and flags.writeable):
        return False
    return not any(np.may_share_memory(out, array) for array in inputs)


def check_result(out: Array, dtype: str, size: int) -> None:
    """ValueError unless a kernel can write that many elements to `out`."""
    if out.dtype != dtype or out.size != size:
        raise ValueError(f"expected {size} elements of {dtype}, got {out.dtype}[{out.size}]")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("the result array must be contiguous and writeable")


def operand(array: Array, dtype: str, size: int, out: Array | None = None) -> Array:
    """What a kernel reads, contiguous, and copied where writing to `out` would change it.

    Raises:
        ValueError: it has another dtype or size.
    """
    if array.dtype != dtype or array.size != size:
        raise ValueError(f"expected {size} elements of {dtype}, got {array.dtype}[{array.size}]")
    array = np.ascontiguousarray(array)
    return array.copy() if out is not None and np.may_share_memory(array, out) else array


def unowned_view(array: Array) -> Array:
    """The same memory as another array that keeps nothing alive, as an address does."""
    memory = (ctypes.c_char * array.nbytes).from_address(address_of(array))
    return np.frombuffer(memoryview(memory), array.dtype).reshape(array.shape)


def are_same(arrays: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether these are the very same arrays: none was copied on the way."""
    return all(array is other for array, other in zip(arrays, others, strict=True))
