"""Library kernel of kbench: the transpose of bilinear interpolation along one axis."""

from kbench.engine.intrinsics.specialized import (
    FEW_LANES,
    load_element,
    load_value,
    parameters,
    peek_element,
    store_element,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel
from kbench.engine.kernels.pool.windows import neighbour


@inline
def add(first, y, to, step, g, at, far, weight, n):
    """n lanes of a cell take their share of one phase."""
    if first:
        for i in range(n):
            store_element(y, to + i * step, load_element(g, at + i * far) * weight)
        return
    for i in range(n):
        part = load_element(g, at + i * far) * weight
        store_element(y, to + i * step, peek_element(y, to + i * step) + part)


@range_kernel
def run(params, start, stop):
    y, x, weights, n, factor, inner = parameters(params)
    whole = value(1)
    for item in range(start, stop):
        if inner > FEW_LANES:
            i = item % n
            to = item * inner
            for phase in range(factor):
                side = neighbour(phase, factor)
                weight = load_value(weights, phase)
                outside = (side == 0) | (i + side < 0) | (i + side >= n)
                own = whole if outside else whole - weight
                at = (item * factor + phase) * inner
                add(phase == 0, y, to, 1, x, at, 1, own, inner)
                if (side != 0) & (i - side >= 0) & (i - side < n):
                    add(False, y, to, 1, x, at - side * factor * inner, 1, weight, inner)
            continue
        row = item * n * inner
        far = factor * inner
        for j in range(inner):
            to = row + j
            for phase in range(factor):
                side = neighbour(phase, factor)
                weight = load_value(weights, phase)
                at = row * factor + phase * inner + j
                own = whole if side == 0 else whole - weight
                add(phase == 0, y, to, inner, x, at, far, own, n)
                if side == 0:
                    continue
                edge = 0 if side < 0 else n - 1
                add(False, y, to + edge * inner, inner, x, at + edge * far, far, weight, 1)
                low = 1 if side < 0 else 0
                from_ = to + (low + side) * inner
                add(False, y, from_, inner, x, at + low * far, far, weight, n - 1)
