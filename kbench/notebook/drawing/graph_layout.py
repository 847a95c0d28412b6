"""Where the nodes of a graph are drawn: in layers from the inputs down, with few crossings.

The way of Sugiyama, Tagawa and Toda (1981): a layer for each node, places in between for edges that
pass a layer, then sweeps that put every node at the middle of its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kbench.workbench.analysis.graph_text import inputs_first

SWEEPS = 6
"""Sweeps over all layers, down and up by turns; later ones hardly move a node."""
NODE_PITCH_WIDTHS = 1.0
"""Widths of a node between the middles of two of them."""
_PASS_WIDTHS = 0.35
"""Widths that an edge needs which only passes a layer."""


class Layout(Struct):
    """Middles of nodes in widths of a node, their layers from 0 on, and the bends of edges."""

    place: dict[int, float] = field(default_factory=dict)
    layer: dict[int, int] = field(default_factory=dict)
    bends: dict[tuple[int, int], list[tuple[float, int]]] = field(default_factory=dict)
    width: float = 1.0
    layers: int = 0


def layers(inputs: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The layer of each node: one below its lowest input; inputs stand right above their user."""
    order = inputs_first(inputs, reversed(list(inputs)))
    found: dict[int, int] = {}
    for key in order:
        found[key] = max((found[source] + 1 for source in inputs[key]), default=0)
    users: dict[int, list[int]] = {key: [] for key in inputs}
    for key in order:
        for source in inputs[key]:
            users[source].append(key)
    for key in reversed(order):  # an input that is used far below goes down to where it is
        if users[key] and not inputs[key]:
            found[key] = min(found[user] for user in users[key]) - 1
    return found


def laid_out(inputs: Mapping[int, Sequence[int]]) -> Layout:
    """The layout of a graph without circles; `inputs` has every node as a key."""
    found = Layout(layer=layers(inputs))
    if not inputs:
        return found
    found.layers = max(found.layer.values()) + 1
    rows, above, passing = _with_passes(inputs, found)
    _order(rows, above)
    _place(rows, above, passing, found)
    return found


def _with_passes(
    inputs: Mapping[int, Sequence[int]], found: Layout
) -> tuple[list[list[int]], dict[int, list[int]], dict[tuple[int, int], list[int]]]:
    """Rows of keys, what each is tied to in the row above, and the stand-ins of long edges.

    Stand-ins have negative keys.
    """
    rows: list[list[int]] = [[] for _ in range(found.layers)]
    above: dict[int, list[int]] = {}
    passing: dict[tuple[int, int], list[int]] = {}
    for key in inputs_first(inputs, reversed(list(inputs))):
        rows[found.layer[key]].append(key)
        above[key] = []
    number = 0
    for key, sources in inputs.items():
        for source in dict.fromkeys(sources):
            last, chain = source, []
            for layer in range(found.layer[source] + 1, found.layer[key]):
                number -= 1
                rows[layer].append(number)
                above[number] = [last]
                chain.append(number)
                last = number
            above[key].append(last)
            passing[source, key] = chain
    return rows, above, passing


def _order(rows: list[list[int]], above: Mapping[int, Sequence[int]]) -> None:
    """Put each key at the middle of its neighbours, by turns of those above and below."""
    below: dict[int, list[int]] = {key: [] for row in rows for key in row}
    for key, sources in above.items():
        for source in sources:
            below[source].append(key)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        ties = above if down else below
        at = {key: float(place) for row in rows for place, key in enumerate(row)}
        for row in rows if down else reversed(rows):
            middles = {
                key: sum(at[tie] for tie in ties[key]) / len(ties[key]) if ties[key] else at[key]
                for key in row
            }
            row.sort(key=lambda key: middles[key])
            for place, key in enumerate(row):
                at[key] = place + (len(max(rows, key=len)) - len(row)) / 2


def _place(
    rows: list[list[int]],
    above: Mapping[int, Sequence[int]],
    passing: Mapping[tuple[int, int], list[int]],
    found: Layout,
) -> None:
    """Middles of all: as near to what they are tied to as the order in the row allows."""
    room = {key: NODE_PITCH_WIDTHS if key >= 0 else _PASS_WIDTHS for row in rows for key in row}
    at: dict[int, float] = {}
    for row in rows:
        edge = 0.0
        for key in row:
            at[key] = edge + room[key] / 2
            edge += room[key]
    below: dict[int, list[int]] = {key: [] for key in at}
    for key, sources in above.items():
        for source in sources:
            below[source].append(key)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            ties = above if sweep % 2 == 0 else below
            _settle(row, ties, room, at)
    left = min((at[key] - room[key] / 2 for key in at), default=0.0)
    right = max((at[key] + room[key] / 2 for key in at), default=1.0)
    found.width = right - left
    found.place = {key: place - left for key, place in at.items() if key >= 0}
    layer_of = {key: number for number, row in enumerate(rows) for key in row}
    found.bends = {
        edge: [(at[stand_in] - left, layer_of[stand_in]) for stand_in in chain]
        for edge, chain in passing.items()
    }


def _settle(
    row: Sequence[int],
    ties: Mapping[int, Sequence[int]],
    room: Mapping[int, float],
    at: dict[int, float],
) -> None:
    """Move a row's keys to the middle of their ties, pushing neighbours aside, in their order.

    Keys that touch move together, to the mean of where they want to be.
    """
    blocks: list[tuple[list[int], float, float]] = []  # keys, their width, left edge wanted
    for key in row:
        near = ties[key]
        middle = sum(at[tie] for tie in near) / len(near) if near else at[key]
        keys, width, left = [key], room[key], middle - room[key] / 2
        while blocks and blocks[-1][2] + blocks[-1][1] > left:
            before, wide, wanted = blocks.pop()
            share = len(before) / (len(before) + len(keys))
            left = share * wanted + (1 - share) * (left - wide)
            keys, width = before + keys, wide + width
        blocks.append((keys, width, left))
    for keys, _, left in blocks:
        for key in keys:
            at[key] = left + room[key] / 2
            left += room[key]
