"""`map_blocks`: what it gives, on each scheduler of Dask, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from kbench import backend as K
from kbench.dask import activity, blocks, figures, map_blocks, worker
from kbench.dask import payload as payloads
from kbench.dask import versions as kbench_versions
from kbench.engine.core import cancel
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    EngineError,
    FeedError,
    ShapeError,
)

LOCAL = ("synchronous", "threads")
X = np.random.default_rng(1).normal(size=(23, 6)).astype("float32")


def layer(name: str = "layer") -> Any:
    x = K.placeholder((None, 6), name="x")
    w = K.variable(np.arange(24.0).reshape(6, 4) / 10, name="w")
    return K.function([x], [K.relu(K.dot(x, w)) - 1.0], name=name)


def cut(array: np.ndarray, rows: Any = 5) -> Any:
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def compute(found: Any, scheduler: str = "synchronous") -> Any:
    return dask.compute(found, scheduler=scheduler)[0]


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("scheduler", LOCAL)
@pytest.mark.parametrize("rows", [1, 5, 23, (0, 20, 0, 3)])
def test_it_gives_what_the_function_gives(scheduler: str, rows: Any) -> None:
    f = layer()
    y = map_blocks(f, cut(X, rows))
    assert (y.shape, y.dtype, y.chunks[0]) == ((23, 4), "float32", cut(X, rows).chunks[0])
    np.testing.assert_allclose(compute(y, scheduler), f([X])[0], rtol=1e-6)


@pytest.mark.slow
def test_on_processes() -> None:
    f = layer()
    np.testing.assert_allclose(compute(map_blocks(f, cut(X)), "processes"), f([X])[0], rtol=1e-6)


def test_on_a_cluster(client: Any) -> None:
    f = layer()
    y = map_blocks(f, cut(X))
    np.testing.assert_allclose(client.compute(y).result(), f([X])[0], rtol=1e-6)


def test_on_a_cluster_in_this_process(in_process: Any) -> None:
    f = layer()
    y = map_blocks(f, cut(X))
    np.testing.assert_allclose(in_process.compute(y).result(), f([X])[0], rtol=1e-6)
    assert not cancel.any_request


def test_a_worker_with_another_numpy_is_refused_at_the_call(client: Any) -> None:
    address = min(client.scheduler_info()["workers"])
    worker._prepared.discard(client)
    client.run(_version, "1.0.1", workers=[address])
    try:
        with client.as_current(), pytest.raises(EngineError, match=f"worker {address} has NumPy"):
            map_blocks(layer(), cut(X))
    finally:
        client.run(_version, np.__version__, workers=[address])


def _version(version: str) -> None:
    np.__version__ = version


def test_several_arrays_and_results() -> None:
    x, y = K.placeholder((None, 6)), K.placeholder((None,), dtype="int32")
    scale, table = K.placeholder(()), K.placeholder((3, 2))
    outputs = [
        K.sum(x, axis=-1) * scale,
        K.gather(table, y),
        K.expand_dims(x, 1) + 0.0,
        K.reshape(x, (-1, 2)),
        K.equal(y, 1),
    ]
    f = K.function([x, scale, y, table], outputs)
    numbers, rows = np.arange(23) % 3, np.arange(6.0).reshape(3, 2)
    found = map_blocks(f, cut(X, 5), 2.0, cut(numbers, 7), rows)
    wanted = f([X, 2.0, numbers, rows])
    assert [one.shape for one in found] == [one.shape for one in wanted]
    assert [one.dtype for one in found] == [one.dtype for one in wanted]
    assert found[0].chunks == ((5, 2, 3, 4, 1, 5, 1, 2),)
    assert found[3].chunks == ((15, 6, 9, 12, 3, 15, 3, 6), (2,))
    for scheduler in LOCAL:
        for one, other in zip(compute(found, scheduler), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_array_equal(compute(found[1]), wanted[1])  # one of them alone


def test_tensors_take_their_placeholders_in_the_order_in_which_they_were_made() -> None:
    x, y = K.placeholder((None, 6), name="x"), K.placeholder((None, 6), name="y")
    difference = map_blocks(y - x, cut(X), cut(X * 3, 23))
    np.testing.assert_allclose(compute(difference), X * 2, rtol=1e-5)
    (listed,) = map_blocks([y - x], cut(X), cut(X * 3))
    assert listed.chunks == difference.chunks


def test_chunks_along_other_axes_are_joined() -> None:
    f = layer()
    y = map_blocks(f, da.from_array(X, chunks=(10, 4)))
    assert y.chunks == ((10, 10, 3), (4,))
    np.testing.assert_allclose(compute(y), f([X])[0], rtol=1e-6)


def test_dtypes_become_those_of_the_inputs() -> None:
    f = layer()
    for array in (X.astype("float64"), (X * 10).astype("int64"), X > 0):
        np.testing.assert_allclose(compute(map_blocks(f, cut(array))), f([array])[0], rtol=1e-6)


def test_sizes_that_are_unknown_stay_so() -> None:
    f = layer()
    x = cut(X)
    some = x[x[:, 0] > 0]
    y = map_blocks(f, some)
    assert np.isnan(y.shape[0]) and y.shape[1] == 4 and len(y.chunks[0]) == len(x.chunks[0])
    np.testing.assert_allclose(compute(y), f([X[X[:, 0] > 0]])[0], rtol=1e-6)
    z = map_blocks(K.function(f.inputs, [f.inputs[0] * 2.0]), some) + y[:, :1]
    np.testing.assert_allclose(compute(z), (X * 2 + f([X])[0][:, :1])[X[:, 0] > 0], rtol=1e-5)


def test_unknown_sizes_of_several_arrays() -> None:
    x, y = K.placeholder((None, 6)), K.placeholder((None, 6))
    f = K.function([x, y], [x + y])
    a = cut(X)
    some, others = a[a[:, 0] > 0], a[a[:, 0] > 1]
    np.testing.assert_allclose(compute(map_blocks(f, some, some)), 2 * X[X[:, 0] > 0])
    one, known = cut(X, 23), cut(X[X[:, 0] > 0], 23)
    np.testing.assert_allclose(
        compute(map_blocks(f, one[one[:, 0] > 0], known)), 2 * X[X[:, 0] > 0]
    )
    with pytest.raises(ShapeError, match=r"in chunk \d \(\d rows\), the arrays have \d, \d rows"):
        compute(map_blocks(f, some, others))


def test_unknown_sizes_of_other_axes_follow_from_the_arrays() -> None:
    x = K.placeholder((None, None, 3))
    f = K.function([x], [K.batch_flatten(x), K.sum(x, axis=1)])
    array = np.arange(84.0, dtype="float32").reshape(7, 4, 3)
    flat, total = map_blocks(f, cut(array, 2))
    assert flat.shape == (7, 12) and total.shape == (7, 3)
    np.testing.assert_array_equal(compute(flat), array.reshape(7, 12))


def test_inputs_of_a_fixed_number_of_rows() -> None:
    x = K.placeholder((4, 3))
    f = K.function([x], [x * 2.0])
    array = np.arange(36.0, dtype="float32").reshape(12, 3)
    y = map_blocks(f, cut(array, 5))
    assert y.chunks == ((4, 4, 4), (3,))
    np.testing.assert_array_equal(compute(y), array * 2)
    with pytest.raises(
        ShapeError, match="takes 4 rows at once; the array needs a multiple of 4 rows"
    ):
        map_blocks(f, cut(array[:10]))


def test_nothing_at_all() -> None:
    f = layer()
    for scheduler in LOCAL:
        assert compute(map_blocks(f, cut(X[:0])), scheduler).shape == (0, 4)


def test_numbers_that_dask_computes_first() -> None:
    x, scale = K.placeholder((None, 6)), K.placeholder(())
    a = cut(X)
    y = map_blocks(K.function([x, scale], [x / scale]), a, a.max())
    np.testing.assert_allclose(compute(y, "threads"), X / X.max(), rtol=1e-6)


def test_variables_have_the_values_of_when_it_was_made() -> None:
    x, w = K.placeholder((None, 6)), K.variable(2.0)
    f = K.function([x], [x * w])
    first = map_blocks(f, cut(X))
    w.set_value(3.0)
    second = map_blocks(f, cut(X))
    np.testing.assert_allclose(compute(first), X * 2)
    np.testing.assert_allclose(compute(second), X * 3)
    assert first.name != second.name and map_blocks(f, cut(X)).name == second.name


def test_a_session_that_was_cleared_since() -> None:
    f = layer()
    wanted = f([X])[0]
    y = map_blocks(f, cut(X))
    compute(y)
    K.clear_session()
    for scheduler in LOCAL:
        np.testing.assert_allclose(compute(y, scheduler), wanted, rtol=1e-6)
    payloads.forget_all()
    np.testing.assert_allclose(compute(y, "threads"), wanted, rtol=1e-6)


def test_what_is_around_it_is_fused_with_it() -> None:
    from dask.array.optimization import optimize

    y = map_blocks(layer(), da.ones((23, 6), chunks=(5, 6)) * 2) + 1
    graph = dict(optimize(y.__dask_graph__(), y.__dask_keys__()))
    assert len(graph) == 1 + 5  # the function, and a task for each chunk
    np.testing.assert_array_equal(compute(y[:2]), compute(y)[:2])


def test_the_function_is_in_the_graph_once() -> None:
    x, w = K.placeholder((None, 6)), K.variable(np.zeros((6, 50_000)))
    y = map_blocks(K.function([x], [K.dot(x, w)]), cut(X, 1))
    import cloudpickle

    assert w.get_value().nbytes < len(cloudpickle.dumps(y)) < 1.1 * w.get_value().nbytes


# ------------------------------------------------------------------ what is refused

REFUSED: list[tuple[Callable[[Any, Any], Any], type[Exception], tuple[str, ...]]] = [
    (lambda x, w: map_blocks(x * 2.0), FeedError, ("takes 1 array (x", "got 0")),
    (lambda x, w: map_blocks(x * 2.0, cut(X), cut(X)), FeedError, ("takes 1 array (x", "got 2")),
    (lambda x, w: map_blocks(x * 2.0, X), ArgumentError, ("none", "try dask.array.from_array")),
    (lambda x, w: map_blocks(x * 2.0, cut(X)[:, 0]), ShapeError, ("2 axes", "float32[23]")),
    (
        lambda x, w: map_blocks(x * 2.0, cut(X)[:, :4]),
        ShapeError,
        ("axis 1 must have 6 entries", "placeholder 'x", "float32[?, 6]", "float32[23, 4]"),
    ),
    (lambda x, w: map_blocks(x * 2.0, cut(X.astype("c8"))), DtypeError, ("complex64[23, 6]",)),
    (lambda x, w: map_blocks(x * 2.0, "text"), FeedError, ("text",)),
    (
        lambda x, w: map_blocks(x * 2.0, dask.delayed(X)),
        ArgumentError,
        ("takes arrays of Dask, got Delayed",),
    ),
    (
        lambda x, w: map_blocks(x + K.placeholder((None, 6)), cut(X), cut(X[:20])),
        ShapeError,
        ("the arrays have 20, 23 rows", "float32[20, 6]"),
    ),
    (
        lambda x, w: map_blocks(
            x + K.placeholder((None, 6)), cut(X)[cut(X)[:, 0] > 0], cut(X, 7)[cut(X, 7)[:, 0] > 0]
        ),
        ShapeError,
        ("unknown sizes, and are not the same", "try x.compute_chunk_sizes()"),
    ),
    (
        lambda x, w: map_blocks(x + K.placeholder((None, 6)), cut(X), X),
        ArgumentError,
        ("row by row",),
    ),
    (lambda x, w: map_blocks(len, cut(X)), ArgumentError, ("f must be", "K.function([x], [y])")),
    (lambda x, w: map_blocks([], cut(X)), ArgumentError, ("f must be",)),
    (lambda x, w: map_blocks(K.mean(x), cut(X)), ArgumentError, ("mean at test_blocks.py",)),
    (
        lambda x, w: map_blocks(x - K.mean(x, axis=0), cut(X)),
        ArgumentError,
        ("goes over the batch axis", "try independent=True"),
    ),
    (lambda x, w: map_blocks(K.shape(x), cut(X)), ArgumentError, ("number of rows",)),
    (lambda x, w: map_blocks(K.transpose(x), cut(X)), ArgumentError, ("along axis 1",)),
    (lambda x, w: map_blocks([x, w], cut(X)), ArgumentError, ("outputs[1]", "the same for all")),
    (lambda x, w: map_blocks(K.dropout(x, 0.5), cut(X)), ArgumentError, ("dropout", "each call")),
    (
        lambda x, w: map_blocks(K.in_train_phase(x, x * 2.0), cut(X)),
        ArgumentError,
        ("learning phase", "try K.learning_phase_scope(0)"),
    ),
    (
        lambda x, w: map_blocks(K.function([x], [x * 1.0], [K.update_add(w, 1.0)]), cut(X)),
        ArgumentError,
        ("stores to variable 'w", "chunks on other machines cannot"),
    ),
    (lambda x, w: map_blocks(K.function([x], []), cut(X)), ArgumentError, ("no outputs",)),
    (
        lambda x, w: map_blocks(K.function([x], [x + K.placeholder((), name="t")]), cut(X)),
        FeedError,
        ("placeholder 't' float32[]", "is not an input of the function"),
    ),
    (lambda x, w: map_blocks(K.mean(x), cut(X), independent=True), ShapeError, ("no axis",)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refused_at_the_call(
    call: Callable[[Any, Any], Any], error: type[Exception], words: tuple[str, ...]
) -> None:
    x, w = K.placeholder((None, 6), name="x"), K.variable(np.ones(6), name="w")
    with pytest.raises(error) as caught:
        call(x, w)
    text = str(caught.value)
    assert text.startswith("kbench.dask.map_blocks: ") and "at test_blocks.py:" in text
    assert all(word in text for word in words), text


def test_a_phase_that_is_given_is_one_input() -> None:
    x = K.placeholder((None, 6))
    f = K.function([x, K.learning_phase()], [K.in_train_phase(K.dropout(x, 0.5), x * 2.0)])
    np.testing.assert_allclose(compute(map_blocks(f, cut(X), 0)), X * 2)
    with pytest.raises(ArgumentError, match="gives a new value at each call"):
        map_blocks(f, cut(X), 1)


def test_your_word_for_it() -> None:
    x = K.placeholder((None, 6))
    f = K.function([x], [x - K.mean(x, axis=0)])
    wanted = np.concatenate([f([X[first : first + 5]])[0] for first in range(0, 23, 5)])
    y = map_blocks(f, cut(X), independent=True)
    np.testing.assert_allclose(compute(y), wanted, atol=1e-6)
    broken = map_blocks(K.function([x], [x[:3]]), cut(X), independent=True)
    with pytest.raises(ShapeError) as caught:
        compute(broken)
    assert "in chunk " in str(caught.value)
    assert ", outputs[0] has shape [3, 6] for 5 rows, and needs 5 along" in str(caught.value)


# ------------------------------------------------------------------ a chunk that raises


@pytest.mark.parametrize("scheduler", [*LOCAL, "processes"])
def test_an_error_names_the_chunk(scheduler: str) -> None:
    i = K.placeholder((None,), dtype="int32", name="i")
    f = K.function([i], [K.gather(K.variable(np.ones((5, 2)), name="table"), i)])
    numbers = np.zeros(23, "int32")
    numbers[13] = 7
    with pytest.raises(ShapeError) as caught:
        compute(map_blocks(f, cut(numbers)), scheduler)
    text = str(caught.value)
    assert "gather: in chunk 2 (rows 10 to 14), index 7 is out of range for 5 rows" in text
    assert "variable 'table" in text and "float32[5, 2]" in text and "at test_blocks.py" in text


def test_an_error_of_a_cast_names_the_chunk(client: Any) -> None:
    i = K.placeholder((None,), dtype="int32", name="i")
    y = map_blocks(i * 2, cut(np.arange(23) + 0.5))
    with pytest.raises(FeedError) as caught:
        client.compute(y).result()
    text = str(caught.value)
    assert (
        "in chunk" in text
        and "has values that int32 cannot represent" in text
        and "_task_spec" not in text
    )


def test_other_errors_have_a_note() -> None:
    x = K.placeholder((None, 6))
    wrong = cut(X).map_blocks(lambda block: block.astype(object), dtype="float32")
    with pytest.raises(FeedError, match=r"in chunk \d \(rows"):
        compute(map_blocks(x * 2.0, wrong))


# ------------------------------------------------------------------ figures


def newest(name: str) -> activity.Job:
    return next(job for job in activity.jobs() if job.name == name)


def test_figures_of_dasks_own_threads() -> None:
    y = map_blocks(layer("seen"), cut(X))
    for scheduler in LOCAL:
        compute(y, scheduler)
        job = newest("seen")
        assert (job.kind, job.steps, job.total, job.running) == ("map", 5, 5, False)
        (worker,) = job.workers
        assert (worker.address, worker.tasks, worker.rows) == (figures.HERE, 5, 23)
        assert worker.received == X.nbytes and worker.returned == 23 * 4 * 4
        assert worker.seconds > 0 and worker.state == "idle"
    assert newest("seen").number > next(
        job.number for job in activity.jobs()[::-1] if job.name == "seen"
    )
    compute(y[:5])
    assert newest("seen").steps == 1 and not newest("seen").running
    i = K.placeholder((None,), dtype="int32")
    with pytest.raises(FeedError):
        compute(map_blocks(K.function([i], [i * 2], name="fails"), cut(np.arange(23) / 2, 2)))
    assert not any(job.running for job in activity.jobs() if job.name == "fails")


def interrupt(block: np.ndarray) -> np.ndarray:
    raise KeyboardInterrupt


def test_an_interrupt_before_the_first_chunk_is_done_stops_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(figures, "stop", stopped.append)
    y = map_blocks(layer("early"), da.map_blocks(interrupt, cut(X), meta=X[:0]))
    with pytest.raises(KeyboardInterrupt):
        compute(y, "threads")
    assert len(stopped) == 1
    assert "early" not in {job.name for job in activity.jobs()}  # nothing was tracked


def test_a_map_of_which_nobody_hears_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(figures.time, "monotonic", lambda: clock[0])
    figures.expect("a job", "quiet", 5, "key")
    job = figures._jobs["a job"]

    def hear(*chunks: int, seconds: float = 0.1) -> None:
        some = [figures.Done("a job", chunk, 2, seconds) for chunk in chunks]
        figures._heard(some, "tcp://a:1", "host", 1)

    hear(0, 1)
    figures._heard([figures.Done("a job", 2, 2, 0.1)], "tcp://a:1", "host", 1, "another client")
    clock[0] += figures.QUIET_SECONDS - 1
    figures._end_if_quiet(job)
    assert newest("quiet").running and newest("quiet").workers[0].state == "working"
    hear(1, 2, seconds=20.0)  # once more, after a worker was lost
    clock[0] += figures.QUIET_SECONDS + 1
    figures._end_if_quiet(job)
    assert newest("quiet").running  # chunks take longer than that
    clock[0] += 80
    figures._end_if_quiet(job)
    first = newest("quiet")
    assert (first.running, first.steps, first.workers[0].tasks) == (False, 3, 4)
    hear(3)
    assert newest("quiet").number == first.number + 1 and newest("quiet").running
    hear(-1)
    hear(4)  # had begun before
    assert (newest("quiet").running, newest("quiet").steps) == (False, 2)
    hear(4)
    assert newest("quiet").number == first.number + 2
    hear(0, 1, 2, 3)
    assert (newest("quiet").running, newest("quiet").steps) == (False, 5)


def test_figures_of_workers(client: Any) -> None:
    from kbench.engine.runtime import profile

    over = threading.Event()

    def look(number: int) -> None:
        if any(job.number == number and not job.running for job in activity.jobs()):
            over.set()

    y = map_blocks(layer("far"), cut(X, 1))
    forget = profile.job_changed.subscribe(look)
    client.compute(y).result()
    assert over.wait(30)
    forget()
    job = newest("far")
    assert (job.steps, job.total, job.running) == (23, 23, False)
    assert {worker.address for worker in job.workers} <= set(client.scheduler_info()["workers"])
    assert sum(worker.rows for worker in job.workers) == 23
    assert all(worker.threads == 1 and worker.host for worker in job.workers)


# ------------------------------------------------------------------ processes


@pytest.mark.parametrize("module", [blocks, kbench_versions])
def test_examples(module: Any) -> None:
    import doctest

    assert doctest.testmod(module, globs={**vars(module), "K": K}).failed == 0


@pytest.mark.slow
def test_dask_is_loaded_on_first_use() -> None:
    text = (
        "import sys, kbench, kbench.dask\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\n"
        "from kbench.dask import map_blocks, predict\n"
        "assert {'dask', 'distributed'} <= set(sys.modules) and 'keras' not in sys.modules\n"
        "import dask.array as da\n"
        "from kbench import backend as K\n"
        "x = K.placeholder((None, 3))\n"
        "y = map_blocks(K.softmax(x), da.ones((10, 3), chunks=(4, 3)))\n"
        "assert abs(y.sum().compute() - 10) < 1e-5\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", text], check=True, timeout=120)
