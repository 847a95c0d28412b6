"""Library kernel of kbench: the largest or the mean of windows, row by row of the result."""

from kbench.engine.intrinsics.specialized import (
    IN_ROWS,
    MAY_DIVIDE,
    join,
    load_element,
    parameters,
    peek_element,
    scratch_values,
    store_element,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel
from kbench.engine.kernels.pool.windows import before, behind, same_from


@inline
def one(first, y, to, x, a, n):
    """The cell at `a` of n lanes joins what is in the result."""
    if first:
        for i in range(n):
            store_element(y, to + i, load_element(x, a + i))
        return
    for i in range(n):
        store_element(y, to + i, join(peek_element(y, to + i), load_element(x, a + i)))


@inline
def two(first, y, to, x, a, step, n):
    """Two neighbouring cells."""
    b = a + step
    if first:
        for i in range(n):
            store_element(y, to + i, join(load_element(x, a + i), load_element(x, b + i)))
        return
    for i in range(n):
        both = join(load_element(x, a + i), load_element(x, b + i))
        store_element(y, to + i, join(peek_element(y, to + i), both))


@inline
def three(first, y, to, x, a, step, n):
    """Three neighbouring cells."""
    b = a + step
    c = b + step
    if first:
        for i in range(n):
            both = join(load_element(x, a + i), load_element(x, b + i))
            store_element(y, to + i, join(both, load_element(x, c + i)))
        return
    for i in range(n):
        both = join(load_element(x, a + i), load_element(x, b + i))
        both = join(both, load_element(x, c + i))
        store_element(y, to + i, join(peek_element(y, to + i), both))


@inline
def across(first, y, base, rowed, k, begin, low, high, depth, rows, cols, inner, ocols,
           kcols, scols, pcols, wide):  # fmt: skip
    """Column k of the windows from low to high joins what is in the result."""
    shift = k - pcols
    o0 = max(low, (scols - 1 - shift) // scols)
    o1 = min(high, (cols - 1 - shift) // scols + 1)
    lanes, count, far, step = inner, o1 - o0, scols * inner, inner
    if scols == 1:
        lanes, count, far, step = 1, (o1 - o0) * inner, 1, 1
    for j in range(lanes):
        place = (o0 * scols + shift - begin) * inner + j
        to = base + o0 * inner + j
        if first:
            for i in range(count):
                store_element(y, to + i * step, peek_element(rowed, place + i * far))
        else:
            for i in range(count):
                new = peek_element(rowed, place + i * far)
                store_element(y, to + i * step, join(peek_element(y, to + i * step), new))


@inline
def narrow(y, base, x, image, d0, d1, r0, r1, depth, rows, cols, inner, ocols, kcols, scols,
           pcols, wide):  # fmt: skip
    """One row of the result whose cells have few lanes: the rows of x first, then the columns."""
    rowed = scratch_values()
    for low in range(0, ocols, wide):
        high = min(low + wide, ocols)
        begin = before(low, scols, pcols)
        n = (behind(high - 1, scols, pcols, kcols, cols) - begin) * inner
        fresh = True
        for d in range(d0, d1):
            for r in range(r0, r1):
                line = ((image * depth + d) * rows + r) * cols + begin
                one(fresh, rowed, 0, x, line * inner, n)
                fresh = False
        # real in every window
        across(True, y, base, rowed, pcols, begin, low, high, depth, rows, cols, inner,
               ocols, kcols, scols, pcols, wide)  # fmt: skip
        for k in range(kcols):
            if k != pcols:
                across(False, y, base, rowed, k, begin, low, high, depth, rows, cols, inner,
                       ocols, kcols, scols, pcols, wide)  # fmt: skip


@inline
def broad(y, base, x, image, d0, d1, r0, r1, depth, rows, cols, inner, ocols, kcols, scols,
          pcols, wide):  # fmt: skip
    """One row of the result whose cells have many lanes: every window by itself."""
    for o in range(ocols):
        c0 = before(o, scols, pcols)
        c1 = behind(o, scols, pcols, kcols, cols)
        to = base + o * inner
        fresh = True
        for d in range(d0, d1):
            for r in range(r0, r1):
                line = ((image * depth + d) * rows + r) * cols
                c = c0
                while c + 3 <= c1:
                    three(fresh, y, to, x, (line + c) * inner, inner, inner)
                    fresh = False
                    c += 3
                if c + 2 == c1:
                    two(fresh, y, to, x, (line + c) * inner, inner, inner)
                    fresh = False
                elif c + 1 == c1:
                    one(fresh, y, to, x, (line + c) * inner, inner)
                    fresh = False


@range_kernel
def run(params, start, stop):
    (y, x, g, outer, depth, rows, cols, inner, odepth, orows, ocols, kdepth, krows, kcols,
     sdepth, srows, scols, pdepth, prows, pcols, divides, strip_depth, strip_rows,
     strips_depth, strips_rows, wide, h,
    ) = parameters(params)  # fmt: skip
    for item in range(start, stop):
        upper = item // orows
        row = item - upper * orows
        image = upper // odepth
        plane = upper - image * odepth
        d0 = before(plane, sdepth, pdepth)
        d1 = behind(plane, sdepth, pdepth, kdepth, depth)
        r0 = before(row, srows, prows)
        r1 = behind(row, srows, prows, krows, rows)
        base = item * ocols * inner
        if IN_ROWS:
            narrow(y, base, x, image, d0, d1, r0, r1, depth, rows, cols, inner, ocols,
                   kcols, scols, pcols, wide)  # fmt: skip
        else:
            broad(y, base, x, image, d0, d1, r0, r1, depth, rows, cols, inner, ocols, kcols,
                  scols, pcols, wide)  # fmt: skip
        if MAY_DIVIDE:
            if divides:
                o = 0
                while o < ocols:
                    count = behind(o, scols, pcols, kcols, cols) - before(o, scols, pcols)
                    o1 = same_from(o, count, scols, pcols, kcols, cols, ocols)
                    cells = value((d1 - d0) * (r1 - r0) * count)
                    for i in range(base + o * inner, base + o1 * inner):
                        store_element(y, i, peek_element(y, i) / cells)
                    o = o1
