"""The measuring of `kbench bench --cluster`: clusters of worker processes on this machine.

One process measures all; `cluster.py` starts it with `cluster_runs.py OPTIONS`, so that settings
of the engine hold for it and its workers. Everything goes in turns, so that fast and slow phases
of the machine meet all. The last line that it prints is what it has found, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

SEED = 20261125
BATCH = 128
SKIPPED = 8
"""Steps of each fit that are not counted: the program goes out, kernels are bound."""
PARTS_OF_BATCH = (128, 64, 32)
"""Rows of the batches by which computing is told apart from what each shard costs anyway."""
MEGABYTE = 1 << 20
LARGE = 4 * MEGABYTE
"""Bytes that go to a worker and back, to see how many Dask moves in a second."""
LEVELS, AT_ONCE, MESSAGES = 8, 16, 6
"""Tasks that wait for one another; questions at the same time; times that each is measured."""
CHUNKS = 32
TINY_CHUNKS = 200
"""Of one row each, for what a chunk costs by itself."""

Row = dict[str, Any]


# ------------------------------------------------------------------ the models


def _mlp(layers: Any) -> tuple[list[Any], tuple[int, ...]]:
    """784-512-512-10."""
    return [
        layers.Dense(512, activation="relu", input_shape=(784,)),
        layers.Dense(512, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ], (784,)


def _cnn(layers: Any) -> tuple[list[Any], tuple[int, ...]]:
    """28x28x1, conv 32 and 64 with batch normalization, pools."""
    return [
        layers.Conv2D(32, 3, use_bias=False, input_shape=(28, 28, 1)),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(64, 3, use_bias=False),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ], (28, 28, 1)


def _lstm(layers: Any) -> tuple[list[Any], tuple[int, ...]]:
    """LSTM 128 over 50 steps of 64 numbers."""
    return [
        layers.LSTM(128, input_shape=(50, 64)),
        layers.Dense(10, activation="softmax"),
    ], (50, 64)


def _empty(layers: Any) -> tuple[list[Any], tuple[int, ...]]:
    return [layers.Dense(10, activation="softmax", input_shape=(784,))], (784,)


MODELS: dict[str, Callable[[Any], tuple[list[Any], tuple[int, ...]]]] = {
    "mlp": _mlp, "cnn": _cnn, "lstm": _lstm,
}  # fmt: skip
EMPTY = "empty"
"""The model whose steps are messages alone."""


def build(name: str) -> tuple[Any, Any, Any]:
    """A compiled model, and rows and labels for it."""
    import keras
    import numpy as np

    layers, shape = {**MODELS, EMPTY: _empty}[name](keras.layers)
    model = keras.models.Sequential(layers, name=name)
    model.compile("rmsprop", "categorical_crossentropy")
    numbers = np.random.default_rng(SEED)
    x = numbers.random((BATCH, *shape), np.float32)
    return model, x, np.eye(10, dtype="float32")[numbers.integers(0, 10, BATCH)]


# ------------------------------------------------------------------ clusters


@contextlib.contextmanager
def clusters(counts: list[int]) -> Iterator[dict[int, Any]]:
    """Clients of clusters with so many worker processes, of one thread each."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
    with contextlib.ExitStack() as stack:
        found = {}
        for count in counts:
            cluster = LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=50,
            )  # fmt: skip
            stack.enter_context(cluster)
            found[count] = stack.enter_context(Client(cluster))
            found[count].wait_for_workers(count)
        yield found


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# ------------------------------------------------------------------ training


class _Watch:
    """Seconds from the end of one step to that of the next, as Keras' loop has them."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._last: float | None = None

    def callback(self) -> Any:
        """For `fit`."""
        import keras

        def ended(batch: int, logs: Any) -> None:
            now = time.perf_counter()
            if self._last is not None:
                self.times.append(now - self._last)
            self._last = now

        return keras.callbacks.LambdaCallback(on_batch_end=ended)


def train(name: str, client: Any, steps: int, rows: int = BATCH, threads: int = 0) -> Row:
    """A fit on a cluster, or by one process with so many threads: seconds of its steps, parts."""
    import importlib

    import numpy as np

    from kbench import backend as K

    fit_module = importlib.import_module("kbench.dask.training.fit")
    K.clear_session()
    model, x, y = build(name)
    copies = steps + SKIPPED
    x, y = (np.concatenate([one[:rows]] * copies) for one in (x, y))
    watch, made = _Watch(), []
    arguments: Row = {
        "batch_size": rows, "epochs": 1, "shuffle": False, "verbose": 0,
        "callbacks": [watch.callback()],
    }  # fmt: skip
    if client is None:
        from kbench.engine.runtime.threads import limit_blas

        before = K.num_threads()
        K.set_num_threads(threads)
        try:
            with limit_blas(threads):
                model.fit(x, y, **arguments)
        finally:
            K.set_num_threads(before)
        return {"times": watch.times[SKIPPED:]}

    def recorded(*given: Any, **named: Any) -> Any:
        step = original(*given, **named)
        made.append((step, _store_times(step)))
        return step

    original = fit_module.ClusterStep
    with mock.patch.object(fit_module, "ClusterStep", recorded):
        fit_module.fit(model, x, y, client=client, **arguments)
    step, stores = made[0]
    counted = step.break_even.steps[SKIPPED:]
    return {
        "times": watch.times[SKIPPED:],
        "computing": [one.computing for one in counted],
        "steps": [one.seconds for one in counted],
        "stores": stores[SKIPPED:],
        "moved": counted[-1].moved,
        "weight_bytes": sum(weight.nbytes for weight in model.get_weights()),
        "row_bytes": (x[0].nbytes + y[0].nbytes),
        "meetings": _meetings(step.program) if step.program.is_joint else 0,
    }


def _store_times(step: Any) -> list[float]:
    """Watch what the client does with the sums of each step."""
    from msgspec.structs import replace

    times: list[float] = []
    inner = step.store.train

    def store(values: Any) -> Any:
        begin = time.perf_counter()
        found = inner(values)
        times.append(time.perf_counter() - begin)
        return found

    step.store = replace(step.store, train=store)
    return times


def _meetings(program: Any) -> int:
    from kbench.engine.graph.traverse import walk

    return sum(node.op.name == "all_mean" for node in walk(program.train.outputs, {}))


def measure_fits(clients: dict[int, Any], names: list[str], rounds: int, steps: int) -> Row:
    """All models, in turns: one process with all cores and with one, and each cluster."""
    cores = len(os.sched_getaffinity(0))
    found: Row = {}
    who: dict[str, Callable[[str], Row]] = {
        "one": lambda name: train(name, None, steps, threads=1),
        "all": lambda name: train(name, None, steps, threads=cores),
    }
    for count, client in clients.items():
        who[str(count)] = lambda name, client=client: train(name, client, steps)
    for count in (1, 2):
        who[f"{EMPTY} {count}"] = lambda name, client=clients[count]: train(EMPTY, client, steps)
    for rows in PARTS_OF_BATCH:
        who[f"rows {rows}"] = lambda name, rows=rows: train(name, clients[1], steps, rows)
    for number in range(-1, rounds):  # the first round warms up
        for name in names:
            for label in who if number % 2 else reversed(who):
                row = who[label](name)
                if number >= 0:
                    _joined(found.setdefault(name, {}).setdefault(label, {}), row)
            if number >= 0:
                _joined(found[name].setdefault("messages", {}), measure_messages(clients[2]))
            print(f"fit {name}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def _joined(found: Row, row: Row) -> None:
    for key, value in row.items():
        found[key] = found.get(key, []) + value if isinstance(value, list) else value


# ------------------------------------------------------------------ maps


def _nothing(block: Any) -> Any:
    return block


def measure_maps(clients: dict[int, Any], rounds: int, megabytes: int) -> Row:
    """The forward pass of the MLP over an array that lies on the workers, and tiny chunks."""
    import dask.array as da
    import numpy as np

    from kbench import backend as K
    from kbench.dask import map_blocks

    model, _, _ = build("mlp")
    function = K.function([*model.inputs], [*model.outputs], name="forward")
    rows = megabytes * MEGABYTE // (784 * 4) // CHUNKS * CHUNKS
    x = np.random.default_rng(SEED).random((rows, 784), np.float32)
    table = da.from_array(x, chunks=(rows // CHUNKS, 784))
    tiny = da.from_array(x[:TINY_CHUNKS], chunks=(1, 784))

    def plain(array: Any) -> Any:
        return array.map_blocks(
            lambda block: function([block])[0], dtype="float32", chunks=(array.chunks[0], (10,)),
            meta=np.empty((0, 0), "float32"),
        )  # fmt: skip

    def nothing(array: Any) -> Any:
        return array.map_blocks(_nothing, dtype="float32", meta=np.empty((0, 0), "float32"))

    def computed(client: Any, make: Callable[[], Any]) -> Callable[[], object]:
        def call() -> object:
            with client.as_current():
                return client.compute(make()).result()

        return call

    calls: dict[str, Callable[[], object]] = {"one process": lambda: function([x])}
    for count, client in clients.items():
        here, small = client.persist(table), client.persist(tiny)
        for label, array in (("", here), (" tiny", small)):
            mapped, alone = partial(map_blocks, function, array), partial(plain, array)
            calls[f"map {count}{label}"] = computed(client, mapped)
            calls[f"plain {count}{label}"] = computed(client, alone)
        calls[f"nothing {count} tiny"] = computed(client, partial(nothing, small))
    times: dict[str, list[float]] = {label: [] for label in calls}
    for number in range(-1, rounds):
        for label in calls if number % 2 else reversed(calls):
            seconds = timed(calls[label])
            if number >= 0:
                times[label].append(seconds)
        print(f"maps, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return {"rows": rows, "bytes": x.nbytes, "chunks": CHUNKS, "times": times}


# ------------------------------------------------------------------ messages


def _echo(value: object) -> object:
    return value


async def _asked(other: str, count: int, at_once: int, dask_worker: Any = None) -> float:
    """Seconds for questions to another worker, one after the other or so many at once."""
    import asyncio

    begin = time.perf_counter()
    for _ in range(count):
        await asyncio.gather(*[dask_worker.rpc(other).echo(data=1) for _ in range(at_once)])
    return (time.perf_counter() - begin) / count


def measure_messages(client: Any) -> Row:
    """What Dask takes for tasks, questions and bytes, on two workers; lists of seconds."""
    import numpy as np

    first, second = sorted(client.nthreads())
    large = np.ones(LARGE // 4, np.float32)

    def chain(levels: int) -> None:
        future = client.submit(_echo, 0, workers=[first], pure=False)
        for at in range(levels):
            where = (second, first)[at % 2]
            future = client.submit(_echo, future, workers=[where], pure=False)
        future.result()

    def ask(count: int) -> float:
        found = client.run(_asked, second, 20, count, workers=[first])
        return float(found[first])

    def there_and_back(array: Any) -> None:
        (sent,) = client.scatter([array], workers=[first], hash=False)
        client.submit(np.negative, sent, workers=[first], pure=False).result()

    found: dict[str, list[float]] = {}
    for number in range(-1, MESSAGES):
        row = {
            "task": timed(lambda: chain(0)),
            "chain": timed(lambda: chain(LEVELS)),
            "message": ask(1),
            "messages": ask(AT_ONCE),
            "placed": timed(lambda: there_and_back(large[:1])),
            "copied": timed(lambda: there_and_back(large)),
        }
        for key, value in row.items() if number >= 0 else ():
            found.setdefault(key, []).append(value)
    return found


def main() -> int:
    """Measure what the options say, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--parts", default="fits,maps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    counts = sorted({1, 2, *map(int, options.workers.split(","))})
    names = [name for name in options.models.split(",") if name]
    with clusters(counts) as clients:
        measured: dict[str, Callable[[], Row]] = {
            "fits": lambda: measure_fits(clients, names, options.rounds, options.steps),
            "maps": lambda: measure_maps(clients, options.rounds, options.megabytes),
        }
        found = {part: measured[part]() for part in options.parts.split(",")}
    print("\n" + json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
