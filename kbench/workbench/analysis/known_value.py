"""The value of a tensor whose inputs are all known, computed for whoever shows it.

Only what needs no feed is computed, within a time and a size, and nothing of the program changes:
what draws random numbers, stores or prints waits until it is asked for. A tensor that is computed
here does not count as run: its last run, the records and the counters stay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.inspect import describe
from kbench.workbench.inspector.summary import NO_VALUE, KnownValue
from kbench.workbench.kernel.sandbox import Sandbox

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

MAX_SECONDS = 1.0
"""That all tensors shown together have."""
MAX_BYTES = 64 << 20
"""Of all values on the way together."""
MAX_NODES = 10_000
"""Of a graph that is computed unasked."""
_LEAF_KINDS = ("variable", "constant", "placeholder")
_sandbox = Sandbox(restores_random=False)  # nothing that is run here draws


class Budget:
    """The time that several tensors shown together have."""

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._left = seconds

    def known(self, value: object) -> KnownValue:
        """What can be shown of `value`; NOTHING for no tensor, and for what holds one or is fed."""
        if not describe.is_tensor(value) or value.kind in _LEAF_KINDS:
            return NO_VALUE
        refusal = _refusal(value)
        if refusal is not None:
            return KnownValue(reason=f"not computed, {refusal}") if refusal else NO_VALUE
        if self._left <= 0:
            return KnownValue(reason="not computed: other tensors took the time")
        began = time.perf_counter()
        outcome = _sandbox.run(lambda: _computed(value), self._left)
        self._left -= time.perf_counter() - began
        if outcome.stopped:
            slow = f"it takes longer than {MAX_SECONDS:g} s; K.eval(x) computes it"
            return KnownValue(reason=f"not computed: {slow}")
        if outcome.error is not None:
            first = (str(outcome.error).strip().splitlines() or [""])[0]
            words = describe.printable(f"{type(outcome.error).__name__}: {first}", 200)
            return KnownValue(reason=f"not computed, {words}")
        return KnownValue(outcome.value)


def known(value: object) -> KnownValue:
    """What can be shown of one value, within the time for one."""
    return Budget().known(value)


def _computed(value: Tensor) -> object:
    """The value; of a sparse tensor as it is. Nothing is kept with the tensor."""
    from kbench.engine.execute.eager import direct_value
    from kbench.engine.execute.function import Function

    found = direct_value(value)
    return Function((), [value], name="eval")([])[0] if found is None else found


# ------------------------------------------------------------------ what is computed unasked


def _refusal(root: Tensor) -> str | None:
    """Why a tensor is not computed, '' when it is to be fed; None when it is computed."""
    reason: str | None = None
    total = 0
    seen = {id(root)}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.kind == "placeholder":
            return ""
        why, size = unasked(node), _size(node)
        reason = reason or why
        total += size or 0
        if size is None and reason is None:
            reason = "its size is known only when it runs; K.eval(x) computes it"
        for source in node.inputs:
            if id(source) not in seen:
                seen.add(id(source))
                stack.append(source)
        if len(seen) > MAX_NODES:
            return f"it has more than {MAX_NODES} operations; K.eval(x) computes it"
    if reason is None and total > MAX_BYTES:
        reason = f"it takes {describe.size(total)} of memory; K.eval(x) computes it"
    return reason


def unasked(node: Tensor) -> str | None:
    """Why a node, or a step of its loop, runs on request only."""
    if node.controls:
        return "it waits for what is stored before it; K.eval(x) runs it"
    body = node.attrs.get("body")
    if body is not None:
        roots = [*body.after, *(emit.tensor for emit in node.attrs.get("emits", ()))]
        return next(filter(None, map(unasked, _inside(roots, body.feeds))), None)
    if node.op.pure:
        return None
    if node.op.kind == "update":
        target = describe.printable(node.inputs[0].name.split(":")[0])
        return f"it stores to {target!r}; K.eval(x) runs it"
    if node.op.name == "print_tensor":
        return "it prints; K.eval(x) runs it"
    return "it draws random numbers; K.eval(x) draws them"


def _inside(roots: list[Tensor], feeds: Sequence[Tensor]) -> list[Tensor]:
    from kbench.engine.graph.traverse import walk

    given = {id(feed) for feed in feeds}
    return [node for node in walk(roots, given) if id(node) not in given]


def _size(node: Tensor) -> int | None:
    """Bytes that a node's value takes beside what is held already; None when not known."""
    if not node.inputs or node.spec.sparse:
        return 0
    specs = getattr(node.spec, "parts", ()) or (node.spec,)
    if any(None in spec.shape for spec in specs):
        return None
    return int(sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in specs))
