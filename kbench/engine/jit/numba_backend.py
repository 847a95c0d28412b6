"""What the compiled side is written with; only this file and the shortcuts import Numba.

Modules that import this one are loaded by the process that compiles, never by `import kbench`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numba.core.codegen
import numba.core.compiler
import numba.core.config
import numba.core.errors
import numba.extending
from llvmlite import ir
from numba import njit, types
from numba.core import registry
from numba.core.ccallback import _CFuncCompiler
from numba.core.cgutils import alloca_once
from numba.core.compiler_lock import global_compiler_lock

from kbench.engine.jit.compiling import shortcuts

__all__ = [
    "Entry",
    "alloca_once",
    "any_order",
    "compile_objects_only",
    "entry",
    "exact_inline",
    "exact_kernel",
    "function",
    "inline",
    "intrinsic",
    "ir",
    "part",
    "range_kernel",
    "target_features",
    "tell_of_loop",
    "types",
    "use_whole_vectors",
]

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
_helper_options: dict[str, Any] = {"forceinline": True}
_EXACT: dict[str, Any] = {"error_model": "numpy"}
_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()

_own_catch = numba.core.errors.WarningsFixer.catch_warnings


def _catch_warnings(
    fixer: Any, filename: str | None = None, lineno: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Numba's own, except beside the thread of a user.

    `warnings.catch_warnings` swaps the filters of the whole process: in a thread beside the user's
    it undid what the user set meanwhile, and left its own behind.
    """
    if threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    caught: contextlib.AbstractContextManager[None] = _own_catch(fixer, filename, lineno)
    return caught


numba.core.errors.WarningsFixer.catch_warnings = _catch_warnings


def _load_numpy_support() -> None:
    """Load what Numba knows of NumPy without `scipy.linalg`, which it imports just to see it there.

    That is a fifth to a quarter of a compiler's start; and SciPy swaps the warning filters of the
    process, too, while it is imported. Products by BLAS, which no kernel of ours has, look again.
    """
    linalg: Any = import_module("numba.np.linalg")
    own = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = own


_load_numpy_support()


class _Compiler(_CFuncCompiler):  # type: ignore[misc]
    """Compiles up to LLVM's instructions; `Entry` adds the way in."""

    def _customize_flags(self, flags):
        flags = super()._customize_flags(flags)
        flags.no_cfunc_wrapper = True
        return flags


_library: Any = numba.core.codegen.CPUCodeLibrary
_own_add = _library.add_ir_module


def _add_ir_module(library: Any, module: Any) -> None:
    """Numba's own, after which instructions are text: all branches are there, none is optimised."""
    for block, hint in vars(module).pop("loop_ends", ()):
        block.terminator.set_metadata("llvm.loop", _LoopName(module, hint))
    _own_add(library, module)


_library.add_ir_module = _add_ir_module


class _LoopName(ir.MDValue):  # type: ignore[misc]
    """Metadata that names one loop, and says one thing of it: it begins with itself."""

    def __init__(self, module: Any, said: Any) -> None:
        super().__init__(module, [said], name=str(len(module.metadata)))

    def descr(self, buf: list[str]) -> None:
        (said,) = self.operands
        buf.append(f"distinct !{{ {self.get_reference()}, {said.get_reference()} }}\n")


def tell_of_loop(builder: Any, hint: str, value: Any) -> None:
    """Give LLVM a hint, by its name and a constant, of the loop whose body ends here."""
    module = builder.module
    said = module.add_metadata([ir.MetaDataString(module, hint), value])
    vars(module).setdefault("loop_ends", []).append((builder.block, said))


class Entry:
    """A compiled function of integers, with an integer as its result or none, as object code.

    Its way in is a plain C function. Numba's own would bring the reporting of exceptions along, and
    so refer to much of Python; kernels raise none. `symbol` is its name in the object code.
    """

    def __init__(
        self, body: Callable[..., Any], count: int, options: dict[str, Any], returns: bool = False
    ) -> None:
        self.symbol = f"kbench_{body.__name__}"
        self.object = _object_of(body, self.symbol, count, options, returns)


@global_compiler_lock
def _object_of(
    body: Callable[..., Any], symbol: str, count: int, options: dict[str, Any], returns: bool
) -> bytes:
    compiler = _Compiler(body, registry.cpu_target, options, {}, numba.core.compiler.Compiler)
    result = compiler.compile((types.intp,) * count, types.intp if returns else types.void)
    library = result.library
    module = library.create_ir_module(symbol)
    value = _I64 if returns else _POINTER
    outer_kind = ir.FunctionType(_I64 if returns else ir.VoidType(), [_I64] * count)
    outer = ir.Function(module, outer_kind, symbol)
    inner_kind = ir.FunctionType(
        ir.IntType(32), [value.as_pointer(), _POINTER.as_pointer()] + [_I64] * count
    )
    inner = ir.Function(module, inner_kind, result.fndesc.mangled_name)
    builder = ir.IRBuilder(outer.append_basic_block())
    places = [builder.alloca(value), builder.alloca(_POINTER)]  # of the result and an exception
    builder.call(inner, [*places, *outer.args])
    if returns:
        builder.ret(builder.load(places[0], typ=_I64))
    else:
        builder.ret_void()
    library.add_ir_module(module)
    library.finalize()
    machine = registry.cpu_target.target_context.codegen()._tm
    return bytes(machine.emit_object(library._final_module))


def intrinsic(function: Callable[..., Any]) -> Any:
    """An operation given as LLVM instructions; called like a function inside kernels."""
    return numba.extending.intrinsic(function)


def inline(function: Callable[..., Any]) -> Any:
    """A scalar helper that is merged into its callers, so that their loops become SIMD.

    `forceinline` matters: long polynomials exceed LLVM's limit, and a call blocks vectorising.
    """
    return njit(**_helper_options, **_OPTIONS)(function)


def part(function: Callable[..., Any]) -> Any:
    """A part of a kernel, as if its lines stood where it is called: what it costs is to read it.

    Numba puts it there before LLVM sees anything, so that a long kernel can be cut into parts and
    remains the same code. A part may be given helpers and dtypes. It ends with its last line.
    """
    return njit(inline="always")(function)


def any_order(function: Callable[..., Any]) -> Any:
    """A helper whose additions may be regrouped: the step of a fold, and nothing else.

    Only this step, so that `(x + y) - y` in a user's expression stays what it is.
    """
    flags = {"reassoc", "contract", "nsz"}
    return njit(**_helper_options, error_model="numpy", fastmath=flags)(function)


def range_kernel(function: Callable[..., Any]) -> Entry:
    """A kernel over a range of items, reached by its address through the one driver.

    Its arguments: address of the parameter block, first item, end item.
    """
    return Entry(function, 3, _OPTIONS)


def exact_inline(function: Callable[..., Any]) -> Any:
    """As `inline`, but each product and sum is rounded on its own, as NumPy rounds them."""
    return njit(**_helper_options, **_EXACT)(function)


def exact_kernel(function: Callable[..., Any]) -> Entry:
    """As `range_kernel`, but each product and sum is rounded on its own, as NumPy rounds them."""
    return Entry(function, 3, _EXACT)


def entry(count: int) -> Callable[[Callable[..., Any]], Entry]:
    """A function of `count` integers that other kernels call by its address.

    By address, or Numba would link and optimise it once more into every caller.
    """
    return lambda body: Entry(body, count, _OPTIONS)


def function(count: int) -> Callable[[Callable[..., Any]], Entry]:
    """A function of `count` integers that gives one, for callers outside of kernels."""
    return lambda body: Entry(body, count, _OPTIONS, returns=True)


def use_whole_vectors() -> None:
    """Compile for vectors of 512 bits where the machine has them and does not slow down for them.

    LLVM keeps to 256 bits on all of Intel's processors, as the first that had 512 lowered their
    clock for them; from Ice Lake on (known by AVX-512 VBMI2) exponentials take two thirds of the
    time with whole vectors. Numba reads its settings once, before it first compiles, and for all
    code of a process, so this is for a process that compiles kernels alone.
    """
    config = numba.core.config
    if config.CPU_NAME is None and config.CPU_FEATURES is None:
        features = numba.core.codegen.get_host_cpu_features()
        if "+avx512vbmi2" in features.split(","):
            config.CPU_FEATURES = f"{features},-prefer-256-bit"


def compile_objects_only() -> None:
    """Compile to object code alone: nothing can be called in this process from now on.

    Numba makes machine code of each helper for this process, with a way in from Python and one from
    C, although kernels take helpers in whole; and of each kernel, which is then made once more for
    its file. Without all that a kernel takes three quarters of the time. It must come before the
    first helper is declared.
    """
    _helper_options.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
    library: Any = numba.core.codegen.JITCodeLibrary
    codegen: Any = numba.core.codegen.JITCPUCodegen
    library._finalize_specific = lambda self: None
    library.get_pointer_to_function = lambda self, name: 0
    codegen._add_module = lambda self, module: None
    codegen.set_env = lambda self, name, environment: None
    shortcuts.take_all()


def target_features() -> dict[str, bool]:
    """What Numba compiles for, by LLVM's names: the host's features, or those its user set."""
    listed = str(registry.cpu_target.target_context.codegen().magic_tuple()[2])
    return {name[1:]: name[0] == "+" for name in listed.split(",") if name}
