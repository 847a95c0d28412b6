"""Which kernel is compiled next."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kbench.engine.jit.compile_queue import DRIVER, CompileQueue, Job


def _job(name: str, length: int = 1000, waiting: int = 0) -> Job:
    job = Job(name, lambda: "x" * length)
    job.waiting = waiting
    return job


# jobs as they come, seconds of what is missed together, and the order of compiling
ORDERS: list[tuple[list[Job], dict[str, float], str]] = [
    ([_job("a"), _job("b"), _job("c")], {}, "a b c"),
    ([_job("a"), _job("b"), _job("c")], {"a": 1, "b": 3, "c": 2}, "b c a"),
    ([_job("a", 9500), _job("b", 1500)], {"a": 1, "b": 1}, "b a"),
    ([_job("a"), _job("b", waiting=1)], {"a": 9}, "b a"),
    ([_job("a", waiting=1), _job(DRIVER), _job("b")], {"b": 9}, f"{DRIVER} a b"),
    # what is needed together comes together, and is worth its time once
    ([_job("a"), _job("b"), _job("c"), _job("d")], {"a d": 3, "b": 1, "c": 2}, "c a d b"),
    ([_job("a"), _job("b"), _job("c")], {"a b": 4, "b c": 1, "c": 1.5}, "a b c"),
]


@pytest.mark.parametrize(("jobs", "missed", "order"), ORDERS)
def test_the_next_to_be_compiled(jobs: list[Job], missed: dict[str, float], order: str) -> None:
    queue = CompileQueue()
    for job in jobs:
        queue.put(job)
    for names, seconds in missed.items():
        for job in jobs:
            if job.name in names.split():
                queue.miss(job)
        queue.charge(time.perf_counter() - seconds)
    assert " ".join(queue.take().name for _ in jobs) == order
    assert not queue.jobs


def test_a_source_is_written_once_while_it_waits() -> None:
    made = []
    jobs = [Job(name, lambda: made.append(1) or "x" * 1000) for name in "abc"]  # type: ignore[func-returns-value]
    queue = CompileQueue()
    for job in jobs:
        queue.put(job)
    while queue.jobs:
        queue.take()
    assert len(made) == len(jobs)


def test_a_guess_of_the_length_spares_writing_a_source_that_waits() -> None:
    made: list[str] = []
    queue = CompileQueue()
    for name, guess in (("long", 9500), ("short", 1500)):
        job = Job(name, lambda name=name: made.append(name) or "x", guess=guess)  # type: ignore[misc]
        queue.put(job)
        queue.miss(job)
        queue.charge(time.perf_counter() - 1)
    assert queue.take().name == "short" and queue.take().name == "long"
    assert not made


def test_one_that_was_at_a_compiler_comes_before_its_like() -> None:
    queue = CompileQueue()
    queue.put(_job("a"))
    queue.put(_job("again"), first=True)
    assert queue.take().name == "again"


def test_time_is_charged_to_what_this_thread_has_missed() -> None:
    queue, own, other = CompileQueue(), _job("own"), _job("other")
    for job in (other, own):
        queue.put(job)
    queue.miss(own)
    thread = threading.Thread(target=queue.miss, args=(other,))
    thread.start()
    thread.join()
    now = queue.charge(time.perf_counter() - 2)
    queue.charge(now - 5)  # nothing was missed since
    assert queue.take() is own


def test_a_loop_is_charged_for_all_its_steps() -> None:
    """What a loop misses is worth more than what each of its steps does."""
    queue, loop, step = CompileQueue(), _job("loop"), _job("step")
    for job in (step, loop):
        queue.put(job)
    begun = time.perf_counter() - 3
    queue.miss(loop)
    for _ in range(2):
        held = queue.hold()
        queue.miss(step)
        queue.charge(time.perf_counter() - 1)
        queue.restore(held)
    queue.charge(begun)
    assert queue.take() is loop


def test_what_is_set_aside_comes_back_and_counts_meanwhile() -> None:
    """What is needed with it is worth as much as both together."""
    queue, aside, other = CompileQueue(), _job("aside"), _job("other")
    queue.put(aside)
    assert queue.take() is aside and queue.taken == {aside}
    queue.put(other)
    queue.miss(aside)
    queue.miss(other)
    queue.charge(time.perf_counter() - 1)
    queue.set_aside(aside, 60)
    queue.recall()
    assert queue.take() is other and not queue.jobs and queue.taken == {other}
    queue.put(other)
    queue.set_aside(aside, 0)
    queue.recall()
    assert queue.jobs == [aside, other] and not queue.aside and not queue.taken
    queue.set_aside(other, 60)
    queue.clear()
    assert not queue.jobs and not queue.aside


def test_what_costs_most_without_its_kernel_is_compiled_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function whose steps wait for kernels charges them by what NumPy took."""
    import gc

    import numpy as np

    from kbench import backend as K
    from kbench.engine.jit import service as jit_service

    own = jit_service.Service()
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(own, "_start_thread", lambda: None)
    own.queue.put(_job("before"))  # somebody is behind already
    for module in ("kbench.engine.codegen.loop_kernel", "kbench.engine.execute.executable"):
        monkeypatch.setattr(f"{module}.service", own)
    monkeypatch.setattr("kbench.engine.codegen.loop_kernel._kernels", {})  # of other tests
    x = K.placeholder((None, 400))
    dear, cheap = K.exp(K.sin(x) * 1.25e-3), x * 1.75e-3 + 2.5
    long, short = np.ones((4000, 400), "float32"), np.ones((300, 400), "float32")
    gc.collect()  # whose time would be charged to the cheap one
    K.function([x], [cheap])([short])
    for _ in range(4):
        K.function([x], [dear])([long])
    asked = [job for job in own.queue.jobs if job.name.startswith("fused")]
    assert len(asked) == 2
    assert all(job.guess and not job.written for job in asked)  # the caller writes no source
    assert own.queue.take().name == DRIVER
    assert own.queue.take() is asked[1]


def test_values_of_rows_ask_for_no_kernels_while_that_of_the_rows_is_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would delay it, and nobody would need them after it. Where it fails, they are asked
    for."""
    import numpy as np

    from kbench import backend as K
    from kbench.engine.jit import service as jit_service

    own = jit_service.Service()
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(own, "_start_thread", lambda: None)
    codegen, execute = "kbench.engine.codegen", "kbench.engine.execute"
    for module in (
        f"{codegen}.loop_kernel", f"{codegen}.row_kernel", f"{codegen}.join_kernels",
        f"{execute}.executable", f"{execute}.steps.row_step",
    ):  # fmt: skip
        monkeypatch.setattr(f"{module}.service", own)
    for module in ("loop_kernel", "row_kernel"):
        monkeypatch.setattr(f"{codegen}.{module}._kernels", {})  # of other tests
    x = K.placeholder((None, 431))
    softmax = K.function([x], [K.softmax(x * 1.125)])
    given = np.random.default_rng(0).normal(size=(300, 431)).astype("float32")
    powers = np.exp(1.125 * given.astype("float64"))
    want = powers / powers.sum(-1, keepdims=True)

    def asked() -> list[str]:
        np.testing.assert_allclose(softmax([given])[0], want, rtol=1e-5)
        return [job.name.partition("_")[0] for job in own.queue.jobs]

    assert asked() == asked() == [DRIVER, "rows"]
    assert not own.queue.is_muted()
    own._fail(own.queue.jobs.pop(), "no compiler likes it")
    assert asked() == [DRIVER, "fused"]
