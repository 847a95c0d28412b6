"""Which kernel is compiled next."""

from __future__ import annotations

import threading
import time

import pytest

from kbench.engine.jit.compile_queue import DRIVER, CompileQueue, Job


def _job(name: str, length: int = 1000, missed: float = 0.0, waiting: int = 0) -> Job:
    job = Job(name, lambda: "x" * length)
    job.missed, job.waiting = missed, waiting
    return job


ORDERS = [
    ("as they came", [_job("a"), _job("b"), _job("c")], "a b c"),
    ("most missed first", [_job("a", missed=1), _job("b", missed=3), _job("c", missed=2)], "b c a"),
    (
        "the shorter of two",
        [_job("a", 9500, missed=1), _job("b", 1500, missed=1), _job("c", missed=0.1)],
        "b a c",
    ),
    ("one somebody waits for", [_job("a", missed=9), _job("b", waiting=1)], "b a"),
    (
        "what runs them all",
        [_job("a", waiting=1), _job(DRIVER), _job("b", missed=9)],
        f"{DRIVER} a b",
    ),
]


@pytest.mark.parametrize(("jobs", "order"), [row[1:] for row in ORDERS], ids=lambda _: "")
def test_the_next_to_be_compiled(jobs: list[Job], order: str) -> None:
    queue = CompileQueue()
    for job in jobs:
        queue.put(job)
    assert " ".join(queue.take().name for _ in jobs) == order
    assert not queue.jobs


def test_one_that_was_at_a_compiler_comes_before_its_like() -> None:
    queue = CompileQueue()
    queue.put(_job("a"))
    queue.put(_job("again"), first=True)
    assert queue.take().name == "again"


def test_time_is_charged_to_what_this_thread_has_missed() -> None:
    queue, own, other = CompileQueue(), _job("own"), _job("other")
    queue.miss(own)
    thread = threading.Thread(target=queue.miss, args=(other,))
    thread.start()
    thread.join()
    now = queue.charge(time.perf_counter() - 2)
    queue.charge(now - 5)  # nothing was missed since
    assert 2 <= own.missed < 3
    assert other.missed == 0


def test_what_costs_most_without_its_kernel_is_compiled_first(monkeypatch: pytest.MonkeyPatch):
    """A function whose steps wait for kernels charges them by what NumPy took."""
    import numpy as np

    from kbench import backend as K
    from kbench.engine.jit import service as jit_service

    own = jit_service.Service()
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setattr(own, "_start_thread", lambda: None)
    own.queue.put(_job("before"))  # somebody is behind already
    for module in ("kbench.engine.codegen.loop_kernel", "kbench.engine.execute.executable"):
        monkeypatch.setattr(f"{module}.service", own)
    x = K.placeholder((None, 400))
    dear, cheap = K.exp(K.sin(x) * 1.25e-3), x * 1.75e-3 + 2.5
    long, short = np.ones((4000, 400), "float32"), np.ones((300, 400), "float32")
    K.function([x], [dear])([long])
    K.function([x], [cheap])([short])
    missed = [job.missed for job in own.queue.jobs if job.name.startswith("fused")]
    assert len(missed) == 2
    assert missed[0] > missed[1] > 0
