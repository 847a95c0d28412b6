"""Plans: the list of passes, and the binding of the result to the shapes of one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.layout import propagate_layouts
from kbench.engine.compiler.loop_dce import eliminate_dead_loops
from kbench.engine.compiler.loop_fission import split_loops
from kbench.engine.compiler.multi_output import fuse_outputs
from kbench.engine.compiler.rewrite import fold_constants, share_equal
from kbench.engine.compiler.settle_states import settle_states
from kbench.engine.compiler.simplify import simplify
from kbench.engine.compiler.values import lower_graph, mark_guards, mark_needed
from kbench.engine.core.spec import Spec
from kbench.engine.execute.executable import Executable
from kbench.engine.execute.steps.base import Signature
from kbench.engine.fusion.row_schedule import UNNEEDED, fuse_rows
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Variable
from kbench.engine.runtime.garbage import uncollected

PASSES = (
    eliminate_dead_loops,
    split_loops,
    eliminate_dead_loops,
    fold_constants,
    simplify,
    propagate_layouts,
    share_equal,
    fuse_outputs,
)


MAX_FLAG_FEEDS = 3
"""Flags at most that a plan is bound anew for: to each combination of their values once."""


class Plan(Struct, frozen=True):
    """What to compute, in order, before shapes are known."""

    name: str
    feeds: tuple[Tensor, ...]
    roots: tuple[Tensor, ...]
    order: tuple[Tensor, ...]
    targets: tuple[Variable, ...] = ()  # what the last of the roots are the new values of
    flags: tuple[int, ...] = ()  # the feeds that are flags by which branches are taken

    def signature(self, arrays: Sequence[np.ndarray]) -> Signature:
        """What an executable is for: the shapes of what is fed, and the values of the flags."""
        shapes = tuple([array.shape for array in arrays])
        if not self.flags:
            return shapes
        return (*shapes, *[arrays[flag].shape == () and bool(arrays[flag]) for flag in self.flags])

    def bind(self, arrays: Sequence[np.ndarray]) -> Executable:
        """The plan for the signature of `arrays`, one for each feed.

        Of a branch that a flag decides, only the side taken is planned: the learning phase, say,
        stays as it is for thousands of steps, and what runs under no condition can be fused.
        """
        with uncollected():
            return self._bound(arrays)

    def _bound(self, arrays: Sequence[np.ndarray]) -> Executable:
        feeds = {
            id(node): Spec(array.shape, array.dtype.name, sparse=node.spec.sparse)
            for node, array in zip(self.feeds, arrays, strict=True)
        }
        chosen = {id(self.feeds[flag]): np.array(arrays[flag]) for flag in self.flags}
        values, slots = lower_graph(self.order, feeds, chosen)
        roots = [slots[id(root)] for root in self.roots]
        needed = mark_needed(values, roots)
        mark_guards(values, needed, roots)
        feed_slots = [None if id(feed) in chosen else slots.get(id(feed)) for feed in self.feeds]
        fused = fuse_rows(values, needed, roots)
        if fused is not None:
            values, place = fused
            roots = [place[root] for root in roots]
            feed_slots = [None if slot is None else place[slot] for slot in feed_slots]
            feed_slots = [None if slot == UNNEEDED else slot for slot in feed_slots]
            needed = mark_needed(values, roots)
        return Executable(self.name, values, needed, roots, feed_slots, make_plan, self.targets)


def make_plan(
    name: str,
    roots: Sequence[Tensor],
    feeds: Sequence[Tensor],
    targets: Sequence[Variable] = (),
    moving: int = 0,
) -> Plan:
    """Run every pass over the graph of `roots`; `feeds` are given from outside.

    The last of the roots are the new values of the variables `targets`. The first `moving` feeds
    are others in each step of a loop, which is bound once for all of them.
    """
    stop = {id(feed) for feed in feeds}
    current = settle_states(roots, stop, targets)
    for one_pass in PASSES:
        current = one_pass(current, stop)
    order = tuple(walk(current, stop))
    flags = _flags(order, feeds, stop, moving)
    return Plan(name, tuple(feeds), tuple(current), order, tuple(targets), flags)


def _flags(
    order: Sequence[Tensor], feeds: Sequence[Tensor], stop: set[int], moving: int
) -> tuple[int, ...]:
    """The feeds that are one bool and that the conditions of branches are made of."""
    conditions = [node.inputs[0] for node in order if node.op.role is Role.BRANCH]
    asked = {id(node) for node in walk(conditions, stop)}
    found = [
        place
        for place, feed in enumerate(feeds[moving:], moving)
        if id(feed) in asked and feed.spec.dtype == "bool" and feed.spec.shape == ()
    ]
    return tuple(found) if len(found) <= MAX_FLAG_FEEDS else ()
