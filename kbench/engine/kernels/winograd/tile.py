"""The transforms of Winograd's convolution with 3x3 windows, four by four outputs at a time.

A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2015: F(4x4, 3x3). Six by
six inputs become 36 numbers, and 36 sums over channels become four by four outputs; the products
between are 36 matrix products instead of 144. Vectors run along channels.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

import functools

from kbench.engine.intrinsics.fma_tile import number
from kbench.engine.jit.numba_backend import intrinsic, ir, types
from kbench.engine.kernels.depthwise.tile import Channels


class _Transform(Channels):
    """Lines of vectors, transformed along both axes."""

    def times(self, builder, factor, x, y):
        """factor * x + y."""
        constant = ir.Constant(self.vector, [float(factor)] * self.lanes)
        return self.multiply_add(builder, constant, x, y)

    def scaled(self, builder, factor, x):
        """factor * x."""
        return builder.fmul(ir.Constant(self.vector, [float(factor)] * self.lanes), x)

    def inputs(self, builder, d):
        """Six numbers of a line of six inputs."""
        p = self.times(builder, -4, d[2], d[4])
        q = self.times(builder, -4, d[1], d[3])
        r = builder.fsub(d[4], d[2])
        s = builder.fsub(d[3], d[1])
        first = self.times(builder, 4, d[0], self.times(builder, -5, d[2], d[4]))
        last = self.times(builder, 4, d[1], self.times(builder, -5, d[3], d[5]))
        return [
            first,
            builder.fadd(p, q),
            builder.fsub(p, q),
            self.times(builder, 2, s, r),
            self.times(builder, -2, s, r),
            last,
        ]

    def outputs(self, builder, m):
        """Four outputs of a line of six sums."""
        a, b = builder.fadd(m[1], m[2]), builder.fsub(m[1], m[2])
        c, e = builder.fadd(m[3], m[4]), builder.fsub(m[3], m[4])
        return [
            builder.fadd(builder.fadd(m[0], a), c),
            self.times(builder, 2, e, b),
            self.times(builder, 4, c, a),
            builder.fadd(self.times(builder, 8, e, b), m[5]),
        ]

    def slopes(self, builder, y):
        """Six numbers of a line of four gradients: the way back of `outputs`."""
        even, odd = builder.fadd(y[0], y[2]), builder.fadd(y[1], y[3])
        c, e = self.times(builder, 4, y[2], y[0]), self.times(builder, 4, y[3], y[1])
        return [
            y[0],
            builder.fadd(even, odd),
            builder.fsub(even, odd),
            self.times(builder, 2, e, c),
            self.times(builder, -2, e, c),
            y[3],
        ]

    def weights(self, builder, w):
        """Six numbers of a line of three weights."""
        outer = builder.fadd(w[0], w[2])
        sixth = self.scaled(builder, -1 / 6, outer)
        far = self.times(builder, 1 / 24, w[0], self.scaled(builder, 1 / 6, w[2]))
        return [
            self.scaled(builder, 1 / 4, w[0]),
            self.times(builder, -1 / 6, w[1], sixth),
            self.times(builder, 1 / 6, w[1], sixth),
            self.times(builder, 1 / 12, w[1], far),
            self.times(builder, -1 / 12, w[1], far),
            w[2],
        ]

    def totals(self, builder, d):
        """Three gradients of weights of a line of six sums: the way back of `weights`."""
        a, b = builder.fadd(d[1], d[2]), builder.fsub(d[2], d[1])
        c, e = builder.fadd(d[3], d[4]), builder.fsub(d[3], d[4])
        near = self.scaled(builder, -1 / 6, a)
        return [
            self.times(builder, 1 / 4, d[0], self.times(builder, 1 / 24, c, near)),
            self.times(builder, 1 / 6, b, self.scaled(builder, 1 / 12, e)),
            builder.fadd(self.times(builder, 1 / 6, c, near), d[5]),
        ]

    def both(self, builder, grid, one):
        """Transform the columns of a grid, then its rows."""
        columns = [one(builder, list(column)) for column in zip(*grid, strict=True)]
        return [one(builder, list(row)) for row in zip(*columns, strict=True)]

    def emit(self, one, known, size, steps_in, steps_out):
        """`steps_in` and `steps_out` give the byte offset of a place of a grid."""
        source, target, *_, channels = self.function.args

        def body(builder, offset, vectors, mask):
            def place(base, shift):
                return builder.add(builder.add(base, offset), shift)

            places = [[steps_in(builder, i, j) for j in range(known)] for i in range(known)]
            grid = [
                [self.read(builder, place(source, shift), mask) for shift in row] for row in places
            ]
            result = self.both(builder, grid, one)
            for i in range(size):
                for j in range(size):
                    shift = steps_out(builder, i, j)
                    self.write(builder, result[i][j], place(target, shift), mask)
            return builder

        self.loop(channels, (1,), body)
        return self.function


def _steps(row, column):
    """Offsets of a grid with byte steps from row to row and column to column."""

    def offset(builder, i, j):
        return builder.add(builder.mul(row, number(i)), builder.mul(column, number(j)))

    return offset


def _planes(plane):
    """Offsets of the 36 planes."""

    def offset(builder, i, j):
        return builder.mul(plane, number(6 * i + j))

    return offset


# name: (method of a line, lines known, lines made, whether planes are read and not written)
_FORMS = {
    "into": (_Transform.inputs, 6, 6, False),
    "back": (_Transform.outputs, 6, 4, True),
    "spread": (_Transform.slopes, 4, 6, False),
    "weights": (_Transform.weights, 3, 6, False),
    "totals": (_Transform.totals, 6, 3, True),
}


def transform(name, dtype, lanes):
    """An operation (from, to, row, column, plane, channels) on a grid and its 36 planes; in bytes.

    "into" spreads inputs, "back" gives outputs of sums; "spread" spreads gradients of the outputs,
    "weights" the kernel, and "totals" gives the kernel's gradient of sums.
    """
    method, known, made, reads_planes = _FORMS[name]

    @intrinsic
    def run(typing, source, target, row, column, plane, channels):
        def codegen(context, builder, signature, arguments):
            one = _Transform(builder.module, dtype, lanes, f"kbench_winograd_{name}_{lanes}", 6)
            _, _, row, column, plane, _ = one.function.args
            steps = [_steps(row, column), _planes(plane)]
            line = functools.partial(method, one)
            function = one.emit(line, known, made, *(steps[::-1] if reads_planes else steps))
            builder.call(function, arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), codegen

    return run
