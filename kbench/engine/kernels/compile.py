"""The only `import numba`: what the compiled side of the engine is written with.

Modules that import this one are loaded by the background thread alone, never by `import kbench`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numba
import numba.core.errors
import numba.extending
from llvmlite import ir
from numba import cfunc, njit, prange, types

from kbench.engine.kernels import store
from kbench.engine.kernels.background import THREAD

__all__ = [
    "any_order",
    "entry",
    "exact_inline",
    "exact_kernel",
    "inline",
    "intrinsic",
    "ir",
    "kernel",
    "most_threads",
    "prange",
    "range_kernel",
    "set_layer",
    "target_features",
    "types",
    "with_threads",
]

RANGE = types.void(types.intp, types.intp, types.intp)
"""Signature of every range kernel: address of the parameter block, first item, end item."""

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}

_own_catch = numba.core.errors.WarningsFixer.catch_warnings


def _catch_warnings(
    fixer: Any, filename: str | None = None, lineno: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Numba's own, except in the thread that compiles here.

    `warnings.catch_warnings` swaps the filters of the whole process: in a thread beside the user's
    it undid what the user set meanwhile, and left its own behind.
    """
    if threading.current_thread().name == THREAD:
        return contextlib.nullcontext()
    caught: contextlib.AbstractContextManager[None] = _own_catch(fixer, filename, lineno)
    return caught


numba.core.errors.WarningsFixer.catch_warnings = _catch_warnings


def intrinsic(function: Callable[..., Any]) -> Any:
    """An operation given as LLVM instructions; called like a function inside kernels."""
    return numba.extending.intrinsic(function)


def inline(function: Callable[..., Any]) -> Any:
    """A scalar helper that is merged into its callers, so that their loops become SIMD.

    `forceinline` matters: long polynomials exceed LLVM's limit, and a call blocks vectorising.
    """
    return njit(forceinline=True, **_OPTIONS)(function)


def any_order(function: Callable[..., Any]) -> Any:
    """A helper whose additions may be regrouped: the step of a fold, and nothing else.

    Only this step, so that `(x + y) - y` in a user's expression stays what it is.
    """
    flags = {"reassoc", "contract", "nsz"}
    return njit(forceinline=True, error_model="numpy", fastmath=flags)(function)


def range_kernel(function: Callable[..., Any]) -> Any:
    """A kernel over a range of items, reached by its address through the one driver."""
    return cfunc(RANGE, cache=store.cacheable(), **_OPTIONS)(function)


def exact_inline(function: Callable[..., Any]) -> Any:
    """As `inline`, but each product and sum is rounded on its own, as NumPy rounds them."""
    return njit(forceinline=True, error_model="numpy")(function)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """As `range_kernel`, but each product and sum is rounded on its own, as NumPy rounds them."""
    return cfunc(RANGE, cache=store.cacheable(), error_model="numpy")(function)


def entry(count: int) -> Callable[[Callable[..., Any]], Any]:
    """A function of `count` integers that other kernels call by its address.

    By address, or Numba would link and optimise it once more into every caller.
    """

    def build(body: Callable[..., Any]) -> Any:
        signature = types.void(*[types.intp] * count)
        return cfunc(signature, cache=store.cacheable(), **_OPTIONS)(body)

    return build


def target_features() -> dict[str, bool]:
    """What Numba compiles for, by LLVM's names: the host's features, or those its user set."""
    from numba.core.registry import cpu_target

    listed = str(cpu_target.target_context.codegen().magic_tuple()[2])
    return {name[1:]: name[0] == "+" for name in listed.split(",") if name}


def kernel(*, signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A nogil function called from Python; `parallel=True` makes its `prange` parallel."""

    def build(body: Callable[..., Any]) -> Any:
        merged = {**_OPTIONS, "nogil": True, "cache": store.cacheable(), **options}
        return njit(signature, **merged)(body)

    return build


def set_layer(name: str) -> None:
    """Choose Numba's threading layer, unless the user has; counts until the first parallel call."""
    if numba.config.THREADING_LAYER == "default":  # type: ignore[attr-defined]
        numba.config.THREADING_LAYER = name  # type: ignore[attr-defined]


def most_threads() -> int:
    """Threads that Numba's pool was made with."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def with_threads(count: int, run: Callable[..., None], *arguments: int) -> None:
    """Call a parallel function with `count` threads; the caller's own setting is put back."""
    before = numba.get_num_threads()
    if before == count:
        run(*arguments)
        return
    numba.set_num_threads(count)
    try:
        run(*arguments)
    finally:
        numba.set_num_threads(before)
