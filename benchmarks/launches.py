"""A call taken apart on one thread: its launches, and what Python does between them.

The engine cuts work by the number of threads it may use. So a call is taken apart for so many
threads: `K.set_num_threads` tells the engine that number, and one thread runs all of what was cut,
a launch at a time. No core more than one is needed to see the launches of sixteen.

It must be used in a process that does nothing else, as it replaces methods of the engine meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

WARM_CALLS = 24
"""Calls before one is watched: kernels are there, and a replay has been captured anew."""
SLEEPING_SECONDS = 5e-4
"""After so long without a launch the threads of the pool sleep (`SPIN_SECONDS` of the pool)."""
_JOBS = 6  # of the parameters of a product of matrices: where its number of jobs is
_COUNTER_BYTES = 64  # between the two counters of a launch


class Owner(NamedTuple):
    """The step that a launch belongs to, and the arrays that it reads and writes."""

    label: str
    key: object
    arrays: tuple[tuple[object, int], ...]
    """What each is known by, and its bytes."""
    form: str = ""

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(size for _, size in self.arrays)


class Event(NamedTuple):
    """One launch, or what one step does besides its launches."""

    owner: Owner
    kernel: str
    """Empty for what a step does in Python and NumPy."""
    seconds: float
    threads: int
    """That may take part at most."""
    units: int
    """Equal parts that the work is handed out in."""
    idle: bool
    """Whether the threads of the pool have gone to sleep before it."""


Replaced = tuple[Any, str, Callable[..., Any]]
"""Where a function is, its name, and what is called instead."""

_NOBODY = Owner("other", None, ())


class Watch:
    """Notes the events of calls, while `watching` holds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.aside = 0.0
        """Seconds that the watching itself has taken, where it is known."""
        self._names: dict[int, str] = {}
        self._owners: dict[int, Owner] = {}
        self._known: dict[object, Owner] = {}
        self._owner: Owner | None = None
        self._spent = self._shared_until = 0.0

    def taken(self) -> list[Event]:
        """What was noted since the last time."""
        events, self.events = self.events, []
        return events

    # ------------------------------------------------------------- what is called instead

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Calls run on one thread, launch by launch, and are noted."""
        with contextlib.ExitStack() as replaced:
            for holder, name, instead in (*self._for_launches(), *self._for_steps()):
                replaced.enter_context(mock.patch.object(holder, name, instead))
            yield

    def _for_launches(self) -> list[Replaced]:
        """What tells of launches, and makes them on one thread."""
        from kbench.engine.jit.launch import LaunchGraph
        from kbench.engine.jit.thread_pool import Driver
        from kbench.engine.runtime.pacer import Pacer

        run = Driver.run

        def driven(
            own: Any, address: int, params: Any, start: int, stop: int, many: bool, most: int = 0
        ) -> None:
            one = partial(run, own, address, params, start, stop, False)
            self._launch(one, address, params, stop - start, many, most)

        return [
            (Driver, "run", driven),
            (LaunchGraph, "run", lambda graph: self._together(graph)),
            (Pacer, "tiles", _whole),
        ]

    def _for_steps(self) -> list[Replaced]:
        """What tells whose launches they are."""
        from kbench.engine.execute import executable, replay
        from kbench.engine.execute.in_place_update import InPlaceUpdates

        owned, store = executable.owned, InPlaceUpdates.store

        def plain(plan: Any, runners: Any, registers: Any, buffers: Any) -> None:
            for step, runner in zip(plan.steps, runners, strict=False):
                self._step(self._owner_of(plan, step), partial(runner, registers, buffers))

        def between(plan: Any, number: int, registers: Any, buffers: Any) -> None:
            runner = partial(plan.runners[number], registers, buffers)
            self._step(self._owner_of(plan, plan.steps[number]), runner)

        def stored(own: Any, read: Any, others: Any) -> None:
            self._step(_updates(own, read), partial(store, own, read, others))

        def copied(array: Any) -> Any:
            size = 2 * int(getattr(array, "nbytes", 0))
            copies: list[Any] = []
            owner = Owner("copy of the result", "copy", (("copy", size),), "copy")
            self._step(owner, lambda: copies.append(owned(array)))
            return copies[0]

        return [
            (executable.Executable, "_run_plain", plain),
            (executable, "owned", copied),
            (replay, "_run_step", between),
            (InPlaceUpdates, "store", stored),
            *self._for_captures(replay.Replay),
        ]

    def _for_captures(self, replay: Any) -> list[Replaced]:
        """What tells to whom captured launches belong, which are made by themselves later."""
        capture, prepared = replay._capture, replay._prepared

        def captured(own: Any, *rest: Any) -> None:
            capture(own, *rest)
            self._owner = None

        def preparing(own: Any, plan: Any, step: Any, *rest: Any) -> Any:
            self._owner = self._owner_of(plan, step)
            return prepared(own, plan, step, *rest)

        return [(replay, "_capture", captured), (replay, "_prepared", preparing)]

    def _owner_of(self, plan: Any, step: Any) -> Owner:
        key = id(plan), step.slot
        if key not in self._known:
            self._known[key] = _owner_of(plan, step)
        return self._known[key]

    def _step(self, owner: Owner, run: Callable[[], object]) -> None:
        """Run a step; what it does besides its launches is an event of its own."""
        before, spent, begun = self._owner, self._spent, time.perf_counter()
        self._owner = owner
        try:
            run()
        finally:
            self._owner = before
        own = time.perf_counter() - begun - (self._spent - spent)
        self._spent += own
        many = 1 << 10 if owner.form == "blas" else 1  # BLAS shares out by itself
        self.events.append(Event(owner, "", own, many, many, False))

    def _together(self, graph: Any) -> None:
        """The launches of a graph, one by one."""
        from kbench.engine.jit.launch import address_of
        from kbench.engine.jit.service import service

        begun, spent = time.perf_counter(), self._spent
        for launch in graph.launches:
            place, before = address_of(launch.params), self._owner
            if before is not None:  # it is being captured
                self._owners[place] = before
            self._owner = self._owners.get(place, _NOBODY)
            if launch.counters:
                for at in (0, _COUNTER_BYTES):
                    ctypes.c_int64.from_address(launch.counters + at).value = 0
            kernel, block, items = launch.address, launch.params, launch.items
            service.driver.run(kernel, block, 0, items, launch.parallel, launch.most)
            self._owner = before
        between = time.perf_counter() - begun - (self._spent - spent)  # what a graph does not take
        self._spent += between
        self.aside += between

    def _launch(
        self,
        run: Callable[[], object],
        address: int,
        params: Any,
        items: int,
        many: bool,
        most: int = 0,
    ) -> None:
        begun = time.perf_counter()
        run()
        seconds = time.perf_counter() - begun
        self._spent += seconds
        owner, kernel = self._owner or _NOBODY, self._name(address)
        many = many and items > 1
        idle = many and begun - self._shared_until > SLEEPING_SECONDS
        units = _jobs_of(params) if kernel.startswith("gemm_run") else items
        threads = min(items, most or items) if many else 1
        self.events.append(Event(owner, kernel, seconds, threads, units if many else 1, idle))
        if many:
            self._shared_until = begun + seconds

    def _name(self, address: int) -> str:
        """The kernel at an address; of written ones without what tells them apart."""
        from kbench.engine.jit.service import service

        if address not in self._names:
            self._names = {job.address: job.name for job in service.ready()}
        name = self._names.setdefault(address, "kernel")
        return re.sub(r"_[0-9a-f]{12,}$", "", name)


def _whole(_pacer: Any, items: int, _work: float, _check: Any, _least: int = 1) -> Any:
    """All items at once: tiles would only be put together again."""
    return ((0, items),)


def _jobs_of(params: Any) -> int:
    """The jobs that multiply, of a product of matrices."""
    from kbench.engine.kernels.gemm import source

    return max(1, int(params[_JOBS]) - int(params[source.fields().index("packs")]))


def _owner_of(plan: Any, step: Any) -> Owner:
    from kbench.engine.compiler.liveness import nbytes

    slots = {slot for slot in (*step.reads, *step.writes) if slot >= 0}
    arrays = tuple(((id(plan), slot), nbytes(plan.values[slot])) for slot in sorted(slots))
    return Owner(step.label, (id(plan), step.slot), arrays, step.form())


def _updates(own: Any, read: Any) -> Owner:
    """The steps that store: what they read, and the variables that they write."""
    held = [
        own._read[slot]._array if array is None else array
        for slot, array in zip(own._slots, read, strict=True)
    ]
    held += [variable._array for variable in own.targets.values()]
    arrays = tuple(((id(own), number), array.nbytes) for number, array in enumerate(held))
    return Owner("updates", (id(own), "updates"), arrays, "fused")


# ------------------------------------------------------------------ many calls, and their sum


def parts(events: list[Event]) -> list[dict[str, Any]]:
    """Events that are alike as one row: launches first, each with its part of a step's bytes."""
    within: Counter[object] = Counter()
    times: Counter[object] = Counter()
    for one in events:
        within[one.owner.key] += one.seconds if one.kernel else 0.0
        times[one.owner.key] += not one.kernel  # a replayed step has no event of its own
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    for one in events:
        label = one.owner.label
        key = (label, one.kernel, one.threads, one.units, one.idle)
        row = rows.setdefault(
            key,
            {
                "label": label, "kernel": one.kernel, "count": 0, "seconds": 0.0, "bytes": 0.0,
                "threads": one.threads, "units": one.units, "idle": one.idle,
            },
        )  # fmt: skip
        row["count"] += 1
        row["seconds"] += one.seconds
        if one.kernel and within[one.owner.key]:
            moved = one.owner.bytes * max(1, times[one.owner.key])
            row["bytes"] += moved * one.seconds / within[one.owner.key]
    return sorted(rows.values(), key=lambda row: (not row["kernel"], -row["seconds"]))


def typical(runs: list[list[Event]]) -> list[Event]:
    """One run of many: the medians of those that did the same things in the same order."""

    def shape(run: list[Event]) -> tuple[object, ...]:
        return tuple((one.owner.key, one.kernel, one.units) for one in run)

    common, _ = Counter(map(shape, runs)).most_common(1)[0]
    alike = [run for run in runs if shape(run) == common]
    return [
        same[0]._replace(
            seconds=median(one.seconds for one in same),
            idle=2 * sum(one.idle for one in same) > len(same),
        )
        for same in zip(*alike, strict=True)
    ]


def _costs() -> tuple[float, float]:
    """Seconds that it takes to note a step, and a launch.

    The median of short batches: one that the system interrupts says nothing of the others.
    """
    watch, batch = Watch(), 50
    found = []
    for note in (
        partial(watch._step, _NOBODY, _nothing),
        partial(watch._launch, _nothing, 0, None, 1, False),
    ):
        times = []
        for _ in range(21):
            begun = time.perf_counter()
            for _ in range(batch):
                note()
            times.append((time.perf_counter() - begun) / batch)
        found.append(median(times))
    return found[0], found[1]


def _nothing() -> None:
    """Takes no time."""


def _inside(run: list[Event], step: float, launch: float) -> float:
    """Seconds of a watched call that are not Python's: launches, BLAS, and the noting of them."""
    work = sum(one.seconds for one in run if one.kernel or one.threads > 1)
    return work + sum(launch if one.kernel else step for one in run)


def take_apart(call: Callable[[], object], threads: int, seconds: float) -> dict[str, Any]:
    """The parts of a call that is cut for so many threads, the bytes of all its arrays, and the
    seconds of Python: what is outside of launches and of BLAS."""
    import kbench as K
    from kbench.engine.jit.service import service

    K.set_num_threads(threads)
    watch, runs = Watch(), []
    with watch.watching():
        for _ in range(WARM_CALLS):
            call()
            service.wait_idle(60)
        watch.taken()
    costs, outside = _costs(), []
    end = time.perf_counter() + seconds
    while len(runs) < 5 or (time.perf_counter() < end and len(runs) < 200):
        with watch.watching():
            call()
            watch.taken()
            aside = watch.aside
            begun = time.perf_counter()
            call()
            spent = time.perf_counter() - begun
        runs.append(watch.taken())
        outside.append(spent - (watch.aside - aside) - _inside(runs[-1], *costs))
    found = typical(runs)
    arrays = dict(array for one in found for array in one.owner.arrays)
    python = max(0.0, median(outside))
    return {"parts": parts(found), "held": sum(arrays.values()), "python": python}
