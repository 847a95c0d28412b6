"""Bytes of Keras' models: what is in them, how many they are, and what happens to harmed ones."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import subprocess
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest
from copies import X, Y, assert_equal, mlp, numbers, trained
from keras import layers
from keras.layers import Dense
from keras.models import Sequential

from kbench.engine.core.errors import ArgumentError
from kbench.keras_client import pickling

MAX_PLAIN_BYTES = 16_000
"""Of a small network that has not been trained, without its weights."""
MAX_TRAINED_BYTES = 40_000
"""The same with the graph of its training step, some 150 bytes for each operation."""


def values(model):
    own = model.optimizer.get_weights() if model.optimizer else []
    return sum(one.nbytes for one in [*model.get_weights(), *own])


def small(**options):
    return Sequential([Dense(64, activation="relu", input_shape=(4,), **options), Dense(2)])


def test_bytes_are_those_of_the_weights_and_little_more():
    model = small()
    assert len(pickle.dumps(model, 5)) - values(model) < MAX_PLAIN_BYTES
    trained(model, X, Y, metrics=[])
    assert len(pickle.dumps(model, 5)) - values(model) < MAX_TRAINED_BYTES


def test_weights_are_there_once():
    """Whatever they were made of: zeros, or an array that was given to the layer."""
    start = numbers(500, 100).astype("float32")
    for layer in (
        layers.Embedding(500, 100, weights=[start], input_length=3),
        layers.Embedding(500, 100, embeddings_initializer="zeros", input_length=3),
    ):
        model = Sequential([layer])
        assert len(pickle.dumps(model, 5)) - values(model) < MAX_PLAIN_BYTES
    assert_equal(pickle.loads(pickle.dumps(model)).get_weights(), model.get_weights())


def test_values_go_out_of_band():
    model = trained(small(), X, Y)
    buffers = []
    data = pickle.dumps(model, 5, buffer_callback=buffers.append)
    assert len(data) < MAX_TRAINED_BYTES
    frozen = [bytes(one) for one in buffers]
    twins = [pickle.loads(data, buffers=frozen) for _ in range(2)]
    kernel = twins[0].layers[0].kernel.held()
    assert any(np.shares_memory(kernel, np.frombuffer(one, np.uint8)) for one in frozen)
    before = twins[1].get_weights()
    for _ in range(12):  # in place, where it may be
        assert twins[0].train_on_batch(X, Y) == model.train_on_batch(X, Y)
    assert_equal(twins[1].get_weights(), before)


def test_no_code_is_in_the_bytes():
    """What is looked up are classes and functions by their names, none of them a lambda."""
    stack = [layers.LSTM(3, dropout=0.2, input_shape=(3, 4)), layers.BatchNormalization(), Dense(2)]
    data = pickle.dumps(trained(Sequential(stack), numbers(5, 3, 4), Y), 4)
    texts = [given for _, given, _ in pickletools.genops(data) if isinstance(given, (str, bytes))]
    assert not any("<lambda>" in str(text) or "<locals>" in str(text) for text in texts)
    names = seen_names(data)
    assert {module.partition(".")[0] for module, _ in names} <= {
        "kbench",
        "keras",
        "numpy",
        "collections",
    }
    kinds = {type(getattr(sys.modules[module], name)) for module, name in names}
    assert types.CodeType not in kinds


def seen_names(data):
    found = set()

    class Reader(pickle._Unpickler):
        def find_class(self, module, name):
            found.add((module, name))
            return super().find_class(module, name)

    Reader(io.BytesIO(data)).load()
    return found


def test_bytes_of_another_version(monkeypatch):
    for value in (Dense(2), keras.optimizers.SGD(), keras.losses.Huber()):
        data = pickle.dumps(value)
        monkeypatch.setattr(pickling, "FORMAT", 99)
        what = type(value).__name__
        with pytest.raises(ArgumentError, match=f"bytes of {what} are in form 1, and this kbench"):
            pickle.loads(data)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("made", "found"),
    [(b"units", b"unitz"), (b"float32", b"float33"), (b"lstm_mine", b"lstm_thin")],
)
def test_damage_is_found(made, found):
    data = pickle.dumps(Sequential([layers.LSTM(3, input_shape=(3, 4), name="lstm_mine")]))
    assert made in data
    with pytest.raises(ArgumentError, match="are damaged"):
        pickle.loads(data.replace(made, found))


FUZZ = """
import collections, pathlib, pickle, resource, sys, warnings
import numpy as np
from kbench.engine.core.errors import ArgumentError

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # flipped sizes ask for anything
warnings.simplefilter("ignore")
data, seen = pathlib.Path("model.pickle").read_bytes(), collections.Counter()
x, numbers = np.load("x.npy"), np.random.default_rng(int(sys.argv[1]))

def used(given):
    model = pickle.loads(given)
    return model.predict(x).tolist(), float(model.train_on_batch(x, np.ones((5, 2)))[0])

right = used(data)

def read(given):
    try:
        found = used(given)
    except ArgumentError as error:
        seen["ours"] += "are damaged" in str(error) or "this kbench" in str(error)
    except Exception as error:
        seen[type(error).__name__] += 1
    else:
        assert found == right, "another value"
        seen["the same"] += 1

for _ in range(300):
    harmed = bytearray(data)
    harmed[numbers.integers(len(data))] ^= 1 << int(numbers.integers(8))
    read(harmed)
assert seen["ours"] > 50 and seen.total() == 300, seen
seen.clear()
for end in range(0, len(data), 199):
    read(data[:end])
assert not seen["the same"], seen
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory for one process")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_damage_at_300_positions_and_truncation(seed, tmp_path: Path):
    """An error, of pickle's or of ours, or the same values: no others, no crash and no hang."""
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(trained(mlp(), X, Y), 5))
    np.save(tmp_path / "x.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(seed)],
        cwd=tmp_path,
        env={**os.environ, "KBENCH_JIT": "off", "KERAS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
