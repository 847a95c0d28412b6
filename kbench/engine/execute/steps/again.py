"""How a step with one result does its work once more, without looking everything up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbench.engine.codegen.repeated_loop import RepeatedLoop

Form = tuple[tuple[int, ...], np.dtype[np.generic]]
"""Shape and dtype."""


class Repeating(Protocol):
    """A kernel that knows how a call of it is made again."""

    def repeated(
        self,
        outs: Sequence[np.ndarray],
        ins: Sequence[np.ndarray],
        dims: Sequence[int],
        given: Sequence[int],
    ) -> RepeatedLoop | None:
        """The call for another result, and other arrays in place of the `given` inputs."""


class Again:
    """What is known of the calls of one step, whose kernel reads arrays and `numbers`.

    A number stands where the kernel reads one, and None where it reads an array, of these `forms`.
    """

    def __init__(self, numbers: Sequence[np.ndarray | None], forms: Sequence[Form]) -> None:
        self._numbers, self._forms = numbers, list(forms)
        self._known: RepeatedLoop | None = None
        self._asked = 0  # how often it was looked for in vain

    def run(
        self,
        kernel: Repeating,
        dims: Sequence[int],
        out: np.ndarray,
        arrays: Sequence[np.ndarray],
    ) -> bool:
        """Do it; False where it is not known how."""
        if self._known is None or not self._known.is_valid:
            self._known = self._found(kernel, dims, out, arrays)
        return self._known is not None and self._known.run(out, *arrays)

    def _found(
        self,
        kernel: Repeating,
        dims: Sequence[int],
        out: np.ndarray,
        arrays: Sequence[np.ndarray],
    ) -> RepeatedLoop | None:
        """How calls for such arrays are made again; looked for at the first call, the second, the
        fourth and so on, as another kernel may have to be ready."""
        if [(array.shape, array.dtype) for array in arrays] != self._forms:
            return None
        self._asked += 1
        if self._asked & (self._asked - 1):
            return None
        read = iter(arrays)
        whole = [next(read) if number is None else number for number in self._numbers]
        given = [place for place, number in enumerate(self._numbers) if number is None]
        found = kernel.repeated([out], whole, dims, given)
        if found is not None:
            self._asked = 0
        return found
