"""The fused-multiply-add tile: a block of products and sums kept in vector registers.

    C[m, n] = (0 or C[m, n]) + sum over t, k of A[a(t) + m*step_m + k*step_k] * B[(b(t) + k), n]

for m < rows and n < columns, with a(t) and b(t) read from a table. Convolutions read it as m =
pixels of a row, t = window rows, k = window columns and channels, n = filters; their gradients to
the kernel as m = channels, t = rows of pixels, k = pixels. Taps need no copies of the image.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.jit.numba_backend import alloca_once, intrinsic, ir, target_features, types
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

_FLOATS = {"float32": ir.FloatType(), "float64": ir.DoubleType()}

ARGUMENT_COUNT = 12
"""A, table, taps, depth, step_m, step_k, B, step_b, C, step_c, columns, add; steps in bytes. They
are handed on as the address of a block: copied from one call's stack to the next, several at a
time, they would wait until all that was stored before them, one by one, has left the core."""
PREFETCH_ROWS = 32
"""Rows of B that are asked for before they are needed: the second cache is slow for some."""
ROWS_PER_ADDRESS = 4
"""Rows of A that are reached from one address, by multiples of the step between them: an address
and a multiple for each row would be more than there are registers for."""
ADD, PAST = 1, 2
"""What `add` may be beside 0: add to C; or write rows of whole vectors, which begin on cache lines,
past the caches, which are spared reading the lines first. That is for results they cannot hold."""
FAR = 4
"""Beside these: rows of A lie in memory, one element after the other (step_m), and are asked for
`PREFETCH_ROWS` steps of k before they are needed, as those of B always are."""


def geometry(dtype: str) -> tuple[int, int]:
    """Lanes of a vector and rows of a tile that fill the target's registers without spilling.

    A tile two vectors wide needs 2 registers per row, 2 for B, and some to broadcast A.
    """
    features = target_features()
    if features.get("avx512f"):
        width, rows = 64, 14
    elif features.get("avx") and features.get("fma"):
        width, rows = 32, 6
    elif features.get("neon"):
        width, rows = 16, 12
    else:
        width, rows = 16, 6
    return width // (4 if dtype == "float32" else 8), rows


def number(value):
    """A constant integer."""
    return ir.Constant(_I64, value)


class Emitter:
    """Writes a function of integers that works on vectors of `lanes` elements."""

    def __init__(self, module, dtype, lanes, name, arguments) -> None:
        self.module = module
        self.element = _FLOATS[dtype]
        self.size = 4 if dtype == "float32" else 8
        self.lanes = lanes
        self.vector = ir.VectorType(self.element, lanes)
        self.mask = ir.VectorType(_I1, lanes)
        self.zero = ir.Constant(self.vector, [0.0] * lanes)
        kind = ir.FunctionType(ir.VoidType(), [_I64] * arguments)
        self.function = ir.Function(module, kind, name)
        # Once per module, and never merged into the switch over the row counts.
        self.function.linkage = "linkonce_odr"
        self.function.attributes.add("noinline")
        self.function.attributes.add("nounwind")

    def block(self, name):
        made = self.function.append_basic_block(name)
        return made, ir.IRBuilder(made)

    def pointer(self, builder, address, kind):
        return builder.inttoptr(address, kind.as_pointer())

    def load(self, builder, address, kind):
        return builder.load(self.pointer(builder, address, kind), typ=kind, align=self.size)

    def spread(self, builder, value):
        """A vector with the same value in all lanes."""
        single = ir.VectorType(value.type, self.lanes)
        empty = ir.Constant(single, ir.Undefined)
        first = builder.insert_element(empty, value, ir.Constant(_I32, 0))
        order = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return builder.shuffle_vector(first, empty, order)

    def multiply_add(self, builder, x, y, z):
        """x * y + z: one instruction where there is one, never a call into a C library."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return builder.call(self.machine("fmuladd", kind), [x, y, z])

    def machine(self, operation, kind, pointer=""):
        """An operation of LLVM on whole vectors."""
        name = f"llvm.{operation}.v{self.lanes}f{8 * self.size}{pointer}"
        return self.module.globals.get(name) or ir.Function(self.module, kind, name)

    def masked_load(self, builder, address, mask):
        pointer = self.pointer(builder, address, self.vector)
        kind = ir.FunctionType(self.vector, [pointer.type, _I32, self.mask, self.vector])
        load = self.machine("masked.load", kind, ".p0")
        return builder.call(load, [pointer, ir.Constant(_I32, self.size), mask, self.zero])

    def masked_store(self, builder, value, address, mask):
        pointer = self.pointer(builder, address, self.vector)
        kind = ir.FunctionType(ir.VoidType(), [self.vector, pointer.type, _I32, self.mask])
        store = self.machine("masked.store", kind, ".p0")
        builder.call(store, [value, pointer, ir.Constant(_I32, self.size), mask])

    def masks(self, builder, columns, vectors):
        """For each vector of a row, which lanes are inside of the columns."""
        count = self.spread(builder, builder.trunc(columns, _I32))
        kind = ir.VectorType(_I32, self.lanes)
        masks = []
        for v in range(vectors):
            lanes = ir.Constant(kind, [v * self.lanes + i for i in range(self.lanes)])
            masks.append(builder.icmp_signed("<", lanes, count))
        return masks

    def write_past(self, builder, value, address):
        """Write a vector, at a multiple of its size, to memory without reading its line first."""
        place = self.pointer(builder, address, self.vector)
        stored = builder.store(value, place, align=self.lanes * self.size)
        stored.set_metadata("nontemporal", self.module.add_metadata([ir.Constant(_I32, 1)]))

    def prefetch(self, builder, address, write=False):
        """Ask for what will be read or written soon; any address does no harm."""
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), _I32, _I32, _I32])
        name = "llvm.prefetch.p0"
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        place = builder.inttoptr(address, ir.IntType(8).as_pointer())
        builder.call(function, [place, *(ir.Constant(_I32, flag) for flag in (int(write), 3, 1))])

    def unrelated(self, builder, value):
        """The same integer, of which the compiler no longer knows where it comes from."""
        kind = ir.FunctionType(_I64, [_I64])
        return builder.asm(kind, "", "=r,0", [value], False)

    def integer(self, builder, address, offset=0):
        """A number of a table."""
        place = self.pointer(builder, builder.add(address, number(offset)), _I64)
        return builder.load(place, typ=_I64, align=8)


class _Tile(Emitter):
    """One tile: `rows` times `vectors` accumulators."""

    def __init__(self, module, dtype, lanes, rows, vectors, name) -> None:
        super().__init__(module, dtype, lanes, name, 1)
        self.rows, self.vectors = rows, vectors
        self.cells = [(m, v) for m in range(rows) for v in range(vectors)]
        self.nothing = dict.fromkeys(self.cells, self.zero)

    def emit(self):
        entry, build = self.block("entry")
        a, table, taps, depth, step_m, step_k, b, step_b, c, step_c, columns, add = (
            self.integer(build, self.function.args[0], 8 * i) for i in range(ARGUMENT_COUNT)
        )
        masks = self.masks(build, columns, self.vectors)
        # Were the addresses of the rows known to be steps apart, each would be made of the one
        # before: a chain of sums through all rows, as long as their products take.
        shifts = [
            self.unrelated(build, build.mul(step_m, number(row)))
            for row in range(1, ROWS_PER_ADDRESS)
        ]
        ahead, far = self.distances(build, step_b, step_k, add)
        add = build.and_(add, number(ADD | PAST))
        places = self.places(build, c, step_c)
        tap, in_tap = self.block("tap")
        begins = [(entry, self.nothing), *self.starts(build, tap, places, add)]

        inner, in_inner = self.block("inner")
        t = in_tap.phi(_I64)
        outer_sums = {q: in_tap.phi(self.vector) for q in self.cells}
        pair = in_tap.add(table, in_tap.mul(t, number(16)))
        a_start = in_tap.add(a, self.integer(in_tap, pair, 0))
        b_start = in_tap.add(b, in_tap.mul(self.integer(in_tap, pair, 8), step_b))

        k, b_k = in_inner.phi(_I64), in_inner.phi(_I64)
        a_k = [in_inner.phi(_I64) for _ in range(0, self.rows, ROWS_PER_ADDRESS)]
        a_starts = [
            in_tap.add(a_start, in_tap.mul(step_m, number(first)))
            for first in range(0, self.rows, ROWS_PER_ADDRESS)
        ]
        in_tap.branch(inner)
        sums = {q: in_inner.phi(self.vector) for q in self.cells}
        now = [self.unrelated(in_inner, address) for address in a_k]
        self.ask_ahead(in_inner, b_k, ahead, now[0], far)
        new = self.step(in_inner, now, b_k, shifts, sums)
        next_b = in_inner.add(b_k, step_b)
        next_a = [in_inner.add(address, step_k) for address in now]
        next_k = in_inner.add(k, number(1))
        after, in_after = self.block("after")
        in_inner.cbranch(in_inner.icmp_unsigned("<", next_k, depth), inner, after)
        next_t = in_after.add(t, number(1))
        finish, in_finish = self.block("finish")
        in_after.cbranch(in_after.icmp_unsigned("<", next_t, taps), tap, finish)

        loops = [(k, number(0), next_k), (b_k, b_start, next_b)]
        loops += zip(a_k, a_starts, next_a, strict=True)
        for phi, first, following in loops + [(sums[q], outer_sums[q], new[q]) for q in self.cells]:
            phi.add_incoming(first, tap)
            phi.add_incoming(following, inner)
        for block, first in begins:
            t.add_incoming(number(0), block)
            for q in self.cells:
                outer_sums[q].add_incoming(first[q], block)
        t.add_incoming(next_t, after)
        for q in self.cells:
            outer_sums[q].add_incoming(new[q], after)
        self.finish(in_finish, new, places, masks, columns, add)
        return self.function

    def places(self, builder, c, step_c):
        """Where each vector of the result goes."""
        rows = [builder.add(c, builder.mul(step_c, number(m))) for m in range(self.rows)]
        width = self.lanes * self.size
        return {(m, v): builder.add(rows[m], number(v * width)) for m, v in self.cells}

    def starts(self, builder, tap, places, mode):
        """Blocks on the way to the first tap, each with the sums that it begins with."""
        fresh, ask = self.block("fresh")
        builder.cbranch(builder.icmp_unsigned("==", mode, number(PAST)), tap, fresh)
        for q in self.cells:  # the lines of the result are there when the sums are
            self.prefetch(ask, places[q], write=True)
        ask.branch(tap)
        return [(fresh, self.nothing)]

    def distances(self, builder, step_b, step_k, mode):
        """How many bytes ahead rows of B are asked for, and elements of A, which are there if 0."""
        ahead = builder.mul(step_b, number(PREFETCH_ROWS))
        far = builder.mul(step_k, number(PREFETCH_ROWS))
        is_far = builder.icmp_unsigned("!=", builder.and_(mode, number(FAR)), number(0))
        far = builder.select(is_far, far, number(0))
        return self.unrelated(builder, ahead), self.unrelated(builder, far)

    def ask_ahead(self, builder, b, ahead, a, far):
        """Ask for each line of a later row of B once, and for the first and last of a later k."""
        for shift in range(0, self.vectors * self.lanes * self.size, CACHE_LINE_BYTES):
            self.prefetch(builder, builder.add(builder.add(b, ahead), number(shift)))
        for row in (0, self.rows - 1):
            self.prefetch(builder, builder.add(builder.add(a, far), number(row * self.size)))

    def step(self, builder, a, b, shifts, sums):
        """One k: a row of B against one element of each row of A."""
        wide = [
            self.load(builder, builder.add(b, number(v * self.lanes * self.size)), self.vector)
            for v in range(self.vectors)
        ]
        new = {}
        for m in range(self.rows):
            place = a[m // ROWS_PER_ADDRESS]
            if m % ROWS_PER_ADDRESS:
                place = builder.add(place, shifts[m % ROWS_PER_ADDRESS - 1])
            value = self.spread(builder, self.load(builder, place, self.element))
            for v in range(self.vectors):
                new[m, v] = self.multiply_add(builder, value, wide[v], sums[m, v])
        return new

    def finish(self, builder, sums, places, masks, columns, mode):
        """Store the sums. What is there already joins them now: begun with, it would make one long
        chain of all blocks of a sum, each of whose steps is rounded as the whole is."""
        old, load_old = self.block("old")
        store, in_store = self.block("store")
        begun = builder.block
        builder.cbranch(builder.icmp_unsigned("==", mode, number(ADD)), old, store)
        joint = {}
        for q in self.cells:
            before = self.masked_load(load_old, places[q], masks[q[1]])
            joint[q] = load_old.fadd(before, sums[q])
        load_old.branch(store)
        chosen = {q: in_store.phi(self.vector) for q in self.cells}
        for q in self.cells:
            chosen[q].add_incoming(sums[q], begun)
            chosen[q].add_incoming(joint[q], old)
        builder, sums = in_store, chosen
        whole, in_whole = self.block("whole")
        part, in_part = self.block("part")
        past, in_past = self.block("past")
        kept, in_kept = self.block("kept")
        full = number(self.lanes * self.vectors)
        builder.cbranch(builder.icmp_signed(">=", columns, full), whole, part)
        in_whole.cbranch(in_whole.icmp_unsigned("==", mode, number(PAST)), past, kept)
        for q in self.cells:
            pointer = self.pointer(in_kept, places[q], self.vector)
            in_kept.store(sums[q], pointer, align=self.size)
            self.write_past(in_past, sums[q], places[q])
            self.masked_store(in_part, sums[q], places[q], masks[q[1]])
        in_kept.ret_void()
        in_past.ret_void()
        in_part.ret_void()


def tiles(dtype, lanes, most, vectors):
    """An operation that calls the tile of a number of rows, 1 to `most`, known only at run time."""

    @intrinsic
    def tile(typing, rows, block):
        def codegen(context, builder, signature, arguments):
            module, after = builder.module, builder.append_basic_block("after")
            choice = builder.switch(arguments[0], after)
            for count in range(1, most + 1):
                name = f"kbench_tile_{dtype}_{lanes}_{count}_{vectors}"
                function = module.globals.get(name)
                if function is None:
                    function = _Tile(module, dtype, lanes, count, vectors, name).emit()
                block = builder.append_basic_block()
                choice.add_case(number(count), block)
                with builder.goto_block(block):
                    builder.call(function, arguments[1:])
                    builder.branch(after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), codegen

    return tile


@intrinsic
def call_tile(typing, address, rows, a, table, taps, depth, step_m, step_k, b, step_b, c, step_c,
              n, add):  # fmt: skip
    """Call a switch of tiles by its address."""

    def codegen(context, builder, signature, arguments):
        block = alloca_once(builder, ir.ArrayType(_I64, ARGUMENT_COUNT))
        address = builder.ptrtoint(block, _I64)
        for i, value in enumerate(arguments[2:]):
            place = builder.add(address, number(8 * i))
            builder.store(value, builder.inttoptr(place, _I64.as_pointer()))
        kind = ir.FunctionType(ir.VoidType(), [_I64, _I64])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1], address])
        return context.get_dummy_value()

    return types.void(*[types.intp] * (ARGUMENT_COUNT + 2)), codegen
