"""Clusters on this machine: one of two worker processes for each file that asks for it, and makers.

All talk over loopback, without a dashboard. What a test does to a shared cluster it must undo.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

WAIT_SECONDS = 60
"""For workers that start, on a machine that is busy."""
CONFIGURATION = {
    # Workers that a test kills must not take a task down with them; and memory is the machine's.
    "distributed.scheduler.allowed-failures": 1000,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.comm.timeouts.connect": WAIT_SECONDS,
    # A cluster closes a worker for ever that is away when this time after its loss has passed, be
    # it for a second loss: a minute after the first is within a test that kills twelve times.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.admin.large-graph-warning-threshold": "1GB",
}

WAITING = {"KBENCH_JIT": "wait"}
"""Processes that wait for their kernels. Bits are compared between these: NumPy, which computes
until a kernel is loaded, may round otherwise."""


@contextlib.contextmanager
def running_cluster(
    workers: int = 2, threads: int = 1, processes: bool = True, method: str = "spawn", **more: Any
) -> Iterator[Any]:
    """A `distributed.Client` of a cluster of its own, which ends with the block."""
    import dask
    from distributed import Client, LocalCluster

    settings = {**CONFIGURATION, "distributed.worker.multiprocessing-method": method}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            host="127.0.0.1" if processes else None,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            **more,
        ) as cluster,
        Client(cluster, timeout=WAIT_SECONDS) as client,
    ):
        client.wait_for_workers(workers, timeout=WAIT_SECONDS)
        yield client


@pytest.fixture
def make_cluster() -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """Makes clusters as a test needs them: `with make_cluster(workers=3) as client`."""
    return running_cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """The client of two worker processes of one thread each, shared by the tests of a file."""
    with running_cluster() as found:
        yield found


@pytest.fixture
def make_waiting_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """The same of clusters that wait for their kernels, as this process does in the test."""
    for name, value in WAITING.items():
        monkeypatch.setenv(name, value)
    return functools.partial(running_cluster, env=WAITING)


@pytest.fixture(scope="module")
def _waiting_workers() -> Iterator[Any]:
    with running_cluster(env=WAITING) as found:
        yield found


@pytest.fixture
def waiting_client(_waiting_workers: Any, make_waiting_cluster: Any) -> Any:
    """As `client`, of workers that wait for their kernels, as this process does in the test."""
    return _waiting_workers


@pytest.fixture(scope="module")
def in_process() -> Iterator[Any]:
    """The client of a cluster within this process: one worker of two threads."""
    with running_cluster(1, 2, processes=False) as found:
        yield found


@pytest.fixture(autouse=True)
def _own_scratch_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers keep their files in a folder of the tests."""
    import dask

    dask.config.set({"temporary-directory": os.fspath(tmp_path_factory.getbasetemp())})
