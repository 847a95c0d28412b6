"""Sources of the pooling kernels, over arrays seen as [outer, depth, rows, cols, inner].

The kernels that gather own a row of the result; those that scatter own a strip of the input's
rows and visit every window that reaches into it, so that no two threads write to one cell and
each cell adds up in the same order on any number of threads. Lanes are the innermost cells of
one window, or, where these are few, the same cell of neighbouring windows.
"""

from __future__ import annotations

from kbench.engine.kernels.pool import scatter_source

SCRATCH_LANES = 4096
"""Lanes whose running values fit the scratch of one item."""

FIELDS = """y x g outer depth rows cols inner odepth orows ocols kdepth krows kcols
sdepth srows scols pdepth prows pcols divides strip_depth strip_rows strips_depth strips_rows
wide h""".split()
"""The parameter block; `y` is what is written, `h` the largest values of the windows."""

PLACE = "depth, rows, cols, inner, ocols, kcols, scols, pcols, wide"
STRIP = """image, d0, d1, r0, r1, from_d, to_d, from_r, to_r, depth, rows, cols, inner, ocols,
kcols, scols, pcols, divides, wide""".replace("\n", " ")

_READ = "\n".join(f"    {name} = field(params, {place})" for place, name in enumerate(FIELDS))

HEAD = '''"""Library kernel of kbench: pool_NAME of DTYPE."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    inline,
    largest,
    load_DTYPE,
    peek_DTYPE,
    plus,
    range_kernel,
    scratch_BITS,
    select,
    store_DTYPE,
)


@inline
def before(place, stride, pad):
    """The first real cell of a window."""
    return max(place * stride - pad, 0)


@inline
def behind(place, stride, pad, window, size):
    """The cell behind the last real one of a window."""
    return min(place * stride - pad + window, size)


@inline
def first_reaching(cell, stride, pad, window):
    """The first window that ends behind a cell."""
    return max((cell + pad - window + stride) // stride, 0)


@inline
def first_behind(cell, stride, pad, count):
    """The first window that begins at a cell or behind it."""
    return min((cell + pad + stride - 1) // stride, count)


@inline
def same_from(place, cells, stride, pad, window, size, count):
    """The end of a run of windows with as many real cells as the one at `place`: whole ones."""
    end = min((size + pad - window) // stride + 1, count)
    return end if (cells == window) & (end > place) else place + 1
'''

# ------------------------------------------------------------------ largest and mean

ONE = '''

@inline
def one(first, y, to, x, a, n):
    """The cell at `a` of n lanes joins what is in the result."""
    if first:
        for i in range(n):
            store_DTYPE(y, to + i, load_DTYPE(x, a + i))
        return
    for i in range(n):
        store_DTYPE(y, to + i, JOIN(peek_DTYPE(y, to + i), load_DTYPE(x, a + i)))
'''

MORE = '''

@inline
def two(first, y, to, x, a, step, n):
    """Two neighbouring cells."""
    b = a + step
    if first:
        for i in range(n):
            store_DTYPE(y, to + i, JOIN(load_DTYPE(x, a + i), load_DTYPE(x, b + i)))
        return
    for i in range(n):
        both = JOIN(load_DTYPE(x, a + i), load_DTYPE(x, b + i))
        store_DTYPE(y, to + i, JOIN(peek_DTYPE(y, to + i), both))


@inline
def three(first, y, to, x, a, step, n):
    """Three neighbouring cells."""
    b = a + step
    c = b + step
    if first:
        for i in range(n):
            both = JOIN(load_DTYPE(x, a + i), load_DTYPE(x, b + i))
            store_DTYPE(y, to + i, JOIN(both, load_DTYPE(x, c + i)))
        return
    for i in range(n):
        both = JOIN(load_DTYPE(x, a + i), load_DTYPE(x, b + i))
        both = JOIN(both, load_DTYPE(x, c + i))
        store_DTYPE(y, to + i, JOIN(peek_DTYPE(y, to + i), both))
'''

NARROW = '''

@inline
def across(first, y, base, rowed, k, begin, low, high, PLACE):
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
                store_DTYPE(y, to + i * step, peek_DTYPE(rowed, place + i * far))
        else:
            for i in range(count):
                new = peek_DTYPE(rowed, place + i * far)
                store_DTYPE(y, to + i * step, JOIN(peek_DTYPE(y, to + i * step), new))


@inline
def narrow(y, base, x, image, d0, d1, r0, r1, PLACE):
    """One row of the result whose cells have few lanes: the rows of x first, then the columns."""
    rowed = scratch_BITS()
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
        across(True, y, base, rowed, pcols, begin, low, high, PLACE)  # real in every window
        for k in range(kcols):
            if k != pcols:
                across(False, y, base, rowed, k, begin, low, high, PLACE)
'''

BROAD = '''

@inline
def broad(y, base, x, image, d0, d1, r0, r1, PLACE):
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
'''

GATHER = """

@range_kernel
def run(params, start, stop):
READ
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
        WAY(y, base, x, image, d0, d1, r0, r1, PLACE)
"""

DIVIDE = """\
        if divides:
            o = 0
            while o < ocols:
                count = behind(o, scols, pcols, kcols, cols) - before(o, scols, pcols)
                o1 = same_from(o, count, scols, pcols, kcols, cols, ocols)
                cells = np.VALUE((d1 - d0) * (r1 - r0) * count)
                for i in range(base + o * inner, base + o1 * inner):
                    store_DTYPE(y, i, peek_DTYPE(y, i) / cells)
                o = o1
"""


def source(name: str, dtype: str, wide: bool) -> str:
    """The module that defines `run(params, first item, end item)`.

    Arguments:
        name: "max", "average", "max_gradient" or "spread".
        wide: whether lanes are neighbouring windows, or rows and columns go one after the other.
    """
    if name in ("max_gradient", "spread"):
        body = scatter_source.body(name, wide)
    else:
        body = ONE + (NARROW if wide else MORE + BROAD) + GATHER
        body += DIVIDE if name == "average" else ""
    text = (HEAD + body).replace("READ", _READ).replace("PLACE", PLACE).replace("STRIP", STRIP)
    text = text.replace("JOIN", "largest" if name == "max" else "plus").replace("NAME", name)
    text = text.replace("WAY", "narrow" if wide else "broad").replace("LANES", str(SCRATCH_LANES))
    text = text.replace("ITEMSIZE", str(int(dtype[-2:]) // 8)).replace("VALUE", dtype)
    return text.replace("BITS", dtype[-2:]).replace("DTYPE", dtype)
