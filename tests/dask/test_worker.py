"""Workers: their threads, which of them are refused, and how what they compute is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from busy_machine import is_within, until

from kbench import backend as K
from kbench.dask import versions, worker
from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError, EngineError

IDLE_SECONDS = 2.0
"""After an interrupt all workers must be idle again within this."""


def spin(seconds: float, name: str = "", until: threading.Event | None = None) -> str:
    """A task that computes, as far as anybody can tell."""
    with worker.evaluation(name):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (until is not None and until.is_set()):
            cancel.check()
            time.sleep(0.001)
    return "done"


may_end = threading.Event()


def spin_until_told() -> str:
    """The same, on a worker in this process, until a test has seen what it looks for."""
    return spin(60.0, until=may_end)


def busy_threads(dask_worker: Any) -> int:
    with worker._runs_lock:
        return sum(run.worker == dask_worker.address for run in worker._runs.values())


def is_working(client: Any, count: int) -> Callable[[], bool]:
    return lambda: sum(client.run(busy_threads).values()) == count


# ------------------------------------------------------------------ threads and versions


def threads_of(dask_worker: Any) -> tuple[int, list[int]]:
    from threadpoolctl import threadpool_info

    from kbench import backend as K

    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return K.num_threads(), blas


def test_as_many_threads_as_tasks(client: Any) -> None:
    worker.prepare(client)
    worker.prepare(client)
    plugins = client.run(lambda dask_worker: list(dask_worker.plugins))
    assert all(found.count("kbench") == 1 for found in plugins.values())
    for kernels, blas in client.run(threads_of).values():
        assert kernels == 1 and set(blas) <= {1}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "count"), [({}, 3), ({"KBENCH_NUM_THREADS": "2"}, 2)])
def test_what_the_workers_user_has_set_stays(
    make_cluster: Any, asked: dict[str, str], count: int
) -> None:
    with make_cluster(1, 3, env=asked) as client:
        worker.prepare(client)
        ((kernels, _),) = client.run(threads_of).values()
        assert kernels == count


def test_a_worker_in_this_process_leaves_it_alone(in_process: Any) -> None:
    from kbench import backend as K

    before = K.num_threads()
    worker.prepare(in_process)
    assert K.num_threads() == before


def has_plugin(dask_worker: Any) -> bool:
    return "kbench" in dask_worker.plugins


def test_tasks_make_a_worker_ready_that_nobody_has_prepared(client: Any) -> None:
    worker.prepare(client)
    client.unregister_worker_plugin("kbench")
    address = min(client.scheduler_info()["workers"])
    assert client.submit(spin, 0.0, pure=False, workers=[address]).result() == "done"
    until(lambda: client.run(has_plugin, workers=[address])[address])
    client.register_plugin(worker.KbenchWorker(versions.needed()), name="kbench")


def fake(package: str, version: str | None) -> str | None:
    module = __import__(package)
    before, module.__version__ = module.__version__, version
    return before


@pytest.mark.parametrize("package", ["numpy", "kbench"])
def test_another_version_is_refused_by_name(client: Any, package: str) -> None:
    address = sorted(client.scheduler_info()["workers"])[1]
    before = client.run(fake, package, "0.0.7", workers=[address])[address]
    try:
        with pytest.raises(EngineError) as caught:
            versions.refuse_others(client)
    finally:
        client.run(fake, package, before, workers=[address])
    word = {"numpy": "NumPy"}.get(package, package)
    assert f"worker {address} has {word} 0.0.7, and the client {before}" in str(caught.value)
    versions.refuse_others(client)


def hide(module: str | None) -> None:
    import sys

    kept = sys.__dict__.setdefault("_kept_for_a_test", {})
    if module is None:
        sys.modules.update(kept)
    else:
        kept[module] = sys.modules.get(module)
        sys.modules[module] = None  # type: ignore[assignment]


def test_a_worker_without_kbench_is_refused(client: Any) -> None:
    address = min(client.scheduler_info()["workers"])
    client.run(lambda: __import__("kbench"))
    client.run(by_value(hide), "kbench", workers=[address])
    try:
        with pytest.raises(EngineError, match=f"worker {address} has no kbench, and the client"):
            versions.refuse_others(client)
    finally:
        client.run(by_value(hide), None, workers=[address])


def by_value(function: Any) -> Any:
    """Sent as code, as this file may not be importable on the other side."""
    return lambda *given: function(*given)


def test_another_python_is_refused_before_code_is_sent(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = client.get_versions()
    address = min(found["workers"])
    found["workers"][address]["host"]["python"] = "3.9.1.final.0"
    monkeypatch.setattr(client, "get_versions", lambda: found)
    monkeypatch.setattr(client, "run", None)
    with pytest.raises(EngineError, match=f"worker {address} has Python 3.9, and the client 3."):
        versions.refuse_others(client)


@pytest.mark.slow
def test_a_worker_that_comes_later_is_refused(make_cluster: Any) -> None:
    import dask

    with make_cluster(1) as client:
        worker.prepare(client)
        (first,) = client.scheduler_info()["workers"]
        assert client.submit(spin, 0.0).result() == "done"
        other = "import numpy; numpy.__version__ = '1.99.0'"
        with dask.config.set({"distributed.worker.preload": [other]}):
            client.cluster.scale(2)
            client.wait_for_workers(2, timeout=60)
        (second,) = set(client.scheduler_info()["workers"]) - {first}
        with pytest.raises(EngineError, match=f"worker {second} has NumPy 1.99.0, and the client"):
            client.submit(spin, 0.0, workers=[second], pure=False).result()
        assert client.submit(spin, 0.0, workers=[first], pure=False).result() == "done"


# ------------------------------------------------------------------ stopping


def test_a_task_that_is_taken_back_stops(client: Any) -> None:
    futures = [client.submit(spin, 60.0, pure=False) for _ in range(2)]
    until(is_working(client, 2))
    client.cancel(futures)
    assert is_within(until(is_working(client, 0)), IDLE_SECONDS)
    assert all(client.run(worker.is_idle).values())
    assert client.submit(spin, 0.0, pure=False).result() == "done"


@pytest.mark.slow
def test_others_on_the_same_worker_do_not(in_process: Any) -> None:
    worker.prepare(in_process)
    may_end.clear()
    stays = in_process.submit(spin_until_told, pure=False)
    goes = in_process.submit(spin, 60.0, pure=False)
    until(is_working(in_process, 2))
    goes.release()
    assert is_within(until(is_working(in_process, 1)), IDLE_SECONDS)
    assert stays.status == "pending"
    may_end.set()
    assert stays.result() == "done"


@pytest.mark.slow
def test_a_task_that_is_wanted_again_runs_again(client: Any) -> None:
    for _ in range(5):
        future = client.submit(spin, 0.3, key="again")
        until(lambda: future.done() or is_working(client, 1)())  # noqa: B023
        future.release()
        future = client.submit(spin, 0.3, key="again")
        assert future.result() == "done"
        future.release()
        until(lambda: client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks))


def test_all_of_a_worker_by_name(client: Any) -> None:
    futures = [client.submit(spin, 60.0, "one", pure=False) for _ in range(2)]
    until(is_working(client, 2))
    assert sum(client.run(worker.stop_all, name="two").values()) == 0
    for future in futures:
        future.release()
    client.run(worker.stop_all, name="one")
    assert is_within(until(is_working(client, 0)), IDLE_SECONDS)


def test_threads_beside_all_workers() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            spin(60.0, "mine")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: worker.stop("other") == 0 and worker.stop("mine") == 1)
    thread.join()
    assert [type(error) for error in caught] == [worker.Stopped] and not cancel.any_request


def test_threads_are_shared_by_those_who_compute_at_a_time() -> None:
    from kbench.engine.runtime import threads

    K.set_num_threads(4)
    seen: list[int] = []
    inside, over = threading.Semaphore(0), threading.Event()

    def work() -> None:
        with worker.evaluation():
            seen.append(threads.count())
            inside.release()
            over.wait()
        seen.append(threads.count())

    started = [threading.Thread(target=work) for _ in range(3)]
    for thread in started:
        thread.start()
        inside.acquire()
    over.set()
    for thread in started:
        thread.join()
    assert seen == [4, 2, 1, 4, 4, 4] and threads.count() == 4


def share(seconds: float) -> int:
    from kbench.engine.runtime import threads

    with worker.evaluation():
        time.sleep(seconds)
        return threads.count()


@pytest.mark.slow
def test_tasks_of_a_worker_share_its_threads(make_cluster: Any) -> None:
    with make_cluster(1, 4) as client:
        assert client.submit(share, 0.0, pure=False).result() == 4
        many = client.gather([client.submit(share, 0.05, pure=False) for _ in range(40)])
        assert many.count(1) > 30


def test_nothing_is_stored_within() -> None:
    w, caught = K.variable(1.0), []

    def work() -> None:
        try:
            with worker.evaluation():
                w.set_value(2.0)
        except ArgumentError as error:
            caught.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "store to variable" in caught[0] and w.get_value() == 1.0


def test_errors_of_kbench_come_back(client: Any) -> None:
    def fail() -> None:
        from kbench import backend as K

        K.dot(K.ones((2, 3)), K.ones((2, 3)))

    from kbench.engine.core.errors import ShapeError

    with pytest.raises(ShapeError) as caught:
        client.submit(fail, pure=False).result()
    assert caught.value.function == "dot" and len(caught.value.operands) == 2
    assert "float32[2, 3]" in str(caught.value)
