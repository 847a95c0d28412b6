"""Library kernel of kbench: what arrived at windows, given to their cells, strip by strip."""

from kbench.engine.intrinsics.primitives import select
from kbench.engine.intrinsics.specialized import (
    IN_ROWS,
    SCRATCH_LANES,
    SIZE,
    TO_LARGEST,
    load_element,
    parameters,
    peek_element,
    scratch_values,
    store_element,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel
from kbench.engine.kernels.pool.windows import (
    before,
    behind,
    first_behind,
    first_reaching,
    same_from,
)


@inline
def share(g, at, cells):
    """What a window gives away: all of it to one cell, or a share to each."""
    if TO_LARGEST:
        return load_element(g, at)
    else:
        return load_element(g, at) / value(cells)


@inline
def tap(y, x, h, left, cell, far, at, step, n, inside):
    """One cell of each window: the largest takes all that is left, or each takes its share."""
    if TO_LARGEST:
        if inside:
            for i in range(n):
                own = load_element(x, cell + i * far)
                hit = (own == load_element(h, at + i * step)) | (own != own)
                rest = peek_element(left, i)
                taken = select(hit, rest, value(0))
                store_element(y, cell + i * far, peek_element(y, cell + i * far) + taken)
                store_element(left, i, select(hit, value(0), rest))
            return
        for i in range(n):
            own = load_element(x, cell + i * far)
            hit = (own == load_element(h, at + i * step)) | (own != own)
            store_element(left, i, select(hit, value(0), peek_element(left, i)))
    else:
        if inside:
            for i in range(n):
                part = peek_element(y, cell + i * far) + peek_element(left, i)
                store_element(y, cell + i * far, part)


@inline
def narrow_to_largest(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d, to_d, from_r, to_r,
                      depth, rows, cols, inner, ocols, kcols, scols, pcols,
                      divides, wide):  # fmt: skip
    """One row of windows with few lanes: the same cell of many windows at a time."""
    for low in range(0, ocols, SCRATCH_LANES):
        high = min(low + SCRATCH_LANES, ocols)
        for j in range(inner):
            for o in range(low, high):
                store_element(left, o - low, load_element(g, base + o * inner + j))
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
                        rest = left + (o0 - low) * SIZE
                        far = scols * inner
                        tap(y, x, h, rest, cell, far, at, inner, o1 - o0, inside)


@inline
def narrow_to_each(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d, to_d, from_r, to_r,
                   depth, rows, cols, inner, ocols, kcols, scols, pcols,
                   divides, wide):  # fmt: skip
    """One row of windows with few lanes: what they give along the row, then that to each row."""
    rowed = scratch_values()
    for low in range(0, ocols, wide):
        high = min(low + wide, ocols)
        begin = before(low, scols, pcols)
        n = (behind(high - 1, scols, pcols, kcols, cols) - begin) * inner
        for i in range(n):
            store_element(rowed, i, value(0))
        o = low
        while o < high:
            count = behind(o, scols, pcols, kcols, cols) - before(o, scols, pcols)
            o1 = min(same_from(o, count, scols, pcols, kcols, cols, ocols), high)
            cells = (d1 - d0) * (r1 - r0) * count if divides else 1
            at = base + o * inner
            to = (o - low) * inner
            for i in range((o1 - o) * inner):
                store_element(left, to + i, share(g, at + i, cells))
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
                    part = peek_element(rowed, place) + peek_element(left, at + i * step)
                    store_element(rowed, place, part)
        for d in range(max(d0, from_d), min(d1, to_d)):
            for r in range(max(r0, from_r), min(r1, to_r)):
                line = (((image * depth + d) * rows + r) * cols + begin) * inner
                for i in range(n):
                    store_element(y, line + i, peek_element(y, line + i) + peek_element(rowed, i))


@inline
def broad(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d, to_d, from_r, to_r, depth,
          rows, cols, inner, ocols, kcols, scols, pcols, divides, wide):  # fmt: skip
    """One row of windows with many lanes: every window by itself."""
    for o in range(ocols):
        c0 = before(o, scols, pcols)
        c1 = behind(o, scols, pcols, kcols, cols)
        cells = (d1 - d0) * (r1 - r0) * (c1 - c0) if divides else 1
        for low in range(0, inner, SCRATCH_LANES):
            n = min(inner - low, SCRATCH_LANES)
            at = base + o * inner + low
            for i in range(n):
                store_element(left, i, share(g, at + i, cells))
            for d in range(d0, d1):
                for r in range(r0, r1):
                    inside = (d >= from_d) & (d < to_d) & (r >= from_r) & (r < to_r)
                    line = ((image * depth + d) * rows + r) * cols
                    for c in range(c0, c1):
                        cell = (line + c) * inner + low
                        tap(y, x, h, left, cell, 1, at, 1, n, inside)


@range_kernel
def run(params, start, stop):
    (y, x, g, outer, depth, rows, cols, inner, odepth, orows, ocols, kdepth, krows, kcols,
     sdepth, srows, scols, pdepth, prows, pcols, divides, strip_depth, strip_rows,
     strips_depth, strips_rows, wide, h,
    ) = parameters(params)  # fmt: skip
    left = scratch_values()
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
                store_element(y, line + i, value(0))
        last_d = first_behind(to_d, sdepth, pdepth, odepth)
        last_r = first_behind(to_r, srows, prows, orows)
        for plane in range(first_reaching(from_d, sdepth, pdepth, kdepth), last_d):
            d0 = before(plane, sdepth, pdepth)
            d1 = behind(plane, sdepth, pdepth, kdepth, depth)
            for row in range(first_reaching(from_r, srows, prows, krows), last_r):
                r0 = before(row, srows, prows)
                r1 = behind(row, srows, prows, krows, rows)
                base = ((image * odepth + plane) * orows + row) * ocols * inner
                if not IN_ROWS:
                    broad(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d, to_d,
                          from_r, to_r, depth, rows, cols, inner, ocols, kcols, scols,
                          pcols, divides, wide)  # fmt: skip
                elif TO_LARGEST:
                    narrow_to_largest(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d,
                                      to_d, from_r, to_r, depth, rows, cols, inner, ocols,
                                      kcols, scols, pcols, divides, wide)  # fmt: skip
                else:
                    narrow_to_each(y, x, h, g, left, base, image, d0, d1, r0, r1, from_d,
                                   to_d, from_r, to_r, depth, rows, cols, inner, ocols,
                                   kcols, scols, pcols, divides, wide)  # fmt: skip
