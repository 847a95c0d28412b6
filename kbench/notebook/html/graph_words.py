"""A graph in words: the list beside a drawing, one node's facts, lines of text without markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbench.api.differences import seconds
from kbench.engine.inspect import describe
from kbench.notebook.html import array_html, views
from kbench.notebook.markup.markup import Html, element, facts, join
from kbench.workbench.analysis import graph_text
from kbench.workbench.analysis.graph_fold import COMPOSITE, Folds
from kbench.workbench.protocol.graphs import GraphNode

_MAX_INLINE_VARIABLES = 2
"""Variables named within a node: what a line of it holds."""
_MAX_TAKEN = 8
"""Inputs that are named of one node."""


def beside(row: GraphNode, folds: Folds, most: int = _MAX_INLINE_VARIABLES) -> str:
    """The variables that a node takes, in words."""
    texts = [
        f"{_plain(folds.rows[source])} {folds.rows[source].spec}"
        for source in row.inputs
        if source in folds.inline
    ]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def listing(
    rows: Sequence[GraphNode], besides: Mapping[int, str], hidden: Mapping[int, int]
) -> Html:
    """The nodes from the outputs to the inputs, in words."""
    names = {row.id: _plain(row) for row in rows}
    items = []
    for row in rows:
        takes = [names[source] for source in row.inputs if source in names]
        words = [
            f"{names[row.id]}: {row.op} {row.spec}",
            f"takes {', '.join(takes)}" if takes else "",
            f"with {besides[row.id]}" if besides.get(row.id) else "",
            f"{hidden[row.id]} nodes folded" if hidden.get(row.id) else "",
            f"last {row.last.shape}" if row.last is not None else "",
            f"ran as {row.ran.form}" if row.ran is not None else "",
            f"{row.bad} not finite" if row.bad else "",
            row.place or "",
        ]
        items.append(element("li", views.long(", ".join(word for word in words if word))))
    return element("ul", join(items))


def node(row: GraphNode, folds: Folds, value: np.ndarray | None = None, reason: str = "") -> Html:
    """What is known of one node: its line, what it takes, how it ran, the value of the last call.

    `reason`: why there is no `value`.
    """
    takes = [_plain(folds.rows[source]) for source in folds.inputs.get(row.id, ())]
    more = f" and {len(takes) - _MAX_TAKEN} more" if len(takes) > _MAX_TAKEN else ""
    known: list[tuple[str, object]] = [
        ("made at", row.place),
        ("part of", row.called if row.called and row.kind != COMPOSITE else None),
        ("takes", views.long(", ".join(takes[:_MAX_TAKEN]) + more)),
        ("with", views.long(beside(row, folds, _MAX_TAKEN))),
        ("last call", _last(row)),
        ("ran as", _ran(row)),
        ("not finite", str(row.bad) if row.bad else None),
        ("value", views.long(reason) if reason else None),
    ]
    title = [element("b", row.op or row.kind or "layer"), element("code", _plain(row))]
    head = Html(" ".join([*title, views.long(row.spec)]))
    parts = [element("p", head, class_="kb-head"), facts(known)]
    if value is not None:
        parts += array_html.parts(value, _plain(row))
    return join(parts)


def _last(row: GraphNode) -> Html | None:
    """The shape that the last call gave, and the entries where they are few."""
    if row.last is None:
        return None
    sizes = f"[{', '.join(map(str, row.last.shape))}]"
    return views.long(f"{sizes}: {row.last.text}" if row.last.text else sizes)


def _ran(row: GraphNode) -> str | None:
    if row.ran is None:
        return None
    within = " with others" if row.ran.within else ""
    return f"{row.ran.form}, {seconds(row.ran.seconds)}{within}"


def text(title: str, rows: Sequence[GraphNode]) -> str:
    """The graph as lines, from the output down to the inputs, with rails beside them."""
    lines = [
        f"{line.rails}  {_line(line.row, line.beside)}".rstrip() for line in graph_text.lines(rows)
    ]
    return "\n".join([f"graph of {describe.printable(title)}", *lines])


def _line(row: GraphNode | None, near: str) -> str:
    if row is None:
        return ""
    return "  ".join(str(word) for word in (row.name, row.op, row.spec, near) if word)


def _plain(row: GraphNode) -> str:
    return row.name.removesuffix(":0")
