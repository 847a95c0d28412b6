"""Beam search over the beginnings of labels, one row at a time.

A beginning is a node of a tree. Two numbers are kept of each: the log probability of the paths
that spell it and end in a blank, and of those that end in its last label; a repeated label makes a
longer beginning only after a blank (Graves, "Supervised sequence labelling", 2012, 7.5.3).
"""

from __future__ import annotations

import collections
import itertools

import numpy as np

from kbench.engine.core import cancel

NEVER = -np.inf


class Beam:
    """The best beginnings so far."""

    def __init__(self, classes: int, width: int) -> None:
        self.labels = classes - 1  # classes that are no blank
        self.width = width
        # Nodes by parent and label in one number; they are numbered from 1 on as they are made.
        self.tree: dict[int, int] = collections.defaultdict(itertools.count(1).__next__)
        # of each beginning in the beam: its node, that node's parent and label; the two numbers
        self.nodes, self.parents, self.ends = np.zeros(1, np.int64), *np.full((2, 1), -1)
        self.blank, self.last = np.zeros(1), np.full(1, NEVER)

    @property
    def total(self) -> np.ndarray:
        total: np.ndarray = np.logaddexp(self.blank, self.last)
        return total

    def step(self, chances: np.ndarray) -> None:
        """Go on by one step with these log probabilities of the classes."""
        total = self.total
        grown = total[:, None] + chances[:-1]
        named = np.flatnonzero(self.ends >= 0)
        again = chances[self.ends[named]]
        grown[named, self.ends[named]] = self.blank[named] + again
        last = np.full(len(total), NEVER)
        last[named] = self.last[named] + again
        # What grows into a beginning that is in the beam already belongs to it.
        places, joined = self._parents_in_beam()
        pairs = places, self.ends[joined]
        last[joined] = np.logaddexp(last[joined], grown[pairs])
        grown[pairs] = NEVER
        self._keep(total + chances[-1], last, grown)

    def _parents_in_beam(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the parents stand that are in the beam, and whose parents they are."""
        order = self.nodes.argsort()
        places = order[np.searchsorted(self.nodes, self.parents, sorter=order) % len(order)]
        joined = np.flatnonzero(self.nodes[places] == self.parents)
        return places[joined], joined

    def _keep(self, blank: np.ndarray, last: np.ndarray, grown: np.ndarray) -> None:
        """The best of what stayed as it was and what has grown by a label."""
        stayed, flat = np.logaddexp(blank, last), grown.reshape(-1)
        bound = stayed.min() if len(stayed) == self.width else NEVER
        better = np.flatnonzero(flat > bound)
        best = _largest(np.concatenate([stayed, flat[better]]), self.width)
        kept, made = best[best < len(stayed)], better[best[best >= len(stayed)] - len(stayed)]
        from_node, label = np.divmod(made, self.labels) if made.size else (made, made)
        parents = self.nodes[from_node]
        # The same node whenever the same labels are reached: what grew from it may still be there.
        grew = list(map(self.tree.__getitem__, (parents * self.labels + label).tolist()))
        self.nodes = np.concatenate([self.nodes[kept], np.array(grew, np.int64)])
        self.parents = np.concatenate([self.parents[kept], parents])
        self.ends = np.concatenate([self.ends[kept], label])
        self.blank = np.concatenate([blank[kept], np.full(len(made), NEVER)])
        self.last = np.concatenate([last[kept], flat[made]])

    def spelled(self, nodes: list[int]) -> list[list[int]]:
        """The labels of some nodes."""
        keys = list(self.tree)
        found = []
        for node in nodes:
            labels = []
            while node > 0:
                node, label = divmod(keys[node - 1], self.labels)
                labels.append(label)
            found.append(labels[::-1])
        return found


def _largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Places of the largest scores, in order of place."""
    if len(scores) <= count:
        return np.arange(len(scores))
    best = np.argpartition(-scores, count - 1)[:count]
    best.sort()
    return best


def search(x: np.ndarray, width: int, paths: int) -> tuple[list[list[int]], np.ndarray]:
    """The labels that activations [steps, classes] spell, the likeliest first, and their log
    probabilities; `paths` of them, or fewer when there are not so many.
    """
    wide = x.astype(np.float64)
    beam = Beam(x.shape[1], width)
    with np.errstate(all="ignore"):
        top = wide.max(axis=1, keepdims=True, initial=NEVER)
        wide -= np.where(np.isfinite(top), top, 0.0)
        wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
        for chances in wide:
            cancel.check()
            beam.step(chances)
        total = beam.total
    order = np.argsort(-total, kind="stable")
    likely = order[total[order] > NEVER][:paths]
    return beam.spelled(beam.nodes[likely].tolist()), total[likely]
