"""What threads agree by: integers in memory that they change one at a time, in one order."""

from __future__ import annotations

from kbench.engine.jit.numba_backend import intrinsic, ir, types

_I64 = ir.IntType(64)
_ORDER = "seq_cst"


def _place(builder, address, index):
    base = builder.inttoptr(address, _I64.as_pointer())
    return builder.gep(base, [index], source_etype=_I64)


@intrinsic
def atomic_add(typing, address, index, value):
    """Add to an integer; gives what it was before."""

    def codegen(context, builder, signature, arguments):
        place = _place(builder, *arguments[:2])
        return builder.atomic_rmw("add", place, arguments[2], _ORDER)

    return types.intp(*[types.intp] * 3), codegen


@intrinsic
def atomic_get(typing, address, index):
    """Read an integer that another thread may be writing."""

    def codegen(context, builder, signature, arguments):
        place = _place(builder, *arguments)
        return builder.load_atomic(place, _ORDER, 8, typ=_I64)

    return types.intp(types.intp, types.intp), codegen


@intrinsic
def atomic_set(typing, address, index, value):
    """Write an integer; what was written before it is then seen by whoever reads it."""

    def codegen(context, builder, signature, arguments):
        place = _place(builder, *arguments[:2])
        builder.store_atomic(arguments[2], place, _ORDER, 8)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), codegen


@intrinsic
def pause(typing):
    """Tell the processor that this thread waits in a loop."""

    def codegen(context, builder, signature, arguments):
        if "x86" in builder.module.triple:
            kind, name = ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause"
            known = builder.module.globals.get(name)
            builder.call(known or ir.Function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _caller(count, result=None):
    def codegen(context, builder, signature, arguments):
        kind = ir.FunctionType(result or ir.IntType(32), [_I64] * count)
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        value = builder.call(target, arguments[1:])
        return value if result else context.get_dummy_value()

    return codegen


@intrinsic
def call_1(typing, address, x):
    """Call a C function of one pointer, whose result is of no interest."""
    return types.void(types.intp, types.intp), _caller(1)


@intrinsic
def call_2(typing, address, x, y):
    """Call a C function of two pointers, whose result is of no interest."""
    return types.void(*[types.intp] * 3), _caller(2)


@intrinsic
def ask_1(typing, address, x):
    """Call a C function of one pointer or size that gives another."""
    return types.intp(types.intp, types.intp), _caller(1, _I64)


@intrinsic
def ask_2(typing, address, x, y):
    """Call a C function of two pointers or sizes that gives another."""
    return types.intp(*[types.intp] * 3), _caller(2, _I64)
