"""Training by several worker processes, beside the same training in one process."""

from __future__ import annotations

import functools
import gc
import os
import pkgutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
from busy_machine import is_within, until
from keras_loaded import OWN_WARNINGS, load

import kbench
from kbench import backend as K
from kbench.dask import activity
from kbench.dask.errors import ClusterError
from kbench.dask.training import array_rows, shard
from kbench.dask.training.data import Data, class_weights
from kbench.dask.worker import is_idle
from kbench.engine.core.errors import ArgumentError, DtypeError, EngineError, ShapeError

keras = load()
pytestmark = OWN_WARNINGS
IDLE_SECONDS = 2.0
"""After an interrupt, all workers have nothing to do by then."""
KILLS = 12
"""Of workers, one after the other, in a training of 24 steps."""


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    np.random.seed(7)
    yield
    K.set_floatx("float32")
    K.clear_session()


class Losses(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """The loss of each step."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.losses: list[float] = []

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(float(logs["loss"]))


# ------------------------------------------------------------------ the models


def _mlp() -> Any:
    layers = keras.layers
    model = keras.models.Sequential(
        [
            layers.Dense(32, activation="relu", input_shape=(20,), kernel_regularizer="l2"),
            layers.Dense(5, activation="softmax", kernel_constraint="max_norm"),
        ]
    )
    optimizer = keras.optimizers.Adam(clipnorm=0.5)
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy", "mse"])
    return model


def _cnn() -> Any:
    layers = keras.layers
    model = keras.models.Sequential(
        [
            layers.Conv2D(6, 3, input_shape=(10, 10, 2)),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(6, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "categorical_crossentropy")
    return model


def _lstm() -> Any:
    layers = keras.layers
    model = keras.models.Sequential(
        [layers.Masking(input_shape=(6, 4)), layers.LSTM(8), layers.Dense(5, activation="softmax")]
    )
    model.compile("rmsprop", "categorical_crossentropy", metrics=["accuracy"])
    return model


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (_mlp, (20,)),
    "cnn": (_cnn, (10, 10, 2)),
    "lstm": (_lstm, (6, 4)),
}


def _data(shape: tuple[int, ...], rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(11)
    x = numbers.normal(size=(rows, *shape))
    x[::3, -1:] = 0  # what a mask leaves out
    return x, np.eye(5)[numbers.integers(0, 5, rows)]


def _trained(
    make: Callable[[], Any], fit: Callable[..., Any], weights: list[np.ndarray], **more: Any
) -> tuple[Any, Any, list[float]]:
    model = make()
    model.set_weights(weights)
    losses = Losses()
    history = fit(model, callbacks=[losses, *more.pop("callbacks", [])], verbose=0, **more)
    return model, history, losses.losses


def _alone(model: Any, shards: int = 1, **arguments: Any) -> Any:
    return model.fit(**arguments)


# ------------------------------------------------------------------ the same result


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("float64", 1e-12)])
def test_the_result_is_that_of_one_machine(
    name: str, dtype: str, limit: float, client: Any
) -> None:
    K.set_floatx(dtype)
    make, shape = MODELS[name]
    x, y = _data(shape)
    weights = make().get_weights()
    arguments = {
        "x": x[:70],
        "y": y[:70],
        "batch_size": 32,
        "epochs": 4,
        "sample_weight": np.linspace(0.5, 1.5, 70),
        "validation_data": (x[70:], y[70:]),
        "class_weight": {0: 2.0, 1: 1.0, 2: 1.0, 3: 0.5, 4: 1.0},
    }
    np.random.seed(1)
    one, alone, losses = _trained(make, _alone, weights, **arguments)
    np.random.seed(1)  # which shuffles as before
    two, together, found = _trained(make, kbench.dask.fit, weights, client=client, **arguments)
    np.testing.assert_allclose(found, losses, rtol=limit)
    assert alone.history.keys() == together.history.keys()
    for key, values in alone.history.items():
        np.testing.assert_allclose(together.history[key], values, rtol=limit, err_msg=key)
    for first, second in zip(one.get_weights(), two.get_weights(), strict=True):
        np.testing.assert_allclose(second, first, atol=limit * 10, rtol=limit * 10)
    assert one.evaluate(x, y, verbose=0) == pytest.approx(
        two.evaluate(x, y, verbose=0), rel=limit * 10
    )


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "method"), [(1, "spawn"), (4, "spawn"), (2, "forkserver")])
def test_shards_not_workers_decide_the_bits(
    workers: int, method: str, make_waiting_cluster: Any, waiting_client: Any
) -> None:
    """With as many shards, the bits are the same on any number of workers, dropout included."""

    def make() -> Any:
        layers = keras.layers
        model = keras.models.Sequential(
            [
                layers.Dense(16, input_shape=(20,)),
                layers.BatchNormalization(),
                layers.Dropout(0.3, seed=5),
                layers.Dense(5, activation="softmax"),
            ]
        )
        model.compile("adam", "categorical_crossentropy")
        return model

    x, y = _data((20,))
    weights = make().get_weights()
    arguments = {"x": x, "y": y, "batch_size": 30, "epochs": 3, "shuffle": False, "shards": 3}
    wanted = _trained(make, kbench.dask.fit, weights, client=waiting_client, **arguments)[0]
    with make_waiting_cluster(workers=workers, method=method) as other:
        found = _trained(make, kbench.dask.fit, weights, client=other, **arguments)[0]
    for first, second in zip(wanted.get_weights(), found.get_weights(), strict=True):
        assert np.array_equal(first, second)


@pytest.mark.slow
def test_the_loop_is_that_of_keras(client: Any, tmp_path: Path) -> None:
    """Early stopping, checkpoints, a schedule, a generator; and `model.fit` goes on after it."""
    make, shape = MODELS["mlp"]
    x, y = _data(shape)
    callbacks = keras.callbacks

    class Batches(keras.utils.Sequence):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, place: int) -> tuple[np.ndarray, np.ndarray]:
            return x[place * 30 : place * 30 + 30], y[place * 30 : place * 30 + 30]

    weights = make().get_weights()
    results = []
    several = functools.partial(kbench.dask.fit, client=client)
    for fit, file in ((_alone, "one.h5"), (several, "two.h5")):
        some = [
            callbacks.EarlyStopping("loss", min_delta=0.05, patience=1),
            callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
            callbacks.ModelCheckpoint(os.fspath(tmp_path / file)),
        ]
        model, history, losses = _trained(
            make, fit, weights, x=Batches(), epochs=8, shuffle=False, callbacks=some
        )
        saved = keras.models.load_model(os.fspath(tmp_path / file))
        again = model.fit(x, y, batch_size=30, epochs=1, shuffle=False, verbose=0).history["loss"]
        results.append((history.epoch, losses, saved.get_weights(), again))
    one, two = results
    assert one[0] == two[0]
    np.testing.assert_allclose(two[1], one[1], rtol=1e-5)
    for first, second in zip(one[2], two[2], strict=True):
        np.testing.assert_allclose(second, first, atol=1e-4)
    np.testing.assert_allclose(two[3], one[3], rtol=1e-4)


@pytest.mark.slow
def test_a_cluster_within_the_process(in_process: Any) -> None:
    make, shape = MODELS["cnn"]
    x, y = _data(shape)
    weights = make().get_weights()
    arguments = {"x": x, "y": y, "batch_size": 30, "epochs": 2, "shuffle": False}
    _, _, losses = _trained(make, _alone, weights, **arguments)
    _, _, found = _trained(make, kbench.dask.fit, weights, client=in_process, shards=3, **arguments)
    np.testing.assert_allclose(found, losses, rtol=1e-5)


# ------------------------------------------------------------------ arrays of Dask


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows came to this process, each time that some did."""
    found: list[int] = []
    fetch = array_rows.ArrayRows.__array__

    def noted(rows: Any, *arguments: Any, **others: Any) -> np.ndarray:
        found.append(len(rows))
        return fetch(rows, *arguments, **others)

    monkeypatch.setattr(array_rows.ArrayRows, "__array__", noted)
    return found


def _same(first: tuple[Any, Any, list[float]], second: tuple[Any, Any, list[float]]) -> None:
    """See to it that two trainings have the same bits."""
    assert first[2] == second[2]
    assert first[1].history == second[1].history
    for one, other in zip(first[0].get_weights(), second[0].get_weights(), strict=True):
        assert np.array_equal(one, other)


def _wait_for_no_data(client: Any) -> None:
    """Wait until the cluster holds nothing of this client's."""
    end = time.monotonic() + 30
    while left := client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)):
        assert time.monotonic() < end, left
        gc.collect()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shuffle"), [("mlp", False), ("mlp", True), ("mlp", "batch"), ("cnn", True)]
)
def test_dask_arrays_give_the_bits_of_numpy_arrays(
    name: str, shuffle: Any, waiting_client: Any, fetched: list[int]
) -> None:
    """Other chunks for each array, also along axes that no row may be cut along."""
    make, shape = MODELS[name]
    x, y = _data(shape)
    many = np.linspace(0.5, 1.5, 90)
    arguments = {
        "batch_size": 32,
        "epochs": 2,
        "shuffle": shuffle,
        "class_weight": {0: 2.0, 1: 1.0, 2: 1.0, 3: 0.5, 4: 1.0},
    }
    lazy = {
        "x": da.from_array(x, chunks=(13, *[7] * len(shape))),
        "y": da.from_array(y, chunks=((40, 0, 50), (2, 3))),
        "sample_weight": da.from_array(many, chunks=31),
    }
    eager = {"x": x, "y": y, "sample_weight": many}
    found = []
    weights = make().get_weights()
    for given in (eager, lazy):
        np.random.seed(1)
        split = _trained(
            make, kbench.dask.fit, weights, client=waiting_client, validation_split=0.2, **given,
            **arguments,
        )  # fmt: skip
        parts = {key: value[:70] for key, value in given.items()}
        rest = tuple(value[70:] for value in given.values())
        apart = _trained(
            make, kbench.dask.fit, weights, client=waiting_client, validation_data=rest, **parts,
            **arguments,
        )  # fmt: skip
        found.append((split, apart))
    np.random.seed(1)
    alone = _trained(make, _alone, weights, validation_split=0.2, **eager, **arguments)
    for first, second in zip(*found, strict=True):
        _same(first, second)
    np.testing.assert_allclose(found[1][0][2], alone[2], rtol=1e-5)
    assert set(fetched) == {32}  # the first batch, whose loss is compared
    assert len(fetched) == 2 * 3  # x, y and weights
    held = found[1][0][1].validation_data[0]
    with pytest.raises(
        ArgumentError, match=r"x was a dask array; its rows are available only while fit"
    ):
        np.asarray(held)
    _wait_for_no_data(waiting_client)


@pytest.mark.slow
def test_dask_arrays_for_several_inputs_and_outputs(waiting_client: Any) -> None:
    """Lists and dicts, mixed with NumPy arrays; columns; labels that are numbers."""

    def make() -> Any:
        layers = keras.layers
        first, second = layers.Input((20,), name="first"), layers.Input((1,), name="second")
        both = layers.concatenate([first, second])
        outputs = [
            layers.Dense(5, activation="softmax", name="class")(both),
            layers.Dense(1, name="size")(both),
        ]
        model = keras.models.Model([first, second], outputs)
        model.compile("sgd", ["sparse_categorical_crossentropy", "mse"])
        return model

    x, y = _data((20,))
    labels, size = np.argmax(y, axis=1), x[:, 0] * 2
    weights = make().get_weights()
    arguments = {"batch_size": 30, "epochs": 2, "shuffle": False, "client": waiting_client}
    table = {number: 1 + number for number in range(5)}
    eager = _trained(
        make, kbench.dask.fit, weights, x=[x, x[:, 1]], y=[labels, size],
        class_weight={"class": table}, **arguments,
    )  # fmt: skip
    rows, column = da.from_array(x, chunks=17), da.from_array(x[:, 1], chunks=50)
    for given in (
        {"x": [rows, column], "y": [da.from_array(labels, chunks=9), size]},
        {
            "x": {"second": column, "first": x},
            "y": {"size": da.from_array(size, chunks=90), "class": labels},
        },
    ):
        lazy = _trained(
            make, kbench.dask.fit, weights, class_weight={"class": table}, **given, **arguments
        )
        _same(eager, lazy)


@pytest.mark.slow
def test_validation_by_dask_arrays_beside_a_sequence(waiting_client: Any) -> None:
    make, shape = MODELS["mlp"]
    x, y = _data(shape)

    class Batches(keras.utils.Sequence):  # type: ignore[misc, name-defined]
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

        def __len__(self) -> int:
            return 2

        def __getitem__(self, place: int) -> tuple[Any, Any]:
            return self.x[place * 30 : place * 30 + 30], self.y[place * 30 : place * 30 + 30]

    weights = make().get_weights()
    arguments = {"x": Batches(x, y), "shuffle": False, "client": waiting_client}
    lazy = da.from_array(x[60:], chunks=11), da.from_array(y[60:], chunks=11)
    _same(
        _trained(make, kbench.dask.fit, weights, validation_data=(x[60:], y[60:]), **arguments),
        _trained(make, kbench.dask.fit, weights, validation_data=lazy, **arguments),
    )
    some = Batches(da.from_array(x, chunks=30), y)
    with pytest.raises(ArgumentError, match=r"gave float64\[30, 20\], an array of Dask"):
        kbench.dask.fit(make(), some, client=waiting_client, verbose=0)


X = da.zeros((8, 20), chunks=(3, 20))
Y = da.zeros((8, 5), chunks=(8, 5))
UNKNOWN = X[X[:, 0] > 0]


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (ShapeError, {"x": UNKNOWN}, r"x has chunks of unknown sizes.*\n.*float64\[\?, 20\]"),
        (ShapeError, {"x": UNKNOWN}, r"x\.compute_chunk_sizes\(\), before fit"),
        (ShapeError, {"y": Y[:7]}, "the same number of rows: x has 8, y has 7"),
        (ShapeError, {"x": [X, np.zeros((9, 2))]}, r"x\[0\] has 8, x\[1\] has 9, y has 8"),
        (ShapeError, {"validation_data": (X, Y[:7])}, "validation y has 7"),
        (ShapeError, {"sample_weight": X.sum()}, "sample_weight must have an axis of rows"),
        (DtypeError, {"x": X.astype("U3")}, "x must be an array of numbers"),
        (ArgumentError, {"x": dask.delayed(3)}, "takes arrays of Dask"),
        (ArgumentError, {"steps_per_epoch": 2}, "steps_per_epoch=2 would give all rows"),
        (ArgumentError, {"x": X.map_blocks(np.ma.array, meta=np.ma.ones((0, 0)))}, "MaskedArray"),
    ],
)  # fmt: skip
def test_dask_arrays_that_are_refused(kind: Any, given: dict[str, Any], words: str) -> None:
    given = {"x": X, "y": Y, **given}
    with pytest.raises(kind, match=f"(?s)kbench.dask.fit: .*{words}"):
        Data.given(None, given.pop("x"), given.pop("y"), given)


def test_a_class_without_a_weight_is_refused() -> None:
    with pytest.raises(ArgumentError, match="has none for 2"):
        class_weights(np.eye(3), {0: 1, 1: 3}, np.dtype(float))


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_lost_worker_that_held_chunks_changes_nothing(make_waiting_cluster: Any) -> None:
    """Its chunks are computed again: each row follows from its number."""
    make, shape = MODELS["cnn"]
    weights = make().get_weights()
    x = da.random.default_rng(5).normal(size=(90, *shape), chunks=(9, -1, -1, -1))
    y = da.from_array(_data(shape)[1], chunks=20)
    arguments = {"batch_size": 30, "shuffle": True, "epochs": 4}
    killed: list[int] = []

    class Killer(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Kills a worker in the last step of an epoch: first the one, then the other."""

        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            if len(killed) < 2 and batch == 2:
                processes = _processes(client, 2)
                killed.append(processes[len(killed) % len(processes)])
                threading.Timer(0.01 * len(killed), _kill, [killed[-1]]).start()

    with make_waiting_cluster(workers=2) as client:
        np.random.seed(1)
        eager = _trained(
            make, kbench.dask.fit, weights, x=x.compute(), y=y.compute(), client=client, **arguments
        )
        np.random.seed(1)
        lazy = _trained(
            make, kbench.dask.fit, weights, x=x, y=y, client=client, callbacks=[Killer()],
            **arguments,
        )  # fmt: skip
    assert len(killed) == 2
    _same(eager, lazy)


# ------------------------------------------------------------------ what is refused


@pytest.mark.slow
def test_a_loss_that_adds_up_over_the_batch_is_refused(client: Any) -> None:
    model = keras.models.Sequential(
        [keras.layers.Dense(5, input_shape=(20,), activity_regularizer="l2")]
    )
    model.compile("sgd", "mse")
    weights = model.get_weights()
    x, y = _data((20,))
    with pytest.raises(ArgumentError, match="as the mean over its 2 shards: something in it adds"):
        kbench.dask.fit(model, x, y, client=client, verbose=0)
    for before, now in zip(weights, model.get_weights(), strict=True):
        assert np.array_equal(before, now)


def test_a_cluster_and_a_model_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _mlp()

    def none() -> None:
        raise ValueError("no client found")

    monkeypatch.setattr(distributed, "default_client", none)
    with pytest.raises(ClusterError, match="no cluster: make a client first"):
        kbench.dask.fit(model, *_data((20,)))
    with pytest.raises(ArgumentError, match="client must be a distributed.Client"):
        kbench.dask.fit(model, *_data((20,)), client=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_norm": "global"}, "batch_norm must be 'synchronized' or 'local'"),
        ({"shards": 0}, "shards must be at least 1"),
        ({"checkpoint_steps": 0}, "checkpoint_steps must be at least 1"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str, client: Any) -> None:
    with pytest.raises(ArgumentError, match=words):
        kbench.dask.fit(_mlp(), *_data((20,)), client=client, **arguments)
    with pytest.raises(ArgumentError, match="model must be a model of Keras"):
        kbench.dask.fit(object(), *_data((20,)), client=client)


@pytest.mark.slow
def test_another_numpy_is_refused(make_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_cluster(workers=1) as client:
        client.run(_pretend_numpy, "0.0.1")
        with pytest.raises(EngineError, match=r"NumPy 0\.0\.1"):
            kbench.dask.fit(_mlp(), *_data((20,)), client=client, verbose=0)


def _pretend_numpy(version: str) -> None:
    from kbench.dask import versions

    found = {**versions.needed(), "numpy": version}
    versions.needed = lambda: found  # type: ignore[assignment]


# ------------------------------------------------------------------ faults


def _processes(client: Any, workers: int) -> list[int]:
    """The processes of all workers, once each is there and its nanny would start another.

    A nanny whose process dies while it starts gives up; that is Dask's to decide.
    """
    end = time.monotonic() + 120
    while time.monotonic() < end:
        states = client.run(_state_of_nanny, nanny=True, on_error="ignore")
        found = client.run(os.getpid, on_error="ignore")  # one may die while it is asked
        if list(states.values()) == ["running"] * workers and len(found) == workers:
            return list(found.values())
        time.sleep(0.05)
    raise AssertionError(f"of {workers} workers not all are running: {states}")


def _state_of_nanny(dask_worker: Any) -> str:
    """That of the process that it has started; its own says nothing of that."""
    process = dask_worker.process
    return "none" if process is None else str(process.status.name)


@pytest.mark.slow
def test_a_cluster_that_hears_late_of_a_lost_worker_closes_well(make_cluster: Any) -> None:
    """The training waits for a new one by itself, and changes nothing of what the cluster knows."""
    model = _mlp()
    killed: list[int] = []
    heard: list[object] = []

    class Killer(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            if not killed:
                killed.extend(_processes(client, 1))
                _kill(killed[0])

    with make_cluster(workers=1) as client:
        news = client.cluster.scheduler.plugins["worker-status"].bcomm
        tell = news.send

        def tell_late(*messages: object) -> None:
            news.loop.call_later(5.0, lambda: (tell(*messages), heard.extend(messages)))  # seconds

        news.send = tell_late
        kbench.dask.fit(model, *_data((20,)), client=client, callbacks=[Killer()], verbose=0)
        (new,) = client.nthreads()
        until(lambda: len(heard) == 2)
        until(lambda: list(client.cluster.scheduler_info["workers"]) == [new])
    assert len(killed) == 1


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_that_are_killed_change_nothing(workers: int, make_waiting_cluster: Any) -> None:
    make, shape = MODELS["cnn"]
    x, y = _data(shape)
    weights = make().get_weights()
    arguments = {"x": x, "y": y, "batch_size": 30, "shuffle": False, "shards": 2}
    wanted = _trained(make, _alone, weights, epochs=60, **arguments)[2][:3]
    numbers = np.random.default_rng(3)
    killed = 0

    class Killer(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Kills a worker some milliseconds after a step has begun."""

        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            nonlocal killed
            if killed < KILLS:
                process = numbers.choice(_processes(client, workers))
                threading.Timer(float(numbers.uniform(0, 0.03)), _kill, [int(process)]).start()
                killed += 1

    with make_waiting_cluster(workers=workers) as client:
        undisturbed = _trained(
            make, kbench.dask.fit, weights, client=client, epochs=8, **arguments
        )[0]
        found, _, losses = _trained(
            make,
            kbench.dask.fit,
            weights,
            client=client,
            epochs=8,
            callbacks=[Killer()],
            **arguments,
        )
    assert killed == KILLS
    np.testing.assert_allclose(losses[:3], wanted, rtol=1e-5)
    for first, second in zip(undisturbed.get_weights(), found.get_weights(), strict=True):
        assert np.array_equal(first, second)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.slow
def test_a_scheduler_that_is_gone_leaves_a_checkpoint(tmp_path: Path) -> None:
    file = os.fspath(tmp_path / "kept.h5")
    model = _mlp()
    x, y = _data((20,))

    class Closer(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                client.cluster.scheduler.loop.add_callback(client.cluster.scheduler.close)

    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster,
        distributed.Client(cluster) as client,
    ):
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=r"is gone; the model has the weights of step \d"):
            kbench.dask.fit(
                model,
                x,
                y,
                client=client,
                batch_size=10,
                epochs=50,
                verbose=0,
                callbacks=[Closer()],
                checkpoint=file,
                checkpoint_steps=2,
            )
        assert time.monotonic() - begin < 30
    saved = keras.models.load_model(file)
    for first, second in zip(saved.get_weights(), model.get_weights(), strict=True):
        assert np.array_equal(first, second)
    assert not os.path.exists(f"{file}.unfinished")


@pytest.mark.slow
def test_a_shard_that_raises_is_named(client: Any) -> None:
    """Labels that the loss cannot take: the operation is in the error, and the model as before."""
    model = keras.models.Sequential([keras.layers.Embedding(4, 2, input_length=3)])
    model.compile("sgd", "mse")
    weights = model.get_weights()
    with pytest.raises(Exception, match="(?i)gather|embedding|index"):
        kbench.dask.fit(model, np.full((8, 3), 9), np.zeros((8, 3, 2)), client=client, verbose=0)
    assert np.array_equal(weights[0], model.get_weights()[0])


# ------------------------------------------------------------------ interrupts


def _slow_model() -> Any:
    """Some tens of milliseconds for each shard."""
    layers = keras.layers
    model = keras.models.Sequential(
        [
            layers.Conv2D(32, 3, padding="same", input_shape=(32, 32, 8)),
            layers.BatchNormalization(),
            layers.Conv2D(32, 3, padding="same"),
            layers.Flatten(),
            layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile("adam", "categorical_crossentropy")
    return model


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize(("chunks", "times"), [(None, 20), (10, 8)])
def test_an_interrupt_leaves_workers_idle_and_no_half_step(
    chunks: int | None, times: int, client: Any
) -> None:
    model = _slow_model()
    x, y = _data((32, 32, 8), 64)
    numbers = np.random.default_rng(2)
    kbench.dask.fit(model, x, y, batch_size=32, epochs=2, client=client, verbose=0)
    if chunks is not None:
        x, y = da.from_array(x, chunks=(chunks, 7, -1, 3)), da.from_array(y, chunks=chunks)
    for _ in range(times):
        steps: list[list[np.ndarray]] = [model.get_weights()]

        class Keeper(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
            def on_batch_end(self, batch: int, logs: Any = None) -> None:
                steps.append(model.get_weights())  # noqa: B023

        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(
            float(numbers.uniform(0.05, 0.6)), signal.pthread_kill, [main, signal.SIGINT]
        )
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            kbench.dask.fit(
                model,
                x,
                y,
                batch_size=32,
                epochs=10_000,
                client=client,
                verbose=0,
                callbacks=[Keeper()],
            )
        begin = time.monotonic()
        while not all(client.run(is_idle).values()) or client.processing().values() == [()]:
            assert is_within(time.monotonic() - begin, IDLE_SECONDS)
            time.sleep(0.02)
        now = model.get_weights()
        old = all(np.array_equal(a, b) for a, b in zip(now, steps[-1], strict=True))
        new = all(not np.array_equal(a, b) for a, b in zip(now, steps[-1], strict=True))
        assert old or new


class Unlucky:
    """Has Ctrl+C come while it is deleted, where Python raises nothing."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["worker.prepare", "training.fit.build", "training.data.HeldArray.all_of"]
)
def test_an_interrupt_that_python_loses_before_the_first_step(
    place: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pkgutil.resolve_name(f"kbench.dask.{place}")

    def unlucky(*arguments: Any) -> Any:
        Unlucky()
        return own(*arguments)

    monkeypatch.setattr(f"kbench.dask.{place}", unlucky)
    make, shape = MODELS["mlp"]
    model = make()
    before = model.get_weights()
    x, y = (da.from_array(part, chunks=30) for part in _data(shape))
    with pytest.raises(KeyboardInterrupt):
        kbench.dask.fit(model, x, y, batch_size=30, client=client, verbose=0)
    for one, two in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])  # of three: before another step, and at the end
def test_an_interrupt_that_python_loses(batch: int, client: Any) -> None:
    make, shape = MODELS["mlp"]
    x, y = _data(shape)
    seen: list[int] = []

    class Loser(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_batch_end(self, number: int, logs: Any = None) -> None:
            seen.append(number)
            if number == batch:
                Unlucky()

    with pytest.raises(KeyboardInterrupt):
        kbench.dask.fit(make(), x, y, batch_size=30, client=client, verbose=0, callbacks=[Loser()])
    assert seen == list(range(batch + 1))


# ------------------------------------------------------------------ memory, and what is shown


def _resident(dask_worker: Any = None) -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_memory_does_not_grow(client: Any) -> None:
    make, shape = MODELS["cnn"]
    model = make()
    x, y = _data(shape)
    marks: list[dict[str, int]] = []

    class Meter(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch in (29, 89):
                marks.append({**client.run(_resident), "here": _resident()})

    kbench.dask.fit(
        model, x, y, batch_size=30, epochs=90, client=client, verbose=0, callbacks=[Meter()]
    )
    first, last = marks
    for who, bytes_now in last.items():
        assert bytes_now - first[who] < 15e6, who


@pytest.mark.slow
def test_weights_are_sent_once_for_each_version_and_worker(client: Any) -> None:
    make, shape = MODELS["mlp"]
    model = make()
    x, y = _data(shape)
    kbench.dask.fit(model, x, y, batch_size=30, epochs=2, client=client, verbose=0)
    job = activity.jobs()[0]
    assert job.kind == "fit"
    assert not job.running
    assert job.steps == 6
    size = sum(weight.nbytes for weight in model.get_weights())
    inputs = x.astype(np.float32).nbytes + y.astype(np.float32).nbytes
    assert len(job.workers) == 2
    assert sum(worker.rows for worker in job.workers) == 2 * 90 + 30  # and the first batch again
    for worker in job.workers:
        assert worker.received >= 6 * size
        assert worker.received < 7 * size + 3 * inputs
        assert worker.seconds > 0
        assert worker.state == "idle"
    assert sum(job.share(worker) for worker in job.workers) == pytest.approx(1.0)


def test_weights_count_as_their_arrays() -> None:
    weights = shard.Weights("name", (np.zeros(1000, np.float32),))
    assert weights.nbytes == 4000
    assert weights.__sizeof__() > 4000
