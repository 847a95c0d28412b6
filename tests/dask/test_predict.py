"""`predict`: models of Keras over dask arrays, as `model.predict` on one machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from keras_loaded import OWN_WARNINGS, batch, load, residual
from sampling import every

from kbench import backend as K
from kbench.dask import predict
from kbench.dask.payload import pack
from kbench.engine.core.errors import ArgumentError, FeedError, ShapeError

keras = load()
import layer_table_core  # noqa: E402
import layer_table_recurrent  # noqa: E402
import layer_table_spatial  # noqa: E402
from layer_table import BATCH, LayerRow  # noqa: E402

ROWS = [*layer_table_core.ROWS, *layer_table_spatial.ROWS, *layer_table_recurrent.ROWS]
pytestmark = [
    *OWN_WARNINGS,
    pytest.mark.filterwarnings("ignore:The `(Highway|MaxoutDense)` layer is deprecated"),
]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KBENCH_JIT", "off")
    yield
    K.clear_session()


def compute(found: Any, scheduler: str = "threads") -> list[np.ndarray]:
    (result,) = dask.compute(found, scheduler=scheduler)
    return result if isinstance(result, list) else [result]


def same(found: Any, wanted: Any) -> None:
    """Equal to the bit, with the shapes and dtypes that were told."""
    told = found if isinstance(found, list) else [found]
    wanted = wanted if isinstance(wanted, list) else [wanted]
    for one, value, other in zip(told, compute(found), wanted, strict=True):
        assert one.shape == value.shape == other.shape and one.dtype == value.dtype == other.dtype
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize("row", every(4, ROWS), ids=str)
def test_every_layer(row: LayerRow) -> None:
    model, layer = row.model()
    layer.set_weights(row.weights(layer))
    inputs = [np.concatenate([one, one[::-1]]) for one in row.inputs()]
    if not row.fixed:
        inputs = [one[:5] for one in inputs]
    given = [da.from_array(one, chunks=(BATCH, *one.shape[1:])) for one in inputs]
    same(predict(model, given, batch_size=BATCH), model.predict(inputs, batch_size=BATCH))


@pytest.mark.parametrize("scheduler", every(2, ["threads", "processes", "synchronous"]))
def test_a_model_with_dropout_and_normalization(scheduler: str) -> None:
    model, (x, _) = residual(), batch(100)
    y = predict(model, da.from_array(x, chunks=(64, 6)))
    assert (y.shape, y.chunks, y.dtype) == ((100, 3), ((64, 36), (3,)), "float32")
    np.testing.assert_array_equal(compute(y, scheduler)[0], model.predict(x))
    other = predict(model, da.from_array(x, chunks=(17, 4)), batch_size=1000)
    np.testing.assert_allclose(compute(other, scheduler)[0], model.predict(x), rtol=1e-5)


def test_on_a_cluster_whose_workers_have_no_keras(client: Any) -> None:
    def loaded() -> bool:
        return "keras" in sys.modules

    model, (x, _) = residual(), batch(100)
    y = predict(model, da.from_array(x, chunks=(32, 6)))
    np.testing.assert_allclose(client.compute(y).result(), model.predict(x), rtol=1e-5)
    assert not any(client.run(loaded).values())


def test_several_inputs_and_outputs() -> None:
    layers = keras.layers
    a, b = layers.Input((4,), name="a"), layers.Input((3,), name="b")
    c = layers.concatenate([a, b])
    model = keras.models.Model([a, b], [layers.Dense(2)(c), layers.Dense(5)(layers.add([c, c]))])
    source = np.random.default_rng(2)
    x, y = (source.normal(size=(40, count)).astype("float32") for count in (4, 3))
    parts = [da.from_array(x, chunks=(32, 4)), da.from_array(y, chunks=(40, 3))]
    wanted = model.predict([x, y])
    same(predict(model, parts), wanted)
    same(predict(model, dict(zip("ab", parts, strict=True))), wanted)
    with pytest.raises(ArgumentError, match="all inputs of the model need arrays of Dask"):
        predict(model, [parts[0], y])
    for given in ({"a": parts[0]}, parts[:1], {"a": parts[0], "c": parts[1]}):
        with pytest.raises(FeedError, match=r"kbench.dask.predict: (x has values for|the model)"):
            predict(model, given)


def test_numbers_in_a_row_are_a_column() -> None:
    model = keras.models.Sequential([keras.layers.Dense(2, input_shape=(1,))])
    x = np.arange(40, dtype="float32")
    same(predict(model, da.from_array(x, chunks=32)), model.predict(x))


def test_rows_that_see_their_batch_need_the_batches_of_keras() -> None:
    centred = keras.layers.Lambda(lambda x: x - K.mean(x, axis=0))
    model = keras.models.Sequential([keras.layers.Dense(3, input_shape=(6,)), centred])
    x, _ = batch(100)
    same(predict(model, da.from_array(x, chunks=(64, 6))), model.predict(x))
    with pytest.raises(ArgumentError) as caught:
        predict(model, da.from_array(x, chunks=(50, 6)))
    text = str(caught.value)
    assert "goes over the batch axis: then chunks must be whole numbers of batches of 32" in text
    assert "try x.rechunk({0: 992})" in text


def test_weights_are_those_of_when_it_was_made() -> None:
    model, (x, y) = residual(), batch(64)
    wanted = model.predict(x)
    lazy = predict(model, da.from_array(x, chunks=(32, 6)))
    model.fit(x, y, verbose=0)
    same(lazy, wanted)
    same(predict(model, da.from_array(x, chunks=(32, 6))), model.predict(x))


def _stateful() -> Any:
    lstm = keras.layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 2))
    return keras.models.Sequential([lstm])


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: predict(len, da.ones((4, 6))), ArgumentError, "model must be a model of Keras"),
    (lambda: predict(keras.models.Sequential(), da.ones((4, 6))), ArgumentError, "has its inputs"),
    (lambda: predict(_stateful(), da.ones((4, 3, 2))), ArgumentError, "is stateful"),
    (lambda: predict(residual(), da.ones((4, 5))), ShapeError, "axis 1 must have 6 entries"),
    (lambda: predict(residual(), np.ones((4, 6))), ArgumentError, "try dask.array.from_array"),
    (lambda: predict(residual(), da.ones((4, 6)), 0), ArgumentError, "batch_size must be an int"),
    (lambda: predict(residual(), da.ones((4, 6)), 2.5), ArgumentError, "batch_size must be an"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refused_at_the_call(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert text.startswith("kbench.dask.predict: ") and "at test_predict.py:" in text
    assert words in text


def test_a_model_as_a_payload() -> None:
    model, (x, y) = residual(), batch()
    first = pack(model)
    assert pack(model) == first
    np.testing.assert_array_equal(first.fresh().predict(x), model.predict(x))
    model.fit(x, y, verbose=0)
    assert pack(model) != first


@pytest.mark.slow
def test_layers_that_only_a_script_has(tmp_path: Any) -> None:
    text = """if True:
        import os
        os.environ["KERAS_BACKEND"] = "kbench"
        import keras, numpy as np, dask.array as da
        from kbench import backend as K
        from kbench.dask import predict
        from kbench.dask.payload import pack

        class Doubled(keras.layers.Layer):
            def call(self, x):
                return x * 2.0

        if __name__ == "__main__":
            model = keras.models.Sequential([keras.layers.Dense(2, input_shape=(3,)), Doubled()])
            x = np.ones((5, 3), "float32")
            y = predict(model, da.from_array(x, chunks=(2, 3)), batch_size=2)
            wanted = model.predict(x, batch_size=2)
            for scheduler in ("processes", "threads"):
                assert np.allclose(y.compute(scheduler=scheduler), wanted)
            assert np.array_equal(pack(model).fresh().predict(x), model.predict(x))
    """
    path = tmp_path / "script.py"
    path.write_text(text)
    subprocess.run([sys.executable, path], check=True, timeout=240, cwd=tmp_path)
