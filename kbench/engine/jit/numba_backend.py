"""The only `import numba`: what the compiled side of the engine is written with.

Modules that import this one are loaded by the process that compiles, never by `import kbench`.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterable
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
    "take_shortcuts",
    "target_features",
    "types",
    "use_whole_vectors",
]

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
_helper_options: dict[str, Any] = {"forceinline": True}
_EXACT: dict[str, Any] = {"error_model": "numpy"}
_I64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()

_FIRST_GENERATION = 30_000
"""Objects between two looks for circles of garbage.

Python looks each 700 objects, an eighth of the time, as Numba makes many objects that stay."""

_SECOND_GENERATION, _THIRD_GENERATION = 10, 10
_NOTHING, _VARIABLE, _INSTRUCTION, _SEQUENCE, _MAPPING = range(5)  # what a value may hold

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
    take_shortcuts()


def target_features() -> dict[str, bool]:
    """What Numba compiles for, by LLVM's names: the host's features, or those its user set."""
    listed = str(registry.cpu_target.target_context.codegen().magic_tuple()[2])
    return {name[1:]: name[0] == "+" for name in listed.split(",") if name}


def take_shortcuts() -> list[str]:
    """Take shorter ways through Numba, all that it allows; gives the names of those it does not.

    Each gives what Numba's own way gives, so that machine code stays the same to the byte. They
    reach into Numba: where a name is missing that one needs, Numba's own way remains.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_FIRST_GENERATION, _SECOND_GENERATION, _THIRD_GENERATION)
    return [shortcut.__name__ for shortcut in _SHORTCUTS if not _is_taken(shortcut)]


def _is_taken(shortcut: Callable[[], None]) -> bool:
    try:
        shortcut()
    except (AttributeError, ImportError):
        return False
    return True


def _found(path: str) -> Any:
    """A module of Numba, or what it defines, as `numba.core.ir:Inst`."""
    module, _, name = path.partition(":")
    value = import_module(module)
    return getattr(value, name) if name else value


def list_variables() -> None:
    """Find the variables of an instruction without a call and a list for each value in it."""
    ir = _found("numba.core.ir")
    variable, instruction = ir.Var, ir.Inst
    _ = instruction._rec_list_vars
    kinds: dict[type, int] = {variable: _VARIABLE}

    def kind_of(kind: type) -> int:
        if issubclass(kind, variable):
            found = _VARIABLE
        elif issubclass(kind, instruction):
            found = _INSTRUCTION
        elif issubclass(kind, list | tuple):
            found = _SEQUENCE
        else:
            found = _MAPPING if issubclass(kind, dict) else _NOTHING
        kinds[kind] = found
        return found

    def gather(values: Iterable[Any], into: list[Any]) -> None:
        for value in values:
            kind = kinds.get(type(value), -1)
            if kind < 0:
                kind = kind_of(type(value))
            if kind == _VARIABLE:
                into.append(value)
            elif kind == _INSTRUCTION:
                into.extend(value.list_vars())
            elif kind == _SEQUENCE:
                gather(value, into)
            elif kind == _MAPPING:
                gather(value.values(), into)

    def variables(self: Any, value: Any) -> list[Any]:
        into: list[Any] = []
        if type(value) is dict:
            gather(value.values(), into)
        else:
            gather((value,), into)
        return into

    instruction._rec_list_vars = variables


def remember_calls() -> None:
    """Remember which signature a call of an operator, a helper or a cast has, for its operands.

    Numba tries all loops of all ufuncs that may be meant, at each `a + b`. What it finds depends on
    the function and the types alone, but for `overload`: that compiles for the flags of the caller.
    """
    context = _found("numba.core.typing.context:BaseContext")
    overload = _found("numba.core.typing.templates:_OverloadFunctionTemplate")
    types = _found("numba.core.types")
    kinds, own = {types.Function, types.NumberClass}, context.resolve_function_type
    known: dict[Any, Any] = {}

    def is_lasting(function: Any, signature: Any) -> bool:
        for template in getattr(function, "templates", ()):
            if issubclass(template, overload):
                compiled = getattr(template, "_compiled_overloads", None)
                if compiled is None or signature.args in compiled:
                    return False
        return True

    def resolve(self: Any, function: Any, args: Any, kws: Any) -> Any:
        if kws or type(function) not in kinds:
            return own(self, function, args, kws)
        key = (self, function, tuple(args))
        signature = known.get(key)
        if signature is None:
            signature = own(self, function, args, kws)
            if signature is not None and is_lasting(function, signature):
                known[key] = signature
        return signature

    context.resolve_function_type = resolve


_SHORTCUTS = (list_variables, remember_calls)
