"""Which values run as one row kernel: folds over the same rows, and what is made of them there.

A cluster has a shape and a cut: axes before the cut are the rows, those after it the columns. Its
members are folds along the rows or down the columns, and elementwise values that need a fold along
the rows. What members need besides, and is cheap, is computed within. A cluster is one step, so
no member may need anything that is computed from another member outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, field

from kbench.engine.codegen.row_kernel import MAX_KEPT_COLUMNS
from kbench.engine.compiler.values import Value
from kbench.engine.fusion.elementwise import MIN_LOOP_ELEMENTS
from kbench.engine.fusion.group import checks_values
from kbench.engine.fusion.row_lower import ALIASES, down_fold, is_elementwise, spreads
from kbench.engine.runtime import config

ROW_FOLDS = ("sum", "mean", "prod", "max", "min")
"""What folds along rows."""
MIN_ROWS = 16
"""Rows of a cluster that folds along them: enough for many threads."""
MAX_JOINED_COLUMNS = 16
"""Columns of rows that are joined for a fold down the columns."""
MIN_LONG_CLUSTER_ELEMENTS = 256
"""Elements from which on a cluster gains that stands for many steps: what a step costs whatever its
size adds up, and comes to more than the call of a kernel."""
MIN_LONG_CLUSTER_STEPS = 12
"""Steps that such a cluster stands for."""
MAX_COLUMNS = 1 << 17
"""Columns of a row, which should stay in the cache between two sweeps."""
MAX_MEMBERS = 64
"""Values of a cluster, which is compiled as one kernel."""

Key = tuple[tuple[int, ...], int]  # shape and cut


class Cluster(Struct):
    """Members in order, and the clusters that some member needs a result of."""

    number: int
    key: Key
    guard: object
    members: list[Value] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)  # what folds read: members that share it are near
    along: bool = False


def fold_key(value: Value, values: Sequence[Value]) -> tuple[Key, bool] | None:
    """The shape, the cut, and whether the fold goes along rows; None for no such fold."""
    if value.source or not value.static or not value.inputs:
        return None
    source = values[value.inputs[0]]
    if not source.static or source.size < max(2, config.min_elements(MIN_LONG_CLUSTER_ELEMENTS)):
        return None
    form = value.op.rows
    if value.op.kind != "reduction" and (form is None or not form.folds):
        return None
    axis = value.attrs["axis"]
    axes: tuple[int, ...] = axis if isinstance(axis, tuple) else (axis,)
    rank = len(source.shape)
    whole = len(axes) == rank and not _is_sole(value)
    if axes and axes == tuple(range(rank - len(axes), rank)) and not whole:
        fits = value.op.kind != "reduction" or value.op.fold in ROW_FOLDS
        return ((source.shape, axes[0]), True) if fits and value.spec.dtype != "bool" else None
    if axes and axes == tuple(range(len(axes))) and down_fold(value):
        return (source.shape, len(axes)), False
    return None


class ClusterSearch:
    """The clusters of a plan while they are found."""

    def __init__(self, values: Sequence[Value], needed: Sequence[bool]) -> None:
        self.values = values
        self.home: dict[int, int] = {}  # slot -> cluster, for members and what only reshapes them
        self.behind: list[set[int]] = []  # for each value the clusters it needs, its own left out
        self.clusters: list[Cluster] = []
        for value in values:
            self.behind.append(set())
            if needed[value.slot] and not value.source:
                self._place(value)

    def _place(self, value: Value) -> None:
        values = self.values
        found = fold_key(value, values)
        if found is not None:
            self._place_fold(value, *found)
        elif is_elementwise(value) and value.static and not checks_values(value):
            for number in self._merged({self.home[i] for i in value.inputs if i in self.home}):
                if self._fits(value, self.clusters[number]) and self._join(value, number):
                    break
        elif value.role in ALIASES and value.inputs and value.inputs[0] in self.home:
            cluster = self.clusters[self.home[value.inputs[0]]]
            if self._level(value, cluster.key) and value.guard == cluster.guard:
                self.home[value.slot] = cluster.number
                self.behind[value.slot] = self.behind[value.inputs[0]]
                return
        if value.slot not in self.home:
            self.behind[value.slot] = self._outside(value, None)

    def _merged(self, numbers: set[int]) -> list[int]:
        """The clusters that a value uses, after those that can be one have become one."""
        kept: list[int] = []
        for number in sorted(numbers):
            if not any(self._merge(other, number) for other in kept):
                kept.append(number)
        return kept

    def _merge(self, number: int, other: int) -> bool:
        """Make two clusters one, if they are alike and neither needs the other."""
        a, b = self.clusters[number], self.clusters[other]
        alike = a.key == b.key and a.guard == b.guard and a.along and b.along
        if not alike or len(a.members) + len(b.members) > MAX_MEMBERS:
            return False
        if self._reaches(a.needs, other) or self._reaches(b.needs, number):
            return False
        a.members = sorted(a.members + b.members, key=lambda member: member.slot)
        a.reads |= b.reads
        a.needs |= b.needs
        b.members = []
        self.home = {slot: number if home == other else home for slot, home in self.home.items()}
        for needs in (*self.behind, *(cluster.needs for cluster in self.clusters)):
            if other in needs:
                needs.remove(other)
                needs.add(number)
        return True

    def _place_fold(self, value: Value, key: Key, along: bool) -> None:
        reads = self._read(value.inputs[0])
        near = {self.home.get(slot) for slot in reads}
        for cluster in reversed(self.clusters):
            close = cluster.number in near or not cluster.reads.isdisjoint(reads)
            if cluster.key != key or cluster.guard != value.guard or not close:
                continue
            if self._mixes(cluster, value, along) and self._join(value, cluster.number):
                cluster.along |= along
                cluster.reads |= reads
                return
        cluster = Cluster(len(self.clusters), key, value.guard, along=along, reads=reads)
        self.clusters.append(cluster)
        self._join(value, cluster.number)

    def _mixes(self, cluster: Cluster, value: Value, along: bool) -> bool:
        """Whether a kernel can have the fold besides those of a cluster."""
        if len(cluster.members) >= MAX_MEMBERS:
            return False
        if cluster.along == along:
            return True
        variance = any(
            member.op.fold == "var" and member.attrs["axis"][0] == 0 for member in cluster.members
        )
        down = value.op.fold == "var" and not along
        return (
            not (variance or down)
            and math.prod(cluster.key[0][cluster.key[1] :]) <= MAX_KEPT_COLUMNS
        )

    def _read(self, slot: int, depth: int = 5) -> set[int]:
        """What a fold of this value may read: itself, or large values that it is made of."""
        value, found = self.values[slot], {slot}
        if depth and not value.source and is_elementwise(value) and value.static:
            for operand in value.inputs:
                if self.values[operand].spec.shape == value.shape:
                    found |= self._read(operand, depth - 1)
        return found

    def _fits(self, value: Value, cluster: Cluster) -> bool:
        """Whether an elementwise value has the cluster's shape or one value for each row."""
        level = self._level(value, cluster.key)
        if not level or value.guard != cluster.guard or len(cluster.members) >= MAX_MEMBERS:
            return False
        if not cluster.along:
            return False
        if spreads(value) and (level != "full" or cluster.key[1] != len(value.shape) - 1):
            return False  # its columns are not those of the rows
        for slot in value.inputs:
            if self.home.get(slot) != cluster.number:
                continue
            shape = self.values[slot].shape
            if level == "full" and shape != cluster.key[0] and not spreads(value):
                padded = (1,) * (len(cluster.key[0]) - len(shape)) + shape
                if padded != _kept(cluster.key):
                    return False
            if level == "row" and shape != value.shape:
                return False
        return True

    def _level(self, value: Value, key: Key) -> str:
        """Whether a value is one of each element ("full"), of each row ("row"), or neither."""
        if not value.static:
            return ""
        shape, cut = key
        if value.shape == shape:
            return "full"
        return "row" if value.shape in (_kept(key), shape[:cut]) else ""

    def _outside(self, value: Value, number: int | None) -> set[int]:
        """The clusters that a value needs, itself being in cluster `number`."""
        found: set[int] = set()
        for slot in (*value.inputs, *(condition for condition, _ in value.guard)):
            home = self.home.get(slot)
            if home is None:
                found |= self.behind[slot]
            elif home != number:
                found.add(home)
        return found

    def _join(self, value: Value, number: int) -> bool:
        """Make a value a member, unless the cluster would then need itself."""
        cluster = self.clusters[number]
        outside = self._outside(value, number)
        if self._reaches(outside, number):
            return False
        cluster.needs |= outside
        cluster.members.append(value)
        self.home[value.slot] = number
        return True

    def _reaches(self, start: set[int], target: int) -> bool:
        seen: set[int] = set()
        todo = list(start)
        while todo:
            number = todo.pop()
            if number == target:
                return True
            if number not in seen:
                seen.add(number)
                todo.extend(self.clusters[number].needs)
        return False


def _kept(key: Key) -> tuple[int, ...]:
    shape, cut = key
    return (*shape[:cut], *(1,) * (len(shape) - cut))


# ------------------------------------------------------------------ which are worth while


def is_profitable(cluster: Cluster, values: Sequence[Value]) -> bool:
    """Whether one kernel for all reads or writes less memory than the members by themselves."""
    shape, cut = cluster.key
    folds = [member for member in cluster.members if not is_elementwise(member)]
    rows, columns = math.prod(shape[:cut]), math.prod(shape[cut:])
    least = (
        MIN_LONG_CLUSTER_ELEMENTS
        if len(cluster.members) >= MIN_LONG_CLUSTER_STEPS
        else MIN_LOOP_ELEMENTS
    )
    if rows * columns < config.min_elements(least):
        return False
    if not cluster.along:
        return rows > 1 and (len(folds) > 1 or _is_profitable_alone(folds[0], values))
    if columns == 1:
        return False
    if any(_is_sole(fold) for fold in folds):
        return True
    few = rows < MIN_ROWS and config.min_elements(MIN_LOOP_ELEMENTS) == MIN_LOOP_ELEMENTS
    if few or columns > MAX_COLUMNS:
        return False
    wide = [
        member for member in cluster.members if is_elementwise(member) and member.shape == shape
    ]
    dear = any(_is_dear(fold) for fold in folds)
    return dear or len(folds) > 1 or bool(wide)


def _is_profitable_alone(fold: Value, values: Sequence[Value]) -> bool:
    """A lone sum gains where columns are few, but for what is stored anyway as it is computed."""
    if _is_dear(fold):
        return True
    source = values[fold.inputs[0]]
    if math.prod(source.shape[len(fold.attrs["axis"]) :]) > MAX_JOINED_COLUMNS:
        return False
    shared = is_elementwise(source) and len(set(source.users)) > 1
    return len(fold.attrs["axis"]) < len(source.shape) and not shared


def _is_sole(fold: Value) -> bool:
    return fold.op.rows is not None and fold.op.rows.sole


def apart(cluster: Cluster, first: int) -> list[Cluster]:
    """Clusters, numbered from `first` on, of each member that has no other kernel."""
    found: list[Cluster] = []
    for member in cluster.members if len(cluster.members) > 1 else ():
        if not is_elementwise(member) and _is_sole(member):
            number = first + len(found)
            found.append(Cluster(number, cluster.key, cluster.guard, [member], along=True))
    return found


def _is_dear(fold: Value) -> bool:
    return fold.op.rows is not None and fold.op.rows.dear
