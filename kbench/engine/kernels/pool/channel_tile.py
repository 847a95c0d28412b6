"""The inner loops of pooling, with the running values of a window kept in vector registers.

`gathered` gives the largest or the mean of each window; `routed` finds the first cell that has the
largest value, and gives it what arrived at the window; `dealt` gives it to all of them. The
caller leaves cells outside of the image out.

Only the background thread imports this: it loads LLVM.
"""

from __future__ import annotations

from typing import Any

from kbench.engine.intrinsics.fma_tile import number
from kbench.engine.jit.numba_backend import intrinsic, ir, types
from kbench.engine.kernels.depthwise.tile import Channels

PREFETCH_BYTES = 2048
"""Bytes from what is read to what will be."""
GROUP_VECTORS = (4, 2, 1)
"""Vectors of channels that go over the windows together."""


class _Windows(Channels):
    """Loops over windows side by side, whose cells are told by a table."""

    @property
    def index(self):
        """Integers as wide as an element, so that comparing them says which elements are meant."""
        return ir.IntType(8 * self.size)

    def joined(self, builder, kind, old, value):
        """The sum, or the larger; NaN is larger than anything."""
        if kind == "average":
            return builder.fadd(old, value)
        larger = builder.fcmp_ordered(">", value, old)
        nan = builder.fcmp_unordered("uno", value, value)
        return builder.select(builder.or_(larger, nan), value, old)

    def ahead(self, builder, address, mask):
        """A vector, and a word to the memory about one some windows on.

        Comparisons that wait for their operands fill the processor's queues before the loads of
        the next windows have been seen.
        """
        self.prefetch(builder, builder.add(address, number(PREFETCH_BYTES)))
        return self.read(builder, address, mask)

    def past(self, builder, value, address, mask, stream):
        """Write a vector; `stream` past the caches, to where whole vectors are aligned."""
        if not stream or mask is not None:
            self.write(builder, value, address, mask)
            return
        self.write_past(builder, value, address)

    def emit_gathered(self, kind, stream):
        """(windows, table, taps, step_x, out, step_out, divides, channels)."""
        windows, table, taps, step_x, out, step_out, divides, channels = self.function.args
        low = float("-inf") if kind == "max" else 0.0
        start = ir.Constant(self.vector, [low] * self.lanes)

        def body(builder, offset, vectors, mask):
            shifts = [number(v * self.lanes * self.size) for v in range(vectors)]
            cells = self.spread(builder, builder.sitofp(taps, self.element))
            whole = ir.Constant(self.vector, [1.0] * self.lanes)
            one = builder.icmp_signed("==", divides, number(0))
            cells = builder.select(one, whole, cells)

            def window(outer, _index, state):
                from_x, to = state

                def tap(inner, t, values):
                    x = self.integer(inner, inner.add(table, inner.mul(t, number(16))))
                    x = inner.add(x, from_x)
                    read = [self.ahead(inner, inner.add(x, shift), mask) for shift in shifts]
                    pairs = zip(values, read, strict=True)
                    return inner, [self.joined(inner, kind, *pair) for pair in pairs]

                outer, values = self.repeat(outer, taps, [start] * vectors, tap)
                for value, shift in zip(values, shifts, strict=True):
                    if kind == "average":
                        value = outer.fdiv(value, cells)
                    self.past(outer, value, outer.add(to, shift), mask, stream)
                return outer, [outer.add(from_x, step_x), outer.add(to, step_out)]

            first = [offset, builder.add(out, offset)]
            return self.repeat(builder, windows, first, window)[0]

        self.loop(channels, GROUP_VECTORS, body)
        return self.function

    def emit_routed(self, adds, stream):
        """(windows, table, taps, step_x, g, step_g, away, channels), `away` from x to out."""
        windows, table, taps, step_x, g, step_g, away, channels = self.function.args

        def body(builder, offset, vectors, mask):
            shifts = [number(v * self.lanes * self.size) for v in range(vectors)]

            def window(outer, _index, state):
                from_x, at_g = state
                outer, winners = self.first_largest(outer, table, taps, from_x, shifts, mask)
                given = [self.read(outer, outer.add(at_g, shift), mask) for shift in shifts]

                def tap(inner, t, _state):
                    pair = inner.add(table, inner.mul(t, number(16)))
                    to = inner.add(inner.add(self.integer(inner, pair), from_x), away)
                    places = [inner.add(to, shift) for shift in shifts]
                    now = self.spread(inner, inner.trunc(t, self.index))
                    hits = [inner.icmp_signed("==", winner, now) for winner in winners]
                    if adds:
                        own = inner.icmp_signed("!=", self.integer(inner, pair, 8), number(0))
                        with inner.if_then(own):
                            self.add_where(inner, hits, given, places, mask)
                    else:
                        for hit, value, place in zip(hits, given, places, strict=True):
                            value = inner.select(hit, value, self.zero)
                            self.past(inner, value, place, mask, stream)
                    return inner, []

                outer, _ = self.repeat(outer, taps, [], tap)
                return outer, [outer.add(from_x, step_x), outer.add(at_g, step_g)]

            first = [offset, builder.add(g, offset)]
            return self.repeat(builder, windows, first, window)[0]

        self.loop(channels, GROUP_VECTORS, body)
        return self.function

    def first_largest(self, builder, table, taps, from_x, shifts, mask):
        """The cell of a window, by its place in the table, that has the largest value first; a NaN
        is larger than anything. Gives the builder behind, and a vector of places for each shift.
        """
        kind = ir.VectorType(self.index, self.lanes)
        low = ir.Constant(self.vector, [float("-inf")] * self.lanes)
        nowhere = ir.Constant(kind, [0] * self.lanes)
        comparable = ir.Constant(self.mask, [1] * self.lanes)
        count = len(shifts)

        def tap(inner, t, state):
            x = inner.add(self.integer(inner, inner.add(table, inner.mul(t, number(16)))), from_x)
            now = self.spread(inner, inner.trunc(t, self.index))
            tops, places, still = state[:count], state[count : 2 * count], state[2 * count :]
            after: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
            for shift, top, place, numbers in zip(shifts, tops, places, still, strict=True):
                value = self.ahead(inner, inner.add(x, shift), mask)
                larger = inner.fcmp_unordered(">", value, top)
                larger = inner.and_(larger, numbers)  # nothing takes the place of a NaN
                after[0].append(inner.select(larger, value, top))
                after[1].append(inner.select(larger, now, place))
                number_too = inner.fcmp_ordered("ord", value, value)
                after[2].append(inner.and_(numbers, number_too))
            return inner, [*after[0], *after[1], *after[2]]

        first = [low] * count + [nowhere] * count + [comparable] * count
        builder, state = self.repeat(builder, taps, first, tap)
        return builder, state[count : 2 * count]

    def add_where(self, builder, hits, values, places, mask):
        """Add to what is at places, in some lanes."""
        for hit, value, place in zip(hits, values, places, strict=True):
            old = self.read(builder, place, mask)
            self.write(builder, builder.select(hit, builder.fadd(old, value), old), place, mask)

    def emit_shared(self, stream):
        """(windows, table, taps, step_x, g, step_g, channels): each cell gets its part."""
        windows, table, taps, step_x, g, step_g, channels = self.function.args

        def body(builder, offset, vectors, mask):
            shifts = [number(v * self.lanes * self.size) for v in range(vectors)]
            cells = self.spread(builder, builder.sitofp(taps, self.element))

            def window(outer, _index, state):
                to, at = state
                places = [outer.add(at, shift) for shift in shifts]
                parts = [outer.fdiv(self.ahead(outer, place, mask), cells) for place in places]

                def tap(inner, t, _state):
                    place = self.integer(inner, inner.add(table, inner.mul(t, number(16))))
                    for part, shift in zip(parts, shifts, strict=True):
                        target = inner.add(inner.add(place, to), shift)
                        self.past(inner, part, target, mask, stream)
                    return inner, []

                outer, _ = self.repeat(outer, taps, [], tap)
                return outer, [outer.add(to, step_x), outer.add(at, step_g)]

            return self.repeat(builder, windows, [offset, builder.add(g, offset)], window)[0]

        self.loop(channels, GROUP_VECTORS, body)
        return self.function


def gathered(kind, dtype, lanes, stream):
    """An operation on windows side by side: the "max" or the "average" of each."""

    @intrinsic
    def run(typing, windows, table, taps, step_x, out, step_out, divides, channels):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_pool_{kind}_{dtype}_{lanes}_{int(stream)}"
            one = _Windows(builder.module, dtype, lanes, name, 8)
            builder.call(one.emit_gathered(kind, stream), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return run


def routed(dtype, lanes, adds, stream):
    """An operation on windows side by side: what arrived goes to the cell with the largest value.

    With `adds` it is added where the table's second number is not 0; else every cell is written.
    """

    @intrinsic
    def run(typing, windows, table, taps, step_x, g, step_g, away, channels):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_pool_routed_{dtype}_{lanes}_{int(adds)}_{int(stream)}"
            one = _Windows(builder.module, dtype, lanes, name, 8)
            builder.call(one.emit_routed(adds, stream), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return run


def dealt(dtype, lanes, stream):
    """An operation on windows side by side: what arrived is shared out among their cells."""

    @intrinsic
    def run(typing, windows, table, taps, step_x, g, step_g, channels):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_pool_shared_{dtype}_{lanes}_{int(stream)}"
            one = _Windows(builder.module, dtype, lanes, name, 7)
            builder.call(one.emit_shared(stream), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return run
