"""Machine operations on blocks of memory: copies, zeros, lines that are asked for before they are
read, and the scratch areas that threads take.

A range kernel does not know its thread. It takes a free scratch area with one atomic exchange and
gives it back when its range is done; there are as many areas as threads, so one is always free.
"""

from __future__ import annotations

from kbench.engine.jit.numba_backend import inline, intrinsic, ir, types

_I1, _I8, _I32, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _I8.as_pointer()


def _machine(module, name, arguments):
    kind = ir.FunctionType(ir.VoidType(), arguments)
    return module.globals.get(name) or ir.Function(module, kind, name)


@intrinsic
def copy_bytes(typing, target, source, count):
    """Copy between areas that do not overlap."""

    def codegen(context, builder, signature, arguments):
        kinds = [_POINTER, _POINTER, _I64, _I1]
        function = _machine(builder.module, "llvm.memcpy.p0.p0.i64", kinds)
        target, source = (builder.inttoptr(address, _POINTER) for address in arguments[:2])
        builder.call(function, [target, source, arguments[2], ir.Constant(_I1, 0)])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), codegen


@intrinsic
def zero_bytes(typing, target, count):
    """Set an area to zero."""

    def codegen(context, builder, signature, arguments):
        function = _machine(builder.module, "llvm.memset.p0.i64", [_POINTER, _I8, _I64, _I1])
        target = builder.inttoptr(arguments[0], _POINTER)
        zero = ir.Constant(_I8, 0)
        builder.call(function, [target, zero, arguments[1], ir.Constant(_I1, 0)])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 2), codegen


def _call(builder, context, arguments):
    kind = ir.FunctionType(ir.VoidType(), [_I64] * (len(arguments) - 1))
    builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
    return context.get_dummy_value()


@intrinsic
def call_6(typing, address, a, b, c, d, e, f):
    """Call a function of six integers by its address."""

    def codegen(context, builder, signature, arguments):
        return _call(builder, context, arguments)

    return types.void(*[types.intp] * 7), codegen


@intrinsic
def call_7(typing, address, a, b, c, d, e, f, g):
    """Call a function of seven integers by its address."""

    def codegen(context, builder, signature, arguments):
        return _call(builder, context, arguments)

    return types.void(*[types.intp] * 8), codegen


@intrinsic
def call_8(typing, address, a, b, c, d, e, f, g, h):
    """Call a function of eight integers by its address."""

    def codegen(context, builder, signature, arguments):
        return _call(builder, context, arguments)

    return types.void(*[types.intp] * 9), codegen


@intrinsic
def _exchange(typing, address, value):
    """Store a value and give the one before; what follows sees what its last owner wrote."""

    def codegen(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("xchg", place, arguments[1], "acq_rel")

    return types.intp(types.intp, types.intp), codegen


@inline
def take(flags, count):
    """The number of a free area, marked as taken in the `count` flags."""
    number = 0
    while _exchange(flags + 8 * number, 1) != 0:
        number += 1
        if number == count:
            number = 0
    return number


@inline
def give_back(flags, number):
    """Mark an area as free."""
    _exchange(flags + 8 * number, 0)


@intrinsic
def fetch_line(typing, address):
    """Ask for a cache line that will be read soon; any address may be named."""

    def codegen(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _I32, _I32, _I32])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [_POINTER], kind)
        hints = [ir.Constant(_I32, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        builder.call(fetch, [builder.inttoptr(arguments[0], _POINTER), *hints])
        return context.get_dummy_value()

    return types.void(types.intp), codegen
