"""Machine operations of matrix products: shared counters, and strips copied or turned.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import Emitter, number
from kbench.engine.jit.numba_backend import intrinsic, ir, types

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@intrinsic
def claim(typing, address):
    """Add one to a shared counter and give what it was: a number that no other thread has."""

    def codegen(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_I64, 1), "acq_rel")

    return types.intp(types.intp), codegen


@intrinsic
def count_of(typing, address):
    """A shared counter; what its threads wrote before they added to it is seen from here on."""

    def codegen(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_I64, 0), "acq_rel")

    return types.intp(types.intp), codegen


class _Turn(Emitter):
    """target[k, n] = source[n, k] for a square of `lanes` rows; rows from `count` on repeat the
    last one, so that nothing outside is read."""

    def emit(self):
        target, step_target, source, step_source, count = self.function.args
        _, build = self.block("entry")
        last = build.sub(count, number(1))
        rows = []
        for n in range(self.lanes):
            inside = build.icmp_signed("<", number(n), last)
            row = build.select(inside, number(n), last)
            place = build.add(source, build.mul(row, step_source))
            rows.append(self.load(build, place, self.vector))
        step = 1
        while step < self.lanes:
            rows = self._exchanged(build, rows, step)
            step *= 2
        for k, row in enumerate(rows):
            place = build.add(target, build.mul(step_target, number(k)))
            build.store(row, self.pointer(build, place, self.vector), align=self.size)
        build.ret_void()
        return self.function

    def _exchanged(self, build, rows, step):
        """Swap the squares of `step` rows and columns that lie off the diagonal of their pairs."""
        kind = ir.VectorType(_I32, self.lanes)
        lanes = range(self.lanes)
        upper = [j if not j & step else self.lanes + j - step for j in lanes]
        lower = [j + step if not j & step else self.lanes + j for j in lanes]
        result = list(rows)
        for i in lanes:
            if not i & step:
                pair = rows[i], rows[i + step]
                result[i] = build.shuffle_vector(*pair, ir.Constant(kind, upper))
                result[i + step] = build.shuffle_vector(*pair, ir.Constant(kind, lower))
        return result


def turner(dtype, lanes):
    """An operation `(target, step, source, step, count)` on a square of `lanes`; steps in bytes."""

    @intrinsic
    def turn(typing, target, step_target, source, step_source, count):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_turn_{dtype}_{lanes}"
            function = builder.module.globals.get(name)
            if function is None:
                function = _Turn(builder.module, dtype, lanes, name, 5).emit()
            builder.call(function, arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), codegen

    return turn


class _Copy(Emitter):
    """Copies `depth` rows of `count` elements to rows of whole vectors, whose rest is zero."""

    def emit(self, vectors):
        count = self.function.args[4]
        entry, build = self.block("entry")
        masks = self.masks(build, count, vectors)
        whole = build.icmp_signed("==", count, number(vectors * self.lanes))
        loops = [self._loop(entry, vectors, masks), self._loop(entry, vectors, None)]
        build.cbranch(whole, loops[1], loops[0])
        return self.function

    def _loop(self, entry, vectors, masks):
        target, source, depth, step_source, _ = self.function.args
        block, build = self.block("rows")
        k, to, come = (build.phi(_I64) for _ in range(3))
        for v in range(vectors):
            shift = number(v * self.lanes * self.size)
            place = build.add(come, shift)
            if masks is None:
                value = self.load(build, place, self.vector)
            else:
                value = self.masked_load(build, place, masks[v])
            pointer = self.pointer(build, build.add(to, shift), self.vector)
            build.store(value, pointer, align=self.size)
        following = build.add(k, number(1))
        ends = [
            (k, number(0), following),
            (to, target, build.add(to, number(vectors * self.lanes * self.size))),
            (come, source, build.add(come, step_source)),
        ]
        done, finish = self.block("done")
        build.cbranch(build.icmp_signed("<", following, depth), block, done)
        finish.ret_void()
        for phi, first, again in ends:
            phi.add_incoming(first, entry)
            phi.add_incoming(again, block)
        return block


def row_copier(dtype, lanes, vectors):
    """An operation `(target, source, depth, step, count)`: rows of `vectors` from rows of `count`
    elements that are `step` bytes apart."""

    @intrinsic
    def copy(typing, target, source, depth, step, count):
        def codegen(context, builder, signature, arguments):
            name = f"kbench_copy_{dtype}_{lanes}_{vectors}"
            function = builder.module.globals.get(name)
            if function is None:
                function = _Copy(builder.module, dtype, lanes, name, 5).emit(vectors)
            builder.call(function, arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), codegen

    return copy
