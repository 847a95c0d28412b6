"""Runs a range kernel, given by address, over a range of items: on one thread or on all of them.

There is one parallel loop in compiled form for all kernels, so that a kernel compiles as plain
nogil code in a third of the time. Addresses are arguments: a cached kernel would freeze globals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine import threads

SOURCE = '''"""The drivers of range kernels."""
from kbench.engine.kernels.compile import kernel, prange, types
from kbench.engine.kernels.primitives import call_range

FOUR = types.void(*[types.intp] * 4)


@kernel(signature=FOUR)
def serial(address, params, start, stop):
    call_range(address, params, start, stop)


@kernel(signature=types.void(*[types.intp] * 5), parallel=True)
def parallel(address, params, start, stop, pieces):
    size = (stop - start + pieces - 1) // pieces
    for i in prange(pieces):
        first = start + i * size
        call_range(address, params, first, min(stop, first + size))
'''

PIECES_PER_THREAD = 4


class Driver:
    """The compiled driver. Made once, in the background thread."""

    def __init__(self, module: Any) -> None:
        from kbench.engine.kernels import compile

        compile.set_layer(threads.choose_layer())
        self._serial: Callable[..., None] = module.serial
        self._parallel: Callable[..., None] = module.parallel
        self._with_threads = compile.with_threads
        self._most = compile.most_threads()

    def run(self, address: int, params: np.ndarray, start: int, stop: int, spread: bool) -> None:
        """Run items `start` to `stop`; `spread` allows all threads."""
        block = params.__array_interface__["data"][0]
        if spread and stop - start > 1:
            with threads.parallel() as count:
                count = min(count, self._most)
                if count > 1:
                    pieces = min(count * PIECES_PER_THREAD, stop - start)
                    self._with_threads(count, self._parallel, address, block, start, stop, pieces)
                    return
        self._serial(address, block, start, stop)
