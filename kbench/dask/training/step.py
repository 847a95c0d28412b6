"""A step of training as the client sees it: shards out, sums back, one store.

It is called as Keras calls its own step. What fails with a worker is done again by those that are
left, with the same result: the shards of a batch are the same, whoever computes them. An interrupt
stops all workers; the model has the weights of before the step, or of after it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from distributed.comm.addressing import get_address_host
from msgspec import Struct, field

from kbench.dask import activity
from kbench.dask.arrays import is_array
from kbench.dask.errors import ClusterError
from kbench.dask.training import collective, shard
from kbench.dask.training.array_rows import ArrayRows
from kbench.dask.training.break_even import BreakEven
from kbench.dask.training.cluster import NOTICE_SECONDS, POLL_SECONDS, Cluster
from kbench.dask.training.collective import Seat, Team
from kbench.dask.training.interrupts import LostInterrupts
from kbench.dask.training.parts import Part, merged
from kbench.dask.training.pieces import Places, Taken
from kbench.dask.training.program import FIT, Program, Store, version_of, weights_of
from kbench.dask.worker import stop_all
from kbench.engine.core.errors import ArgumentError, KbenchError

MAX_GATHERED_BYTES = 1 << 22
"""Of the sums of all workers that this process adds up by itself: each level of a tree of tasks
takes some 5 ms, in which as much comes over a connection of 10 Gbit/s."""
MAX_ATTEMPTS = 20
"""At one step, each of which lost a worker."""
MAX_LOSS_DIFFERENCE = 1e-3
"""Between the loss of a batch and that of its shards, as a part of it: rounding gives 1e-6."""


CANCELLED = ("CancelledError", "FutureCancelledError", "FuturesCancelledError")
"""What Dask raises for work whose data went with a worker; it exports not all of them."""


_Shard = TypeVar("_Shard")


class WorkerLost(Exception):
    """A worker that had shards of this attempt is gone."""


class ClusterStep(Struct):
    """`train` and `test` take what Keras gives its functions, and give what these give."""

    model: Any
    program: Program
    store: Store
    cluster: Cluster
    shards: int
    tracker: activity.Tracker
    interrupts: LostInterrupts
    steps: int = 0
    checked: bool = False
    break_even: BreakEven = field(default_factory=BreakEven)

    # -------------------------------------------------------------- what Keras calls

    def train(self, inputs: Sequence[Any]) -> list[Any]:
        """One step: the loss and the metrics, after all was stored."""
        arrays, rows = self._rows(inputs)
        if not self.checked:
            self._check_loss(arrays, rows)
        begin = time.monotonic()
        total = self._summed(arrays, rows, testing=False)
        loss, sums = total[0], total[1:]
        program = self.program
        slopes = [sums[position] for position in self.store.gradients]
        metrics = self.store.train([*slopes, *sums[program.gradients :]])
        self.steps += 1
        self.tracker.step()
        self.break_even.add(time.monotonic() - begin)
        return [np.asarray(loss, self.model.total_loss.dtype)[()], *_numbers(metrics)]

    def test(self, inputs: Sequence[Any]) -> list[Any]:
        """The loss and the metrics of a batch, without training."""
        arrays, rows = self._rows(inputs)
        total = self._summed(arrays, rows, testing=True)
        loss = np.asarray(total[0], self.model.total_loss.dtype)[()]
        return [loss, *_numbers(self.store.test(total[1:]))]

    def _rows(self, inputs: Sequence[Any]) -> tuple[list[Any], int]:
        """The arrays of a batch, and how many rows they have."""
        self.interrupts.check()
        arrays = list(inputs)
        batches = arrays[:-1] if self.program.phase else arrays
        for array in filter(is_array, batches):
            raise ArgumentError(
                f"a generator or Sequence gave {array.dtype}{list(array.shape)}, an array of Dask: "
                "give dask arrays to fit as x and y, or have the generator compute its batches",
                function=FIT,
            )
        counts = sorted({len(array) for array in batches if np.ndim(array)})
        if not batches or len(counts) != 1 or any(not np.ndim(array) for array in batches):
            told = [f"{getattr(a, 'dtype', type(a).__name__)}{list(np.shape(a))}" for a in batches]
            raise ArgumentError(
                f"a batch is cut along axis 0, which must be equal for all of its arrays, and it "
                f"has {', '.join(told) or 'none (data tensors cannot be sent to other machines)'}",
                function=FIT,
            )
        return arrays, counts[0]

    def _check_loss(self, arrays: list[Any], rows: int) -> None:
        """Compare the loss of the first batch with that of its shards.

        Raises:
            ArgumentError: they differ, so that training by shards would be another training.
        """
        self.checked = True
        if min(self.shards, rows) < 2:
            return
        known = [*arrays[:-1], 0] if self.program.phase else arrays
        found = float(self._summed(known, rows, testing=True)[0])
        known = [np.asarray(one) if isinstance(one, ArrayRows) else one for one in known]
        with collective.seated(Seat(Team("", (1.0,), ""), 0)):
            whole = float(np.asarray(self.program.test([*known, np.float64(1.0)])[0]))
        limit = MAX_LOSS_DIFFERENCE * max(abs(whole), abs(found), 1e-6)
        if np.isfinite(whole) and np.isfinite(found) and abs(whole - found) > limit:
            raise ArgumentError(
                f"the loss of the first batch is {whole:.6g}, but {found:.6g} as the mean over its "
                f"{min(self.shards, rows)} shards: something in it adds up over the batch, as an "
                "activity regularizer does, or compares its rows; train on one machine",
                function=FIT,
            )

    # -------------------------------------------------------------- one attempt after the other

    def _summed(self, arrays: list[Any], rows: int, testing: bool) -> list[np.ndarray]:
        """The sums over all shards, whatever workers get lost."""
        weights = self._weights()
        for _ in range(MAX_ATTEMPTS):
            try:
                part = self._attempt(arrays, rows, weights, testing)
            except WorkerLost:
                self._mark_lost()
                self.cluster.forget_data()
                continue
            self._note(part, testing)
            return part.total
        raise ClusterError(
            f"a step lost a worker in each of {MAX_ATTEMPTS} attempts; the model has the weights "
            f"of step {self.steps}",
            function=FIT,
        )

    def _weights(self) -> shard.Weights:
        name = f"kbench-weights-{self.program.job}-{hash(version_of(self.program)):x}"
        return shard.Weights(name, tuple(weights_of(self.program)))

    def _attempt(self, arrays: list[Any], rows: int, weights: shard.Weights, testing: bool) -> Part:
        addresses = self.cluster.addresses()
        attempt = f"kbench-{self.program.job}-{self.steps}-{uuid.uuid4().hex[:8]}"
        futures: list[Any] = []
        try:
            last = self._submitted(attempt, addresses, arrays, rows, weights, testing, futures)
            return merged(self._awaited(last, addresses))
        except BaseException as error:
            self._give_up(attempt, futures)
            if not isinstance(error, Exception) or isinstance(error, WorkerLost):
                raise
            raise self._explained(error, addresses) from error

    def _submitted(
        self,
        attempt: str,
        addresses: list[str],
        arrays: list[Any],
        rows: int,
        weights: shard.Weights,
        testing: bool,
        futures: list[Any],
    ) -> list[Any]:
        """Futures of the sums over the shards; `futures` gets all that lead to them."""
        program, sent = self.cluster.send(weights, addresses)
        cuts = _cuts(rows, min(self.shards, rows))
        shares = tuple((stop - start) / rows for start, stop in cuts)
        order = shard.Order(Team(attempt, shares, addresses[0]), self._place(), testing)
        level = []
        out = zip(addresses, _shared_out(range(len(cuts)), len(addresses)), strict=True)
        numbers = {address: own for address, own in out if own}
        taken, places = self._taken(arrays, cuts, numbers, futures)
        if self.program.is_joint and futures:
            # Shards keep the threads of their workers until all have begun: rows go before them.
            self._wait(futures, addresses)
        shared = {address: _shards(arrays, cuts, own) for address, own in numbers.items()}
        given = self.cluster.hand_out(
            shared, {address: sum(one.nbytes for one in own) for address, own in shared.items()}
        )
        for address, own in given.items():
            come = taken.get(address, []), places.get(address, [])
            level.append(self._sent(program, sent, order, own, address, come, len(futures)))
            futures.append(level[-1])
            self.tracker.worker(
                address, get_address_host(address), self.cluster.threads.get(address, 1), "working"
            )
        small = weights.nbytes * len(level) <= MAX_GATHERED_BYTES
        while len(level) > 1 and not small:
            pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
            level = [
                self._merged(attempt, pair, len(futures)) if len(pair) > 1 else pair[0]
                for pair in pairs
            ]
            futures.extend(level)
        return level

    def _taken(
        self,
        arrays: list[Any],
        cuts: list[tuple[int, int]],
        numbers: dict[str, Sequence[int]],
        futures: list[Any],
    ) -> tuple[dict[str, list[list[Any]]], dict[str, list[list[Places]]]]:
        """For each worker futures of its rows of arrays of Dask, in pieces, and their places."""
        tasks: list[Any] = []
        ends: dict[str, list[int]] = {}
        places: dict[str, list[list[Places]]] = {}
        lazy = [array for array in arrays if isinstance(array, ArrayRows)]
        for address, own in numbers.items() if lazy else ():
            ends[address], places[address] = [], []
            for array in lazy:
                some, where = array[cuts[own[0]][0] : cuts[own[-1]][1]].taken()
                ends[address].append(len(some))
                places[address].append(where)
                tasks.extend(some)
        found = self.cluster.client.compute(tasks) if tasks else []  # in one message
        futures.extend(found)
        each = iter(found)
        taken = {
            address: [list(itertools.islice(each, count)) for count in counts]
            for address, counts in ends.items()
        }
        return taken, places

    def _sent(
        self,
        program: Any,
        weights: Any,
        order: shard.Order,
        own: Any,
        address: str,
        come: tuple[list[list[Any]], list[list[Places]]],
        number: int,
    ) -> Any:
        return self.cluster.client.submit(
            shard.run_shards,
            program,
            weights,
            order,
            own,
            address,
            *come,
            key=f"{order.team.attempt}-{number}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
        )

    def _merged(self, attempt: str, pair: list[Any], number: int) -> Any:
        key = f"{attempt}-sum-{number}-{uuid.uuid4().hex[:4]}"
        return self.cluster.client.submit(shard.merge_parts, *pair, key=key, pure=False)

    def _place(self) -> int:
        """Which step it is, for random numbers: that of the optimizer, if it counts."""
        counted = getattr(self.model.optimizer, "iterations", None)
        return self.steps if counted is None else int(np.asarray(counted.held()))

    # -------------------------------------------------------------- waiting, and what goes wrong

    def _awaited(self, futures: list[Any], addresses: list[str]) -> list[Part]:
        self._wait(futures, addresses)
        return self.cluster.client.gather(futures)  # type: ignore[no-any-return]

    def _wait(self, futures: list[Any], addresses: list[str]) -> None:
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=POLL_SECONDS)
            except TimeoutError:
                failed = [future for future in futures if future.status in ("error", "cancelled")]
                if failed:
                    failed[0].result()
                self.interrupts.check()
                self._look_for_lost(addresses)
                continue
            return

    def _look_for_lost(self, addresses: list[str]) -> None:
        if self.cluster.is_gone():
            raise self.cluster.gone()
        if self.cluster.missed is not None:
            return
        if not set(addresses) <= set(self.cluster.look()):
            raise WorkerLost

    def _explained(self, error: Exception, addresses: list[str]) -> Exception:
        """What went wrong: a worker that is gone is noticed a moment after what it causes."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(error, KilledWorker):
            return WorkerLost()
        own = isinstance(error, KbenchError) and not isinstance(error, ClusterError)
        cancelled = type(error).__name__ in CANCELLED
        unreachable = isinstance(error, (CommClosedError, OSError, ClusterError, KeyError))
        end = time.monotonic() + NOTICE_SECONDS
        while True:
            try:
                self._look_for_lost(addresses)
            except (WorkerLost, ClusterError) as found:
                return found
            waits = self.cluster.missed is not None or unreachable or cancelled
            if own or not waits or time.monotonic() > end:
                return error
            time.sleep(POLL_SECONDS)

    def _give_up(self, attempt: str, futures: list[Any]) -> None:
        """Stop what runs for an attempt."""
        if self.cluster.is_gone() or self.cluster.missed is not None:
            return
        with contextlib.suppress(Exception):
            self.cluster.client.cancel(futures, force=True, reason="the step was cancelled")
            self.cluster.client.run(_stop, attempt, on_error="ignore")

    def _mark_lost(self) -> None:
        there = self.cluster.look()
        for worker in self.tracker.job().workers:
            self.tracker.worker(worker.address, state="idle" if worker.address in there else "lost")

    def _note(self, part: Part, testing: bool) -> None:
        for work in part.work:
            self.tracker.add(
                work.address,
                tasks=work.shards,
                rows=work.rows,
                seconds=work.seconds,
                received=work.received,
                returned=work.returned,
            )
            self.tracker.worker(work.address, state="idle")
        if not testing:
            threads = [self.cluster.threads.get(work.address, 1) for work in part.work]
            self.break_even.note(part.work, threads)


def _stop(attempt: str, dask_worker: Any = None) -> None:
    """On a worker's event loop: end an attempt's shards."""
    collective.forget(dask_worker, attempt)
    stop_all(dask_worker, attempt)


def _numbers(values: Sequence[Any]) -> list[Any]:
    return [np.asarray(value)[()] for value in values]


def _cuts(rows: int, count: int) -> list[tuple[int, int]]:
    """Where shards begin and end; the first ones have a row more where it does not come out."""
    size, more = divmod(rows, count)
    ends = [size * (number + 1) + min(number + 1, more) for number in range(count)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _cut(array: Any, start: int, stop: int) -> Any:
    return array if np.ndim(array) == 0 else array[start:stop]


def _shared_out(shards: Sequence[_Shard], workers: int) -> list[Sequence[_Shard]]:
    """Neighbouring shards for each worker, so that most sums are made where they are."""
    cuts = [len(shards) * number // workers for number in range(workers + 1)]
    return [shards[start:stop] for start, stop in zip(cuts, cuts[1:], strict=False)]


def _shards(
    arrays: list[Any], cuts: list[tuple[int, int]], numbers: Sequence[int]
) -> list[shard.Shard]:
    """A worker's shards; in place of arrays of Dask, where their rows stand in what it gets."""
    first = cuts[numbers[0]][0]
    lazy = [place for place, array in enumerate(arrays) if isinstance(array, ArrayRows)]
    found = []
    for number in numbers:
        start, stop = cuts[number]
        own = [
            Taken(lazy.index(place), start - first, stop - first)
            if place in lazy
            else _cut(array, start, stop)
            for place, array in enumerate(arrays)
        ]
        found.append(shard.Shard(number, stop - start, tuple(own)))
    return found
