"""Which elementwise items run as one loop, and what that loop reads.

An item joins the group of its users when all of them are in one group, have its shape and run
under the same guard. A reduction that alone uses a group's result joins it as its fold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kbench.engine import config
from kbench.engine.ops.arithmetic import FLOORDIV, MOD
from kbench.engine.ops.create import FULL
from kbench.engine.ops.elementary import _power as power
from kbench.engine.ops.reduce import BROADCAST
from kbench.engine.plan.items import Item

LEAST = 16_384  # elements from which on a loop of its own is worth while
MOST_MEMBERS = 48
MOST_INPUTS = 24
FOLDS = ("sum", "max", "min", "prod", "any", "all")


@dataclass(frozen=True)
class Source:
    """An input of a group: a slot or a number, and along which axes of the result it varies."""

    slot: int
    number: float | None
    dtype: str
    varies: tuple[bool, ...]


@dataclass
class Group:
    """Items that run as one loop: elementwise `members`, in order, and perhaps a fold."""

    members: list[Item]
    shape: tuple[int, ...]
    dtype: str
    slot: int
    sources: list[Source] = field(default_factory=list)
    statements: list[tuple[str, str]] = field(default_factory=list)
    fold: Item | None = None

    @property
    def label(self) -> str:
        names = [one.op.name.strip("_") for one in self.members]
        return "+".join(names + ([self.fold.op.name] if self.fold is not None else []))


def can_join(item: Item) -> bool:
    """Elementwise, of known and sufficient size, and without a check on values."""
    if item.source or item.op.expr is None or not item.static or item.size < config.least(LEAST):
        return False
    return item.op not in (FLOORDIV, MOD, power.op) or item.spec.dtype[0] == "f"  # type: ignore[attr-defined]


def find_groups(items: Sequence[Item], needed: Sequence[bool], roots: Sequence[int]) -> list[Group]:
    """The groups, in the order of their results."""
    fixed = set(roots)
    leader: dict[int, int] = {}
    members: dict[int, list[Item]] = {}
    for item in reversed(items):
        if not needed[item.slot] or not can_join(item):
            continue
        home = _home(item, items, leader, fixed)
        if home is None or len(members[home]) >= MOST_MEMBERS:
            home = item.slot
            members[home] = []
        leader[item.slot] = home
        members[home].append(item)
    groups = [_elementwise_group(found[::-1]) for _, found in sorted(members.items())]
    for group in groups:
        _read_inputs(group, items)
        _join_fold(group, items, fixed)
    folded = {one.slot for one in groups}
    groups += [
        _lone_fold(item, items)
        for item in items
        if needed[item.slot] and item.slot not in folded and _is_fold(item, items)
    ]
    return [one for one in groups if len(one.sources) <= MOST_INPUTS]


def _elementwise_group(members: list[Item]) -> Group:
    result = members[-1]
    return Group(members, result.shape, result.spec.dtype, result.slot)


def _is_fold(item: Item, items: Sequence[Item]) -> bool:
    if item.source or item.op.kind != "reduction" or item.op.fold not in FOLDS:
        return False
    source = items[item.inputs[0]]
    return source.static and item.size > 0 and source.size >= max(2, config.least(LEAST))


def _lone_fold(item: Item, items: Sequence[Item]) -> Group:
    """A reduction of something that is there already."""
    source = items[item.inputs[0]]
    group = Group([], source.shape, source.spec.dtype, item.slot, fold=item)
    group.sources = [_resolve(source, source.shape, items)]
    group.statements = [("a0", source.spec.dtype)]
    return group


def _home(item: Item, items: Sequence[Item], leader: dict[int, int], fixed: set[int]) -> int | None:
    if item.slot in fixed:
        return None
    homes = {leader.get(user) for user in item.users}
    home = homes.pop() if len(homes) == 1 else None
    if home is None:
        return None
    result = items[home]
    return home if result.shape == item.shape and result.guard == item.guard else None


def _join_fold(group: Group, items: Sequence[Item], fixed: set[int]) -> None:
    result = group.members[-1]
    if result.slot in fixed or len(result.users) != 1:
        return
    user = items[result.users[0]]
    if user.guard == result.guard and _is_fold(user, items):
        group.fold, group.slot = user, user.slot


# ------------------------------------------------------------------ what a group reads


def _read_inputs(group: Group, items: Sequence[Item]) -> None:
    names: dict[int, str] = {}
    known: dict[Source, str] = {}
    shape = group.shape
    for item in group.members:
        operands = []
        for slot in item.inputs:
            if slot not in names:
                source = _resolve(items[slot], shape, items)
                names[slot] = known.setdefault(source, f"a{len(known)}")
            operands.append(names[slot])
        names[item.slot] = f"t{len(group.statements)}"
        group.statements.append((_expression(item, operands), item.spec.dtype))
    group.sources = list(known)


def _expression(item: Item, operands: Sequence[str]) -> str:
    expr = item.op.expr or ""
    if item.attrs:
        expr = expr.format(**item.attrs)
    table = dict(zip(item.op.names, operands, strict=True))
    words = "|".join(table)
    return re.sub(rf"\b({words})\b(?!\()", lambda found: table[found.group()], expr)


def _resolve(item: Item, shape: tuple[int, ...], items: Sequence[Item]) -> Source:
    """The input behind a broadcast view, as far as the loop can read it directly."""
    if item.op is FULL and not item.source and not item.inputs:
        return Source(-1, float(item.attrs["value"]), item.spec.dtype, (False,) * len(shape))
    if item.op is BROADCAST and not item.source:
        axes = item.attrs["axis"]
        kept = tuple(1 if i in axes else size for i, size in enumerate(item.shape))
        source = items[item.inputs[0]]
        if source.static:
            return Source(source.slot, None, item.spec.dtype, _varies(kept, shape))
    return Source(item.slot, None, item.spec.dtype, _varies(item.shape, shape))


def _varies(kept: tuple[int, ...], shape: tuple[int, ...]) -> tuple[bool, ...]:
    padded = (1,) * (len(shape) - len(kept)) + kept
    return tuple(size != 1 for size in padded)


def collapse(group: Group) -> tuple[tuple[int, ...], list[tuple[bool, ...]], tuple[bool, ...]]:
    """Merged dims of the result, the pattern of each source over them, and which are folded."""
    shape = group.shape
    folded = group.fold.attrs["axis"] if group.fold is not None else ()
    dims: list[int] = []
    columns: list[tuple[bool, ...]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        column = (*(one.varies[axis] for one in group.sources), axis in folded)
        if columns and columns[-1] == column:
            dims[-1] *= size
        else:
            dims.append(size)
            columns.append(column)
    patterns = [tuple(column[i] for column in columns) for i in range(len(group.sources))]
    return tuple(dims), patterns, tuple(column[-1] for column in columns)


def number_array(source: Source) -> np.ndarray:
    """A source that is a number, as an array of no axes."""
    return np.array(source.number, dtype=source.dtype)
