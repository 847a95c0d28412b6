"""Which items run as one row kernel: folds over the same rows, and what is made of them there.

A cluster has a shape and a cut: axes before the cut are the rows, those after it the columns. Its
members are folds along the rows or down the columns, and elementwise items that need a fold along
the rows. What members need besides, and is cheap, is computed within. A cluster is one step, so
no member may need anything that is computed from another member outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kbench.engine.codegen.row_kernel import MAX_KEPT_COLUMNS
from kbench.engine.compiler.values import Value
from kbench.engine.fusion.elementwise import LEAST, checks_values
from kbench.engine.fusion.row_lower import ALIASES, down_fold, is_elementwise
from kbench.engine.ops.elementwise.activation import SOFTMAX
from kbench.engine.ops.loss.losses import PICK, PUT
from kbench.engine.ops.reduce.moments import LOGSUMEXP, VARIANCE
from kbench.engine.runtime import config

ALONG = ("sum", "mean", "prod", "max", "min")
"""What folds along rows."""
FEWEST = 16
"""Rows of a cluster that folds along them: enough for many threads."""
FEW_COLUMNS = 16
"""Rows as short as that are joined for a fold down the columns."""
SMALL = 256
"""Elements from which on a cluster gains that stands for `STEPS` steps: what a step costs whatever
its size adds up, and comes to more than the call of a kernel."""
STEPS = 12
LONGEST = 1 << 17
"""Columns of such a row, which should stay in the cache between two sweeps."""
MOST_MEMBERS = 64

Key = tuple[tuple[int, ...], int]  # shape and cut


@dataclass
class Cluster:
    """Members in order, and the clusters that some member needs a result of."""

    number: int
    key: Key
    guard: object
    members: list[Value] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)  # what folds read: members that share it are near
    along: bool = False


def fold_key(item: Value, items: Sequence[Value]) -> tuple[Key, bool] | None:
    """The shape, the cut, and whether the fold goes along rows; None for no such fold."""
    if item.source or not item.static or not item.inputs:
        return None
    source = items[item.inputs[0]]
    if not source.static or source.size < max(2, config.min_elements(SMALL)):
        return None
    if item.op in (SOFTMAX, PICK):
        axes: tuple[int, ...] = (item.attrs["axis"],)
    elif item.op in (LOGSUMEXP, VARIANCE) or item.op.kind == "reduction":
        axes = item.attrs["axis"]
    else:
        return None
    rank = len(source.shape)
    if axes and axes == tuple(range(rank - len(axes), rank)) and len(axes) < rank:
        fits = item.op.kind != "reduction" or item.op.fold in ALONG
        return ((source.shape, axes[0]), True) if fits and item.spec.dtype != "bool" else None
    if axes and axes == tuple(range(len(axes))) and down_fold(item):
        return (source.shape, len(axes)), False
    return None


class Search:
    """The clusters of a plan while they are found."""

    def __init__(self, items: Sequence[Value], needed: Sequence[bool]) -> None:
        self.items = items
        self.home: dict[int, int] = {}  # slot -> cluster, for members and what only reshapes them
        self.behind: list[set[int]] = []  # for each item the clusters it needs, its own left out
        self.clusters: list[Cluster] = []
        for item in items:
            self.behind.append(set())
            if needed[item.slot] and not item.source:
                self._place(item)

    def _place(self, item: Value) -> None:
        items = self.items
        found = fold_key(item, items)
        if found is not None:
            self._place_fold(item, *found)
        elif is_elementwise(item) and item.static and not checks_values(item):
            for number in self._merged({self.home[i] for i in item.inputs if i in self.home}):
                if self._fits(item, self.clusters[number]) and self._join(item, number):
                    break
        elif item.op in ALIASES and item.inputs and item.inputs[0] in self.home:
            cluster = self.clusters[self.home[item.inputs[0]]]
            if self._level(item, cluster.key) and item.guard == cluster.guard:
                self.home[item.slot] = cluster.number
                self.behind[item.slot] = self.behind[item.inputs[0]]
                return
        if item.slot not in self.home:
            self.behind[item.slot] = self._outside(item, None)

    def _merged(self, numbers: set[int]) -> list[int]:
        """The clusters that an item uses, after those that can be one have become one."""
        kept: list[int] = []
        for number in sorted(numbers):
            if not any(self._merge(one, number) for one in kept):
                kept.append(number)
        return kept

    def _merge(self, number: int, other: int) -> bool:
        """Make two clusters one, if they are alike and neither needs the other."""
        a, b = self.clusters[number], self.clusters[other]
        alike = a.key == b.key and a.guard == b.guard and a.along and b.along
        if not alike or len(a.members) + len(b.members) > MOST_MEMBERS:
            return False
        if self._reaches(a.needs, other) or self._reaches(b.needs, number):
            return False
        a.members = sorted(a.members + b.members, key=lambda one: one.slot)
        a.reads |= b.reads
        a.needs |= b.needs
        b.members = []
        self.home = {slot: number if one == other else one for slot, one in self.home.items()}
        for needs in (*self.behind, *(one.needs for one in self.clusters)):
            if other in needs:
                needs.remove(other)
                needs.add(number)
        return True

    def _place_fold(self, item: Value, key: Key, along: bool) -> None:
        reads = self._read(item.inputs[0])
        near = {self.home.get(one) for one in reads}
        for cluster in reversed(self.clusters):
            close = cluster.number in near or not cluster.reads.isdisjoint(reads)
            if cluster.key != key or cluster.guard != item.guard or not close:
                continue
            if self._mixes(cluster, item, along) and self._join(item, cluster.number):
                cluster.along |= along
                cluster.reads |= reads
                return
        cluster = Cluster(len(self.clusters), key, item.guard, along=along, reads=reads)
        self.clusters.append(cluster)
        self._join(item, cluster.number)

    def _mixes(self, cluster: Cluster, item: Value, along: bool) -> bool:
        """Whether a kernel can have the fold besides those of a cluster."""
        if len(cluster.members) >= MOST_MEMBERS:
            return False
        if cluster.along == along:
            return True
        variance = any(one.op is VARIANCE and one.attrs["axis"][0] == 0 for one in cluster.members)
        down = item.op is VARIANCE and not along
        return (
            not (variance or down)
            and _product(cluster.key[0][cluster.key[1] :]) <= MAX_KEPT_COLUMNS
        )

    def _read(self, slot: int, depth: int = 5) -> set[int]:
        """What a fold of this value may read: itself, or large values that it is made of."""
        item, found = self.items[slot], {slot}
        if depth and not item.source and is_elementwise(item) and item.static:
            for one in item.inputs:
                if self.items[one].spec.shape == item.shape:
                    found |= self._read(one, depth - 1)
        return found

    def _fits(self, item: Value, cluster: Cluster) -> bool:
        """Whether an elementwise item has the cluster's shape or one value for each row."""
        level = self._level(item, cluster.key)
        if not level or item.guard != cluster.guard or len(cluster.members) >= MOST_MEMBERS:
            return False
        if not cluster.along:
            return False
        if item.op is PUT and (level != "full" or cluster.key[1] != len(item.shape) - 1):
            return False  # its columns are not those of the rows
        for slot in item.inputs:
            if self.home.get(slot) != cluster.number:
                continue
            shape = self.items[slot].shape
            if level == "full" and shape != cluster.key[0] and item.op is not PUT:
                padded = (1,) * (len(cluster.key[0]) - len(shape)) + shape
                if padded != _kept(cluster.key):
                    return False
            if level == "row" and shape != item.shape:
                return False
        return True

    def _level(self, item: Value, key: Key) -> str:
        """Whether a value is one of each element ("full"), of each row ("row"), or neither."""
        if not item.static:
            return ""
        shape, cut = key
        if item.shape == shape:
            return "full"
        return "row" if item.shape in (_kept(key), shape[:cut]) else ""

    def _outside(self, item: Value, number: int | None) -> set[int]:
        """The clusters that an item needs, itself being in cluster `number`."""
        found: set[int] = set()
        for slot in (*item.inputs, *(one for one, _ in item.guard)):
            home = self.home.get(slot)
            if home is None:
                found |= self.behind[slot]
            elif home != number:
                found.add(home)
        return found

    def _join(self, item: Value, number: int) -> bool:
        """Make an item a member, unless the cluster would then need itself."""
        cluster = self.clusters[number]
        outside = self._outside(item, number)
        if self._reaches(outside, number):
            return False
        cluster.needs |= outside
        cluster.members.append(item)
        self.home[item.slot] = number
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


def is_worth(cluster: Cluster, items: Sequence[Value]) -> bool:
    """Whether one kernel for all reads or writes less memory than the members by themselves."""
    shape, cut = cluster.key
    folds = [one for one in cluster.members if not is_elementwise(one)]
    rows, columns = _product(shape[:cut]), _product(shape[cut:])
    least = SMALL if len(cluster.members) >= STEPS else LEAST
    if rows * columns < config.min_elements(least):
        return False
    if not cluster.along:
        return rows > 1 and (len(folds) > 1 or _gains_alone(folds[0], items))
    if rows < FEWEST and config.min_elements(LEAST) == LEAST or not 1 < columns <= LONGEST:
        return False
    wide = [one for one in cluster.members if is_elementwise(one) and one.shape == shape]
    dear = any(one.op in (SOFTMAX, LOGSUMEXP, VARIANCE) for one in folds)
    return dear or len(folds) > 1 or bool(wide)


def _gains_alone(fold: Value, items: Sequence[Value]) -> bool:
    """A lone sum gains where columns are few, but for what is stored anyway as it is computed."""
    if fold.op is VARIANCE:
        return True
    source = items[fold.inputs[0]]
    if _product(source.shape[len(fold.attrs["axis"]) :]) > FEW_COLUMNS:
        return False
    shared = is_elementwise(source) and len(set(source.users)) > 1
    return len(fold.attrs["axis"]) < len(source.shape) and not shared


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for one in sizes:
        total *= one
    return total
