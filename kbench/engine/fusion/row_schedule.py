"""The values of a plan anew, with every row kernel as one step.

All results of a cluster stand in one place: the first ones as values without inputs, the last one
as the value that reads for all, which has the cluster's group.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from kbench.engine.compiler.values import Value
from kbench.engine.fusion.row_clusters import Cluster, ClusterSearch, apart, is_profitable
from kbench.engine.fusion.row_lower import ALIASES, RowGroup, lower_cluster
from kbench.engine.graph.op import Op, no_infer, no_numpy
from kbench.engine.runtime import config

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

UNNEEDED = -1
"""The new slot of what no step reads any more."""

ROWS = Op("rows", "structured", no_infer, no_numpy, None)
"""A result of a cluster; the last one of it has `group` among its attributes. No user makes it."""


def fuse_rows(
    values: Sequence[Value], needed: Sequence[bool], roots: Sequence[int]
) -> tuple[list[Value], list[int]] | None:
    """The values in an order where each cluster is one step, and the new slot of each.

    None where there is no cluster.
    """
    if config.jit_mode() == "off":
        return None
    search = ClusterSearch(values, needed)
    found = [cluster for cluster in search.clusters if cluster.members]
    compared = compared_values(values, needed) if found else frozenset()
    chosen = {cluster.number: cluster for cluster in found if is_profitable(cluster, values)}
    while chosen:
        member = {value.slot: cluster for cluster in chosen.values() for value in cluster.members}
        units = _units(values, search, member)
        groups, wanted = _lower_clusters(values, units, roots, compared)
        beyond = [number for number, group in groups.items() if group is None]
        if not beyond:
            return _renumbered(values, units, groups, wanted)  # type: ignore[arg-type]
        for number in beyond:
            for alone in apart(chosen.pop(number), len(search.clusters)):
                search.clusters.append(alone)
                search.home[alone.members[0].slot] = alone.number
                chosen[alone.number] = alone
    return None


def compared_values(values: Sequence[Value], needed: Sequence[bool]) -> frozenset[int]:
    """Floats that are compared with each other, as a row with the largest value in it.

    They are computed once, and read wherever they are needed: computed anew in another kernel they
    may differ in the last digit, and then nothing equals the largest value.
    """
    found: set[int] = set()
    for value in values:
        if not needed[value.slot] or value.source or value.op.name not in COMPARISONS:
            continue
        operands = [_behind(slot, values) for slot in value.inputs]
        if all(
            operand.source != "constant" and operand.spec.dtype[0] == "f" for operand in operands
        ):
            found.update(operand.slot for operand in operands)
    return frozenset(found)


def _behind(slot: int, values: Sequence[Value]) -> Value:
    """The value of which this one is only another shape."""
    value = values[slot]
    while value.role in ALIASES:
        value = values[value.inputs[0]]
    return value


Unit = Value | Cluster


def _units(
    values: Sequence[Value], search: ClusterSearch, member: dict[int, Cluster]
) -> list[Unit]:
    """Items and clusters so that each stands after what it needs."""
    unit_of: list[int] = [
        len(values) + member[value.slot].number if value.slot in member else value.slot
        for value in values
    ]
    units: dict[int, Unit] = {}
    needs: dict[int, set[int]] = {}
    for value in values:
        unit = unit_of[value.slot]
        units[unit] = member.get(value.slot, value)
        inside = member[value.slot].number if value.slot in member else None
        slots = _through(value, inside, values, search)
        needs.setdefault(unit, set()).update(unit_of[slot] for slot in slots)
    users: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for unit, others in needs.items():
        others.discard(unit)
        waiting[unit] = len(others)
        for other in others:
            users.setdefault(other, []).append(unit)
    last = {unit: max(_slots(made)) for unit, made in units.items()}
    ready = [(last[unit], unit) for unit, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(units[unit])
        for user in users.get(unit, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (last[user], user))
    assert len(order) == len(units), "clusters need each other"
    return order


def _slots(unit: Unit) -> list[int]:
    return [unit.slot] if isinstance(unit, Value) else [member.slot for member in unit.members]


def _through(
    value: Value, inside: int | None, values: Sequence[Value], search: ClusterSearch
) -> list[int]:
    """What a value needs; a member looks through views of its own cluster's members."""
    found = []
    todo = [*value.inputs, *(slot for slot, _ in value.guard)]
    while todo:
        slot = todo.pop()
        if inside is not None and search.home.get(slot) == inside and values[slot].role in ALIASES:
            todo.extend(values[slot].inputs)
        else:
            found.append(slot)
    return found


def _lower_clusters(
    values: Sequence[Value], units: list[Unit], roots: Sequence[int], compared: Collection[int]
) -> tuple[dict[int, RowGroup | None], set[int]]:
    """The group of every cluster that is needed, by number, and every slot that is needed.

    A group is None where a kernel cannot do it.
    """
    wanted = set(roots)
    groups: dict[int, RowGroup | None] = {}
    for unit in reversed(units):
        if isinstance(unit, Value):
            if unit.slot in wanted:
                wanted.update(unit.inputs)
                wanted.update(slot for slot, _ in unit.guard)
            continue
        outputs = [member for member in unit.members if member.slot in wanted]
        if outputs:
            group = lower_cluster(unit.key, unit.members, outputs, values, wanted, compared)
            groups[unit.number] = group
            wanted.update(group.reads if group is not None else ())
            wanted.update(slot for slot, _ in outputs[0].guard)
    return groups, wanted


def _renumbered(
    values: Sequence[Value], units: list[Unit], groups: dict[int, RowGroup], wanted: set[int]
) -> tuple[list[Value], list[int]]:
    """New values for what is needed of the units, in their order."""
    place = [UNNEEDED] * len(values)
    made: list[Value] = []
    for unit in units:
        if isinstance(unit, Value):
            if unit.slot in wanted:
                place[unit.slot] = len(made)
                made.append(replace(unit, users=[]))
        elif unit.number in groups:
            group = groups[unit.number]
            for output in group.outputs:
                place[output.slot] = len(made)
                made.append(replace(output, op=ROWS, attrs={}, inputs=(), users=[]))
            made[-1].attrs["group"] = group
            made[-1].inputs = group.reads
    for slot, value in enumerate(made):
        value.slot = slot
        value.inputs = tuple(place[read] for read in value.inputs)
        value.guard = frozenset((place[condition], side) for condition, side in value.guard)
    return made, place
