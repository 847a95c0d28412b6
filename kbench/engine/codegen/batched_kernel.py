"""Several kernels in one parallel call: a table of their parameter blocks, cut into pieces.

One call of the driver wakes the threads once for all of them, and nothing comes between: a signal
is handled before it or after it, so that either all results are there or none.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from kbench.engine.codegen.arguments import Binding
from kbench.engine.codegen.loop_kernel import Kernel
from kbench.engine.core.types import Array
from kbench.engine.jit import kernel_file
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import service
from kbench.engine.runtime import threads

PIECE_ELEMENTS = 8192
"""Elements of one piece, the least that a thread takes."""
ROW_FIELDS = 6
"""Fields of one kernel: address, parameters, items, items of a piece, its first piece and the
end."""


class Table:
    """Kernels bound to their loop dims, to be run together; none may read what another writes."""

    def __init__(self, bound: Sequence[tuple[Kernel, Binding]]) -> None:
        rows = []
        end = 0
        for kernel, binding in bound:
            size = max(1, PIECE_ELEMENTS // max(1, binding.each))
            first, end = end, end - (-binding.items // size)
            rows.append((kernel.address, 0, binding.items, size, first, end))
        self._params = np.array([0, *[value for row in rows for value in row]], np.int64)
        self.pieces = end
        self.work = sum(binding.items * binding.each for _, binding in bound)

        self._address = 0

    def ready(self) -> bool:
        """Whether the kernel that runs the others is there."""
        if not self._address:
            text = functools.partial(kernel_file.specialized, "codegen/sources/table")
            job = service.find("table", text)
            self._address = 0 if job is None else job.address
        return self._address != 0

    def parameters(self, blocks: Sequence[Array]) -> Array:
        """The table for these parameter blocks, which must stay alive until it has run.

        They come from `Binding.parameters`, which has checked the arrays behind them.
        """
        params = self._params.copy()
        params[2::ROW_FIELDS] = [address_of(block) for block in blocks]
        return params

    def run(self, params: Array) -> None:
        """Run all kernels. `has_run` tells if it came to its end, also after an exception."""
        if self.pieces:
            parallel = self.work >= threads.MIN_PARALLEL_ELEMENTS and service.driver.runs_graphs
            service.driver.run(self._address, params, 0, self.pieces, parallel)

    @staticmethod
    def has_run(params: Array) -> bool:
        """Whether a table was run to its end, which nothing holds up once it has begun.

        A signal that came meanwhile raises when the call of compiled code returns, so that an
        exception alone does not tell.
        """
        return bool(params[0])
