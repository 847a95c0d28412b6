"""The cluster as training sees it: who computes, and what was sent to the workers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct, field

from kbench.dask.errors import ClusterError
from kbench.dask.payload import Payload
from kbench.dask.training import shard
from kbench.dask.training.polling import awaited
from kbench.dask.training.program import FIT

POLL_SECONDS = 0.25
"""Between two looks at who is there, while a step runs."""
WAIT_FOR_WORKERS_SECONDS = 60
"""Until a cluster that has lost all its workers has one again: a nanny takes a second or two."""
NOTICE_SECONDS = 5.0
"""For the scheduler to notice that a worker is gone which others could not reach any more."""
MAX_INLINE_BYTES = 1 << 14
"""Of a worker's inputs that travel with its task. Dask keeps the last thousand messages for its
logs; larger inputs are sent apart, and not kept."""
MAX_SENT_TO = 4
"""Workers that get weights from this process: its connection has to carry each copy."""
SEND_SECONDS = 60.0
"""After which a worker that takes no data counts as unreachable: 7 GB at 1 Gbit/s."""


class Cluster(Struct):
    """Who computes: the client of Dask, and what it has sent to the workers."""

    client: Any
    payload: Payload
    threads: dict[str, int] = field(default_factory=dict)  # by worker's address
    looked: float = 0.0
    program: Any = None  # the future of the payload
    weights: Any = None
    weights_name: str = ""
    missed: float | None = None  # since when there is no connection

    def look(self) -> dict[str, int]:
        """Ask the scheduler which workers there are."""
        try:
            asked = self._watched(lambda: self.client.scheduler.ncores(), NOTICE_SECONDS)
            self.threads = dict(asked)
        except (OSError, RuntimeError) as error:
            raise self.gone() from error
        self.looked = time.monotonic()
        return self.threads

    def gone(self) -> ClusterError:
        """The error that there is no scheduler any more."""
        address = getattr(getattr(self.client, "scheduler", None), "address", "")
        return ClusterError(f"the scheduler {address} of the cluster is gone", function=FIT)

    def is_gone(self) -> bool:
        """Whether there is no scheduler: for good, or for too long."""
        status = self.client.status
        if status == "running":
            self.missed = None
            return False
        self.missed = self.missed or time.monotonic()
        return status != "connecting" or time.monotonic() - self.missed > NOTICE_SECONDS

    def addresses(self) -> list[str]:
        """The workers for a step, waiting for one if there is none."""
        if not self.threads or time.monotonic() - self.looked > 1.0:
            self.look()
        end = time.monotonic() + WAIT_FOR_WORKERS_SECONDS
        while not self.threads:
            # Dask's own `wait_for_workers` replaces what the cluster knows of its workers: if word
            # of a lost one comes later than that, the cluster fails as it closes.
            if time.monotonic() > end:
                raise ClusterError("the cluster has no workers", function=FIT)
            time.sleep(POLL_SECONDS)
            self.look()
        return sorted(self.threads)

    def forget_data(self) -> None:
        """Send program and weights anew, as they may be gone with a worker."""
        self.program = self.weights = None
        self.weights_name = ""

    def send(self, weights: shard.Weights, addresses: list[str]) -> tuple[Any, Any]:
        """Futures of the program and of the weights, which each worker gets once.

        Some workers get them from here, all others from those: the tasks that need them fetch them.
        (Dask's own broadcast waits for ever for a worker that is lost meanwhile.)
        """
        parts: dict[str, Any] = {}
        if self.program is None:
            parts[f"kbench-program-{self.payload.hash[:24]}-{uuid.uuid4().hex[:6]}"] = self.payload
        if self.weights is None or self.weights_name != weights.name:
            parts[f"{weights.name}-{uuid.uuid4().hex[:6]}"] = weights
        if parts:
            found = self._scattered([(parts, address) for address in addresses[:MAX_SENT_TO]])[0]
            for key, value in parts.items():
                if value is weights:
                    self.weights, self.weights_name = found[key], weights.name
                else:
                    self.program = found[key]
        return self.program, self.weights

    def hand_out(self, inputs: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
        """What each worker's task is given: its inputs, or where they are large a future."""
        large = [address for address in inputs if sizes[address] > MAX_INLINE_BYTES]
        found = self._scattered([([inputs[address]], address) for address in large])
        futures = [one for (one,) in found]
        return {**inputs, **dict(zip(large, futures, strict=True))}

    def _scattered(self, parcels: list[tuple[Any, str]]) -> list[Any]:
        """Futures of data, each sent to the worker with it; all at once."""

        async def sent() -> list[Any]:
            return await asyncio.gather(
                *[
                    self.client.scatter(data, workers=[address], hash=False, asynchronous=True)
                    for data, address in parcels
                ]
            )

        return list(self._watched(sent, SEND_SECONDS)) if parcels else []

    def _watched(self, ask: Callable[[], Coroutine[Any, Any, Any]], limit: float) -> Any:
        """What a coroutine on the client's loop gives; ClusterError as soon as nobody is there."""
        end = time.monotonic() + limit

        def look() -> None:
            if time.monotonic() > end:
                raise TimeoutError(f"no answer within {limit:.0f} s")
            if self.is_gone():
                raise self.gone()

        return awaited(ask, self.client, POLL_SECONDS, look)
