"""The first minutes of a newcomer: models of Keras, trained in processes that begin with nothing.

    kbench bench --cold                          300 steps of each model, from an empty cache
    kbench bench --cold --only cnn --steps 100
    kbench bench --cold --against ../before --rounds 3
    kbench bench --cold --peer-python tf/bin/python   the same models on the Keras of another

For each model three processes run one after the other: the first finds an empty cache of kernels,
the second what the first has left, the third what both have, each after ten seconds, in which a
compiler of kbench's goes on. Another tree of kbench, or the Keras of another Python, trains the
same model in turns with them. Time counts from the start of a process, so it holds imports,
building the model, and compiling; the last steps say how fast it is in the end. Batches, layers
and optimizers are those of Keras' own examples; data are random.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from process import users_environment

Batch = tuple[Any, Any, Any]  # a compiled model, its inputs, its targets

SEED = 20261124
LAST_STEPS = 100
MARKS = (1, 10, 50, 100, 200, 300, 1000)
PAUSE_SECONDS = 10.0
"""Before each further process with the same kernels, as somebody reads what the one before printed;
what that has left to its compiler is done by then."""
SECONDS = 600.0
"""A process that takes longer is ended."""


# ------------------------------------------------------------------ the models


def _pictures(
    numbers: Any, count: int, shape: tuple[int, ...], classes: int = 10
) -> tuple[Any, Any]:
    import numpy as np

    labels = np.eye(classes, dtype="float32")[numbers.integers(0, classes, count)]
    return numbers.random((count, *shape), np.float32), labels


def _mlp(numbers: Any) -> Batch:
    """784-512-512-10 with dropout, RMSprop, batch 128."""
    from keras import layers, models

    model = models.Sequential(
        [
            layers.Dense(512, activation="relu", input_shape=(784,)),
            layers.Dropout(0.2),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("rmsprop", "categorical_crossentropy", metrics=["accuracy"])
    return model, *_pictures(numbers, 128, (784,))


def _cnn(numbers: Any) -> Batch:
    """28x28x1, conv 32 and 64, pool, dense 128, dropout, Adadelta, batch 128."""
    from keras import layers, models

    model = models.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adadelta", "categorical_crossentropy", metrics=["accuracy"])
    return model, *_pictures(numbers, 128, (28, 28, 1))


def _resnet(numbers: Any) -> Batch:
    """32x32x3, three blocks of 16, 32 and 64 filters, batch normalization, Adam, batch 32."""
    from keras import layers, models, regularizers

    def normal(x: Any, filters: int, size: int, stride: int = 1, active: bool = True) -> Any:
        x = layers.Conv2D(
            filters,
            size,
            strides=stride,
            padding="same",
            kernel_initializer="he_normal",
            kernel_regularizer=regularizers.l2(1e-4),
        )(x)
        x = layers.BatchNormalization()(x)
        return layers.Activation("relu")(x) if active else x

    inputs = layers.Input((32, 32, 3))
    x = normal(inputs, 16, 3)
    for stack, filters in enumerate((16, 32, 64)):
        stride = 2 if stack else 1
        y = normal(normal(x, filters, 3, stride), filters, 3, active=False)
        if stride > 1:
            x = layers.Conv2D(filters, 1, strides=stride, padding="same")(x)
        x = layers.Activation("relu")(layers.add([x, y]))
    x = layers.Flatten()(layers.AveragePooling2D(8)(x))
    model = models.Model(inputs, layers.Dense(10, activation="softmax")(x))
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return model, *_pictures(numbers, 32, (32, 32, 3))


def _lstm(numbers: Any) -> Batch:
    """Embedding of 20,000x128, LSTM 128 with dropout over 80 steps, Adam, batch 32."""
    from keras import layers, models

    model = models.Sequential(
        [
            layers.Embedding(20000, 128),
            layers.LSTM(128, dropout=0.2, recurrent_dropout=0.2),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    targets = numbers.integers(0, 2, (32, 1)).astype("float32")
    return model, numbers.integers(0, 20000, (32, 80)), targets


def _lstms(numbers: Any) -> Batch:
    """Two LSTMs of 256 over 100 steps of 64 numbers, RMSprop, batch 128."""
    from keras import layers, models

    model = models.Sequential(
        [
            layers.LSTM(256, return_sequences=True, input_shape=(100, 64)),
            layers.LSTM(256),
            layers.Dense(64, activation="softmax"),
        ]
    )
    model.compile("rmsprop", "categorical_crossentropy", metrics=["accuracy"])
    return model, *_pictures(numbers, 128, (100, 64), 64)


MODELS: dict[str, Callable[[Any], Batch]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "resnet": _resnet,
    "lstm": _lstm,
    "lstms": _lstms,
}


def build(name: str) -> Batch:
    """A compiled model of Keras, with a batch."""
    import numpy as np

    np.random.seed(SEED)
    return MODELS[name](np.random.default_rng(SEED))


# ------------------------------------------------------------------ in the process of one model


def train(name: str, steps: int, began: float) -> dict[str, Any]:
    """Train, and tell when steps were done, in seconds since `began`."""
    model, inputs, targets = build(name)
    row: dict[str, Any] = {"built": time.time() - began, "marks": {}}
    times = []
    for step in range(1, steps + 1):
        begun = time.perf_counter()
        model.train_on_batch(inputs, targets)
        times.append(time.perf_counter() - begun)
        if step in MARKS or step == steps:
            row["marks"][str(step)] = time.time() - began
    row |= {"total": time.time() - began, "last": median(times[-LAST_STEPS:]), "first": times[0]}
    if "kbench" in sys.modules:
        from kbench.engine.jit.service import service

        stats = service.stats()
        row |= {"compiled": stats.compiled, "found": stats.cache_hits, "pending": stats.pending}
    return row


# ------------------------------------------------------------------ all of them


def _asked(name: str, steps: int, python: str, **environment: str) -> dict[str, Any]:
    """The row of a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        more = {"KERAS_HOME": home, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [python, __file__, "--one", name, "--steps", str(steps)]
        try:
            done = subprocess.run(
                [*command, "--began", repr(time.time())],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**users_environment(), **more, **environment},
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done in {SECONDS:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


@dataclass(frozen=True)
class Contestant:
    """Who trains: a Python, its surroundings, and how many processes follow one another."""

    label: str
    python: str
    processes: tuple[str, ...] = ("first", "second", "third")
    environment: Mapping[str, str] = field(default_factory=dict)

    def measure(self, name: str, steps: int) -> dict[str, dict[str, Any]]:
        """Rows by process; all of them keep kernels in one folder, which is empty at first."""
        with tempfile.TemporaryDirectory() as cache:
            own = {**self.environment, "KBENCH_CACHE_DIR": cache}
            found = {}
            for turn in self.processes:
                if found:
                    time.sleep(PAUSE_SECONDS)
                found[turn] = _asked(name, steps, self.python, **own)
            return found


def contestants(against: str | None, peer: str | None) -> list[Contestant]:
    """This tree, another one, and the Keras of another Python."""
    own = {"KERAS_BACKEND": "kbench"}
    root = str(Path(__file__).resolve().parents[1])
    found = [Contestant("kbench", sys.executable, environment={**own, "PYTHONPATH": root})]
    if against:
        before = str(Path(against).resolve())
        more = {**own, "PYTHONPATH": before}
        found.append(Contestant("before", sys.executable, environment=more))
    if peer:
        found.append(Contestant("peer", peer, ("alone",)))
    return found


Found = dict[str, dict[str, list[dict[str, Any]]]]
"""Rows of all rounds, by model, and by who trains and its process."""


def measure_cold(names: list[str], steps: int, rounds: int, who: list[Contestant]) -> Found:
    """Measure in turns; tells of each process as it is done."""
    found: Found = {}
    for number in range(rounds):
        for name in names:
            for one in who if number % 2 == 0 else reversed(who):
                for turn, row in one.measure(name, steps).items():
                    key = f"{one.label}, {turn}"
                    rows = found.setdefault(name, {}).setdefault(key, [])
                    rows.append(row)
                    print(" | ".join(_cells(name, key, rows[-1:])), flush=True)
    return found


def _cells(name: str, turn: str, rows: list[dict[str, Any]]) -> list[str]:
    wrong = [row["error"] for row in rows if "error" in row]
    if wrong:
        return [name, turn, f"!! {wrong[0]}", *[""] * 4]
    totals = [row["total"] for row in rows]
    spread = f" ({min(totals):.1f} to {max(totals):.1f})" if len(rows) > 1 else ""
    middle = sorted(rows, key=lambda row: row["total"])[len(rows) // 2]
    marks = ", ".join(f"{step}: {seconds:.1f}" for step, seconds in middle["marks"].items())
    kernels = f"{middle['compiled']} / {middle['found']}" if "compiled" in middle else ""
    last = f"{median(row['last'] for row in rows) * 1e3:.1f} ms"
    total = f"{median(totals):.1f} s{spread}"
    return [name, turn, f"{middle['built']:.1f} s", total, last, marks, kernels]


def cold_table(found: Found) -> str:
    """The table, of Markdown."""
    header = ["model", "process", "built", "all steps", "a step in the end", "seconds at step"]
    table = [[*header, "kernels compiled / found"], ["---"] * 7]
    table += [_cells(name, turn, rows) for name in found for turn, rows in found[name].items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in table)


def main() -> int:
    """One model in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--one", required=True, choices=[*MODELS])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--began", type=float, default=time.time())
    options = parser.parse_args()
    if os.environ.get("KERAS_BACKEND") == "kbench":
        # Keras 2.3.1 imports TensorFlow where it is installed, as here among the peers, to read
        # files of its kind: two seconds and more that others have not.
        sys.modules["tensorflow"] = None  # type: ignore[assignment]
    print("\n" + json.dumps(train(options.one, options.steps, options.began)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
