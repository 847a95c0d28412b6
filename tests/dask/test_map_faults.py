"""Maps on a cluster that goes wrong: workers that are killed, a scheduler that is gone, interrupts.

Long, as each test has a cluster of its own.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from busy_machine import is_within
from distributed.core import Status

from kbench import backend as K
from kbench.dask import map_blocks
from kbench.dask.worker import _runs, is_idle

pytestmark = pytest.mark.slow
IDLE_SECONDS = 2.0
"""After an interrupt nothing is computed any more by then."""
LOST_SECONDS = 30.0
"""After the scheduler is gone the client knows by then."""


def long_function(steps: int = 60, size: int = 300) -> Any:
    """Some hundredths of a second for each chunk of fifty rows, in many steps."""
    x = K.placeholder((None, size), name="x")
    w = K.variable(np.random.default_rng(1).normal(size=(size, size)) / size**0.5, name="w")
    y = x
    for _ in range(steps):
        y = K.tanh(K.dot(y, w)) + K.softmax(y)
    return K.function([x], [y], name="long")


def numbers(rows: int, size: int = 300) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(rows, size)).astype("float32")


def processes(cluster: Any) -> list[int]:
    """Of workers that have started, read here: a message to one that was killed waits long.

    Dask gives a worker up for ever when it dies while it starts, and would have none in the end.
    """
    found = [nanny.process for nanny in list(cluster.workers.values())]
    running = [one.pid for one in found if one is not None and one.status == Status.running]
    return [pid for pid in running if pid is not None]  # None: it has ended by now


# ------------------------------------------------------------------ workers


def test_workers_killed_at_random_moments(make_cluster: Any) -> None:
    f, x, draw = long_function(), numbers(4_000), random.Random(7)
    stop, killed = threading.Event(), 0
    # In one mode, as a worker that is new takes NumPy's forms until it has kernels.
    with make_cluster(2, env={"KBENCH_JIT": "off"}) as client:
        y = map_blocks(f, da.from_array(x, chunks=(50, 300)))
        wanted = dask.compute(y)[0]

        def kill() -> None:
            nonlocal killed
            while killed < 20 and not stop.wait(draw.uniform(0.1, 0.8)):
                found = processes(client.cluster)
                if found:
                    os.kill(draw.choice(found), signal.SIGKILL)
                    killed += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": 5}):
                rounds = 0
                while killer.is_alive() or not rounds:
                    np.testing.assert_array_equal(client.compute(y).result(), wanted)
                    rounds += 1
        finally:
            stop.set()
            killer.join()
        assert killed == 20
        np.testing.assert_array_equal(client.compute(y).result(), wanted)


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers in processes of their own: its file, and the processes."""
    file = str(tmp_path / "scheduler.json")
    common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file]
    modules = [["dask_scheduler", "--port", "0"], *[["dask_worker", "--nthreads", "1"]] * 2]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *more, *common],
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
        )
        for name, *more in modules
    ]
    yield file, processes
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(60)


def test_the_scheduler_killed(distant: Any) -> None:
    from distributed import Client
    from distributed.client import FutureCancelledError

    file, processes = distant
    with dask.config.set({"distributed.comm.timeouts.connect": 5}):
        client = Client(scheduler_file=file, timeout=60)
        client.wait_for_workers(2, timeout=60)
        y = map_blocks(long_function(), da.from_array(numbers(4_000), chunks=(50, 300)))
        timer = threading.Timer(1.0, processes[0].kill)
        timer.start()
        begin = time.monotonic()
        with pytest.raises((FutureCancelledError, OSError)):
            dask.compute(y)
        assert time.monotonic() - begin < LOST_SECONDS
        client.close(timeout=60)


# ------------------------------------------------------------------ interrupts


class Interrupt:
    """Sends this process an interrupt after some time, while a block is running."""

    def __init__(self, seconds: float) -> None:
        main = threading.main_thread().ident
        assert main is not None
        self._timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT))

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def idle_after(is_done: Any) -> float:
    begin = time.monotonic()
    while not is_done():
        assert time.monotonic() - begin < 60
        time.sleep(0.01)
    return time.monotonic() - begin


def test_interrupts_at_random_moments(make_cluster: Any) -> None:
    f, draw, x = long_function(steps=400), random.Random(11), numbers(20_000)
    (w,) = {node for node in f.plan.order if node.kind == "variable"}
    before = w.get_value()
    with make_cluster(2) as client:
        y = map_blocks(f, da.from_array(x, chunks=(200, 300)))
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt), Interrupt(draw.uniform(0.02, 1.5)):
                dask.compute(y)
                raise AssertionError("it was over before the interrupt")
            seconds = idle_after(lambda: all(client.run(is_idle).values()))
            assert is_within(seconds, IDLE_SECONDS), seconds
        np.testing.assert_array_equal(w.get_value(), before)
        some = dask.compute(y[:200])[0]
        np.testing.assert_allclose(some, f([x[:200]])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_interrupts_of_dasks_own_threads(scheduler: str) -> None:
    f, draw = long_function(steps=400), random.Random(11)
    y = map_blocks(f, da.from_array(numbers(20_000), chunks=(200, 300)))
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt), Interrupt(draw.uniform(0.1, 1.0)):
            dask.compute(y, scheduler=scheduler)
            raise AssertionError("it was over before the interrupt")
        assert is_within(idle_after(lambda: not _runs), IDLE_SECONDS)
    assert dask.compute(y[:5], scheduler=scheduler)[0].shape == (5, 300)


# ------------------------------------------------------------------ size


def memory_of(dask_worker: Any) -> int:
    import gc

    gc.collect()
    return int(psutil.Process().memory_info().rss)


def test_no_growth(make_cluster: Any) -> None:
    x = K.placeholder((None, 1000))
    f = K.function([x], [K.softmax(x * 2.0)])
    with make_cluster(2) as client:
        total = map_blocks(f, da.ones((20_000, 1000), chunks=(40, 1000), dtype="float32")).sum()

        def after(rounds: int) -> list[int]:
            for _ in range(rounds):
                total.compute()
            return [psutil.Process().memory_info().rss, *client.run(memory_of).values()]

        after(2)
        first = after(1)
        last = after(6)  # 3,000 chunks, half a gigabyte of results
        growth = max(b - a for a, b in zip(first, last, strict=True))
        assert growth < 20e6, growth


def test_a_gigabyte_has_the_bits_of_one_process(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    rows, columns = 262_144, 1024
    x = K.placeholder((None, columns))
    w = K.variable(np.random.default_rng(5).normal(size=(columns, 16)) / 32)
    step = K.function([x], [K.sum(K.exp(-K.square(x)), axis=-1), K.softmax(K.dot(x, w))])
    array = np.random.default_rng(6).standard_normal((rows, columns), "float32")
    assert array.nbytes == 1 << 30
    wanted = step([array])
    with make_cluster(2, env={"KBENCH_JIT": "wait"}) as client:
        held = [client.scatter(array[first : first + 8192]) for first in range(0, rows, 8192)]
        lazy = da.concatenate([da.from_delayed(one, (8192, columns), "float32") for one in held])
        found = dask.compute(map_blocks(step, lazy))[0]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------ ways of starting

SCRIPT = """if True:
    import dask
    import dask.array as da
    import numpy as np
    from distributed import Client, LocalCluster

    from kbench import backend as K
    from kbench.dask import map_blocks

    if __name__ == "__main__":
        dask.config.set({"distributed.worker.multiprocessing-method": METHOD})
        x = K.placeholder((None, 3))
        with LocalCluster(2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
            with Client(cluster):
                y = map_blocks(K.softmax(x), da.ones((100, 3), chunks=(7, 3)))
                assert abs(y.sum().compute() - 100) < 1e-4
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_with_warnings_as_errors(method: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("METHOD", repr(method)))
    subprocess.run([sys.executable, "-W", "error", path], check=True, timeout=240, cwd=tmp_path)
