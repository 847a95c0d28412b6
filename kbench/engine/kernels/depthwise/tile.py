"""The two inner loops of depthwise convolution, with sums kept in vector registers.

`sums`: some output pixels of a row, each the sum over taps of an input pixel times the tap's
weights, channel by channel. `dots`: for the gradient to the weights, the sum over pixels of two
rows' products. Taps and pixels that lie outside are left out by the caller, so nothing is padded.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import Emitter, number
from kbench.engine.jit.numba_backend import intrinsic, ir, types

MAX_PIXELS = 8
"""Most output pixels of one call: enough sums to hide the latency of each."""
PREFETCH_BYTES = 2048
"""Bytes from what is read to what the memory is asked for ahead."""
_I64 = ir.IntType(64)


class Channels(Emitter):
    """A function that goes over the channels, some vectors at a time, and the rest with a mask."""

    def loop(self, channels, groups, body) -> None:
        """Emit `body(builder, byte offset, vectors, mask)`, which gives the builder to go on with.

        `groups` are numbers of vectors, the largest first; the last is 1.
        """
        _, builder = self.block("entry")
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
        in_finish.ret_void()

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


def _sums(module, dtype, lanes, pixels, past, name):
    """`blocks` times some pixels side by side; weights are read once for these.

    Of what the last tap will read, the memory is told ahead: rows before have been read already.
    """
    one = Channels(module, dtype, lanes, name, 8)
    blocks, table, taps, step_x, weights, out, step_out, channels = one.function.args

    def body(builder, offset, vectors, mask):
        shifts = [number(v * lanes * one.size) for v in range(vectors)]

        def block(outer, _index, state):
            x_start, out_start = state

            def tap(inner, t, sums):
                pair = inner.add(table, inner.mul(t, number(16)))
                x = inner.add(one.integer(inner, pair), x_start)
                place = inner.add(inner.add(weights, one.integer(inner, pair, 8)), offset)
                kept = [one.read(inner, inner.add(place, shift), mask) for shift in shifts]
                following = []
                for q in range(pixels):
                    at = inner.add(x, inner.mul(step_x, number(q)))
                    for v, shift in enumerate(shifts):
                        value = one.read(inner, inner.add(at, shift), mask)
                        old = sums[q * vectors + v]
                        following.append(one.multiply_add(inner, value, kept[v], old))
                return inner, following

            outer, sums = one.repeat(outer, taps, [one.zero] * (pixels * vectors), tap)
            some = outer.icmp_signed(">", taps, number(0))
            last = outer.select(some, outer.sub(taps, number(1)), taps)
            last = outer.add(table, outer.mul(last, number(16)))
            later = outer.add(outer.add(one.integer(outer, last), x_start), number(PREFETCH_BYTES))
            for index, value in enumerate(sums):
                q, v = divmod(index, vectors)
                x = outer.add(later, outer.mul(step_x, number(q)))
                one.prefetch(outer, outer.add(x, shifts[v]))
                place = outer.add(out_start, outer.mul(step_out, number(q)))
                place = outer.add(place, shifts[v])
                if past and mask is None:
                    one.write_past(outer, value, place)
                else:
                    one.write(outer, value, place, mask)
            x_next = outer.add(x_start, outer.mul(step_x, number(pixels)))
            return outer, [x_next, outer.add(out_start, outer.mul(step_out, number(pixels)))]

        first = [offset, builder.add(out, offset)]
        return one.repeat(builder, blocks, first, block)[0]

    # Twice the sums where there are 32 registers: half as many looks at the table.
    one.loop(channels, (2, 1) if lanes * one.size == 64 else (1,), body)
    return one.function


def _dots(module, dtype, lanes, name):
    """The sums over pixels are added to what `sums` holds."""
    one = Channels(module, dtype, lanes, name, 7)
    x, step_x, g, step_g, count, sums, channels = one.function.args

    def body(builder, offset, vectors, mask):
        shifts = [builder.add(offset, number(v * lanes * one.size)) for v in range(vectors)]

        def pixel(inner, k, state):
            from_x = inner.add(x, inner.mul(step_x, k))
            from_g = inner.add(g, inner.mul(step_g, k))
            return inner, [
                one.multiply_add(
                    inner,
                    one.read(inner, inner.add(from_x, shift), mask),
                    one.read(inner, inner.add(from_g, shift), mask),
                    value,
                )
                for shift, value in zip(shifts, state, strict=True)
            ]

        builder, state = one.repeat(builder, count, [one.zero] * vectors, pixel)
        for shift, value in zip(shifts, state, strict=True):
            # What is there joins a row's sum now: begun with, it would make one chain of all rows.
            place = builder.add(sums, shift)
            joint = builder.fadd(one.read(builder, place, mask), value)
            one.write(builder, joint, place, mask)
        return builder

    one.loop(channels, (4, 2, 1), body)
    return one.function


def sums(dtype, lanes):
    """An operation on a number of pixels, 1 to PIXELS, known only at run time.

    One more stands for PIXELS that are written past the caches (see `intrinsics/fma_tile`).
    """

    @intrinsic
    def run(typing, pixels, blocks, table, taps, step_x, weights, out, step_out, channels):
        def codegen(context, builder, signature, arguments):
            after = builder.append_basic_block("after")
            choice = builder.switch(arguments[0], after)
            for count in range(1, MAX_PIXELS + 2):
                name = f"kbench_depthwise_{dtype}_{lanes}_{count}"
                sizes = min(count, MAX_PIXELS), count > MAX_PIXELS
                function = _sums(builder.module, dtype, lanes, *sizes, name)
                block = builder.append_basic_block()
                choice.add_case(number(count), block)
                with builder.goto_block(block):
                    builder.call(function, arguments[1:])
                    builder.branch(after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9), codegen

    return run


def dots(dtype, lanes):
    """An operation on two rows of pixels."""

    @intrinsic
    def run(typing, x, step_x, g, step_g, count, sums, channels):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_depthwise_dots_{dtype}_{lanes}"
            builder.call(_dots(builder.module, dtype, lanes, name), arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return run
