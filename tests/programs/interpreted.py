"""Generated kernels run as Python: the same source, parameters and calls, but nothing to compile.

A source that the engine writes becomes a Python function over real memory, behind a C address as a
compiled kernel has one, so that all else is as in a compiled run: plans, bindings, tapes, threads.
Library kernels and whole loops (whose products are packed for vectors) are compiled as ever.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from kbench.engine.codegen import loop_kernel, row_kernel
from kbench.engine.compiler import decompose_softmax
from kbench.engine.core import syntax
from kbench.engine.execute.steps import library_step
from kbench.engine.fusion import elementwise
from kbench.engine.graph.expr.scalars import SCALARS
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.service import service

Kernel = Callable[[int, int, int], None]

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 3)
SCRATCH = 4096

_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_uint8,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "float16": ctypes.c_uint16,
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}


def _loader(dtype: str) -> Callable[[int, int], Any]:
    kind = _CTYPES[dtype]
    each, at = ctypes.sizeof(kind), kind.from_address
    if dtype == "float16":
        return lambda address, index: np.float32(
            np.uint16(at(address + index * each).value).view(np.float16)
        )
    made = np.bool_ if dtype == "bool" else getattr(np, dtype)
    return lambda address, index: made(at(address + index * each).value)


def _storer(dtype: str) -> Callable[[int, int, Any], None]:
    kind = _CTYPES[dtype]
    each, at = ctypes.sizeof(kind), kind.from_address

    def store_float16(address: int, index: int, value: Any) -> None:
        at(address + index * each).value = int(np.float16(value).view(np.uint16))

    def store_float(address: int, index: int, value: Any) -> None:
        at(address + index * each).value = float(value)

    def store(address: int, index: int, value: Any) -> None:
        at(address + index * each).value = int(value)

    if dtype == "float16":
        return store_float16
    return store_float if dtype[0] == "f" else store


def _saturating(dtype: str) -> Callable[[Any], Any]:
    limits, made = np.iinfo(dtype), getattr(np, dtype)

    def convert(x: Any) -> Any:
        value = float(x)
        if math.isnan(value):
            return made(0)
        whole = limits.max if value == math.inf else limits.min if value == -math.inf else value
        return made(min(max(int(whole), limits.min), limits.max))

    return convert


def _wrapped(value: int) -> Any:
    return np.int64((value + 2**63) % 2**64 - 2**63)


def _power(x: Any, n: Any) -> Any:
    x, n = int(x), int(n)
    if n < 0:
        return np.int64(1 if x == 1 else ((1 if n % 2 == 0 else -1) if x == -1 else 0))
    return _wrapped(pow(x, n, 2**64))


def _floordiv(x: Any, y: Any) -> Any:
    return _wrapped(0 if y == 0 else int(x) // int(y))


def _float_floordiv(x: Any, y: Any) -> Any:
    return x / y if y == 0 else np.floor_divide(x, y)


def _lost(total: Any, x: Any, joint: Any) -> Any:
    """What rounding took from a sum."""
    rest = joint - total
    return (total - (joint - rest)) + (x - rest)


def _mantissa(x: Any) -> Any:
    """A number without its exponent, from 1 to 2."""
    return np.float64(2 * np.frexp(x)[0] if x != 0 and np.isfinite(x) else x)


def _exponent(x: Any) -> Any:
    return np.int64(np.frexp(x)[1] - 1 if x != 0 and np.isfinite(x) else 0)


def _sign_float(x: Any) -> Any:
    return np.sign(x)


def _names() -> dict[str, Any]:
    """What sources import."""
    found: dict[str, Any] = {
        "plus": lambda total, x: total + x,
        "times": lambda total, x: total * x,
        "multiply_add": lambda x, y, z: x * y + z,
        "square": lambda x: x * x,
        "cube": lambda x: x * x * x,
        "lost": _lost,
        "mantissa": _mantissa,
        "exponent": _exponent,
        "mantissa_narrow": _mantissa,
        "exponent_narrow": _exponent,
        "scaled": lambda factor, power: np.ldexp(factor, int(np.clip(power, -2044, 2046))),
        "settled": lambda total, lost: total + lost if lost == lost else total,
        "exact_kernel": lambda function: function,
        "select": lambda condition, x, y: x if condition else y,
        "rounded_to_float16": lambda x: np.float32(np.float16(x)),
        "absolute_float": np.abs,
        "absolute_int": np.abs,
        "sign_f32": _sign_float,
        "sign_f64": _sign_float,
        "sign_int": lambda x: (1 if x > 0 else 0) - (1 if x < 0 else 0),
        "sign_uint": lambda x: 1 if x > 0 else 0,
        "maximum_float": np.maximum,
        "minimum_float": np.minimum,
        "maximum_int": lambda x, y: x if x > y else y,
        "minimum_int": lambda x, y: x if x < y else y,
        "floor_float": np.floor,
        "ceil_float": np.ceil,
        "rint_float": np.rint,
        "floordiv_int": _floordiv,
        "floordiv_uint": _floordiv,
        "mod_int": lambda x, y: _wrapped(0 if y == 0 else int(x) % int(y)),
        "mod_uint": lambda x, y: _wrapped(0 if y == 0 else int(x) % int(y)),
        "mod_float": np.remainder,
        "floordiv_float": _float_floordiv,
        "power_int": _power,
        "power_uint": _power,
        "store_fence": lambda: None,
        "two_vectors": lambda: None,
        "masked": lambda: None,
        "fetch_line": lambda address: None,
        "begin_flushing": lambda: 0,
        "end_flushing": lambda modes: None,
        "stream_out": ctypes.memmove,
        "field": lambda params, index: ctypes.c_int64.from_address(params + 8 * index).value,
        "range_kernel": lambda function: function,
    }
    for dtype in _CTYPES:
        found[f"load_{dtype}"] = found[f"peek_{dtype}"] = _loader(dtype)
        found[f"store_{dtype}"] = _storer(dtype)
        if "int" in dtype:
            for width in ("float32", "float64"):
                found[f"{width}_to_{dtype}"] = _saturating(dtype)
    for scalar in SCALARS.values():
        for end, made in (("f32", np.float32), ("f64", np.float64)):
            plain = scalar.numpy
            form = lambda *x, plain=plain, made=made: made(plain(*x))  # noqa: E731
            found.setdefault(scalar.helper(end), form)
            found.setdefault(scalar.helper(end, near=True), form)
    return found


NAMES = _names()


def _scratch(bits: int, held: list[Any]) -> Callable[[], int]:
    def scratch() -> int:
        block = ctypes.create_string_buffer(b"\xff" * (SCRATCH * bits // 8))  # NaN, if never stored
        held.append(block)
        return ctypes.addressof(block)

    return scratch


def python_form(text: str, failures: list[str]) -> Kernel:
    """A generated source as a Python function of a parameter block and a range of items."""
    tree = syntax.parse_module(text)
    tree.body = [one for one in tree.body if not isinstance(one, ast.ImportFrom | ast.Import)]
    held: list[Any] = []
    scope = NAMES | {f"scratch_{bits}": _scratch(bits, held) for bits in (8, 16, 32, 64)}
    scope["np"] = np
    exec(compile(tree, "<generated>", "exec"), scope)
    body: Kernel = scope["run"]

    def run(params: int, start: int, stop: int) -> None:
        try:
            with np.errstate(all="ignore"):
                body(params, start, stop)
        except Exception as error:  # C code called it, which knows no exceptions
            failures.append(f"{type(error).__name__}: {error}\n{text}")
        finally:
            held.clear()

    return run


class Interpreter:
    """Jobs of generated kernels that are Python; `failures` are exceptions within."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.sources = 0
        self.runs = 0
        """Launches of kernels: without any, a program was judged by NumPy alone."""
        self.delay = 0
        """Times at most that a new kernel is asked for before it is ready, as if compiled then."""
        self._left: dict[str, int] = {}
        self._jobs: dict[str, Job] = {}
        self._kept: list[Any] = []

    def submit(
        self, name: str, text: Callable[[], str], guess: Callable[[], int] | None = None
    ) -> Job | None:
        """As the service's, which is asked for all other kernels."""
        if name.startswith(("scan_", "join_", "driver")):
            return self._others(name, text)
        if name not in self._jobs:
            source = text()
            if not source.startswith('"""Generated by kbench'):
                return self._others(name, text)
            self.sources += 1
            callback = SIGNATURE(self._counted(python_form(source, self.failures)))
            self._kept.append(callback)
            address = ctypes.cast(callback, ctypes.c_void_p).value or 0
            self._jobs[name] = Job(name, text, state="ready", address=address)
            self._left[name] = zlib.crc32(name.encode()) % (self.delay + 1)
        self._left[name] -= 1
        return None if self._left[name] >= 0 else self._jobs[name]

    def _counted(self, kernel: Kernel) -> Kernel:
        def run(params: int, start: int, stop: int) -> None:
            self.runs += 1
            kernel(params, start, stop)

        return run

    def _others(self, name: str, text: Callable[[], str]) -> Job | None:
        return _submit(name, text)


_submit = service.submit  # of the service itself, also while `interpreted` stands in for it


@contextlib.contextmanager
def interpreted() -> Iterator[Interpreter]:
    """Meanwhile generated kernels are Python, and small arrays take them as large ones would."""
    found = Interpreter()
    service.prefetch()
    service.wait_idle()
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        enter(mock.patch.object(service, "submit", found.submit))
        enter(mock.patch.dict(loop_kernel._kernels, clear=True))
        enter(mock.patch.dict(row_kernel._kernels, clear=True))
        for module in (elementwise, library_step):
            enter(mock.patch.object(module, "MIN_LOOP_ELEMENTS", 2))
        enter(mock.patch.object(decompose_softmax, "MIN_ELEMENTS", 2))
        yield found
