"""Storing past the caches: a block of results is made in scratch, then streamed in whole lines.

Only what compiles imports this: it loads LLVM. `runtime/cpu_caches` says when it is worth while.
"""

from __future__ import annotations

from kbench.engine.intrinsics.primitives import peek_uint8, store_uint8
from kbench.engine.jit.numba_backend import inline, intrinsic, ir, types
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

_I64 = ir.IntType(64)
_LINE = ir.VectorType(_I64, 8)


@intrinsic
def _stream_line(typing, target, source):
    """Copy one line to where a line begins, without reading it into the cache first."""

    def codegen(context, builder, signature, arguments):
        target, source = (builder.inttoptr(address, _LINE.as_pointer()) for address in arguments)
        line = builder.load(source, typ=_LINE, align=8)
        stored = builder.store(line, target, align=CACHE_LINE_BYTES)
        one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        stored.set_metadata("nontemporal", one)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@intrinsic
def store_fence(typing):
    """What was streamed is seen by whoever sees what is written after this."""

    def codegen(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@inline
def before_line(address, step, size):
    """Elements of `size` bytes before the one that begins a line, in rows `step` bytes apart; none
    where lines do not begin alike in all rows."""
    if step & (CACHE_LINE_BYTES - 1) != 0 or address % size != 0:
        return 0
    return (
        (CACHE_LINE_BYTES - (address & (CACHE_LINE_BYTES - 1))) & (CACHE_LINE_BYTES - 1)
    ) // size


@inline
def stream_out(target, source, size):
    """Write `size` bytes of scratch to memory, whole lines of it past the caches."""
    head = min(before_line(target, 0, 1), size)
    for j in range(head):
        store_uint8(target, j, peek_uint8(source, j))
    end = head + (size - head) // CACHE_LINE_BYTES * CACHE_LINE_BYTES
    for j in range(head, end, CACHE_LINE_BYTES):
        _stream_line(target + j, source + j)
    for j in range(end, size):
        store_uint8(target, j, peek_uint8(source, j))
