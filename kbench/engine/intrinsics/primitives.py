"""The machine operations kernels are made of: memory access by address, bit patterns, selects.

Kernels take addresses as integers. Every load carries one alias scope and every store says that it
does not touch that scope, so that LLVM vectorises without run-time overlap checks, which would
fail for a kernel that works in place. A store may therefore only hit memory whose elements were
loaded earlier in the same step (`codegen/loop_kernel.py` copies an input that breaks this).
"""

from __future__ import annotations

import platform

import numpy as np

from kbench.engine.jit.numba_backend import inline, intrinsic, ir, target_features, types

_I1, _I8, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)

# dtype name -> (type in memory, Numba type, type as a value)
_LAYOUT = {
    "bool": (_I8, types.boolean, _I1),
    "int8": (_I8, types.int8, _I8),
    "uint8": (_I8, types.uint8, _I8),
    "int16": (ir.IntType(16), types.int16, ir.IntType(16)),
    "uint16": (ir.IntType(16), types.uint16, ir.IntType(16)),
    "int32": (ir.IntType(32), types.int32, ir.IntType(32)),
    "uint32": (ir.IntType(32), types.uint32, ir.IntType(32)),
    "int64": (_I64, types.int64, _I64),
    "uint64": (_I64, types.uint64, _I64),
    "float16": (ir.HalfType(), types.float32, ir.FloatType()),
    "float32": (ir.FloatType(), types.float32, ir.FloatType()),
    "float64": (ir.DoubleType(), types.float64, ir.DoubleType()),
}


_I16, _I32, _FLOAT, _HALF = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.HalfType()


def has_float16() -> bool:
    """Whether the target has instructions for float16; else LLVM would call a library for it."""
    return platform.machine() not in ("x86_64", "AMD64") or target_features().get("f16c", False)


def _word(number):
    return ir.Constant(_I32, number)


def _widened(builder, half):
    """A float16 as float32: exact. Without an instruction, its digits are moved to their places,
    and a product with 2**112 brings the exponent there, that of numbers below 2**-14 too."""
    if has_float16():
        return builder.fpext(half, _FLOAT)
    bits = builder.zext(builder.bitcast(half, _I16), _I32)
    sign = builder.shl(builder.and_(bits, _word(0x8000)), _word(16))
    body = builder.shl(builder.and_(bits, _word(0x7FFF)), _word(13))
    power = ir.Constant(_FLOAT, 2.0**112)
    scaled = builder.bitcast(builder.fmul(builder.bitcast(body, _FLOAT), power), _I32)
    is_special = builder.icmp_unsigned(">=", body, _word(0x7C00 << 13))  # infinite, or NaN
    whole = builder.select(is_special, builder.or_(body, _word(0x7F800000)), scaled)
    return builder.bitcast(builder.or_(whole, sign), _FLOAT)


def _narrowed(builder, value):
    """A float32 as float16, rounded to nearest, ties to even.

    Without an instruction: below 2**-14 a sum with 1/2 rounds, whose last digit is 2**-24; above,
    half a last digit is added, or just below it where the last digit is even.
    """
    if has_float16():
        return builder.fptrunc(value, _HALF)
    bits = builder.bitcast(value, _I32)
    sign = builder.lshr(builder.and_(bits, _word(0x80000000)), _word(16))
    size = builder.and_(bits, _word(0x7FFFFFFF))
    summed = builder.fadd(builder.bitcast(size, _FLOAT), ir.Constant(_FLOAT, 0.5))
    small = builder.sub(builder.bitcast(summed, _I32), _word(0x3F000000))
    odd = builder.and_(builder.lshr(size, _word(13)), _word(1))
    rounded = builder.add(builder.add(size, _word(0xFFF)), odd)
    normal = builder.lshr(builder.sub(rounded, _word(112 << 23)), _word(13))
    finite = builder.select(builder.icmp_unsigned("<", size, _word(113 << 23)), small, normal)
    digits = builder.and_(builder.lshr(size, _word(13)), _word(0x3FF))
    is_nan = builder.icmp_unsigned(">", size, _word(0x7F800000))
    special = builder.select(is_nan, builder.or_(digits, _word(0x7E00)), _word(0x7C00))
    is_large = builder.icmp_unsigned(">=", size, _word(143 << 23))  # 2**16, from where all is more
    whole = builder.or_(builder.select(is_large, special, finite), sign)
    return builder.bitcast(builder.trunc(whole, _I16), _HALF)


def input_scope(module):
    """The alias scope of inputs, as metadata: no store touches what a load of theirs reads."""
    domain = module.add_metadata(["kbench memory"])
    return module.add_metadata([module.add_metadata(["kbench inputs", domain])])


def _element(builder, address, index, memory):
    """Pointer to element `index` of the array of `memory` values at `address`."""
    base = builder.inttoptr(address, memory.as_pointer())
    return builder.gep(base, [index], source_etype=memory)


def _loader(dtype):
    memory, result, value = _LAYOUT[dtype]

    @intrinsic
    def load(typing, address, index):
        def codegen(context, builder, signature, arguments):
            place = _element(builder, arguments[0], arguments[1], memory)
            loaded = builder.load(place, typ=memory)
            loaded.set_metadata("alias.scope", input_scope(builder.module))
            if dtype == "bool":
                return builder.icmp_unsigned("!=", loaded, ir.Constant(memory, 0))
            return _widened(builder, loaded) if dtype == "float16" else loaded

        return result(types.intp, types.intp), codegen

    return load


def _storer(dtype):
    memory, given, _ = _LAYOUT[dtype]

    @intrinsic
    def store(typing, address, index, value):
        def codegen(context, builder, signature, arguments):
            address, index, value = arguments
            if dtype == "bool":
                value = builder.zext(value, memory)
            if dtype == "float16":
                value = _narrowed(builder, value)
            stored = builder.store(value, _element(builder, address, index, memory))
            stored.set_metadata("noalias", input_scope(builder.module))
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, given), codegen

    return store


def _peeker(dtype):
    """A load from scratch, which later steps write to: without the alias scope of inputs."""
    memory, result, _ = _LAYOUT[dtype]

    @intrinsic
    def peek(typing, address, index):
        def codegen(context, builder, signature, arguments):
            place = _element(builder, arguments[0], arguments[1], memory)
            return builder.load(place, typ=memory)

        return result(types.intp, types.intp), codegen

    return peek


def _stack(memory, count):
    """`count` elements on the stack of the kernel, as an address: scratch for one item."""

    @intrinsic
    def stack(typing):
        def codegen(context, builder, signature, arguments):
            with builder.goto_entry_block():
                block = builder.alloca(ir.ArrayType(memory, count))
                block.align = 64
            return builder.ptrtoint(block, _I64)

        return types.intp(), codegen

    return stack


def _saturating(source, target):
    """Float to integer as C does it, but clamped to the range, and NaN to 0."""
    name = f"llvm.fpto{'u' if target[0] == 'u' else 's'}i.sat"
    _, given, value = _LAYOUT[source]
    memory, result, _ = _LAYOUT[target]
    suffix = "f32" if source == "float32" else "f64"

    @intrinsic
    def convert(typing, x):
        def codegen(context, builder, signature, arguments):
            kind = ir.FunctionType(memory, [value])
            full = f"{name}.i{memory.width}.{suffix}"
            function = builder.module.globals.get(full) or ir.Function(builder.module, kind, full)
            return builder.call(function, arguments)

        return result(given), codegen

    return convert


def _float_operation(name, count, flags=()):
    """An LLVM operation on floats of either width."""

    def codegen(context, builder, signature, arguments):
        kind = arguments[0].type
        shape = ir.FunctionType(kind, [kind] * count)
        operation = builder.module.declare_intrinsic(name, [kind], shape)
        return builder.call(operation, arguments, fastmath=flags)

    if count == 1:

        @intrinsic
        def unary(typing, x):
            return x(x), codegen

        return unary
    if count == 2:

        @intrinsic
        def binary(typing, x, y):
            return x(x, x), codegen

        return binary

    @intrinsic
    def ternary(typing, x, y, z):
        return x(x, x, x), codegen

    return ternary


def _bits(source, target):
    _, given, _ = _LAYOUT[source]
    _, result, value = _LAYOUT[target]

    @intrinsic
    def convert(typing, x):
        def codegen(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], value)

        return result(given), codegen

    return convert


def polynomial(*coefficients):
    """Horner's scheme over constant coefficients, lowest first, in the dtype of its argument."""

    @intrinsic
    def evaluate(typing, z):
        def codegen(context, builder, signature, arguments):
            (z,) = arguments
            make = np.float32 if isinstance(z.type, ir.FloatType) else np.float64
            constants = [ir.Constant(z.type, float(make(c))) for c in coefficients]
            value = constants[-1]
            for constant in constants[-2::-1]:
                product = builder.fmul(value, z, flags=["contract"])
                value = builder.fadd(product, constant, flags=["contract"])
            return value

        return z(z), codegen

    return evaluate


def table(*values):
    """A constant float64 table, read at an index that is known to be inside."""

    @intrinsic
    def read(typing, index):
        def codegen(context, builder, signature, arguments):
            kind = ir.ArrayType(ir.DoubleType(), len(values))
            name = f"kbench.table.{abs(hash(values)):x}"
            constant = builder.module.globals.get(name)
            if constant is None:
                constant = ir.GlobalVariable(builder.module, kind, name)
                constant.initializer = ir.Constant(kind, [float(value) for value in values])
                constant.global_constant, constant.linkage = True, "internal"
            place = builder.gep(constant, [ir.Constant(_I64, 0), arguments[0]])
            value = builder.load(place)
            value.set_metadata("alias.scope", input_scope(builder.module))
            return value

        return types.float64(types.int64), codegen

    return read


def choice(*values):
    """A short constant float64 table, read by comparing: faster than memory inside SIMD loops."""

    @intrinsic
    def read(typing, index):
        def codegen(context, builder, signature, arguments):
            kind = ir.DoubleType()
            chosen = ir.Constant(kind, float(values[0]))
            for number, value in enumerate(values[1:], 1):
                here = builder.icmp_signed("==", arguments[0], ir.Constant(_I64, number))
                chosen = builder.select(here, ir.Constant(kind, float(value)), chosen)
            return chosen

        return types.float64(types.int64), codegen

    return read


@intrinsic
def select(typing, condition, x, y):
    """`x if condition else y`, both computed: no branch for the vectoriser to stumble on."""

    def codegen(context, builder, signature, arguments):
        return builder.select(*arguments)

    return x(types.boolean, x, x), codegen


@intrinsic
def remainder(typing, x, y):
    """What C's fmod gives: exact, with the sign of x."""

    def codegen(context, builder, signature, arguments):
        return builder.frem(*arguments)

    return x(x, x), codegen


@intrinsic
def call_range(typing, address, params, start, stop):
    """Call a range kernel through its address."""

    def codegen(context, builder, signature, arguments):
        shape = ir.FunctionType(ir.VoidType(), [_I64] * 3)
        target = builder.inttoptr(arguments[0], shape.as_pointer())
        builder.call(target, arguments[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), codegen


@intrinsic
def field(typing, params, index):
    """One integer of the parameter block."""

    def codegen(context, builder, signature, arguments):
        place = _element(builder, arguments[0], arguments[1], _I64)
        return builder.load(place, typ=_I64)

    return types.intp(types.intp, types.intp), codegen


load_bool, store_bool = _loader("bool"), _storer("bool")
load_int8, store_int8 = _loader("int8"), _storer("int8")
load_uint8, store_uint8 = _loader("uint8"), _storer("uint8")
load_int16, store_int16 = _loader("int16"), _storer("int16")
load_uint16, store_uint16 = _loader("uint16"), _storer("uint16")
load_int32, store_int32 = _loader("int32"), _storer("int32")
load_uint32, store_uint32 = _loader("uint32"), _storer("uint32")
load_int64, store_int64 = _loader("int64"), _storer("int64")
load_uint64, store_uint64 = _loader("uint64"), _storer("uint64")
load_float16, store_float16 = _loader("float16"), _storer("float16")
load_float32, store_float32 = _loader("float32"), _storer("float32")
load_float64, store_float64 = _loader("float64"), _storer("float64")

peek_int8, peek_uint8 = _peeker("int8"), _peeker("uint8")
peek_int16, peek_uint16 = _peeker("int16"), _peeker("uint16")
peek_int32, peek_uint32 = _peeker("int32"), _peeker("uint32")
peek_int64, peek_uint64 = _peeker("int64"), _peeker("uint64")
peek_float32, peek_float64 = _peeker("float32"), _peeker("float64")

integer_of = {
    (source, target): _saturating(source, target)
    for source in ("float32", "float64")
    for target in _LAYOUT
    if "int" in target
}
globals().update({f"{s}_to_{t}": convert for (s, t), convert in integer_of.items()})

bits_of_f32, f32_of_bits = _bits("float32", "int32"), _bits("int32", "float32")
bits_of_f64, f64_of_bits = _bits("float64", "int64"), _bits("int64", "float64")

rint = _float_operation("llvm.rint", 1)
floor = _float_operation("llvm.floor", 1)
ceil = _float_operation("llvm.ceil", 1)
fabs = _float_operation("llvm.fabs", 1)
square_root = _float_operation("llvm.sqrt", 1)
copysign = _float_operation("llvm.copysign", 2)
# NaN wins; which of two zeros of different sign wins is left open, as it is in NumPy.
largest = _float_operation("llvm.maximum", 2, ("nsz",))
smallest = _float_operation("llvm.minimum", 2, ("nsz",))
fused = _float_operation("llvm.fma", 3)
# x * y + z, rounded once where the processor has an instruction for it: for sums that nobody
# compares bit by bit.
multiply_add = _float_operation("llvm.fmuladd", 3)

SCRATCH_COLUMNS = 4096
"""Columns whose running results one item of a column fold keeps on its stack."""

scratch_8 = _stack(_I8, SCRATCH_COLUMNS)
scratch_16 = _stack(ir.IntType(16), SCRATCH_COLUMNS)
scratch_32 = _stack(ir.IntType(32), SCRATCH_COLUMNS)
scratch_64 = _stack(_I64, SCRATCH_COLUMNS)


@intrinsic
def _round_half(typing, x):
    def codegen(context, builder, signature, arguments):
        return _widened(builder, _narrowed(builder, arguments[0]))

    return types.float32(types.float32), codegen


@inline
def rounded_to_float16(x):
    """A float32 with the value that float16 storage would keep."""
    return _round_half(x)
