"""The value of a node of a graph, on what was fed last: for whoever looks at the node.

What is known of the last run is shown as it was. Anything else is computed again, beside the
program, on the values that were fed to the same placeholders last; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kbench.engine.inspect import describe
from kbench.workbench.analysis import gradients
from kbench.workbench.inspector.recorder import Feeds, Recorder
from kbench.workbench.kernel.sandbox import Outcome, Sandbox
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

MAX_SECONDS = 2.0
"""That a node is computed for; a graph that takes longer is computed by a K.function."""
MAX_LIVE_SECONDS = 0.25
"""The same of a cell that runs, and waits for it."""
MAX_BYTES = 256 << 20
"""Of a value that is shown."""


Called = Callable[["Tensor"], str]


class NodeValue(NamedTuple):
    """A value, and where it comes from, in a few words."""

    value: np.ndarray
    words: str


def of(
    node: Tensor, recorder: Recorder, sandbox: Sandbox, called: Called, in_cell: bool = False
) -> NodeValue:
    """The value of a node; `called` gives the name that users know a placeholder by.

    `in_cell`: on the thread of the running cell, which waits.

    Raises:
        ProtocolError: it is not known; the reason says how to have it known.
    """
    held = describe.held_array(node)
    if held is not None:
        return NodeValue(held, "its value now")
    if node.kind == "placeholder":
        feeds, _ = recorder.feeds([node], {id(node)})
        if node not in feeds:
            raise ProtocolError("feeds", f"{called(node)} was not fed yet: {_HOW}")
        return NodeValue(np.asarray(feeds[node]), "as it was fed last")
    if node.last is not None and node.last.value is not None:
        return NodeValue(np.asarray(node.last.value), "of the last run")
    run = sandbox.run_in_cell if in_cell else sandbox.run
    seconds = MAX_LIVE_SECONDS if in_cell else MAX_SECONDS
    return _computed(node, recorder, lambda action: run(action, seconds), called)


_HOW = "call the K.function, or K.eval, then look again"


Action = Callable[[], object]
Run = Callable[[Action], "Outcome[object]"]


def _computed(node: Tensor, recorder: Recorder, run: Run, called: Called) -> NodeValue:
    from kbench.engine.graph.traverse import walk
    from kbench.engine.graph.variables import Placeholder

    nodes = walk([node])
    stored = next((one for one in nodes if one.op.kind == "update"), None)
    if stored is not None:
        raise ProtocolError("value", f"{called(node)} stores to a variable; it is not run to look")
    open_ = [one for one in nodes if isinstance(one, Placeholder)]
    needed = [one for one in open_ if one.default is None]
    feeds, together = recorder.feeds(open_, {id(one) for one in needed})
    missing = [called(one) for one in needed if one not in feeds]
    if missing:
        raise ProtocolError("feeds", f"{', '.join(missing[:4])} was not fed yet: {_HOW}")
    value = _run(node, feeds, recorder, run)
    words = "on the last feed" if open_ else "computed to be shown"
    if open_ and not together:
        words = "on the feeds of several calls"
    if any(describe.is_variable(one) for one in nodes) and open_:
        words += ", variables as now"
    return NodeValue(value, words)


def _run(node: Tensor, feeds: Feeds, recorder: Recorder, run: Run) -> np.ndarray:
    from kbench.engine.execute.function import Function

    last = node.last

    def compute() -> object:
        with recorder.ignoring_runs():
            return Function(list(feeds), [node], name="look")(list(feeds.values()))[0]

    outcome = run(compute)
    node.last = last
    if outcome.stopped == "cell":
        raise ProtocolError("busy", "a cell runs; the value is computed when it has ended")
    if outcome.stopped:
        words = f"it takes longer than {MAX_SECONDS:g} s; K.eval computes it"
        raise ProtocolError("time", words)
    if outcome.error is not None:
        raise ProtocolError("value", gradients.error_words(outcome.error))
    value = outcome.value
    if not isinstance(value, (np.ndarray, np.generic)) or value.nbytes > MAX_BYTES:
        raise ProtocolError("value", "the value is sparse, or too large to show")
    return np.asarray(value)
