"""Settings of Keras 3 and of K are the same ones, and the workbench shows and sets both."""

import keras3_there  # noqa: F401  # isort: skip
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from kbench import backend as K
from kbench.workbench.inspector.inspector import Inspector

OTHERS = {"epsilon": 1e-3, "floatx": "float16", "image_data_format": "channels_first"}


@pytest.fixture(autouse=True)
def settings():
    before = {name: getattr(K, name)() for name in OTHERS}
    yield
    for name, value in before.items():
        getattr(keras.config, f"set_{name}")(value)


@pytest.mark.parametrize("name", OTHERS)
def test_either_side_sets_both(name):
    first, other = getattr(K, name)(), OTHERS[name]
    getattr(keras.config, f"set_{name}")(other)
    assert getattr(K, name)() == getattr(keras.config, name)() == other
    getattr(K, f"set_{name}")(first)
    assert getattr(K, name)() == getattr(keras.config, name)() == first
    getattr(keras.backend, f"set_{name}")(other)
    assert getattr(K, name)() == other


def test_what_either_refuses_changes_none():
    for side in (K, keras.config):
        for name in OTHERS:
            with pytest.raises(ValueError):
                getattr(side, f"set_{name}")("nothing of the kind" if name != "epsilon" else "x")
    for name in OTHERS:
        assert getattr(K, name)() == getattr(keras.config, name)()


def test_a_dtype_that_only_keras_has():
    keras.config.set_floatx("bfloat16")
    assert (keras.config.floatx(), K.floatx()) == ("bfloat16", "float32")
    K.set_epsilon(1e-4)
    assert keras.config.floatx() == "bfloat16" and keras.config.epsilon() == 1e-4


def test_the_workbench_shows_and_sets_those_of_keras():
    inspector = Inspector({})
    try:
        keras.config.set_epsilon(1e-3)
        known = inspector.handle({"id": 1, "verb": "hello"})["data"]["config"]
        assert known["epsilon"] == 1e-3
        reply = inspector.handle({"id": 2, "verb": "config", "set": {"floatx": "float64"}})
        assert reply["ok"], reply
    finally:
        inspector.close()
    assert keras.config.floatx() == "float64"
    assert str(keras.layers.Dense(2).compute_dtype) in ("float32", "float64")


@pytest.mark.slow
def test_what_was_set_before_keras_is_loaded_stays():
    text = (
        "import kbench as K; K.set_floatx('float64'); K.set_image_data_format('channels_first');"
        "import keras; print(keras.config.floatx(), keras.config.image_data_format(),"
        "keras.layers.Dense(2).compute_dtype, keras.config.epsilon())"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "KERAS_BACKEND": "kbench"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["float64", "channels_first", "float64", "1e-07"]


def test_losses_take_the_epsilon_that_is_set():
    y, p = np.array([1.0], "float32"), np.array([0.0], "float32")
    K.set_epsilon(1e-2)
    found = keras.ops.binary_crossentropy(y, p)
    np.testing.assert_allclose(found, -np.log(1e-2), rtol=1e-5)
