"""The inspector's verb about graphs: nodes, their shapes, and what the last runs saw of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.inspect import describe
from kbench.workbench.analysis import node_value
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.inspector import graph_calls, namespace, recorder
from kbench.workbench.kernel.live_sampling import LiveSampling
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.models import keras_graph, keras_models
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.graphs import Graph, GraphNode, GraphReply, Node, NodeReply
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served

if TYPE_CHECKING:
    from kbench.engine.core.types import Shape
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.runtime.profile import PartRecord, StepRecord

MAX_NODES = 10 * describe.MAX_GRAPH_NODES
"""Of a reply in one piece."""
MAX_PAGED_NODES = 20_000
"""That can be asked for page by page."""
MAX_CHECKED_ELEMENTS = 1 << 20
"""Of all arrays in which one reply looks for NaN: about a millisecond."""
LIVE = "live"
"""Said of a value that follows the running cell."""
MAX_SHOWN_ELEMENTS = 8
"""Of a value that is shown whole."""


class GraphVerbs:
    """Serves the names of one view."""

    def __init__(
        self,
        view: namespace.View,
        runs: recorder.Recorder,
        sandbox: Sandbox,
        sampling: LiveSampling,
        publish: Publish | None,
    ) -> None:
        self._sampling, self._publish = sampling, publish
        self._view = view
        self._recorder = runs
        self._sandbox = sandbox

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Graph.served_by(self._graph), Node.served_by(self._node)]

    def _graph(self, asked: Graph) -> GraphReply:
        part, start = self._view.part(asked.name), asked.start
        value = part.value
        layer = keras_models.is_layer(value)
        tensors = [] if layer else _tensors(asked.name, value)
        seen = _Seen(self._recorder)
        if start is not None and not layer:
            return _page(tensors, max(start, 0), seen)

        def build(limit: int) -> GraphReply:
            if layer:
                return keras_graph.graph(part, limit)
            return GraphReply.built(describe.graph(tensors, limit))

        limit = describe.MAX_GRAPH_NODES if asked.limit is None else asked.limit
        limit = max(1, min(limit, MAX_NODES))
        found = build(limit)
        while messages.size(found) > messages.MAX_PAGE_BYTES and limit:  # leave out far nodes
            limit //= 2
            found = build(limit)
        return found

    def _node(self, asked: Node) -> NodeReply:
        part = self._view.part(asked.name)
        if keras_models.is_layer(part.value):
            node = keras_graph.tensor_at(part, asked.number, asked.layers)
            known = node is not None and (asked.layers or _shown_name(node) == asked.node)
        else:
            nodes = describe.nodes(_tensors(asked.name, part.value))
            node = nodes[asked.number] if 0 <= asked.number < len(nodes) else None
            known = node is not None and _shown_name(node) == asked.node
        if node is None or not known:
            raise ProtocolError("name", f"{describe.printable(asked.node)} is gone from the graph")
        if asked.live:
            self._sampling.follow_cell("node", self._looking(asked, node))
        return self._reply(asked, node_value.of(node, self._recorder, self._sandbox, self._called))

    def _reply(self, asked: Node, found: node_value.NodeValue) -> NodeReply:
        name = f"{asked.node} in {asked.name}"
        self._view.keep_node_value(name, found.value)
        row = self._view.row_of(name, found.value, statistics=True)
        return NodeReply(name=name, row=row, words=found.words)

    def _looking(self, asked: Node, node: Tensor) -> Callable[[], None]:
        """What pushes the value between two calls of the running cell, as long as it is quick."""
        slow = [False]

        def look() -> None:
            if slow[0] or self._publish is None:
                return
            try:
                found = node_value.of(node, self._recorder, self._sandbox, self._called, True)
            except ProtocolError:  # told when the cell has ended
                slow[0] = True
                return
            found = found._replace(words=f"{found.words}, {LIVE}")
            self._publish(messages.push("node", self._reply(asked, found).given()))

        return look

    def _called(self, node: Tensor) -> str:
        """The user's name of a tensor; the tensor's own where it has none."""
        names = (name for name, value in self._view.values().items() if value is node)
        return next(names, _shown_name(node).partition(":")[0])


def _shown_name(node: Tensor) -> str:
    return describe.printable(node.name)


def _tensors(name: str, value: object) -> list[Tensor]:
    """What a graph is drawn of."""
    found = roots(value)
    if not found:
        raise ProtocolError("name", f"{describe.printable(name)} is not a tensor")
    return found


def roots(value: object) -> list[Tensor]:
    """A tensor itself, or what a function, or a list of tensors and functions, computes."""
    if describe.is_tensor(value):
        return [value]
    if describe.is_function(value):
        return list(value.outputs) or [update.inputs[1] for update in value.updates]
    if type(value) not in (list, tuple) or not isinstance(value, (list, tuple)):
        return []
    found = [roots(item) for item in value]
    return [root for own in found for root in own] if all(found) else []


def _page(outputs: list[Tensor], start: int, seen: _Seen) -> GraphReply:
    """Rows from `start` on; a node's number is its place in the order of all nodes."""
    nodes = describe.nodes(outputs)
    ids = {id(node): number for number, node in enumerate(nodes)}
    calls = graph_calls.calls(nodes)
    rows: list[GraphNode] = []
    room, at = messages.MAX_PAGE_BYTES - 1_000, start
    for at in range(start, min(len(nodes), MAX_PAGED_NODES)):
        row = _row(nodes[at], at, ids, seen)
        if id(nodes[at]) in calls:
            call, called = calls[id(nodes[at])]
            row = row.replaced(call=call, called=called)
        room -= messages.size(row) + 2
        if room < 0 and rows:
            break
        rows.append(row)
    else:
        at = min(len(nodes), MAX_PAGED_NODES)
    return GraphReply(
        rows=rows,
        total=len(nodes),
        cut=len(nodes) - at,
        next=at if at < min(len(nodes), MAX_PAGED_NODES) else None,
    )


def _row(node: Tensor, number: int, ids: dict[int, int], seen: _Seen) -> GraphNode:
    row: JsonObject = {
        "id": number,
        "name": describe.printable(node.name),
        "kind": str(node.kind),
        "op": describe.printable(node.op.name),
        "spec": str(node.spec),
        "inputs": [ids[id(source)] for source in node.inputs[:64]],
        "place": describe.place(node),
        **seen.of(node),
    }
    return GraphNode.built({key: value for key, value in row.items() if value not in (None, "")})


class _Seen:
    """What the recorded runs, the fed values and the variables tell of nodes."""

    def __init__(self, runs: recorder.Recorder) -> None:
        self._recorder = runs
        # By a tensor's name the step, and the part of it if it has several.
        self._steps: dict[str, tuple[StepRecord, PartRecord | None]] = {}
        self._room = MAX_CHECKED_ELEMENTS
        for run in runs.runs():  # the latest last
            for step in run.record.steps:
                for part in step.parts:
                    self._steps[part.node] = (step, part)
                self._steps[step.node] = (step, None)

    def of(self, node: Tensor) -> JsonObject:
        """`last`: shape, and entries when few; `bad` entries; `ran`: form and seconds."""
        found: JsonObject = {"last": describe.last(node)}
        array = describe.held_array(node)
        if array is None and node.kind == "placeholder":
            array = self._recorder.feeds([node], {id(node)})[0].get(node)
        if array is not None:
            found["bad"] = self._bad(array)
            if array.size <= MAX_SHOWN_ELEMENTS and found["last"] is None:
                texts = [describe.cell(element) for element in array.reshape(-1)]
                found["last"] = {"shape": list(array.shape), "text": ", ".join(texts)}
        step, part = self._steps.get(node.name, (None, None))
        if step is not None and step.form != "not taken":
            shape: Shape = step.shape
            if part is not None:
                shape = getattr(part.spec, "shape", (None,))
            if found["last"] is None and None not in shape:
                found["last"] = {"shape": [int(size) for size in shape if size is not None]}
            seconds, within = float(step.seconds), part is not None
            found["ran"] = {"form": step.form, "seconds": seconds, "within": within}
        return found

    def _bad(self, array: object) -> int | None:
        """How many entries are NaN or infinite; None when nobody has looked, or there are none."""
        if type(array) is not np.ndarray or array.dtype.kind != "f" or array.size > self._room:
            return None
        self._room -= array.size
        return array.size - int(np.count_nonzero(np.isfinite(array))) or None
