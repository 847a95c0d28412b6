"""The arithmetic of connectionist temporal classification on NumPy arrays, in float64.

Labels with blanks before, between and after them are the states of a row, s = 0 ... 2 * length.
In each step a path stays, goes to the next state, or passes over a blank between two labels that
differ (Graves et al., "Connectionist temporal classification", ICML 2006). Everything is kept as
logarithms, so that long rows neither underflow nor overflow. Activations are any numbers, whose
softmax over the classes gives the probabilities; the blank is the last class.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.types import Array

MAX_KEPT_CELLS = 1 << 22
"""States times steps that are kept at a time, in float64 32 MB."""
LOG_ZERO = -np.inf
"""The logarithm of what cannot be."""


class Lattice:
    """The states of some rows, and what each costs in each step."""

    def __init__(self, x: Array, labels: Array, steps: Array, lengths: Array) -> None:
        self.x, self.steps, self.last = x, steps, 2 * lengths
        self.labels, self.skips = states_of(labels, lengths, x.shape[2])
        self.states = self.labels.shape[1]
        self.time = int(steps.max(initial=0))
        self.scale = _log_sum(x[:, : self.time])

    def chances(self, t: int) -> Array:
        """Log probability of each state's label in step t."""
        picked: Array = np.take_along_axis(self.x[:, t], self.labels, 1).astype(np.float64)
        chances: Array = picked - self.scale[:, t, None]
        return chances

    def shares(self) -> Array:
        """Probability of each class in each step; 0 after a row's last step."""
        with np.errstate(invalid="ignore"):
            shares: Array = np.exp(self.x[:, : self.time] - self.scale[:, :, None])
        after = np.arange(self.time) >= self.steps[:, None]
        shares[after] = 0
        return shares

    def is_running(self, t: int) -> Array:
        return (t < self.steps)[:, None]

    def start(self) -> Array:
        """Before the first step: in the state before all, with two columns in front of it."""
        state = np.full((len(self.x), self.states + 2), LOG_ZERO)
        state[:, 2] = 0
        return state

    def end(self) -> Array:
        """After the last step: the last label or the blank after it, with two columns behind."""
        place = np.arange(self.states + 2)
        last = self.last[:, None]
        return np.where((place == last) | (place == last - 1), 0.0, LOG_ZERO)

    def final(self, state: Array) -> Array:
        """The two states in which a path may end, of `state` after the last step."""
        return np.take_along_axis(state, self.last[:, None] + np.array([1, 2]), 1)

    def spread(self, values: Array) -> Array:
        """Sum of `values` over the states of each label: (rows, classes)."""
        rows, classes = len(self.x), self.x.shape[2]
        places = self.labels + classes * np.arange(rows)[:, None]
        sums = np.bincount(places.ravel(), values.ravel(), rows * classes)
        return sums.reshape(rows, classes)


def states_of(labels: Array, lengths: Array, classes: int) -> tuple[Array, Array]:
    """The class of each state, and 0 where a path may skip the state before (else -infinity).

    int64[rows, states] and float64[rows, states + 2]; states behind a row's last one are blanks.
    """
    most = int(lengths.max(initial=0))
    used = np.arange(most) < lengths[:, None]
    states = np.full((len(labels), 2 * most + 1), classes - 1)
    states[:, 1::2] = np.where(used, labels[:, :most], classes - 1)
    skips = np.full((len(labels), 2 * most + 3), LOG_ZERO)
    skips[:, 3:-2:2] = np.where(states[:, 3::2] != states[:, 1:-2:2], 0.0, LOG_ZERO)
    return states, skips


def _log_sum(x: Array) -> Array:
    """log(sum(exp(x))) over the last axis."""
    top = x.max(axis=2, initial=LOG_ZERO).astype(np.float64)
    shift = np.where(np.isfinite(top), top, 0.0)
    total: Array = np.log(np.exp(x - shift[:, :, None]).sum(axis=2)) + shift
    return total


def _joined(ways: tuple[Array, Array, Array]) -> Array:
    """log(exp(a) + exp(b) + exp(c)), also where all of them are minus infinity."""
    top = np.maximum(np.maximum(ways[0], ways[1]), ways[2])
    shift = np.where(top == LOG_ZERO, 0.0, top)
    total: Array = np.exp(ways[0] - shift)
    total += np.exp(ways[1] - shift)
    total += np.exp(ways[2] - shift)
    joined: Array = np.log(total) + shift
    return joined


def _weights(ways: tuple[Array, ...], joined: Array) -> list[Array]:
    """The share of each way in their sum; 0 where none can be gone."""
    shift = np.where(joined == LOG_ZERO, 0.0, joined)
    return [np.exp(way - shift) for way in ways]


def _into(state: Array, skips: Array) -> tuple[Array, Array, Array]:
    """Ways into each state: from itself, from the one before, over a blank."""
    return state[:, 2:], state[:, 1:-1], state[:, :-2] + skips[:, :-2]


def _out_of(state: Array, skips: Array) -> tuple[Array, Array, Array]:
    """Ways out of each state: the same, seen from where they begin."""
    return state[:, :-2], state[:, 1:-1], state[:, 2:] + skips[:, 2:]


def _forward(lattice: Lattice) -> Iterator[Array]:
    """log alpha after each step, with two columns in front; the same array every time."""
    state = lattice.start()
    yield state
    for t in range(lattice.time):
        cancel.check()
        moved = _joined(_into(state, lattice.skips)) + lattice.chances(t)
        np.copyto(state[:, 2:], moved, where=lattice.is_running(t))
        yield state


def _kept(x: Array, labels: Array) -> int:
    """Numbers that are kept of one row, in every step."""
    numbers: int = (x.shape[1] + 1) * (2 * labels.shape[1] + 3)
    return numbers


def require_row(x: Array, labels: Array) -> None:
    """OutOfMemory when what must be kept of one row is too much."""
    needed = 16 * _kept(x, labels)
    memory_limit.require(needed, f"a row of {x.shape[1]} steps and {labels.shape[1]} labels")


def _groups(
    x: Array, labels: Array, steps: Array, lengths: Array
) -> Iterator[tuple[slice, Lattice]]:
    """The rows, a few at a time, so that what is kept of them stays small."""
    height = max(1, MAX_KEPT_CELLS // (_kept(x, labels) + x.shape[1] * x.shape[2]))
    for first in range(0, len(x), height):
        rows = slice(first, first + height)
        yield rows, Lattice(x[rows], labels[rows], steps[rows], lengths[rows])


# ------------------------------------------------------------------ the three results


def cost(x: Array, labels: Array, steps: Array, lengths: Array) -> Array:
    """-log(probability of the labels) of each row; infinity when no path spells them."""
    result = np.empty(len(x))
    with np.errstate(all="ignore"):
        for rows, lattice in _groups(x, labels, steps, lengths):
            state = lattice.start()
            for state in _forward(lattice):  # noqa: B007 - the last one is wanted
                pass
            result[rows] = 0.0 - _whole(lattice, state)
    return result


def _whole(lattice: Lattice, state: Array) -> Array:
    ends = lattice.final(state)
    whole: Array = np.logaddexp(ends[:, 0], ends[:, 1])
    return whole


def slope(out: Array, x: Array, labels: Array, steps: Array, lengths: Array) -> Array:
    """Derivative of the cost to the activations: shares of the classes, less those of the paths.

    Fills and returns `out`: 0 after the last step of a row, and in rows that no path spells.
    """
    require_row(x, labels)
    out[...] = 0
    with np.errstate(all="ignore"):
        for rows, lattice in _groups(x, labels, steps, lengths):
            kept = [state[:, 2:].copy() for state in _forward(lattice)]
            ends = np.pad(kept[-1], ((0, 0), (2, 0)), constant_values=LOG_ZERO)
            whole = _whole(lattice, ends)[:, None]
            shares = lattice.shares()
            state = lattice.end()
            for t in range(lattice.time - 1, -1, -1):
                cancel.check()
                visited = np.exp(kept[t + 1] + state[:, :-2] - whole)
                shares[:, t] -= lattice.spread(np.where(lattice.is_running(t), visited, 0.0))
                _step_back(lattice, state, t)
            shares[whole[:, 0] == LOG_ZERO] = 0
            out[rows, : lattice.time] = shares
    return out


def _step_back(lattice: Lattice, state: Array, t: int) -> tuple[Array, Array]:
    """log beta before step t, in place; returns what the ways were and what they add up to."""
    after = state.copy()
    after[:, :-2] += lattice.chances(t)
    moved = _joined(_out_of(after, lattice.skips))
    np.copyto(state[:, :-2], moved, where=lattice.is_running(t))
    return after, moved


def bend(out: Array, v: Array, x: Array, labels: Array, steps: Array, lengths: Array) -> Array:
    """Derivative of `sum(v * slope)` to the activations: how the slope changes along `v`.

    Fills and returns `out`. Beside each logarithm runs its derivative along `v`, an average over
    the ways by their shares.
    """
    require_row(x, labels)
    out[...] = 0
    with np.errstate(all="ignore"):
        for rows, lattice in _groups(x, labels, steps, lengths):
            along = v[rows, : lattice.time].astype(np.float64)
            shares = lattice.shares()
            mean = (shares * along).sum(axis=2, keepdims=True)
            whole, paths = _bent_paths(lattice, along)
            change = shares * (along - mean) - paths
            change[np.arange(lattice.time) >= lattice.steps[:, None]] = 0
            change[whole == LOG_ZERO] = 0
            out[rows, : lattice.time] = change
    return out


def _bent_paths(lattice: Lattice, along: Array) -> tuple[Array, Array]:
    """(log of the whole, how the share of each class on the paths changes)."""
    kept, bent = _forward_bent(lattice, along)
    ends = np.pad(kept[-1], ((0, 0), (2, 0)), constant_values=LOG_ZERO)
    whole = _whole(lattice, ends)[:, None]
    final = np.pad(bent[-1], ((0, 0), (2, 0)))
    shares = _weights((lattice.final(ends),), whole)[0]
    middle = (shares * lattice.final(final)).sum(axis=1, keepdims=True)
    state = lattice.end()
    change = np.zeros_like(state)
    result = np.zeros(along.shape)
    for t in range(lattice.time - 1, -1, -1):
        cancel.check()
        running = lattice.is_running(t)
        visited = np.exp(kept[t + 1] + state[:, :-2] - whole)
        moved = visited * (bent[t + 1] + change[:, :-2] - middle)
        result[:, t] = lattice.spread(np.where(running & (visited > 0), moved, 0.0))
        after, joined = _step_back(lattice, state, t)
        change[:, :-2] += np.where(running, _picked(lattice, along, t), 0.0)
        weights = _weights(_out_of(after, lattice.skips), joined)
        changed = _average(weights, (change[:, :-2], change[:, 1:-1], change[:, 2:]))
        np.copyto(change[:, :-2], changed, where=running)
    return whole[:, 0], result


def _forward_bent(lattice: Lattice, along: Array) -> tuple[list[Array], list[Array]]:
    """log alpha after each step, and its derivative."""
    state = lattice.start()
    change = np.zeros_like(state)
    kept, bent = [state[:, 2:].copy()], [change[:, 2:].copy()]
    for t in range(lattice.time):
        cancel.check()
        running = lattice.is_running(t)
        ways = _into(state, lattice.skips)
        joined = _joined(ways)
        weights = _weights(ways, joined)
        changed = _average(weights, (change[:, 2:], change[:, 1:-1], change[:, :-2]))
        np.copyto(change[:, 2:], changed + _picked(lattice, along, t), where=running)
        np.copyto(state[:, 2:], joined + lattice.chances(t), where=running)
        kept.append(state[:, 2:].copy())
        bent.append(change[:, 2:].copy())
    return kept, bent


def _picked(lattice: Lattice, along: Array, t: int) -> Array:
    return np.take_along_axis(along[:, t], lattice.labels, 1)


def _average(weights: list[Array], values: tuple[Array, ...]) -> Array:
    first, second, third = [weight * value for weight, value in zip(weights, values, strict=True)]
    average: Array = first + second + third
    return average
