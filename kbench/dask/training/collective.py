"""A mean over the shards of a batch, taken in the middle of a step, while all of them run.

`all_mean(x)` is a node of the graph. Where it is computed, the shard gives its value to the hub,
which lives in the process of the first shard's worker, and waits for the mean over all shards,
weighted by their rows. The hub adds in the order of the shards, whoever comes first, so that a
step gives the same bits each time. Data go through Dask's own connections.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct, field

from kbench.dask.errors import ClusterError
from kbench.dask.training.polling import awaited
from kbench.engine.core import cancel
from kbench.engine.core.spec import Spec, dense
from kbench.engine.graph.apply import apply
from kbench.engine.graph.declare import structured
from kbench.engine.graph.tensor import Tensor

HANDLER = "kbench_all_mean"
"""The name by which workers call the hub."""
WAIT_SECONDS = 0.02
"""Between two looks at the cancel flag, while a shard waits for the others."""


class Team(Struct, frozen=True):
    """The shards of one attempt at a step, as each of them knows it."""

    attempt: str
    shares: tuple[float, ...]  # of the batch's rows, by shard
    hub: str  # the address of the worker that has the hub


class Seat(Struct, frozen=True):
    """A shard's place in its team, for the thread that computes it."""

    team: Team
    shard: int
    worker: Any = None  # of Dask, in whose process it is computed


class _ThreadState(threading.local):
    seat: Seat | None = None
    taken = 0  # means that this run has taken
    waited = 0.0  # seconds, for the means of this run


_thread = _ThreadState()


@contextmanager
def seated(seat: Seat) -> Iterator[None]:
    """Let the means of this thread be those of a team."""
    _thread.seat, _thread.taken, _thread.waited = seat, 0, 0.0
    try:
        yield
    finally:
        _thread.seat = None


def waited() -> float:
    """Seconds that the last run of this thread has waited for other shards."""
    return _thread.waited


# ------------------------------------------------------------------ the node


def _all_mean_infer(x: Spec, *_earlier: Spec, place: int) -> Spec:
    return dense(x.shape, x.dtype)


def _all_mean_numpy(
    out: np.ndarray | None, x: np.ndarray, *_earlier: np.ndarray, place: int
) -> np.ndarray:
    seat = _thread.seat
    if seat is None:
        raise ClusterError(
            "a mean over the shards of a batch has no shards here; it is made by kbench.dask.fit "
            "alone"
        )
    _thread.taken += 1
    begin = time.monotonic()
    found = x if len(seat.team.shares) == 1 else _exchanged(seat, f"{place}:{_thread.taken}", x)
    _thread.waited += time.monotonic() - begin
    if out is None:
        return np.array(found, x.dtype)
    np.copyto(out, found)
    return out


def _all_mean_gradient(
    g: Tensor, y: Tensor, x: Tensor, *earlier: Tensor, place: int
) -> tuple[Tensor | None, ...]:
    """Each shard's gradient is weighted by its share in the end, so that it is a mean as well."""
    return (all_mean(g), *[None] * len(earlier))


ALL_MEAN = structured("all_mean", _all_mean_infer, _all_mean_numpy, _all_mean_gradient, pure=False)


class _Chain(Struct):
    """The means of one graph, in the order in which they are made."""

    last: Tensor | None = None
    count: int = 0


_chain: contextvars.ContextVar[_Chain | None] = contextvars.ContextVar("chain", default=None)


@contextmanager
def one_graph() -> Iterator[None]:
    """Around the making of all means of a graph: each waits for the one that was made before it.

    Else one shard could wait for a mean that another gives only after a later one.
    """
    token = _chain.set(_Chain())
    try:
        yield
    finally:
        _chain.reset(token)


def all_mean(x: Tensor) -> Tensor:
    """The mean of `x` over all shards, weighted by their rows; of the shape and dtype of `x`.

    Made within `one_graph`. Gradient: to `x`.
    """
    chain = _chain.get()
    if chain is None:
        raise ClusterError("a mean over shards is made by kbench.dask.fit alone")
    earlier = () if chain.last is None else (chain.last,)
    chain.last = apply(ALL_MEAN, x, *earlier, place=chain.count)
    chain.count += 1
    return chain.last


# ------------------------------------------------------------------ a shard and the hub


def _exchanged(seat: Seat, place: str, x: np.ndarray) -> np.ndarray:
    """The mean over the team, for which this thread waits; KeyboardInterrupt when it is stopped."""
    worker = seat.worker
    found: np.ndarray = awaited(
        lambda: _ask(worker, seat, place, x), worker, WAIT_SECONDS, cancel.check
    )
    return found


async def _ask(worker: Any, seat: Seat, place: str, x: np.ndarray) -> np.ndarray:
    team = seat.team
    if team.hub == worker.address:
        return await _hub_of(worker).mean(team.attempt, place, seat.shard, team.shares, x)
    from distributed.protocol.serialize import to_serialize

    answer = await getattr(worker.rpc(team.hub), HANDLER)(
        attempt=team.attempt,
        place=place,
        shard=seat.shard,
        shares=team.shares,
        value=to_serialize(np.ascontiguousarray(x)),
    )
    if answer["status"] != "OK":
        raise ClusterError(answer["reason"])
    return _plain(answer["value"])


def _plain(value: object) -> np.ndarray:
    """An array that came over a connection, whether or not that has deserialized it."""
    from distributed.protocol.serialize import Serialize, Serialized, deserialize

    if isinstance(value, Serialized):
        value = deserialize(value.header, value.frames)
    elif isinstance(value, Serialize):
        value = value.data
    return np.asarray(value)


class _Meeting(Struct):
    """One mean of one attempt, while shards come."""

    done: asyncio.Future[np.ndarray]
    values: dict[int, np.ndarray] = field(default_factory=dict)
    told: int = 0  # shards that have their answer


class Hub:
    """Takes the values of all shards of a team, and gives each the mean. On one event loop."""

    def __init__(self) -> None:
        self._meetings: dict[str, dict[str, _Meeting]] = {}

    async def mean(
        self, attempt: str, place: str, shard: int, shares: tuple[float, ...], value: np.ndarray
    ) -> np.ndarray:
        meetings = self._meetings.setdefault(attempt, {})
        meeting = meetings.get(place)
        if meeting is None:
            done = asyncio.get_running_loop().create_future()
            meeting = meetings[place] = _Meeting(done)
        meeting.values[shard] = value
        if len(meeting.values) == len(shares) and not meeting.done.done():
            meeting.done.set_result(_weighted(meeting.values, shares))
        else:
            self._refuse_a_circle(attempt, len(shares))
        try:
            return await asyncio.shield(meeting.done)
        finally:
            meeting.told += 1
            if meeting.told == len(shares):
                meetings.pop(place, None)
                if not meetings:
                    self._meetings.pop(attempt, None)

    def _refuse_a_circle(self, attempt: str, team: int) -> None:
        """End an attempt whose shards all wait, but not for the same mean."""
        waiting = [one for one in self._meetings[attempt].values() if not one.done.done()]
        if len(waiting) > 1 and sum(len(one.values) for one in waiting) == team:
            for one in waiting:
                one.done.set_exception(
                    ClusterError("the shards of a step wait for different means of the batch")
                )

    def forget(self, attempt: str) -> None:
        """End what still waits for an attempt that was given up."""
        for meeting in self._meetings.pop(attempt, {}).values():
            if not meeting.done.done():
                meeting.done.set_exception(ClusterError("the step was cancelled"))
                meeting.done.exception()  # is told to those who wait, if any


def _weighted(values: dict[int, np.ndarray], shares: tuple[float, ...]) -> np.ndarray:
    """The mean in the order of the shards, added up in float64."""
    total = values[0].astype(np.float64) * shares[0]
    for shard in range(1, len(shares)):
        total += values[shard].astype(np.float64) * shares[shard]
    return total.astype(values[0].dtype)


def _hub_of(worker: Any) -> Hub:
    hub = getattr(worker, "_kbench_hub", None)
    if hub is None:
        hub = worker._kbench_hub = Hub()
    return hub


def install(worker: Any) -> None:
    """Let a worker of Dask be called as a hub."""

    async def answer(
        attempt: str, place: str, shard: int, shares: tuple[float, ...], value: object
    ) -> dict[str, object]:
        from distributed.protocol.serialize import to_serialize

        try:
            found = await _hub_of(worker).mean(attempt, place, shard, tuple(shares), _plain(value))
        except ClusterError as error:
            return {"status": "error", "reason": error.reason}
        return {"status": "OK", "value": to_serialize(found)}

    worker.handlers[HANDLER] = answer


def forget(worker: Any, attempt: str) -> None:
    """End what waits on a worker for an attempt that was given up."""
    worker.loop.add_callback(_hub_of(worker).forget, attempt)
