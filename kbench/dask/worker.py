"""A worker of a cluster: how many threads it computes with, and how what it computes is stopped.

Dask cannot stop a task that runs; it forgets the task and waits for its thread. Whoever computes on
a worker does so within `evaluation`, which notes the thread. When the scheduler takes the task
back, as after an interrupt in the client, the thread is asked to stop, and stops between two
tiles of a kernel. No other task on that worker is.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from distributed import Reschedule, WorkerPlugin, get_worker
from msgspec import Struct

from kbench.dask import versions
from kbench.engine.core import cancel, fork_safety
from kbench.engine.core.errors import EngineError
from kbench.engine.runtime import config, read_only, threads
from kbench.engine.runtime.environment import MAX_THREADS, env

NAME = "kbench"
"""Of the plugin, and of the topic of the events that workers log."""
RUNNING = ("executing", "long-running")
"""States of a task whose thread computes; from there to `released` is what taking back means."""
IN_PROCESS = "inproc://"
"""How the address of a worker begins that is a thread of its client's process."""


class KbenchWorker(WorkerPlugin):
    """Makes a worker ready. A cluster has one for each client that has asked (`prepare`)."""

    idempotent = True

    def __init__(self, needed: versions.Versions) -> None:
        self.name = NAME
        self.needed = needed  # the client's
        self.refusal: str | None = None
        self.address = ""

    def setup(self, worker: Any) -> None:
        """Refuse what would compute other values, else set threads; called on the worker's loop."""
        self.address = worker.address
        self.refusal = versions.difference(
            versions.needed(), f"worker {worker.address}", self.needed
        )
        if self.refusal is None:
            set_threads(worker)
            _install_means(worker)

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """A task changes its state; called on the worker's loop, for all tasks of all users."""
        if finish == "released" and start in RUNNING:
            _stop(self.address, key=key)

    def teardown(self, worker: Any) -> None:
        """The worker closes: it would wait for its threads."""
        _stop(worker.address)


def _install_means(worker: Any) -> None:
    """What training needs of a worker."""
    from kbench.dask.training import collective

    collective.install(worker)


def set_threads(worker: Any) -> None:
    """Let kernels and BLAS use as many threads as the worker runs tasks at once.

    Tasks that compute at a time share them (`evaluation`), so that a worker never keeps more cores
    busy. What the worker's user has set in its environment stays, as does the client's own process.
    """
    if worker.address.startswith(IN_PROCESS) or env("KBENCH_NUM_THREADS") is not None:
        return
    count = min(max(worker.state.nthreads, 1), MAX_THREADS)
    config.set_num_threads(count)
    threads.limit_blas(count)


_prepared: weakref.WeakSet[Any] = weakref.WeakSet()


def prepare(client: Any) -> None:
    """Make the workers of a cluster ready, those that come later too; a second time does nothing.

    Arguments:
        client: a `distributed.Client`; an asynchronous one is left alone, and tasks make each
            worker ready.
    Raises:
        EngineError: a worker has another kbench, NumPy or Python, or none.
    """
    if client in _prepared or client.asynchronous:
        return
    versions.refuse_others(client)
    client.register_plugin(KbenchWorker(versions.needed()), name=NAME)
    _prepared.add(client)


def ready(worker: Any) -> None:
    """See to it that a worker is ready, from one of its tasks.

    Raises:
        EngineError: it has another kbench, NumPy or Python than the client that prepared it.
    """
    plugin = worker.plugins.get(NAME)
    if plugin is None:  # nobody has prepared it, as for a client that came after the array
        set_threads(worker)
        plugin = KbenchWorker(versions.needed())
        worker.loop.add_callback(worker.plugin_add, plugin, NAME)
    elif plugin.refusal is not None:
        raise EngineError(f"kbench.dask: {plugin.refusal}")


# ------------------------------------------------------------------ what runs, and how it stops


class Task(Struct, frozen=True):
    """A task that a worker runs: what the scheduler calls it."""

    worker: Any
    key: object

    @property
    def is_wanted(self) -> bool:
        """Whether the scheduler has not taken it back."""
        state = self.worker.state.tasks.get(self.key)
        return state is not None and state.state in RUNNING

    @property
    def neighbours(self) -> int:
        """Tasks that the worker runs at a time, this one too: those that are about to begin count,
        so that it is the same for all that come in a row."""
        state = self.worker.state
        return min(int(state.nthreads), len(state.executing) + len(state.ready))


def current_task() -> Task | None:
    """The task of this thread; None where no worker runs one here, as with Dask's own threads."""
    try:
        worker = get_worker()
    except ValueError:
        return None
    key = worker.active_threads.get(threading.get_ident())
    return None if key is None else Task(worker, key)


class _Run(Struct, eq=False):
    """A thread that computes within `evaluation`."""

    worker: str  # its address, "" beside all workers
    key: object  # of the task
    name: str  # that the caller gave it
    stopped: bool = False


_runs: dict[int, _Run] = {}  # by the ident of its thread
_runs_lock = fork_safety.lock()


@contextlib.contextmanager
def evaluation(name: str = "", task: Task | None = None) -> Iterator[None]:
    """Compute within this, and the thread stops when its task is taken back.

    The thread evaluates read-only (`engine/runtime/read_only.py`): it shares variables with other
    tasks, so it must not store to them; and a request to stop reaches it alone. Its kernels take a
    part of the worker's threads, as others compute there too. In the main thread of a process,
    where the user's own interrupt arrives, nothing changes.

    Arguments:
        name: what `stop` may call it.
        task: what the thread works for, if it is not the thread of that task (`current_task`).
    Raises:
        Reschedule: it was stopped. To Dask that says to run the task again if anybody still wants
        it. EngineError: the worker was refused.
    """
    task = task or current_task()
    if task is None and threading.current_thread() is threading.main_thread():
        yield
        return
    if task is not None:
        ready(task.worker)
    run = _Run("" if task is None else task.worker.address, task and task.key, name)
    here = threading.get_ident()
    with read_only.evaluation():
        try:
            with _runs_lock:
                _runs[here] = run
                together = sum(other.worker == run.worker for other in _runs.values())
            if task is not None:
                together = max(together, task.neighbours)
            threads.limit_here(max(1, threads.count() // together))
            if task is not None and not task.is_wanted:
                run.stopped = True
                raise KeyboardInterrupt
            yield
        except KeyboardInterrupt:
            if not run.stopped:
                raise
            raise (Reschedule if task else Stopped)(f"{name or 'work'} was stopped") from None
        finally:
            threads.limit_here(0)
            with _runs_lock:
                del _runs[here]


class Stopped(RuntimeError):
    """Work in this process was stopped, after an interrupt of whoever waited for it."""


def _stop(worker: str, *, key: object = None, name: str = "") -> int:
    """Ask threads to stop: of a worker, of one of its tasks, or of those called `name`."""
    with _runs_lock:
        found = [
            (ident, run)
            for ident, run in _runs.items()
            if run.worker == worker
            and (key is None or run.key == key)
            and (not name or run.name == name)
        ]
        for ident, run in found:
            run.stopped = True
            cancel.request(ident)
    return len(found)


def stop(name: str) -> int:
    """Stop what runs in this process, beside all workers, under a name; how many threads that is.

    They stop within about 50 ms, and raise `Stopped`.
    """
    return _stop("", name=name)


def stop_all(dask_worker: Any = None, name: str = "") -> int:
    """Stop what a worker computes, all of it or what has a name; to be called by `client.run`.

    Tasks that are still wanted begin again, so their futures are to be released first.
    """
    return _stop(dask_worker.address, name=name)


def is_idle(dask_worker: Any = None) -> bool:
    """Whether nothing is computed on a worker; to be called by `client.run`."""
    with _runs_lock:
        return all(run.worker != dask_worker.address for run in _runs.values())
