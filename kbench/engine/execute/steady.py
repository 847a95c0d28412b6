"""A function's next call, for arrays of the dtypes and shapes of the one before.

A call of some microseconds takes as long again to look up which executable is for its arrays, and
to note for each node what it was last. Both are the same in the next call of a loop. Whatever is
unusual, a listener, a recording, other shapes, takes the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core import cancel, fork_safety
from kbench.engine.execute.executable import Executable
from kbench.engine.graph.tensor import Tensor, last_seen
from kbench.engine.runtime import profile, read_only

MAX_KEPT_ELEMENTS = 16
"""Elements of a result up to which its node keeps the value."""


class SteadyCall:
    """Calls of one executable that `is_simple`, of a function without updates."""

    def __init__(
        self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor],
        executable: Executable, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray],
        lock: fork_safety.Lock,
    ) -> None:  # fmt: skip
        """From a call that the function has made."""
        self.executable = executable
        self._name, self._lock = name, lock
        self._expected = [(array.dtype, array.shape) for array in arrays]
        large = [value.size > MAX_KEPT_ELEMENTS for value in results]
        self._small = [(i, node) for i, node in enumerate(outputs) if not large[i]]
        shapes = [(node, array.shape) for node, array in zip(inputs, arrays, strict=True)]
        shapes += [(node, results[i].shape) for i, node in enumerate(outputs) if large[i]]
        self._seen = [(node, last_seen((shape, None))) for node, shape in shapes]

    def run(self, inputs: Sequence[object]) -> list[np.ndarray] | None:
        """The results, None where this is no call for it."""
        expected = self._expected
        if type(inputs) is not list or len(inputs) != len(expected):
            return None
        if cancel.any_request or profile.is_watched() or read_only.is_active():
            return None
        direct = self.executable.direct
        results = None
        if direct is not None:  # looks at dtypes and shapes by itself
            for array in inputs:
                if type(array) is not np.ndarray:
                    return None
            results = direct(inputs)
        if results is None:
            for array, (dtype, shape) in zip(inputs, expected):  # noqa: B905  # of equal length
                if (
                    type(array) is not np.ndarray
                    or array.dtype is not dtype
                    or array.shape != shape
                ):
                    return None
            with self._lock:
                results = self.executable.run_simple(inputs)
        self._note(results)
        return results

    def _note(self, results: Sequence[np.ndarray]) -> None:
        """What the usual call notes at its end."""
        calls = profile.calls
        calls.count += 1
        calls.name = self._name
        for node, seen in self._seen:
            node.last = seen
        for place, node in self._small:
            value = results[place]
            node.last = last_seen((value.shape, value))
