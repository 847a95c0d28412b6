"""Sources of the pooling kernels that scatter: to the winner of each window, or to all its cells.

Texts with the names that `spatial_source.source` fills in. An item zeroes a strip of rows of the
input and then visits every window that reaches into it.
"""

from __future__ import annotations

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

BROAD = '''

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
'''

SCATTER = """

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
                WAY(y, x, h, g, left, base, STRIP)
"""


def body(name: str, wide: bool) -> str:
    """The functions of a kernel that scatters, and its loop over strips."""
    if name == "max_gradient":
        return ROUTE + (ROUTE_NARROW if wide else BROAD) + SCATTER
    return SHARE + (SHARE_NARROW if wide else BROAD) + SCATTER
