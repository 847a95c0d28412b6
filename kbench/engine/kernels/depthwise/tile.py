"""The two inner loops of depthwise convolution, with sums kept in vector registers.

`sums`: some places of some rows of the result, each the sum over taps of a place of the input times
the tap's weights, channel by channel. `dots`: for the gradient to the weights, the sums over places
of some rows of their products with what taps see there. Taps and places that lie outside are left
out by the caller, so nothing is padded.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import Emitter, number
from kbench.engine.jit.numba_backend import intrinsic, ir, types

MOST_ROWS = 3
"""Rows of the result that are computed together: what one reads, the next finds in the first
cache. Three take six sevenths of the time of one, and six not much less than three."""
TAPS = (1, 2, 3, 4, 6, 9)
"""Taps whose gradients are summed together: 9 of two vectors take 18 of 32 registers, 9 of one take
9 of 16. The kernel `depthwise/sources/reduce` knows these numbers."""
SIZES = 7
"""Numbers in the block of sizes: see `_Sums`."""
_I64 = ir.IntType(64)


def most_pixels(dtype, lanes):
    """Places side by side in `MOST_ROWS` rows, with a sum in a register for each vector of theirs.

    Few, so that the processor sees the loads of the next ones while these wait for the memory.
    """
    return 2 if _vectors(dtype, lanes) > 1 else 4


def _vectors(dtype, lanes):
    """Vectors of channels that are summed together: two where there are 32 registers."""
    return 2 if lanes * (4 if dtype == "float32" else 8) == 64 else 1


class Channels(Emitter):
    """A function that goes over the channels, some vectors at a time, and the rest with a mask."""

    def loop(self, channels, groups, body) -> None:
        """Emit the whole function: see `over`."""
        _, builder = self.block("entry")
        self.over(builder, channels, groups, body).ret_void()

    def over(self, builder, channels, groups, body):
        """Emit `body(builder, byte offset, vectors, mask)`, which gives the builder to go on with.

        `groups` are numbers of vectors, the largest first; the last is 1. Gives the builder behind.
        """
        done = number(0)
        for vectors in groups:
            step = vectors * self.lanes
            left = builder.sub(channels, done)
            end = builder.add(done, builder.and_(left, number(-step)))
            head, in_head = self.block("head")
            inside, in_body = self.block("inside")
            after, in_after = self.block("after")
            before = builder.block
            builder.branch(head)
            c = in_head.phi(_I64)
            in_head.cbranch(in_head.icmp_signed("<", c, end), inside, after)
            in_body = body(in_body, in_body.mul(c, number(self.size)), vectors, None)
            following = in_body.add(c, number(step))
            c.add_incoming(done, before)
            c.add_incoming(following, in_body.block)
            in_body.branch(head)
            builder, done = in_after, end
        rest, in_rest = self.block("rest")
        finish, in_finish = self.block("finish")
        left = builder.sub(channels, done)
        builder.cbranch(builder.icmp_signed(">", left, number(0)), rest, finish)
        (mask,) = self.masks(in_rest, left, 1)
        in_rest = body(in_rest, in_rest.mul(done, number(self.size)), 1, mask)
        in_rest.branch(finish)
        return in_finish

    def read(self, builder, address, mask):
        """A vector; lanes that the mask leaves out are not touched."""
        if mask is None:
            return self.load(builder, address, self.vector)
        return self.masked_load(builder, address, mask)

    def write(self, builder, value, address, mask):
        if mask is not None:
            self.masked_store(builder, value, address, mask)
            return
        builder.store(value, self.pointer(builder, address, self.vector), align=self.size)

    def repeat(self, builder, count, first, body):
        """Emit a loop of `count` steps, maybe none; gives the builder behind it and the last state.

        `body(builder, index, state)` gives the builder to go on with and the next state.
        """
        before = builder.block
        head, in_head = self.block("again")
        inside, in_body = self.block("step")
        after, in_after = self.block("done")
        builder.branch(head)
        index = in_head.phi(_I64)
        state = [in_head.phi(value.type) for value in first]
        in_head.cbranch(in_head.icmp_signed("<", index, count), inside, after)
        in_body, following = body(in_body, index, state)
        for phi, start, value in zip(
            [index, *state],
            [number(0), *first],
            [in_body.add(index, number(1)), *following],
            strict=True,
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(value, in_body.block)
        in_body.branch(head)
        return in_after, state


class _Sums(Channels):
    """(blocks, x, out, table, taps, sizes): `blocks` times some pixels of some rows.

    The table has, for each tap, how far its place of the input is from `x`, and its weights from
    the first ones. `sizes` is the address of numbers that stay the same: the steps from a pixel of
    the input to the next and from a row to the next, the weights, both steps of the result, the
    channels, and how far the last tap is. All but the channels are in bytes.
    """

    def __init__(self, module, dtype, lanes, rows, pixels, past, name) -> None:
        super().__init__(module, dtype, lanes, name, 6)
        self.rows, self.pixels, self.past = rows, pixels, past
        self.groups = (2, 1) if _vectors(dtype, lanes) == 2 else (1,)

    def emit(self):
        blocks, x, out, self.table, self.taps, sizes = self.function.args
        _, begin = self.block("entry")
        step_x, row_x, self.weights, step_out, row_out, channels, last = (
            self.integer(begin, sizes, 8 * i) for i in range(SIZES)
        )
        self.shifts_x = self.shifts(begin, step_x, row_x)
        self.shifts_out = self.shifts(begin, step_out, row_out)
        # Of what the next rows read, all but what their last taps do has then been read already.
        self.ahead = begin.add(last, begin.mul(row_x, number(self.rows)))

        def block(builder, _index, state):
            at, to = state

            def body(inner, offset, vectors, mask):
                return self.some_channels(inner, at, to, offset, vectors, mask)

            builder = self.over(builder, channels, self.groups, body)
            at = builder.add(at, builder.mul(step_x, number(self.pixels)))
            return builder, [at, builder.add(to, builder.mul(step_out, number(self.pixels)))]

        self.repeat(begin, blocks, [x, out], block)[0].ret_void()
        return self.function

    def shifts(self, builder, step, row):
        """From the first pixel to each."""
        return [
            builder.add(builder.mul(row, number(r)), builder.mul(step, number(q)))
            for r in range(self.rows)
            for q in range(self.pixels)
        ]

    def some_channels(self, builder, at, to, offset, vectors, mask):
        """All taps of some vectors of a block; gives the builder to go on with."""
        parts = [number(v * self.lanes * self.size) for v in range(vectors)]
        at, to = builder.add(at, offset), builder.add(to, offset)
        weights = builder.add(self.weights, offset)

        def tap(inner, t, sums):
            pair = inner.add(self.table, inner.mul(t, number(16)))
            from_x = inner.add(at, self.integer(inner, pair))
            place = inner.add(weights, self.integer(inner, pair, 8))
            kept = [self.read(inner, inner.add(place, part), mask) for part in parts]
            old = iter(sums)
            following = []
            for shift in self.shifts_x:
                pixel = inner.add(from_x, shift)
                for part, weight in zip(parts, kept, strict=True):
                    value = self.read(inner, inner.add(pixel, part), mask)
                    following.append(self.multiply_add(inner, value, weight, next(old)))
            return inner, following

        first = [self.zero] * (self.rows * self.pixels * vectors)
        builder, sums = self.repeat(builder, self.taps, first, tap)
        later = builder.add(at, self.ahead)
        value = iter(sums)
        for shift_x, shift_out in zip(self.shifts_x, self.shifts_out, strict=True):
            for part in parts:
                self.prefetch(builder, builder.add(builder.add(later, shift_x), part))
                place = builder.add(builder.add(to, shift_out), part)
                self.put(builder, next(value), place, mask)
        return builder

    def put(self, builder, value, place, mask):
        if self.past and mask is None:
            self.write_past(builder, value, place)
        else:
            self.write(builder, value, place, mask)


class _Dots(Channels):
    """(rows, pixels, x, g, table, totals, sizes): for some taps, sums over pixels of some rows.

    Each is of a place of `x` times one of `g`, and is added to what the totals hold. The table has,
    for each tap, how far its place is from `x`, and its total from the first ones. `sizes` is the
    address of the steps from a pixel of `x` to the next and from a row to the next, those of `g`,
    and the channels. All but the channels are in bytes.
    """

    def __init__(self, module, dtype, lanes, taps, name) -> None:
        super().__init__(module, dtype, lanes, name, 7)
        self.taps = taps
        self.groups = (2, 1) if _vectors(dtype, lanes) == 2 else (1,)

    def emit(self):
        self.rows, self.pixels, self.x, self.g, table, totals, sizes = self.function.args
        _, begin = self.block("entry")
        *self.steps, channels = (self.integer(begin, sizes, 8 * i) for i in range(5))
        shifts = [self.integer(begin, table, 16 * t) for t in range(self.taps)]
        places = [
            begin.add(totals, self.integer(begin, table, 16 * t + 8)) for t in range(self.taps)
        ]

        def body(builder, offset, vectors, mask):
            parts = [number(v * self.lanes * self.size) for v in range(vectors)]
            builder, sums = self.sums(builder, shifts, offset, parts, mask)
            value = iter(sums)
            for place in places:
                at = builder.add(place, offset)
                for part in parts:
                    # What is there joins now: begun with, it would make one chain of all rows.
                    to = builder.add(at, part)
                    joint = builder.fadd(self.read(builder, to, mask), next(value))
                    self.write(builder, joint, to, mask)
            return builder

        self.over(begin, channels, self.groups, body).ret_void()
        return self.function

    def sums(self, builder, shifts, offset, parts, mask):
        """Sums of some channels, tap by tap; gives the builder behind as well.

        The memory is told what the last tap and `g` will read in as many rows below.
        """
        step_x, row_x, step_g, row_g = self.steps
        starts = [builder.add(builder.add(self.x, offset), shift) for shift in shifts]
        later_x = builder.add(starts[-1], builder.mul(row_x, self.rows))
        later_g = builder.mul(row_g, self.rows)

        def pixel(inner, _index, state):
            at, to, *sums = state
            factors = [self.read(inner, inner.add(to, part), mask) for part in parts]
            for part in parts:
                self.prefetch(inner, inner.add(inner.add(later_x, at), part))
                self.prefetch(inner, inner.add(inner.add(later_g, to), part))
            old = iter(sums)
            following = []
            for start in starts:
                place = inner.add(start, at)
                for part, factor in zip(parts, factors, strict=True):
                    value = self.read(inner, inner.add(place, part), mask)
                    following.append(self.multiply_add(inner, value, factor, next(old)))
            return inner, [inner.add(at, step_x), inner.add(to, step_g), *following]

        def row(outer, _index, state):
            at, to, *_ = state
            outer, following = self.repeat(outer, self.pixels, state, pixel)
            return outer, [outer.add(at, row_x), outer.add(to, row_g), *following[2:]]

        first = [self.zero] * (self.taps * len(parts))
        first = [number(0), builder.add(self.g, offset), *first]
        builder, state = self.repeat(builder, self.rows, first, row)
        return builder, state[2:]


def sums(dtype, lanes):
    """An operation on blocks of one of four shapes, 0 to 3, known only at run time.

    They are `MOST_ROWS` rows of `most_pixels` or of one pixel, and one row of twice as many or of
    one. 4 to 7 are the same, written past the caches (see `intrinsics/fma_tile`).
    """
    most = most_pixels(dtype, lanes)
    shapes = [(MOST_ROWS, most), (MOST_ROWS, 1), (1, 2 * most), (1, 1)]

    @intrinsic
    def run(typing, shape, blocks, x, out, table, taps, sizes):
        def codegen(context, builder, signature, arguments):
            after = builder.append_basic_block("after")
            choice = builder.switch(arguments[0], after)
            for index in range(2 * len(shapes)):
                name = f"kbench_depthwise_{dtype}_{lanes}_{index}"
                past, chosen = divmod(index, len(shapes))
                tile = _Sums(builder.module, dtype, lanes, *shapes[chosen], past, name)
                block = builder.append_basic_block()
                choice.add_case(number(index), block)
                with builder.goto_block(block):
                    builder.call(tile.emit(), arguments[1:])
                    builder.branch(after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return run


def dots(dtype, lanes):
    """An operation on a number of taps, one of `TAPS`, known only at run time."""

    @intrinsic
    def run(typing, taps, rows, pixels, x, g, table, totals, sizes):
        def codegen(context, builder, signature, arguments):
            after = builder.append_basic_block("after")
            choice = builder.switch(arguments[0], after)
            for count in TAPS:
                name = f"kbench_depthwise_dots_{dtype}_{lanes}_{count}"
                block = builder.append_basic_block()
                choice.add_case(number(count), block)
                with builder.goto_block(block):
                    tile = _Dots(builder.module, dtype, lanes, count, name)
                    builder.call(tile.emit(), arguments[1:])
                    builder.branch(after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return run
