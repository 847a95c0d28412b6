"""The inner loop of gradients to inputs with few channels: rows of numbers added where they belong.

Only the background thread imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import number
from kbench.engine.jit.numba_backend import intrinsic, types
from kbench.engine.kernels.depthwise.tile import Channels


def _add(module, dtype, lanes, name):
    """(rows, source, step, target, step, length): each row of the source is added to its target."""
    one = Channels(module, dtype, lanes, name, 6)
    rows, source, step_source, target, step_target, length = one.function.args

    def body(builder, offset, vectors, mask):
        shifts = [number(v * lanes * one.size) for v in range(vectors)]

        def row(inner, _index, state):
            at, to = state
            for shift in shifts:
                place = inner.add(to, shift)
                value = one.read(inner, inner.add(at, shift), mask)
                value = inner.fadd(value, one.read(inner, place, mask))
                one.write(inner, value, place, mask)
            return inner, [inner.add(at, step_source), inner.add(to, step_target)]

        first = [builder.add(source, offset), builder.add(target, offset)]
        return one.repeat(builder, rows, first, row)[0]

    one.loop(length, (1,), body)
    return one.function


def added(dtype, lanes):
    """An operation that adds rows to others, which do not overlap."""

    @intrinsic
    def run(typing, rows, source, step_source, target, step_target, length):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_added_{dtype}_{lanes}"
            builder.call(_add(builder.module, dtype, lanes, name), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), codegen

    return run
