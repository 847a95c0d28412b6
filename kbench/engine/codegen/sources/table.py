"""Library kernel of kbench: other kernels, each over the pieces of its own work."""

from kbench.engine.intrinsics.primitives import call_range, field, store_int64
from kbench.engine.jit.numba_backend import range_kernel

ROW_FIELDS = 6
"""Fields of one kernel: address, parameters, items, items of a piece, its first piece and the
end."""


@range_kernel
def run(params, start, stop):
    store_int64(params, 0, 1)
    piece = start
    row = 1
    while piece < stop:
        end = field(params, row + 5)
        if piece < end:
            size = field(params, row + 3)
            first = field(params, row + 4)
            low = (piece - first) * size
            high = min((min(stop, end) - first) * size, field(params, row + 2))
            call_range(field(params, row), field(params, row + 1), low, high)
            piece = end
        row += ROW_FIELDS
