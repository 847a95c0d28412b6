"""What users have made themselves, through pickle, cloudpickle and copy; and other processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import cloudpickle
import keras
import numpy as np
import pytest
from copies import WAYS, X, Y, assert_alike, assert_equal, mlp, trained
from keras import backend as K
from keras import layers
from keras.layers import Dense
from keras.models import Model, Sequential

from kbench.engine.core.errors import ArgumentError, EngineError
from kbench.keras_client import code

WAYS = {**WAYS, "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value))}
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def _on_numpy(monkeypatch):
    monkeypatch.setenv("KBENCH_JIT", "off")


class Scaled(layers.Layer):
    """A layer that tells nothing of itself in `get_config`, and holds layers and variables."""

    def __init__(self, by, **options):
        super().__init__(**options)
        self.by, self.inner = by, [Dense(4), Dense(4, activation=lambda x: K.tanh(x) * by)]

    def build(self, input_shape):
        self.weight = self.add_weight(name="w", shape=input_shape[1:], initializer="ones")
        self.seen = self.add_weight(name="n", shape=(), initializer="zeros", trainable=False)
        for one in self.inner:
            one.build(input_shape)
        super().build(input_shape)

    def call(self, inputs):
        self.add_update(K.update_add(self.seen, 1.0), inputs)
        self.add_loss(K.mean(K.square(inputs)), inputs)
        return self.inner[1].call(self.inner[0].call(inputs)) * self.weight * self.by


def own_loss(true, pred):
    return K.mean(K.abs(true - pred), axis=-1)


def pulled(by):
    """A loss and a metric that close over a number."""

    def loss(true, pred):
        return by * K.mean(K.square(true - pred), axis=-1)

    return loss


@each_way
def test_layers_and_losses(way):
    model = Sequential([Scaled(2.0, input_shape=(4,)), layers.Lambda(lambda x: x + 1.0), Dense(2)])
    trained(model, X, Y, loss=pulled(0.3), metrics=[own_loss, pulled(2.0)])
    twin = WAYS[way](model)
    assert_alike(model, twin, X, Y)
    assert K.get_value(twin.layers[0].seen) == 4.0
    assert twin.layers[1].function(3.0) == 4.0 and twin.loss(Y, Y + 2.0).shape == (5,)
    twin.compile("sgd", twin.loss, metrics=twin._compile_metrics)  # the functions themselves work
    twin.train_on_batch(X, Y)


class Own(Model):
    """A model as a class, with a layer that two of its layers share."""

    def __init__(self, units):
        super().__init__(name="own")
        self.first, self.drop = Dense(units, activation="relu"), layers.Dropout(0.5)
        self.last, self.units = Dense(2), units

    def call(self, inputs, training=None):
        return self.last(self.drop(self.first(inputs)))


@each_way
def test_models_as_classes(way):
    model = Own(5)
    fresh = WAYS[way](model)
    assert fresh.units == 5 and not fresh.built
    trained(fresh, X, Y)
    trained(model, X, Y)
    twin = WAYS[way](model)
    assert_alike(model, twin, X, Y)
    assert twin.first is twin.layers[0] and twin.first.units == 5


class Built(Model):
    """A functional model that makes itself, and keeps a part of itself by name."""

    def __init__(self):
        start = layers.Input((4,))
        inside = Dense(3)(start)
        super().__init__(start, Dense(2)(inside))
        self.encoder = Model(start, inside)


@each_way
def test_functional_models_as_classes(way):
    model = trained(Built(), X, Y)
    twin = WAYS[way](model)
    assert_alike(model, twin, X, Y)
    assert twin.encoder.layers[1] is twin.layers[1]
    assert_equal(twin.encoder.predict(X), model.encoder.predict(X))


@each_way
def test_losses_of_inner_tensors(way):
    """A variational autoencoder, whose loss reads what its layers give."""
    start = layers.Input((4,))
    mean, spread = Dense(2)(start), Dense(2)(start)
    code_ = layers.Lambda(lambda z: z[0] + K.exp(z[1]) * K.random_normal(K.shape(z[0])))(
        [mean, spread]
    )
    end = Dense(4)(code_)
    model = Model(start, end)
    model.add_loss(K.mean(K.square(end - start)) + K.mean(K.exp(spread) - spread + K.square(mean)))
    model.compile("adam")
    model.train_on_batch(X, None)
    twin = WAYS[way](model)
    for _ in range(3):
        assert twin.train_on_batch(X, None) == model.train_on_batch(X, None)
    assert len(twin.losses) == 1


@each_way
def test_metrics_of_inner_tensors(way):
    start = layers.Input((4,))
    inside = Dense(3)(start)
    model = Model(start, Dense(2)(inside))
    model.add_metric(K.sum(inside), name="total")
    model.layers[1].add_metric(keras.metrics.Mean(name="mean")(inside))
    trained(model, X, Y)
    assert_alike(model, WAYS[way](model), X, Y)


class Agent:
    """What learns by a function of its own, made of a model."""

    def __init__(self):
        self.model = Sequential([Dense(3, input_shape=(4,)), Dense(2)])
        self.target = copy.deepcopy(self.model)
        wanted = K.placeholder((None, 2))
        loss = K.mean(K.square(self.model.output - wanted))
        self.optimizer = keras.optimizers.Adam(0.1)
        updates = self.optimizer.get_updates(loss, self.model.trainable_weights)
        self.learn = K.function([self.model.input, wanted], [loss], updates=updates)


@each_way
def test_an_object_that_holds_a_model_and_functions(way):
    agent = Agent()
    agent.learn([X, Y])
    twin = WAYS[way](agent)
    for _ in range(2):
        assert twin.learn([X, Y]) == agent.learn([X, Y])
    assert_equal(twin.model.predict(X), agent.model.predict(X))
    assert_equal(twin.target.predict(X), agent.target.predict(X))
    assert_equal(twin.optimizer.get_weights(), agent.optimizer.get_weights())


class Kept(layers.Layer):
    """One that says itself what is pickled of it."""

    def __getstate__(self):
        return {"kept": super().__getstate__(), "note": "from getstate"}

    def __setstate__(self, state):
        super().__setstate__(state["kept"])
        self.note = state["note"]

    def call(self, inputs):
        return inputs * 2.0


def test_a_layer_with_a_state_of_its_own():
    model = trained(Sequential([Dense(4, input_shape=(4,)), Kept(), Dense(2)]), X, Y)
    twin = WAYS["pickle"](model)
    assert twin.layers[1].note == "from getstate"
    assert_alike(model, twin, X, Y)


def test_what_cannot_be_pickled_is_named():
    model = mlp()
    model.layers[0].lock = threading.Lock()
    with pytest.raises(TypeError, match="'_thread.lock'"):
        pickle.dumps(model)


# ------------------------------------------------------------------ code in bytes


@each_way
def test_functions_without_a_name(way):
    def plain(x, by=2, *, more=1):
        return x * by + more + offset

    offset = 10
    twin = WAYS[way](code.carried([plain, len, {"f": lambda x: plain(x)}]))
    assert twin[0](3) == 17 and twin[1] is len and twin[2]["f"](1) == 13
    assert code.carried(own_loss) is own_loss


def test_code_of_another_python(monkeypatch):
    layer = layers.Lambda(lambda x: x + 1.0)
    data = pickle.dumps(layer)
    monkeypatch.setattr(code, "PYTHON", "cpython-399")
    with pytest.raises(ArgumentError, match=r"code of cpython-3\d+, and this is cpython-399"):
        pickle.loads(data)
    monkeypatch.undo()
    assert pickle.loads(data).function(1.0) == 2.0
    place = data.index(layer.function.__code__.co_code)
    harmed = bytearray(data)
    harmed[place] ^= 1
    with pytest.raises(ArgumentError, match="its code has another checksum"):
        pickle.loads(harmed)


# ------------------------------------------------------------------ other processes

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("KERAS")},
    "KBENCH_JIT": "off",
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "PYTHONWARNINGS": "ignore",
}


def run(text, folder, **more):
    return subprocess.run(
        [sys.executable, *(text if isinstance(text, list) else ["-c", text])],
        cwd=folder,
        env={**ENVIRONMENT, "KERAS_HOME": str(folder), **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


READ = """
import pickle, sys, numpy as np
model, x = pickle.load(open("model.pickle", "rb")), np.load("x.npy")
np.savez("out.npz", model.predict(x), model.train_on_batch(x, np.zeros((5, 2)))[0])
"""


def test_a_process_that_knows_nothing_of_keras(tmp_path: Path):
    """Reading the bytes makes kbench the backend there."""
    model = trained(mlp(layers.GaussianNoise(0.1)), X, Y)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "x.npy", X)
    done = run(READ, tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        predicted, loss = found.values()
    assert_equal(predicted, model.predict(X))
    assert loss == model.train_on_batch(X, np.zeros((5, 2)))[0]
    refused = run(READ, tmp_path, KERAS_BACKEND="numpy")
    assert "set KERAS_BACKEND=kbench before Keras is imported" in refused.stderr


def test_another_backend(monkeypatch):
    data = pickle.dumps(Dense(2))
    monkeypatch.setattr("kbench.keras_client.keras_runs_on_kbench", lambda: False)
    with pytest.raises(EngineError, match="Keras runs on another backend here"):
        pickle.loads(data)


MAKE = """
import os
os.environ["KERAS_BACKEND"] = "kbench"
import cloudpickle, numpy as np
from keras import backend as K, layers
from keras.models import Model, Sequential

SCALE = 3.0

class Mine(layers.Layer):
    def call(self, inputs):
        return K.sin(inputs) * SCALE

def loss(true, pred):
    return K.mean(K.square(true - pred)) * SCALE

class Whole(Model):
    def __init__(self):
        super().__init__()
        self.mine, self.last = Mine(), layers.Dense(2)
    def call(self, inputs):
        return self.last(self.mine(inputs))

x = np.load("x.npy")
models = [Sequential([Mine(input_shape=(4,)), layers.Lambda(lambda x: x * SCALE), layers.Dense(2)])]
for model in [*models, Whole()]:
    model.compile("adam", loss, metrics=[lambda true, pred: K.mean(pred)])
    model.train_on_batch(x, np.zeros((5, 2)))
    name = type(model).__name__
    open(f"{name}.pickle", "wb").write(cloudpickle.dumps(model))
    np.save(f"{name}.npy", model.predict(x))
    np.save(f"{name}.loss.npy", model.train_on_batch(x, np.zeros((5, 2))))
"""


def test_what_a_notebook_defines(tmp_path: Path):
    """Classes and functions of `__main__`, which cloudpickle takes along."""
    np.save(tmp_path / "x.npy", X)
    done = run(MAKE, tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("Sequential", "Whole"):
        model = pickle.loads((tmp_path / f"{name}.pickle").read_bytes())
        assert_equal(model.predict(X), np.load(tmp_path / f"{name}.npy"))
        found = model.train_on_batch(X, np.zeros((5, 2)))
        assert_equal(np.array(found), np.load(tmp_path / f"{name}.loss.npy"))


START = """
import multiprocessing, os, sys
import numpy as np

def predicted(model, x):
    return model.predict(x)

if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "kbench"
    from keras.layers import Dense, Dropout
    from keras.models import Sequential

    x = np.load("x.npy")
    model = Sequential([Dense(3, input_shape=(4,)), Dropout(0.5), Dense(2)])
    model.compile("adam", "mse")
    model.train_on_batch(x, np.zeros((5, 2)))
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        found = pool.starmap_async(predicted, [(model, x)] * 2).get(100)
    for one in found:
        np.testing.assert_array_equal(one, model.predict(x))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_started(method, tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "start.py").write_text(START)
    done = run(["start.py", method], tmp_path)
    assert done.returncode == 0, done.stderr
