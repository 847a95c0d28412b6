"""The tile of convolutions with one tap: full blocks of places, one after the other.

    C[m, n] = sum over k of A[m, k] * B[k, n]

for m < blocks * rows, n < two vectors, and a depth that is a multiple of `STEPS`. While a block is
computed, the memory is asked for as many bytes behind it: the next block, where the rows of A
follow each other. Products of a place are added in the order in which `fma_tile` adds them.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import PREFETCH_ROWS, ROWS_PER_ADDRESS, Emitter, number
from kbench.engine.jit.numba_backend import intrinsic, ir, types
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

STEPS = 4
"""Entries of a row of A that one turn of the innermost loop takes: few turns, all of them foretold
by the processor, also the last. The kernel `conv/sources/gather` knows this number."""
VECTORS = 2
_I64 = ir.IntType(64)


class _Blocks(Emitter):
    """(blocks, A, step_m, depth, B, C, step_c, past): one block at least, steps in bytes.

    Rows of B follow each other. Where `past` is not 0, C is written past the caches, as `fma_tile`
    says.
    """

    def __init__(self, module, dtype, lanes, rows, name) -> None:
        super().__init__(module, dtype, lanes, name, 8)
        self.rows = rows
        self.cells = [(m, v) for m in range(rows) for v in range(VECTORS)]
        self.width = lanes * self.size

    def emit(self):
        blocks, a, step_m, depth, b, c, step_c, past = self.function.args
        entry, build = self.block("entry")
        # As in `fma_tile`: rows whose addresses nobody knows to be steps apart.
        shifts = [number(0)] + [
            self.unrelated(build, build.mul(step_m, number(row)))
            for row in range(1, ROWS_PER_ADDRESS)
        ]
        forward = build.mul(step_m, number(self.rows))
        down = build.mul(step_c, number(self.rows))
        head, in_head = self.block("head")
        build.branch(head)
        index, a_block, c_block = (in_head.phi(_I64) for _ in range(3))
        following = in_head.add(a_block, forward)
        after, sums = self.products(in_head, a_block, step_m, shifts, depth, b, following)
        last = self.store(after, sums, c_block, step_c, past)
        next_index = last.add(index, number(1))
        finish, in_finish = self.block("finish")
        for phi, first, value in (
            (index, number(0), next_index),
            (a_block, a, following),
            (c_block, c, last.add(c_block, down)),
        ):
            phi.add_incoming(first, entry)
            phi.add_incoming(value, last.block)
        last.cbranch(last.icmp_signed("<", next_index, blocks), head, finish)
        in_finish.ret_void()
        return self.function

    def products(self, before, a, step_m, shifts, depth, b, ahead):
        """The loop over the depth; gives the builder behind it and the sums."""
        a_starts = [
            before.add(a, before.mul(step_m, number(first)))
            for first in range(0, self.rows, ROWS_PER_ADDRESS)
        ]
        inner, build = self.block("inner")
        before.branch(inner)
        k, b_k, ahead_k = (build.phi(_I64) for _ in range(3))
        a_k = [build.phi(_I64) for _ in a_starts]
        sums = {q: build.phi(self.vector) for q in self.cells}
        now = [self.unrelated(build, address) for address in a_k]
        taken = STEPS * self.rows * self.size
        for shift in range(0, taken, CACHE_LINE_BYTES):
            self.prefetch(build, build.add(ahead_k, number(shift)))
        new = sums
        for step in range(STEPS):
            new = self.step(build, now, b_k, shifts, step, new)
        next_k = build.add(k, number(STEPS))
        row = VECTORS * self.width
        loops = [
            (k, number(0), next_k),
            (b_k, b, build.add(b_k, number(STEPS * row))),
            (ahead_k, ahead, build.add(ahead_k, number(taken))),
        ]
        nexts = [build.add(address, number(STEPS * self.size)) for address in now]
        loops += zip(a_k, a_starts, nexts, strict=True)
        loops += [(sums[q], self.zero, new[q]) for q in self.cells]
        after, in_after = self.block("after")
        build.cbranch(build.icmp_signed("<", next_k, depth), inner, after)
        for phi, first, value in loops:
            phi.add_incoming(first, before.block)
            phi.add_incoming(value, inner)
        return in_after, new

    def step(self, build, a, b, shifts, step, sums):
        """A row of B times one entry of each row of A, added to the sums."""
        row = VECTORS * self.width
        wide = []
        for v in range(VECTORS):
            place = build.add(b, number(step * row + v * self.width))
            wide.append(self.load(build, place, self.vector))
            self.prefetch(build, build.add(place, number(PREFETCH_ROWS * row)))
        new = {}
        for m in range(self.rows):
            place = build.add(a[m // ROWS_PER_ADDRESS], shifts[m % ROWS_PER_ADDRESS])
            place = build.add(place, number(step * self.size))
            value = self.spread(build, self.load(build, place, self.element))
            for v in range(VECTORS):
                new[m, v] = self.multiply_add(build, value, wide[v], sums[m, v])
        return new

    def store(self, build, sums, c, step_c, past):
        """Write the sums; gives the builder behind."""
        beyond, in_beyond = self.block("beyond")
        kept, in_kept = self.block("kept")
        done, in_done = self.block("done")
        rows = [build.add(c, build.mul(step_c, number(m))) for m in range(self.rows)]
        build.cbranch(build.icmp_signed("!=", past, number(0)), beyond, kept)
        for m, v in self.cells:
            shift = number(v * self.width)
            self.write_past(in_beyond, sums[m, v], in_beyond.add(rows[m], shift))
            pointer = self.pointer(in_kept, in_kept.add(rows[m], shift), self.vector)
            in_kept.store(sums[m, v], pointer, align=self.size)
        in_beyond.branch(done)
        in_kept.branch(done)
        return in_done


def blocks(dtype, lanes, rows):
    """An operation on blocks of so many rows."""

    @intrinsic
    def run(typing, count, a, step_m, depth, b, c, step_c, past):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_blocks_{dtype}_{lanes}_{rows}"
            function = _Blocks(builder.module, dtype, lanes, rows, name).emit()
            builder.call(function, arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return run
