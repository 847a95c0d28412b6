"""Library kernel of kbench: bilinear interpolation along one axis."""

from kbench.engine.intrinsics.specialized import (
    FEW_LANES,
    load_element,
    load_value,
    parameters,
    store_element,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel
from kbench.engine.kernels.pool.windows import neighbour


@inline
def mix(y, to, step, x, at, other, far, weight, n):
    """n lanes between two cells."""
    rest = value(1) - weight
    for i in range(n):
        own = load_element(x, at + i * far) * rest
        store_element(y, to + i * step, own + load_element(x, other + i * far) * weight)


@inline
def copy(y, to, step, x, at, far, n):
    """n lanes as they are: edges, and cells with the same centre."""
    for i in range(n):
        store_element(y, to + i * step, load_element(x, at + i * far))


@range_kernel
def run(params, start, stop):
    y, x, weights, n, factor, inner = parameters(params)
    for item in range(start, stop):
        if inner > FEW_LANES:
            i = item % n
            for phase in range(factor):
                side = neighbour(phase, factor)
                to = (item * factor + phase) * inner
                at = item * inner
                if (side == 0) | (i + side < 0) | (i + side >= n):
                    copy(y, to, 1, x, at, 1, inner)
                else:
                    weight = load_value(weights, phase)
                    mix(y, to, 1, x, at, at + side * inner, 1, weight, inner)
            continue
        row = item * n * inner
        for phase in range(factor):
            side = neighbour(phase, factor)
            weight = load_value(weights, phase)
            low = 1 if side < 0 else 0
            high = n - 1 if side > 0 else n
            for j in range(inner):
                to = row * factor + phase * inner + j
                step = factor * inner
                if side == 0:
                    copy(y, to, step, x, row + j, inner, n)
                    continue
                at = row + low * inner + j
                other = at + side * inner
                mix(y, to + low * step, step, x, at, other, inner, weight, high - low)
                edge = 0 if side < 0 else n - 1
                copy(y, to + edge * step, step, x, row + edge * inner + j, inner, 1)
