"""How long a call takes on more threads: from its parts on one thread, and from the machine.

A launch that may run in parallel takes the longer of two times: its work, shared out in as many
equal parts as the engine cuts it into, and the bytes it moves at the rate of so many threads. To
that comes the waking. All else takes what it takes on one thread.

Nothing here measures anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

CACHE_BYTES = 32 << 20
"""What calls touch below this comes from caches, whose rate grows with the cores that have them."""
MEMORY_PACE = 0.9
"""Part of the rate of one thread from which a launch waits for memory, not for its own work."""
CAUSES = ("serial Python", "one thread", "too few items", "finer cuts", "memory", "waking")
"""What keeps a call from being as many times faster as there are threads."""


@dataclass(frozen=True)
class Part:
    """Launches that are alike, or what steps do besides; `seconds` are those of one thread."""

    label: str
    kernel: str
    count: int
    seconds: float
    bytes: float
    threads: int
    """That may take part in a launch at most: as many as it has items."""
    units: int
    """Equal parts that a launch is handed out in."""
    idle: bool = False
    """Whether threads sleep when it begins."""

    @property
    def name(self) -> str:
        """The step and its kernel."""
        return f"{self.label} ({self.kernel})" if self.kernel else self.label


@dataclass(frozen=True)
class Call:
    """A call on one thread: seconds in all and of Python, parts as they are cut for each number of
    threads, and the bytes that it touches."""

    seconds: float
    python: float
    held: float
    cuts: Mapping[int, Sequence[Part]]

    def cut(self, threads: int) -> Sequence[Part]:
        """The parts for so many threads, or for the next number that was looked at."""
        known = [one for one in self.cuts if one >= threads]
        return self.cuts[min(known, default=max(self.cuts))]

    @property
    def slowest_step(self) -> str:
        """The step that does most besides launches."""
        steps = [one for one in self.cuts[1] if not _is_work(one)]
        return max(steps, key=lambda one: one.seconds).label if steps else "the call"


def _is_work(part: Part) -> bool:
    return bool(part.kernel) or part.threads > 1


@dataclass(frozen=True)
class Machine:
    """Rates in bytes per second by the bytes touched, for one and two threads, and waking."""

    rates: Mapping[int, Sequence[tuple[int, float]]]
    signal: tuple[float, float]
    """Seconds that the leader spends on waking one thread: while it looks for work, and asleep."""
    late: tuple[float, float]
    """Seconds after which that thread begins; likewise."""
    limit: float | None = None
    """Bytes per second of memory, up to which its rate grows with the threads; without it memory
    gives more than two threads no more than two."""

    def rate(self, held: float, threads: int) -> float:
        """Bytes per second that so many threads get of a call that touches `held` bytes."""
        if threads <= 2:
            return interpolated(self.rates[threads], held)
        two = interpolated(self.rates[2], held)
        if held <= CACHE_BYTES:
            return two * threads / 2
        return two if self.limit is None else max(two, min(two * threads / 2, self.limit))

    def gain(self, held: float) -> float:
        """How many times more than twice as much two threads get: one does not use all there is."""
        return max(1.0, self.rate(held, 2) / (2 * self.rate(held, 1)))

    def waking(self, threads: int, seconds: float, idle: bool) -> float:
        """What a launch of `seconds` on one thread loses by waking all others.

        The leader signals one thread after the other before it begins. Each begins `late` after
        its signal, and what all have not done by then is shared out.
        """
        signal, late = self.signal[idle], min(self.late[idle], seconds)
        return (threads - 1) * (signal / 2 + (signal + late) / threads)


def interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """A value between those of a table, by the logarithm of where it is asked for."""
    if at <= points[0][0]:
        return points[0][1]
    for (low, before), (high, after) in zip(points, points[1:], strict=False):
        if at <= high:
            share = math.log(at / low) / math.log(high / low)
            return before + share * (after - before)
    return points[-1][1]


@dataclass(frozen=True)
class Time:
    """Seconds of a part on some threads, and what each cause has added to a perfect share."""

    part: Part
    seconds: float
    losses: Mapping[str, float]


def time_of(part: Part, held: float, threads: int, machine: Machine) -> Time:
    """How long a part takes on so many threads."""
    taking, perfect = min(threads, part.threads), part.seconds / threads
    if taking < 2:
        cause = CAUSES[1] if _is_work(part) else CAUSES[0]
        return Time(part, part.seconds, {cause: part.seconds - perfect})
    alone = machine.rate(held, 1)
    moved = min(part.bytes, part.seconds * alone)
    work = part.seconds
    if moved >= MEMORY_PACE * part.seconds * alone:
        work /= machine.gain(held)
    shared = work * math.ceil(part.units / taking) / part.units
    memory = max(0.0, moved / machine.rate(held, taking) - shared)
    each = part.seconds / part.count
    waking = part.count * machine.waking(taking, each, part.idle) if part.kernel else 0.0
    losses = {"too few items": max(0.0, shared - perfect), "memory": memory, "waking": waking}
    return Time(part, shared + memory + waking, losses)


@dataclass(frozen=True)
class Prediction:
    """Seconds of a call on some threads, and what holds it up: causes, and the worst part."""

    threads: int
    seconds: float
    speedup: float
    losses: Mapping[str, float]
    worst: str
    """The part that loses most to the first cause."""

    @property
    def cause(self) -> str:
        """What costs most of what is lost."""
        return max(self.losses, key=lambda name: self.losses[name])


def predict(call: Call, threads: int, machine: Machine) -> Prediction:
    """How long a call takes on so many threads."""
    if threads == 1:
        return Prediction(1, call.seconds, 1.0, dict.fromkeys(CAUSES, 0.0), "")
    parts = [one for one in call.cut(threads) if _is_work(one)]
    times = [time_of(one, call.held, threads, machine) for one in parts]
    python = Part(f"Python of {call.slowest_step}", "", 1, call.python, 0.0, 1, 1)
    times.append(time_of(python, call.held, threads, machine))
    losses = {cause: sum(one.losses.get(cause, 0.0) for one in times) for cause in CAUSES}
    before = sum(one.seconds for one in call.cuts[1] if _is_work(one))
    losses["finer cuts"] = max(0.0, sum(one.seconds for one in parts) - before) / threads
    seconds = sum(one.seconds for one in times)
    cause = max(losses, key=lambda name: losses[name])
    worst = max(times, key=lambda one: one.losses.get(cause, 0.0)).part.name
    return Prediction(threads, seconds, call.seconds / seconds, losses, worst)


def call_of(cuts: Mapping[int, Mapping[str, Any]], seconds: float) -> Call:
    """A call from what `take_apart` gives for each number of threads.

    It took `seconds` on one thread while nobody watched; its parts are scaled to that. Parts that
    are the same for several numbers have been measured as often, and get the median.
    """
    made = {threads: [Part(**row) for row in found["parts"]] for threads, found in cuts.items()}
    pooled = _pooled(made)
    python = median(found["python"] for found in cuts.values())
    scale = seconds / (python + sum(one.seconds for one in pooled[1] if _is_work(one)))
    scaled = {
        threads: [replace(one, seconds=one.seconds * scale) for one in parts]
        for threads, parts in pooled.items()
    }
    return Call(seconds, python * scale, float(cuts[1]["held"]), scaled)


def _pooled(cuts: Mapping[int, Sequence[Part]]) -> dict[int, list[Part]]:
    """The parts, those that do the same work in several cuts with the median of their times."""
    times: dict[object, list[float]] = {}
    sums = {threads: _sums(parts) for threads, parts in cuts.items()}
    for found in sums.values():
        for key, (count, seconds) in found.items():
            times.setdefault((key, count), []).append(seconds)

    def pooled(one: Part, own: Mapping[object, tuple[int, float]]) -> Part:
        count, seconds = own[_work_of(one)]
        typical = median(times[_work_of(one), count])
        return replace(one, seconds=one.seconds * typical / seconds) if seconds else one

    return {threads: [pooled(one, sums[threads]) for one in cuts[threads]] for threads in cuts}


def _sums(parts: Sequence[Part]) -> dict[object, tuple[int, float]]:
    """Launches and seconds of the parts by their work, whether threads slept before them or not."""
    found: dict[object, tuple[int, float]] = {}
    for one in parts:
        count, seconds = found.get(_work_of(one), (0, 0.0))
        found[_work_of(one)] = count + one.count, seconds + one.seconds
    return found


def _work_of(part: Part) -> object:
    """What parts have in common that do the same work."""
    return part.label, part.kernel, part.threads, part.units


def error(predicted: float, measured: float) -> float:
    """By how much a prediction is too high."""
    return predicted / measured - 1.0
