"""A loop, or a program of rows, that is run again on arrays that only their addresses tell apart.

A loop over some thousand elements takes a microsecond or two, and as long as five more to be looked
up, checked, and written into a block of parameters; to join the parts of a sum takes ten. For
arrays of the same form all but the addresses is the same, so the blocks are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.types import Array
from kbench.engine.jit import fast_call
from kbench.engine.jit.launch import Launch, LaunchGraph
from kbench.engine.jit.service import service
from kbench.engine.runtime import threads
from kbench.engine.runtime.pacer import TILE_SECONDS

_Form = tuple[tuple[int, ...], tuple[int, ...], np.dtype[np.generic], int]
"""Shape, strides, dtype, and the bits that are zero in the address of an element."""


class RepeatedLoop:
    """The launches of a kernel for arrays of one form: those that it is made of were checked."""

    def __init__(
        self,
        launches: Sequence[Launch],
        out: Array,
        ins: Sequence[Array],
        given: Sequence[int],
        places: Sequence[tuple[int, int]],
    ) -> None:
        """`places` are where the addresses of the result and of all inputs stand: the number of a
        launch, and the place among its parameters. Inputs that are not `given` stay as they are."""
        first = launches[0]
        alone = len(launches) == 1 and not first.parallel
        others = [array for number, array in enumerate(ins) if number not in given]
        self._launch, self._kept = first, (list(launches), others)
        self._graph = None if alone else LaunchGraph(launches)
        self._forms = [_form(array) for array in (out, *[ins[number] for number in given])]
        moving = [places[0], *[places[1 + number] for number in given]]
        self._fields = [(launches[number].params.data, place) for number, place in moving]
        self._seconds = sum(one.items * one.work * one.pacer.seconds for one in launches)
        self._free = [True]  # empty while a thread is in here
        self._threads = threads.count()

    @property
    def is_valid(self) -> bool:
        """Whether as many threads may be used as when it was made."""
        return threads.count() == self._threads

    def run(self, *arrays: Array) -> bool:
        """The loop for a result, in memory of its own, and operands; False where they do not fit,
        another thread is in here, or somebody would have to look at the cancel flag."""
        if threads.compilers or self._seconds > TILE_SECONDS or not self.is_valid:
            return False
        address = fast_call.address
        found = []
        for array, (shape, strides, dtype, inside) in zip(arrays, self._forms, strict=True):
            if array.shape != shape or array.strides != strides or array.dtype is not dtype:
                return False
            begin = address(array)
            if begin & inside:
                return False
            found.append(begin)
        try:
            self._free.pop()
        except IndexError:
            return False
        for (fields, place), begin in zip(self._fields, found):  # noqa: B905  # of equal length
            fields[place] = begin
        launch = self._launch
        if self._graph is None:
            service.driver.run(launch.address, launch.params, 0, launch.items, False)
        else:
            self._graph.run()
        self._free.append(True)
        return True


def _form(array: Array) -> _Form:
    return array.shape, array.strides, array.dtype, array.dtype.alignment - 1
