"""The value of a symbol: computed beside the program on what was fed last, nothing stored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.core.csr import is_csr
from kbench.engine.core.errors import ArgumentError, KbenchError
from kbench.engine.inspect import describe
from kbench.engine.runtime import read_only
from kbench.notebook.base import inspector_hub
from kbench.workbench.analysis.known_value import unasked

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

MAX_FOLLOW_SECONDS = 1.0
"""Seconds that following a change may take; a slower tensor is not followed."""


class ComputedValue:
    """A tensor and its value; `close` it when it is not needed any more.

    `namespace`: where what was fed is known; None for the names of the running shell. Of a sparse
    tensor the value is dense, unless it is to be `kept_sparse`.
    """

    def __init__(
        self,
        value: Tensor,
        namespace: dict[str, object] | None = None,
        kept_sparse: bool = False,
    ) -> None:
        self._kept_sparse = kept_sparse
        self._value = value
        self._hub = inspector_hub.acquire(namespace)
        self._made: tuple[list[Tensor], Function] | None = None
        self._slow = False

    def compute_now(self) -> np.ndarray:
        """The value, computed by whoever asks, however long it takes.

        Raises:
            ArgumentError: something that it needs was never fed, or it cannot be computed.
        """
        with nullcontext() if read_only.is_active() else read_only.evaluation():
            return self._compute()

    def recompute(self) -> np.ndarray | None:
        """The value as it is now; None while a cell runs, and where it takes too long.

        Raises:
            ArgumentError: as `compute_now`.
        """
        if self._slow:
            return None
        outcome = self._hub.inspector.sandbox.run(self._compute, MAX_FOLLOW_SECONDS)
        self._slow = outcome.stopped == "time"
        if outcome.error is not None and not outcome.stopped:
            raise outcome.error
        return outcome.value

    def close(self) -> None:
        """Compute no more."""
        inspector_hub.release(self._hub)

    def _compute(self) -> np.ndarray:
        from kbench.engine.execute.function import Function
        from kbench.engine.graph.traverse import walk
        from kbench.engine.graph.variables import Placeholder

        value = self._value
        nodes = walk([value])
        why = next(filter(None, map(unasked, nodes)), None)
        if why is not None:
            raise ArgumentError(f"{_own(value)} is not computed, {why}")
        open_ = [node for node in nodes if isinstance(node, Placeholder)]
        needed = [node for node in open_ if node.default is None]
        fed, _ = self._hub.inspector.recorder.feeds(open_, {id(node) for node in needed})
        missing = [node for node in needed if node not in fed]
        if missing:
            raise ArgumentError(_needs(value, missing, self._hub))
        if value in fed:
            held = fed[value]
            return held if self._kept_sparse and is_csr(held) else np.asarray(held)
        inputs = list(fed)
        if self._made is None or self._made[0] != inputs:
            self._made = inputs, Function(inputs, [value], name="look")
        try:
            found = self._made[1](list(fed.values()))[0]
        except KbenchError as error:
            raise ArgumentError(error.reason) from None
        if is_csr(found):
            return found if self._kept_sparse else np.asarray(found.toarray())
        return np.asarray(found)


def _needs(value: Tensor, missing: Sequence[Tensor], there: inspector_hub.InspectorHub) -> str:
    names = {id(value): name for name, value in there.view.values().items()}
    shown = [names.get(id(node), node.name.partition(":")[0]) for node in missing]
    words = ", ".join(describe.printable(name) for name in shown[:4])
    more = " and more" if len(shown) > 4 else ""
    what = "was not fed yet" if value in missing else f"needs values for {words}{more}"
    return f"{_own(value)} {what}: call a K.function or K.eval that feeds them, then look again"


def _own(value: Tensor) -> str:
    """What a tensor is, with its name."""
    return f"{value.kind} {describe.printable(value.name.partition(':')[0])!r} {value.spec}"


def value_of(value: Tensor) -> np.ndarray:
    """The value of a tensor on what was fed last.

    Raises:
        ArgumentError: something that it needs was never fed, or it cannot be computed.
    """
    computed = ComputedValue(value)
    try:
        return computed.compute_now()
    finally:
        computed.close()
