"""Sources of the pooling kernels, over arrays seen as [outer, depth, rows, cols, inner].

The kernels that gather own a row of the result; those that scatter own a strip of the input's
rows and visit every window that reaches into it, so that no two threads write to one cell and
each cell adds up in the same order on any number of threads. Lanes are the innermost cells of
one window, or, where these are few, the same cell of neighbouring windows.
"""

from __future__ import annotations

LANES = 4096
"""Lanes whose running values fit the scratch of one item."""

FIELDS = """y x g outer depth rows cols inner odepth orows ocols kdepth krows kcols
sdepth srows scols pdepth prows pcols divides strip_depth strip_rows strips_depth strips_rows
wide h""".split()
"""The parameter block; `y` is what is written."""

STRIP = """image, d0, d1, r0, r1, from_d, to_d, from_r, to_r, depth, rows, cols, inner, ocols,
kcols, scols, pcols, divides, wide""".replace("\n", " ")

_READ = "\n".join(f"    {name} = field(params, {place})" for place, name in enumerate(FIELDS))

HEAD = '''"""Library kernel of kbench: pool_NAME of DTYPE."""
import numpy as np
from kbench.engine.kernels.toolkit import (
    field,
    inline,
    JOIN,
    load_DTYPE,
    peek_DTYPE,
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

FOLD = '''

@inline
def one(first, y, to, x, a, n):
    """The cell at `a` of n lanes joins what is in the result."""
    if first:
        for i in range(n):
            store_DTYPE(y, to + i, load_DTYPE(x, a + i))
        return
    for i in range(n):
        store_DTYPE(y, to + i, JOIN(peek_DTYPE(y, to + i), load_DTYPE(x, a + i)))


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
        if wide > 0:
            narrow(y, base, x, image, d0, d1, r0, r1, PLACE)
        else:
            broad(y, base, x, image, d0, d1, r0, r1, PLACE)
        if divides:
            o = 0
            while o < ocols:
                count = behind(o, scols, pcols, kcols, cols) - before(o, scols, pcols)
                o1 = same_from(o, count, scols, pcols, kcols, cols, ocols)
                cells = np.VALUE((d1 - d0) * (r1 - r0) * count)
                for i in range(base + o * inner, base + o1 * inner):
                    store_DTYPE(y, i, peek_DTYPE(y, i) / cells)
                o = o1
'''


# ------------------------------------------------------------------ the way back

ROUTE = '''

@inline
def share(g, at, cells):
    """What a window gives away: all of it to one cell."""
    return load_DTYPE(g, at)


@inline
def tap(y, x, h, left, cell, far, at, step, n, inside):
    """One cell of each window: it takes all that is left if its value is the window's."""
    if inside:
        for i in range(n):
            value = load_DTYPE(x, cell + i * far)
            hit = (value == load_DTYPE(h, at + i * step)) | (value != value)
            rest = peek_DTYPE(left, i)
            taken = select(hit, rest, np.VALUE(0))
            store_DTYPE(y, cell + i * far, peek_DTYPE(y, cell + i * far) + taken)
            store_DTYPE(left, i, select(hit, np.VALUE(0), rest))
        return
    for i in range(n):
        value = load_DTYPE(x, cell + i * far)
        hit = (value == load_DTYPE(h, at + i * step)) | (value != value)
        store_DTYPE(left, i, select(hit, np.VALUE(0), peek_DTYPE(left, i)))
'''

ROUTE_NARROW = '''

@inline
def narrow(y, x, h, g, left, base, STRIP):
    """One row of windows with few lanes: the same cell of many windows at a time."""
    for low in range(0, ocols, LANES):
        high = min(low + LANES, ocols)
        for j in range(inner):
            for o in range(low, high):
                store_DTYPE(left, o - low, load_DTYPE(g, base + o * inner + j))
            for d in range(d0, d1):
                for r in range(r0, r1):
                    inside = (d >= from_d) & (d < to_d) & (r >= from_r) & (r < to_r)
                    line = ((image * depth + d) * rows + r) * cols
                    for k in range(kcols):
                        shift = k - pcols
                        o0 = max(low, (scols - 1 - shift) // scols)
                        o1 = min(high, (cols - 1 - shift) // scols + 1)
                        cell = (line + o0 * scols + shift) * inner + j
                        at = base + o0 * inner + j
                        rest = left + (o0 - low) * ITEMSIZE
                        far = scols * inner
                        tap(y, x, h, rest, cell, far, at, inner, o1 - o0, inside)
'''

SHARE = '''

@inline
def share(g, at, cells):
    """What a window gives to each of its cells."""
    return load_DTYPE(g, at) / np.VALUE(cells)


@inline
def tap(y, x, h, left, cell, far, at, step, n, inside):
    """One cell of each window."""
    if inside:
        for i in range(n):
            part = peek_DTYPE(y, cell + i * far) + peek_DTYPE(left, i)
            store_DTYPE(y, cell + i * far, part)
'''

SHARE_NARROW = '''

@inline
def narrow(y, x, h, g, left, base, STRIP):
    """One row of windows with few lanes: what they give along the row, then that to each row."""
    rowed = scratch_BITS()
    for low in range(0, ocols, wide):
        high = min(low + wide, ocols)
        begin = before(low, scols, pcols)
        n = (behind(high - 1, scols, pcols, kcols, cols) - begin) * inner
        for i in range(n):
            store_DTYPE(rowed, i, np.VALUE(0))
        o = low
        while o < high:
            count = behind(o, scols, pcols, kcols, cols) - before(o, scols, pcols)
            o1 = min(same_from(o, count, scols, pcols, kcols, cols, ocols), high)
            cells = (d1 - d0) * (r1 - r0) * count if divides else 1
            at = base + o * inner
            to = (o - low) * inner
            for i in range((o1 - o) * inner):
                store_DTYPE(left, to + i, share(g, at + i, cells))
            o = o1
        for k in range(kcols):
            shift = k - pcols
            o0 = max(low, (scols - 1 - shift) // scols)
            o1 = min(high, (cols - 1 - shift) // scols + 1)
            lanes, count, far, step = inner, o1 - o0, scols * inner, inner
            if scols == 1:
                lanes, count, far, step = 1, (o1 - o0) * inner, 1, 1
            for j in range(lanes):
                cell = (o0 * scols + shift - begin) * inner + j
                at = (o0 - low) * inner + j
                for i in range(count):
                    place = cell + i * far
                    part = peek_DTYPE(rowed, place) + peek_DTYPE(left, at + i * step)
                    store_DTYPE(rowed, place, part)
        for d in range(max(d0, from_d), min(d1, to_d)):
            for r in range(max(r0, from_r), min(r1, to_r)):
                line = (((image * depth + d) * rows + r) * cols + begin) * inner
                for i in range(n):
                    store_DTYPE(y, line + i, peek_DTYPE(y, line + i) + peek_DTYPE(rowed, i))
'''

SCATTER = '''

@inline
def broad(y, x, h, g, left, base, STRIP):
    """One row of windows with many lanes: every window by itself."""
    for o in range(ocols):
        c0 = before(o, scols, pcols)
        c1 = behind(o, scols, pcols, kcols, cols)
        cells = (d1 - d0) * (r1 - r0) * (c1 - c0) if divides else 1
        for low in range(0, inner, LANES):
            n = min(inner - low, LANES)
            at = base + o * inner + low
            for i in range(n):
                store_DTYPE(left, i, share(g, at + i, cells))
            for d in range(d0, d1):
                for r in range(r0, r1):
                    inside = (d >= from_d) & (d < to_d) & (r >= from_r) & (r < to_r)
                    line = ((image * depth + d) * rows + r) * cols
                    for c in range(c0, c1):
                        cell = (line + c) * inner + low
                        tap(y, x, h, left, cell, 1, at, 1, n, inside)


@range_kernel
def run(params, start, stop):
READ
    left = scratch_BITS()
    for item in range(start, stop):
        upper = item // strips_rows
        image = upper // strips_depth
        from_d = (upper - image * strips_depth) * strip_depth
        to_d = min(from_d + strip_depth, depth)
        from_r = (item - upper * strips_rows) * strip_rows
        to_r = min(from_r + strip_rows, rows)
        for d in range(from_d, to_d):
            line = ((image * depth + d) * rows + from_r) * cols * inner
            for i in range((to_r - from_r) * cols * inner):
                store_DTYPE(y, line + i, np.VALUE(0))
        last_d = first_behind(to_d, sdepth, pdepth, odepth)
        last_r = first_behind(to_r, srows, prows, orows)
        for plane in range(first_reaching(from_d, sdepth, pdepth, kdepth), last_d):
            d0 = before(plane, sdepth, pdepth)
            d1 = behind(plane, sdepth, pdepth, kdepth, depth)
            for row in range(first_reaching(from_r, srows, prows, krows), last_r):
                r0 = before(row, srows, prows)
                r1 = behind(row, srows, prows, krows, rows)
                base = ((image * odepth + plane) * orows + row) * ocols * inner
                if wide > 0:
                    narrow(y, x, h, g, left, base, STRIP)
                else:
                    broad(y, x, h, g, left, base, STRIP)
'''


def source(name: str, dtype: str) -> str:
    """The module that defines `run(params, first item, end item)`."""
    join = "largest" if name == "max" else "plus"
    kept = "select" if name == "max_gradient" else "JOIN"
    body = FOLD
    if name in ("max_gradient", "spread"):
        way = ROUTE + ROUTE_NARROW if name == "max_gradient" else SHARE + SHARE_NARROW
        body = way + SCATTER
    text = (
        HEAD.replace("    select,\n", f"    {kept},\n" if kept == "select" else "") + body
    ).replace("READ", _READ)
    text = text.replace("PLACE", "depth, rows, cols, inner, ocols, kcols, scols, pcols, wide")
    text = text.replace("STRIP", STRIP).replace("LANES", str(LANES)).replace("JOIN", join)
    text = text.replace("START", "-np.inf" if name == "max" else "0").replace("NAME", name)
    text = text.replace("ITEMSIZE", str(int(dtype[-2:]) // 8)).replace("VALUE", dtype)
    return text.replace("BITS", dtype[-2:]).replace("DTYPE", dtype)
