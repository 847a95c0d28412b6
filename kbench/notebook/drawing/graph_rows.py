"""The table of operations above a tensor, nearest first to be kept, in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.notebook.markup.markup import Html, details, element, table
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

MAX_ROWS = 12
"""Operations listed of one graph: what fits an output beside its values."""
MAX_WALKED_NODES = 10_000
"""A graph that has more nodes is not walked to its end for one output."""
_HEADS = ("node", "op", "name", "spec", "inputs", "made at")


def graph(value: Tensor) -> Html:
    """What a tensor is made from, folded."""
    near, whole = _nearest(value)
    if whole:
        found = describe.graph(value, MAX_ROWS)
        rows, total = found["rows"], f"{found['total']} nodes"
        cut = bool(found["cut"])
    else:
        rows, total, cut = _rows(near[:MAX_ROWS]), f"more than {MAX_WALKED_NODES} nodes", True
    lines = [
        (
            f"{row['id']}",
            row["op"],
            row["name"],
            row["spec"],
            " ".join("-" if number is None else str(number) for number in row["inputs"]),
            row["place"] or "",
        )
        for row in rows
    ]
    caption = f"{total}{f', the nearest {len(rows)} shown' if cut else ''}; inputs by number"
    return details("graph", element("div", table(caption, _HEADS, lines), class_="kb-text"))


def _nearest(value: Tensor) -> tuple[list[Tensor], bool]:
    """The nodes above a tensor, breadth first, and whether these are all of them."""
    found: dict[int, Tensor] = {}
    layer = {id(value): value}
    while layer:
        found.update(layer)
        if len(found) > MAX_WALKED_NODES:
            return list(found.values()), False
        layer = {
            id(source): source
            for node in layer.values()
            for source in node.inputs
            if id(source) not in found
        }
    return list(found.values()), True


def _rows(nodes: list[Tensor]) -> list[JsonObject]:
    """As those of `describe.graph`, of these nodes only, the tensor itself last."""
    order = nodes[::-1]
    ids = {id(node): number for number, node in enumerate(order)}
    return [
        {
            **describe.tensor(node),
            "id": number,
            "inputs": [ids.get(id(source)) for source in node.inputs[:16]],
        }
        for number, node in enumerate(order)
    ]
