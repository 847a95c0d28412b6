"""The question about graphs: the operations that lead to a tensor, the layers that lead to one."""

from __future__ import annotations

from kbench.workbench.protocol.names import LastValue, VariableRow
from kbench.workbench.protocol.question import Answer, Question
from kbench.workbench.protocol.record import Record


class Ran(Record):
    """How the last recorded run computed a node; `within`: as a part of a step."""

    form: str
    seconds: float
    within: bool


class GraphNode(Record):
    """A tensor or a layer; `inputs` are the ids of other rows, None where the input is not shown.

    `bad` entries of its last value are NaN or infinite; `end`: an input of the layer, whose own
    inputs are not told. Nodes with the same number in `call` were made by one call, or in one name
    scope, which is called `called`.
    """

    id: int
    inputs: list[int | None]
    name: str = ""
    kind: str = ""
    op: str = ""
    shape: list[int | None] | None = None
    dtype: str = ""
    spec: str = ""
    bytes: int | None = None
    input_count: int | None = None
    place: str | None = None
    last: LastValue | None = None
    version: int | None = None
    bad: int | None = None
    ran: Ran | None = None
    end: bool = False
    call: int | None = None
    called: str = ""


class GraphReply(Answer):
    """Of `total` nodes `cut` are not shown; `layers` are there for a layer or model of Keras."""

    rows: list[GraphNode]
    total: int
    cut: int
    next: int | None = None
    layers: list[GraphNode] | None = None
    layers_cut: int = 0


class Graph(Question[GraphReply], verb="graph"):
    """The graph above a tensor, above the outputs of a function, or of a Keras layer.

    With `start` every node is given, page by page and nearest first, and with what the last runs
    saw of it; without, the nearest `limit` nodes.
    """

    name: str
    limit: int | None = None
    start: int | None = None


class NodeReply(Answer):
    """`name` is the address to ask by for the cells; `words` say where the value comes from."""

    name: str
    row: VariableRow
    words: str


class Node(Question[NodeReply], verb="node"):
    """The value of a node of a graph, on what was fed last.

    `number` is its `id` in the graph of `name`, among `layers` or among operations; `node` is what
    it was called there, so that another graph by now is noticed. With `live` it follows the cell
    that runs or begins, where it is quick, and is pushed.
    """

    name: str
    number: int
    node: str
    layers: bool = False
    live: bool = False
