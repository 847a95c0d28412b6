"""Where windows lie along one axis: what the kernels of pooling and interpolation share.

Only what compiles imports this.
"""

from __future__ import annotations

from kbench.engine.jit.numba_backend import inline


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


@inline
def neighbour(phase, factor):
    """Where the other cell of a phase of an interpolation lies: before, nowhere, or behind."""
    if 2 * phase + 1 == factor:
        return 0
    return -1 if 2 * phase + 1 < factor else 1
