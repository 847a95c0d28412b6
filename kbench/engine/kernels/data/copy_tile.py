"""Machine operations of data movement: blocks of bytes, past the caches, and tiles turned over.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.jit.numba_backend import intrinsic, ir, types
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_UNROLLED_VECTORS = 4


def _number(value):
    return ir.Constant(_I64, value)


def _pointer(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def _emit_bytes(builder, target, source, count):
    """A call of `memcpy`, which knows the machine's best way for every length."""
    kind = ir.IntType(8).as_pointer()
    shape = ir.FunctionType(ir.VoidType(), [kind, kind, _I64, _I1])
    copy = builder.module.declare_intrinsic("llvm.memcpy", [kind, kind, _I64], shape)
    places = [builder.inttoptr(address, kind) for address in (target, source)]
    builder.call(copy, [*places, count, ir.Constant(_I1, 0)])


@intrinsic
def copy_bytes(typing, target, source, count):
    """Copy `count` bytes between places that do not overlap."""

    def codegen(context, builder, signature, arguments):
        _emit_bytes(builder, *arguments)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


def _store_past(builder, line, pointer):
    """Write a whole line to where one begins, past the caches."""
    stored = builder.store(line, pointer, align=CACHE_LINE_BYTES)
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_I32, 1)]))


def _stream_function(module):
    """A function that writes past the caches, whole lines of the target at a time."""
    name = "kbench_stream"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 3), name)
    function.linkage = "linkonce_odr"
    target, source, count = function.args
    blocks = [function.append_basic_block(label) for label in ("head", "lines", "line", "tail")]
    builder = ir.IRBuilder(blocks[0])
    before = builder.and_(builder.sub(_number(0), target), _number(CACHE_LINE_BYTES - 1))
    before = builder.select(builder.icmp_signed("<", before, count), before, count)
    _emit_bytes(builder, target, source, before)
    step = _number(CACHE_LINE_BYTES * _UNROLLED_VECTORS)
    whole = builder.udiv(builder.sub(count, before), step)
    end = builder.add(before, builder.mul(whole, step))
    builder.branch(blocks[1])
    builder = ir.IRBuilder(blocks[1])
    place = builder.phi(_I64)
    place.add_incoming(before, blocks[0])
    builder.cbranch(builder.icmp_signed("<", place, end), blocks[2], blocks[3])
    builder = ir.IRBuilder(blocks[2])
    vector = ir.VectorType(_I32, CACHE_LINE_BYTES // 4)
    offsets = [builder.add(place, _number(CACHE_LINE_BYTES * i)) for i in range(_UNROLLED_VECTORS)]
    read = [_pointer(builder, builder.add(source, offset), vector) for offset in offsets]
    values = [builder.load(pointer, typ=vector, align=1) for pointer in read]
    for offset, value in zip(offsets, values, strict=True):
        _store_past(builder, value, _pointer(builder, builder.add(target, offset), vector))
    place.add_incoming(builder.add(place, step), blocks[2])
    builder.branch(blocks[1])
    builder = ir.IRBuilder(blocks[3])
    rest = builder.sub(count, end)
    _emit_bytes(builder, builder.add(target, end), builder.add(source, end), rest)
    builder.ret_void()
    return function


@intrinsic
def stream_bytes(typing, target, source, count):
    """As `copy_bytes`, past the caches: for what is too large to be found there again."""

    def codegen(context, builder, signature, arguments):
        builder.call(_stream_function(builder.module), arguments)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


def _halve_function(module, bits):
    """A function that takes every second element of twice as many, a vector at a time."""
    name = f"kbench_halve_{bits}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 3), name)
    function.linkage = "linkonce_odr"
    target, source, end = function.args
    size, lanes = bits // 8, TURN_LANES[bits]
    blocks = [function.append_basic_block(label) for label in ("entry", "head", "body", "exit")]
    ir.IRBuilder(blocks[0]).branch(blocks[1])
    builder = ir.IRBuilder(blocks[1])
    place = builder.phi(_I64)
    place.add_incoming(_number(0), blocks[0])
    builder.cbranch(builder.icmp_signed("<", place, end), blocks[2], blocks[3])
    builder = ir.IRBuilder(blocks[2])
    vector, picks = ir.VectorType(ir.IntType(bits), lanes), ir.VectorType(_I32, lanes)
    begin = builder.add(source, builder.mul(place, _number(2 * size)))
    halves = [
        builder.load(_pointer(builder, builder.add(begin, _number(i)), vector), typ=vector, align=1)
        for i in (0, lanes * size)
    ]
    taken = builder.shuffle_vector(*halves, ir.Constant(picks, list(range(0, 2 * lanes, 2))))
    to = builder.add(target, builder.mul(place, _number(size)))
    builder.store(taken, _pointer(builder, to, vector), align=1)
    place.add_incoming(builder.add(place, _number(lanes)), blocks[2])
    builder.branch(blocks[1])
    ir.IRBuilder(blocks[3]).ret_void()
    return function


def _halver(bits):
    @intrinsic
    def halve(typing, target, source, count):
        def codegen(context, builder, signature, arguments):
            builder.call(_halve_function(builder.module, bits), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 3), codegen

    return halve


def _turn_function(module, bits, lanes, past):
    """A function that turns a square of `lanes` x `lanes` elements over, in registers; `past` the
    caches, its rows must be whole lines of the target."""
    name = f"kbench_turn_{bits}{'_past' * past}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 4), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    source, source_step, target, target_step = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    vector, picks = ir.VectorType(ir.IntType(bits), lanes), ir.VectorType(_I32, lanes)

    def place(start, step, i):
        return _pointer(builder, builder.add(start, builder.mul(step, _number(i))), vector)

    rows = [builder.load(place(source, source_step, i), typ=vector, align=1) for i in range(lanes)]
    half = lanes // 2
    while half:  # exchange the blocks of this size beside the diagonal
        low = [lanes + (j ^ half) if j & half else j for j in range(lanes)]
        high = [lanes + j if j & half else j ^ half for j in range(lanes)]
        for i in range(lanes):
            if not i & half:
                pair = rows[i], rows[i | half]
                rows[i] = builder.shuffle_vector(*pair, ir.Constant(picks, low))
                rows[i | half] = builder.shuffle_vector(*pair, ir.Constant(picks, high))
        half //= 2
    for i, row in enumerate(rows):
        if past:
            _store_past(builder, row, place(target, target_step, i))
        else:
            builder.store(row, place(target, target_step, i), align=1)
    builder.ret_void()
    return function


def _turner(bits, lanes, past=False):
    @intrinsic
    def turn(typing, source, source_step, target, target_step):
        def codegen(context, builder, signature, arguments):
            builder.call(_turn_function(builder.module, bits, lanes, past), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 4), codegen

    return turn


TURN_LANES = {8: 16, 16: 16, 32: 16, 64: 8}
"""Rows and columns of the square that is turned over, by the bits of an element."""
# `count` elements must be whole vectors, and one more must follow: a vector reads what it skips.
halve_8, halve_16, halve_32, halve_64 = (_halver(bits) for bits in TURN_LANES)
turn_8, turn_16, turn_32, turn_64 = (_turner(bits, TURN_LANES[bits]) for bits in TURN_LANES)
turn_past_32, turn_past_64 = (_turner(bits, TURN_LANES[bits], past=True) for bits in (32, 64))
