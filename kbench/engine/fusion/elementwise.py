"""Which elementwise values run as one loop, and what that loop reads.

A group runs where its last value stands in the order of the plan. A value joins the group of its
first user, when that has its shape and runs under the same guard; what others need of it later is
stored on the way, as one more output. A reduction of the result joins as the group's fold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import field

from kbench.engine.codegen.loop_program import (
    NEST_FOLDS,
    Fold,
    Input,
    LoopProgram,
    LoopValue,
    loop_nest,
)
from kbench.engine.compiler.values import Value
from kbench.engine.fusion.group import (
    MAX_INPUTS,
    MAX_OUTPUTS,
    Fused,
    GroupInput,
    behaviours,
    checks_values,
    expression_of,
    merge_axes,
    resolve_input,
)
from kbench.engine.graph.expr.expression import Expr, input_leaf, local_leaf
from kbench.engine.graph.traits.roles import Role
from kbench.engine.runtime import config

MIN_LOOP_ELEMENTS = 16_384
"""Elements from which on a loop of its own is worth while: fewer, 64 KB of float32,
stay in the cache between NumPy's calls."""
MIN_STORED_ELEMENTS = 1
"""The same where it is part of a call that stores larger values, which are one launch anyway."""
MAX_MEMBERS = 48
"""Values of a group, which is compiled as one loop."""


class Group(Fused):
    """Elementwise `members` that run as one loop, and perhaps a fold.

    `outputs` are the members that are stored; the result of the fold comes after them.
    """

    shape: tuple[int, ...]
    dtype: str
    slot: int
    outputs: list[Value] = field(default_factory=list)
    statements: list[LoopValue] = field(default_factory=list)
    fold: Value | None = None
    flushes: bool = False
    """Whether it gives new values of variables alone, some of them settled, see
    `compiler/settle_states.py`."""

    @property
    def writes(self) -> tuple[int, ...]:
        """The slots that the group fills, in the order of its program's results."""
        return tuple(value.slot for value in (*self.outputs, *self.folds))

    @property
    def folds(self) -> tuple[Value, ...]:
        return (self.fold,) if self.fold is not None else ()

    @property
    def stored(self) -> tuple[int, ...]:
        """The members that are stored, by number."""
        slots = {output.slot for output in self.outputs}
        return tuple(n for n, member in enumerate(self.members) if member.slot in slots)

    def program(
        self, patterns: Sequence[tuple[bool, ...]], folded: Sequence[bool] = ()
    ) -> LoopProgram | None:
        """Its program over loop dims; None where none is `folded`, or some are not neighbours.

        `patterns` say of each source along which of them it varies.
        """
        pairs = zip(self.sources, patterns, strict=True)
        inputs = [Input(source.dtype, pattern) for source, pattern in pairs]
        if self.fold is None:
            return loop_nest(inputs, self.statements, self.stored, flushes=self.flushes)
        folds = [dim for dim, is_folded in enumerate(folded) if is_folded]
        if not folds or folds[-1] - folds[0] >= len(folds):
            return None
        fold = Fold(self.fold.op.fold or "", folds[0], folds[-1] + 1)
        return loop_nest(inputs, self.statements, self.stored, fold, self.flushes)


def can_join(value: Value, least: int) -> bool:
    """Elementwise, of known and sufficient size, and without a check on values."""
    if (
        value.source
        or value.op.expr is None
        or not value.static
        or value.size < config.min_elements(least)
    ):
        return False
    return not checks_values(value)


def _only_stored(
    values: Sequence[Value], roots: Sequence[int], stored: Collection[int]
) -> frozenset[int]:
    """What is computed for new values of variables and nothing else, if one of these is large."""
    once = {slot for slot in stored if roots.count(slot) == 1}
    if all(values[slot].size < MIN_LOOP_ELEMENTS for slot in once):
        return frozenset()
    found: set[int] = set()
    for value in reversed(values):
        wanted = value.slot in once if value.slot in roots else bool(value.users)
        if wanted and found.issuperset(value.users):
            found.add(value.slot)
    return frozenset(found)


class _GroupSearch:
    """The groups of a plan while they are found: who runs where, and which have room."""

    def __init__(
        self,
        values: Sequence[Value],
        needed: Sequence[bool],
        roots: Sequence[int],
        stored: Collection[int],
    ) -> None:
        self.values = values
        self.only_stored = _only_stored(values, roots, stored)
        self.needed = needed
        self.roots = set(roots)
        self.conditions = {slot for value in values for slot, _ in value.guard}
        self.runs_at = list(range(len(values)))  # the slot where each value's step stands
        self.members: dict[int, list[Value]] = {}
        self.reads: dict[int, set[int]] = {}

    def collect(self) -> list[Group]:
        """Elementwise groups, from the last to the first, each with its fold."""
        for value in reversed(self.values):
            least = MIN_STORED_ELEMENTS if value.slot in self.only_stored else MIN_LOOP_ELEMENTS
            if not self.needed[value.slot] or not can_join(value, least):
                continue
            home = self._home(value)
            if home is None:
                home = value.slot
                self.members[home] = []
                self.reads[home] = set()
            self.members[home].append(value)
            self.reads[home] |= set(value.inputs)
            self.runs_at[value.slot] = home
        found = sorted(self.members.items(), reverse=True)
        return [self._make_group(members[::-1]) for _, members in found]

    def _home(self, value: Value) -> int | None:
        """The group that the value's first user is in, if the value can be computed there.

        A condition is read by all that it guards, wherever that stands.
        """
        if not value.users or value.slot in self.conditions:
            return None
        first = min(self.runs_at[user] for user in value.users)
        members = self.members.get(first)
        if members is None or len(members) >= MAX_MEMBERS:
            return None
        result = self.values[first]
        if result.shape != value.shape or result.guard != value.guard:
            return None
        inside = {member.slot for member in members}
        if len((self.reads[first] | set(value.inputs)) - inside) > MAX_INPUTS:
            return None
        if self._is_stored(value, first) and len(self._stored(members)) >= MAX_OUTPUTS:
            return None
        return first

    def _is_stored(self, value: Value, home: int) -> bool:
        return value.slot in self.roots or any(self.runs_at[user] != home for user in value.users)

    def _stored(self, members: Sequence[Value]) -> list[Value]:
        """The members that are needed outside of their group."""
        home = self.runs_at[members[0].slot]
        return [
            member for member in members if member.slot == home or self._is_stored(member, home)
        ]

    def _make_group(self, members: list[Value]) -> Group:
        result = members[-1]
        group = Group(members, [], result.shape, result.spec.dtype, result.slot)
        group.outputs = self._stored(members)
        settles = any(member.op.role is Role.SETTLED for member in members)
        group.flushes = settles and self.only_stored.issuperset(one.slot for one in members)
        _read_inputs(group, self.values)
        self._join_fold(group)
        return group

    def _join_fold(self, group: Group) -> None:
        """Let a reduction of the result join, if all else that is stored may wait for it."""
        result = group.members[-1]
        folds = [user for user in set(result.users) if _is_fold(self.values[user], self.values)]
        if not folds:
            return
        fold = self.values[min(folds)]
        outside = [
            self.runs_at[user]
            for output in group.outputs
            for user in output.users
            if self.runs_at[user] != group.slot and user != fold.slot
        ]
        if fold.guard != result.guard or min(outside, default=fold.slot + 1) <= fold.slot:
            return
        is_stored = len(set(result.users)) > 1 or result.slot in self.roots
        outputs = [one for one in group.outputs if is_stored or one is not result]
        group.fold = fold
        if outputs and fold_order(collapse(group)[2]) is not None:  # better a step of its own
            group.fold = None
            return
        group.outputs = outputs
        for member in group.members:
            self.runs_at[member.slot] = fold.slot
        group.slot = fold.slot


def find_groups(
    values: Sequence[Value],
    needed: Sequence[bool],
    roots: Sequence[int],
    stored: Collection[int],
) -> list[Group]:
    """The groups; each runs where its slot stands. `stored` are new values of variables."""
    groups = _GroupSearch(values, needed, roots, stored).collect()
    folded = {group.fold.slot for group in groups if group.fold is not None}
    groups += [
        _lone_fold(value, values)
        for value in values
        if needed[value.slot] and value.slot not in folded and _is_fold(value, values)
    ]
    return groups


def _is_fold(value: Value, values: Sequence[Value]) -> bool:
    if value.source or value.op.kind != "reduction" or value.op.fold not in NEST_FOLDS:
        return False
    source = values[value.inputs[0]]
    return (
        source.static
        and value.size > 0
        and source.size >= max(2, config.min_elements(MIN_LOOP_ELEMENTS))
    )


def _lone_fold(value: Value, values: Sequence[Value]) -> Group:
    """A reduction of something that is there already."""
    source = values[value.inputs[0]]
    reads = [resolve_input(source, source.shape, values)]
    group = Group([], reads, source.shape, source.spec.dtype, value.slot, fold=value)
    group.statements = [LoopValue(input_leaf(0), source.spec.dtype)]
    return group


# ------------------------------------------------------------------ what a group reads


def _read_inputs(group: Group, values: Sequence[Value]) -> None:
    leaves: dict[int, Expr] = {}
    known: dict[GroupInput, Expr] = {}
    shape = group.shape
    for value in group.members:
        operands = []
        for slot in value.inputs:
            if slot not in leaves:
                source = resolve_input(values[slot], shape, values)
                leaves[slot] = known.setdefault(source, input_leaf(len(known)))
            operands.append(leaves[slot])
        leaves[value.slot] = local_leaf(len(group.statements))
        group.statements.append(LoopValue(expression_of(value, operands), value.spec.dtype))
    group.sources = list(known)


def fold_order(folded: Sequence[bool]) -> tuple[int, ...] | None:
    """The order of loop dims in which those that are `folded` are neighbours, and the last one is
    still last; None where that is their own."""
    dims = range(len(folded))
    folds = [dim for dim in dims if folded[dim]]
    if not folds or folds[-1] - folds[0] < len(folds):
        return None
    kept = [dim for dim in dims if not folded[dim]]
    last = [] if folded[-1] else [kept.pop()]
    return (*kept, *folds, *last)


def collapse(group: Group) -> tuple[tuple[int, ...], list[tuple[bool, ...]], tuple[bool, ...]]:
    """Merged dims of the result, the pattern of each source over them, and which are folded."""
    folded = group.fold.attrs["axis"] if group.fold is not None else ()
    columns = behaviours(group.sources, len(group.shape))
    columns = [(*column, axis in folded) for axis, column in enumerate(columns)]
    dims, columns = merge_axes(group.shape, columns)
    patterns = [tuple(column[i] for column in columns) for i in range(len(group.sources))]
    return tuple(dims), patterns, tuple(column[-1] for column in columns)
