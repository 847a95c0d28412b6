"""Every callback of Keras 2.3.1 on kbench."""

from __future__ import annotations

import csv
import inspect
import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import backend as K
from keras import callbacks, models, optimizers
from keras.callbacks import LambdaCallback
from keras.layers import Dense
from keras.models import Sequential

X = np.random.default_rng(1).normal(size=(8, 3))
Y = np.random.default_rng(2).normal(size=(8, 1))
TESTED = set()


def covers(*names):
    """Mark what a test is about; all callbacks must be marked somewhere."""
    TESTED.update(names)
    return lambda test: test


def made(rate=0.1):
    model = Sequential([Dense(1, input_shape=(3,))])
    model.compile(optimizers.SGD(rate), "mse", metrics=["mae"])
    return model


def fit(model, *extra, epochs=1, **options):
    return model.fit(X, Y, 4, epochs=epochs, verbose=0, callbacks=list(extra), **options)


class Script(callbacks.Callback):
    """Writes into the logs what was agreed on, epoch by epoch, before others read them."""

    def __init__(self, values, name="val_loss"):
        super().__init__()
        self.values, self.name = values, name

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = self.values[epoch]


@covers("History", "BaseLogger")
def test_history():
    model = made()
    history = fit(model, epochs=3, validation_data=(X, Y))
    assert sorted(history.history) == ["loss", "mae", "val_loss", "val_mae"]
    assert all(len(one) == 3 for one in history.history.values())
    assert model.history is history


@covers("ProgbarLogger")
def test_progress_bar(capsys):
    made().fit(X, Y, 4, epochs=2)
    text = capsys.readouterr().out
    assert text.count("8/8 [") == 2
    made().fit_generator(iter([(X, Y)] * 2), steps_per_epoch=2)
    assert "2/2 [" in capsys.readouterr().out


@covers("TerminateOnNaN")
def test_terminate_on_nan():
    model = made()
    bad = np.where(np.arange(8)[:, None] < 4, np.nan, X)
    history = model.fit(bad, Y, 4, epochs=5, verbose=0, callbacks=[callbacks.TerminateOnNaN()])
    assert len(history.epoch) == 1
    assert model.stop_training


@covers("EarlyStopping")
@pytest.mark.parametrize(
    ("options", "values", "epochs"),
    [
        ({"patience": 2}, [5, 4, 4.5, 4.5, 1], 4),
        ({"patience": 1, "min_delta": 0.6}, [5, 4.5, 3], 2),
        ({"patience": 1, "mode": "max"}, [1, 2, 1.5, 9], 3),
        ({"patience": 2, "baseline": 1.0}, [3, 2, 0.5], 2),
    ],
)
def test_early_stopping(options, values, epochs):
    stop = callbacks.EarlyStopping(monitor="val_loss", **options)
    history = fit(made(), Script(values), stop, epochs=len(values))
    assert len(history.epoch) == epochs


@covers("EarlyStopping")
def test_early_stopping_restores_the_best():
    weights = []
    keep = LambdaCallback(on_epoch_end=lambda epoch, logs: weights.append(model.get_weights()))
    model = made()
    stop = callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    fit(model, keep, Script([3, 1, 2, 2]), stop, epochs=4)
    np.testing.assert_array_equal(model.get_weights()[0], weights[1][0])


@covers("ModelCheckpoint")
@pytest.mark.parametrize("weights_only", [False, True])
def test_model_checkpoint(weights_only, tmp_path):
    path = str(tmp_path / "{epoch:02d}-{val_loss:.1f}.h5")
    keep = callbacks.ModelCheckpoint(
        path, save_best_only=True, save_weights_only=weights_only, verbose=1
    )
    model = made()
    fit(model, Script([3.0, 4.0, 2.0]), keep, epochs=3)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["01-3.0.h5", "03-2.0.h5"]
    last = str(tmp_path / "03-2.0.h5")
    if weights_only:
        twin = made()
        twin.load_weights(last)
    else:
        twin = models.load_model(last)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


@covers("ModelCheckpoint")
def test_model_checkpoint_now_and_then(tmp_path):
    path = str(tmp_path / "{epoch}.h5")
    fit(made(), callbacks.ModelCheckpoint(path, period=2), epochs=5)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["2.h5", "4.h5"]


@covers("LearningRateScheduler")
def test_learning_rate_scheduler(capsys):
    model = made()
    by_epoch = callbacks.LearningRateScheduler(lambda epoch: 1 / (1 + epoch), verbose=1)
    history = fit(model, by_epoch, epochs=3)
    np.testing.assert_allclose(history.history["lr"], [1, 1 / 2, 1 / 3], rtol=1e-6)
    assert capsys.readouterr().out.count("learning rate") == 3
    fit(model, callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2), epochs=2)
    assert K.get_value(model.optimizer.lr) == pytest.approx(1 / 12)


@covers("ReduceLROnPlateau")
def test_reduce_rate_on_plateau():
    model = made(1.0)
    lower = callbacks.ReduceLROnPlateau(
        "val_loss", factor=0.5, patience=1, cooldown=1, min_lr=0.2, min_delta=0.1
    )
    history = fit(model, Script([4, 3, 3, 3, 3, 3, 3, 3]), lower, epochs=8)
    np.testing.assert_allclose(history.history["lr"], [1, 1, 1, 0.5, 0.25, 0.2, 0.2, 0.2])


@covers("CSVLogger")
def test_csv_logger(tmp_path):
    path = tmp_path / "log.csv"
    model = made()
    first = fit(model, callbacks.CSVLogger(str(path)), epochs=2)
    fit(model, callbacks.CSVLogger(str(path), append=True), epochs=1)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "0"]
    assert float(rows[1]["loss"]) == pytest.approx(first.history["loss"][1])


@covers("LambdaCallback", "Callback", "CallbackList")
def test_what_is_called_when():
    told = []
    hooks = "epoch_begin epoch_end batch_begin batch_end train_begin train_end".split()

    def tell(name):
        return lambda *arguments, **named: told.append(name)

    lambdas = LambdaCallback(**{f"on_{name}": tell(name) for name in hooks})

    class Listener(callbacks.Callback):
        """The hooks of prediction and evaluation, which lambdas do not have."""

        def on_test_batch_end(self, batch, logs=None):
            told.append("test")

        def on_predict_begin(self, logs=None):
            told.append("predict")

    model = made()
    fit(model, lambdas)
    batch = ["batch_begin", "batch_end"]
    assert told == ["train_begin", "epoch_begin", *batch * 2, "epoch_end", "train_end"]
    told.clear()
    model.evaluate(X, Y, 4, verbose=0, callbacks=[Listener()])
    model.predict(X, callbacks=[Listener()])
    assert told == ["test", "test", "predict"]


@covers("RemoteMonitor")
def test_remote_monitor(monkeypatch):
    """What is sent, without the package `requests`, and what is said when it is missing."""
    sent = []

    def post(url, json, headers):
        sent.append((url, json))

    monkeypatch.setattr(keras.callbacks.callbacks, "requests", None)
    with pytest.raises(ImportError, match="requests"):
        fit(made(), callbacks.RemoteMonitor("http://here"))
    fake = SimpleNamespace(post=post, exceptions=SimpleNamespace(RequestException=OSError))
    monkeypatch.setattr(keras.callbacks.callbacks, "requests", fake)
    monitor = callbacks.RemoteMonitor("http://here", path="/logs", send_as_json=True)
    history = fit(made(), monitor, epochs=2)
    assert [url for url, _ in sent] == ["http://here/logs"] * 2
    assert [one["epoch"] for _, one in sent] == [0, 1]
    assert json.loads(json.dumps(sent[1][1]))["loss"] == history.history["loss"][1]


def test_weights_in_the_middle_of_training():
    """A callback may read and write weights, and ask the model, between two batches."""
    seen = []

    class Meddler(callbacks.Callback):
        def on_batch_end(self, batch, logs=None):
            seen.append(self.model.predict(X[:1])[0, 0])
            self.model.set_weights([np.zeros((3, 1)), np.full(1, batch)])

    model = made(0.0)
    fit(model, Meddler(), epochs=2)
    assert seen[1:] == [0, 1, 0]


def test_every_callback_is_tested():
    public = {
        one.__name__
        for one in vars(callbacks).values()
        if inspect.isclass(one) and issubclass(one, callbacks.Callback)
    }
    assert public - TESTED == {"TensorBoard"}, "which needs TensorFlow: see test_client"
