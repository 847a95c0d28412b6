"""Arithmetic in which numbers below the smallest normal one are 0: x86's FTZ and DAZ, Arm's FZ.

Processors take some hundred cycles for such a number, and states of optimizers are full of them.
Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

import platform

from kbench.engine.jit.numba_backend import alloca_once, intrinsic, ir, types

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_IS_X86 = platform.machine() in ("x86_64", "AMD64")
_IS_ARM = platform.machine() in ("aarch64", "arm64")
_FLUSHED = 0x8040 if _IS_X86 else 1 << 24
"""The bits that make results and operands 0: FTZ and DAZ of MXCSR, FZ of FPCR."""


def _x86(builder, name, place):
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    call = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(call, [builder.bitcast(place, ir.IntType(8).as_pointer())])


def _modes(builder):
    """How the processor rounds now, as an integer; None where nothing is known of it."""
    if _IS_X86:
        place = alloca_once(builder, _I32)
        _x86(builder, "llvm.x86.sse.stmxcsr", place)
        return builder.zext(builder.load(place, typ=_I32), _I64)
    if _IS_ARM:
        return builder.asm(ir.FunctionType(_I64, []), "mrs $0, fpcr", "=r", [], True)
    return None


def _set_modes(builder, modes):
    if _IS_X86:
        place = alloca_once(builder, _I32)
        builder.store(builder.trunc(modes, _I32), place)
        _x86(builder, "llvm.x86.sse.ldmxcsr", place)
    elif _IS_ARM:
        kind = ir.FunctionType(ir.VoidType(), [_I64])
        builder.asm(kind, "msr fpcr, $0", "r,~{memory}", [modes], True)


@intrinsic
def begin_flushing(typing):
    """From here on such numbers are 0, in this thread; gives what `end_flushing` puts back."""

    def codegen(context, builder, signature, arguments):
        modes = _modes(builder)
        if modes is None:
            return ir.Constant(_I64, 0)
        _set_modes(builder, builder.or_(modes, ir.Constant(_I64, _FLUSHED)))
        return modes

    return types.intp(), codegen


@intrinsic
def end_flushing(typing, modes):
    """Compute as before `begin_flushing`."""

    def codegen(context, builder, signature, arguments):
        _set_modes(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.intp), codegen
