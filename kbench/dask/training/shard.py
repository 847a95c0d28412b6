"""A worker's part of a step: its shards' losses, gradients, states and metrics, as sums.

Runs on workers; knows nothing of Keras. The weights of a step are set once in a process, shards
that need one another run side by side in threads of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kbench.dask.errors import ClusterError
from kbench.dask.payload import Payload
from kbench.dask.training import collective, parts, pieces
from kbench.dask.training.collective import Seat, Team
from kbench.dask.training.program import Program
from kbench.dask.worker import current_task, evaluation
from kbench.engine.core import fork_safety
from kbench.engine.execute.function import Function
from kbench.engine.graph.variables import store_all
from kbench.engine.runtime import draw_positions

RUNS_OF_A_SHARD = 1 << 24
"""Runs of 1,024 random words between two shards: 17 billion numbers for each random node."""
MAX_JOBS = 4
"""Models that a worker is ready for."""


class Shard(Struct, frozen=True):
    """Some rows of a batch."""

    number: int
    rows: int
    arrays: tuple[Any, ...]  # for the program's inputs, but the share; `Taken` until they are here

    @property
    def nbytes(self) -> int:
        return sum(int(getattr(array, "nbytes", 0)) for array in self.arrays)


class Weights(Struct, frozen=True):
    """All weights of a model at one moment, under a name of their own."""

    name: str
    arrays: tuple[np.ndarray, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def __dask_tokenize__(self) -> str:
        return self.name

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes  # what Dask counts


class Order(Struct, frozen=True):
    """What all shards of a step have in common."""

    team: Team
    step: int  # of the training, for random numbers
    testing: bool = False


class _Ready(Struct):
    """A program in this process: with functions for as many shards as run side by side."""

    program: Program
    lock: Any = field(default_factory=fork_safety.lock)
    weights: str = ""
    arrays: list[np.ndarray] = field(default_factory=list)
    train: list[Function] = field(default_factory=list)
    test: list[Function] = field(default_factory=list)

    def functions(self, count: int, testing: bool) -> list[Function]:
        """`count` functions that do not wait for one another."""
        known = self.test if testing else self.train
        with self.lock:
            while len(known) < count:
                of = self.program.test if testing else self.program.train
                known.append(Function(of.inputs, of.outputs, of.updates, of.name))
            return known[:count]

    def set_weights(self, weights: Weights) -> int:
        """Make them the variables' values; the bytes that this has taken."""
        with self.lock:
            if self.weights == weights.name:
                return 0
            if not self.arrays:
                self.arrays = [np.array(array) for array in weights.arrays]
            self.weights = ""  # should anything go wrong from here on
            for array, value in zip(self.arrays, weights.arrays, strict=True):
                np.copyto(array, value)  # in place, so that captured launches stay true
            store_all(zip(self.program.weights, self.arrays, strict=True))
            self.weights = weights.name
            return weights.nbytes


_ready: dict[tuple[str, str], _Ready] = {}
_ready_lock = fork_safety.lock()


def _program(payload: Payload, address: str) -> _Ready:
    """A program of this worker's own: one process may have several workers."""
    key = payload.hash, address
    with _ready_lock:
        ready = _ready.pop(key, None)
        if ready is None:
            program: Program = payload.fresh()
            zeros = [np.zeros_like(variable.held()) for variable in program.zeros]
            store_all(zip(program.zeros, zeros, strict=True))
            ready = _Ready(program)
        _ready[key] = ready
        while len(_ready) > MAX_JOBS:
            del _ready[next(iter(_ready))]
        return ready


def run_shards(
    payload: Payload,
    weights: Weights,
    order: Order,
    shards: Sequence[Shard],
    address: str = "",
    taken: Sequence[Sequence[np.ndarray]] = (),
    places: Sequence[Sequence[pieces.Places]] = (),
) -> parts.Part:
    """The sums of some shards; a task of Dask.

    `taken` has the pieces of each array that comes in pieces, and `places` where they stand.
    """
    task = current_task()
    begin = time.monotonic()
    if taken:
        arrays = [pieces.joined(*one) for one in zip(taken, places, strict=True)]
        shards = [replace(one, arrays=pieces.filled(one.arrays, arrays)) for one in shards]
    ready = _program(payload, address)
    received = ready.set_weights(weights)
    count = len(order.team.shares)

    waited: list[float] = []  # by shard

    def compute(shard: Shard, function: Function) -> parts.Part:
        with evaluation(order.team.attempt, task):
            sums = _sums(ready.program, function, order, shard, task and task.worker)
        waited.append(collective.waited())
        return parts.Part(count, {(0, shard.number): sums})

    together = ready.program.is_joint and len(shards) > 1
    functions = ready.functions(len(shards) if together else 1, order.testing)
    if together:
        found = _side_by_side(compute, shards, functions)
    else:
        found = [compute(shard, functions[0]) for shard in shards]
    part = parts.merged(found)
    received += sum(shard.nbytes for shard in shards)
    rows = sum(shard.rows for shard in shards)
    part.work.append(
        parts.Work(
            address, len(shards), rows, time.monotonic() - begin, received, part.nbytes, max(waited)
        )
    )
    return part


def merge_parts(*some: parts.Part) -> parts.Part:
    """A task of Dask: the tree's next level."""
    return parts.merged(some)


def _side_by_side(
    compute: Callable[[Shard, Function], parts.Part],
    shards: Sequence[Shard],
    functions: Sequence[Function],
) -> list[parts.Part]:
    with ThreadPoolExecutor(len(shards)) as pool:
        return list(pool.map(compute, shards, functions))


def _sums(
    program: Program, function: Function, order: Order, shard: Shard, worker: Any
) -> list[np.ndarray]:
    """Loss, gradients and states by the shard's share, and what metrics add."""
    share = order.team.shares[shard.number]
    seat = Seat(order.team, shard.number, worker)
    start = (order.step * len(order.team.shares) + shard.number) * RUNS_OF_A_SHARD
    with collective.seated(seat), draw_positions.drawing_from(start):
        results = function([*shard.arrays, np.float64(share)])
    weighted = 1 if order.testing else 1 + program.gradients + program.states
    loss = np.asarray(results[0], np.float64) * share
    own = _apart([np.asarray(result) for result in results[1:]])
    return [loss, *[_scaled(array, share) for array in own[: weighted - 1]], *own[weighted - 1 :]]


def _apart(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, with a copy of each that is there already."""
    seen: set[int] = set()
    found = []
    for array in arrays:
        found.append(array.copy() if id(array) in seen else array)
        seen.add(id(array))
    return found


def _scaled(array: np.ndarray, share: float) -> np.ndarray:
    """`array` times the share; in its own memory, which belongs to nobody else."""
    if share == 1.0:
        return array
    if array.dtype.kind != "f":
        raise ClusterError(
            f"a state of a layer is {array.dtype.name}{list(array.shape)}; only floats can be "
            "averaged over shards"
        )
    if array.dtype == np.float16 or not array.flags.writeable:
        return np.asarray(array * share, np.float32 if array.dtype == np.float16 else array.dtype)
    np.multiply(array, share, out=array)
    return array
