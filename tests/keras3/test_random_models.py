"""Random models of Keras 3: the ways in which kbench trains one of them agree.

`python -m keras3_programs` compares them with another backend.
"""

import keras3_there  # noqa: F401  # isort: skip
import contextlib

import keras
import numpy as np
import pytest
from keras3_programs.compare import differences, inconsistencies
from keras3_programs.draw_functions import record as functions_recorded
from keras3_programs.draw_model import Drawn
from keras3_programs.run import record

from kbench.api.operations import kernels_allowed

WAYS = {
    "eager": {"run_eagerly": True},
    "without_kernels": {"jit_compile": False},
    "two_steps": {"steps_per_execution": 2},
}
REFUSED = (10, 20, 29)  # a layer is used again for a shape that it does not take
QUICK, LONG = range(3), [seed for seed in range(3, 30) if seed not in REFUSED]
FUNCTIONS = {"quick": range(30), "long": range(30, 400)}
CALLS = ("before", "called", "training")
"""What is recorded of a model before it is compiled, which ways to train it do not change."""
LOUD = ("not available", "needed in a traced step", "depends on values")
LOUD += ("integer division by zero", "integer modulo by zero")
"""What a traced step says that it cannot do, and an eager call does."""


def _agree(seed, ways):
    keras.backend.clear_session()
    drawn = Drawn(seed)
    found = record(drawn)
    for way in ways:
        other = Drawn(seed)
        allowed = kernels_allowed(False) if way == "without_kernels" else contextlib.nullcontext()
        with allowed:
            run = record(other, calls=way == "without_kernels", **WAYS[way])
        wanted = found if way == "without_kernels" else _of_training(found)
        assert differences(_unnamed(run), _unnamed(wanted), drawn.policy, 0.2) == [], (way, seed)
    return drawn


def _of_training(found):
    return {name: value for name, value in found.items() if name.split("/")[0] not in CALLS}


def _unnamed(found):
    """Values under names that do not count how often a layer of that kind was made before."""
    return {f"{i}/{name.split('/')[0]}": value for i, (name, value) in enumerate(found.items())}


@pytest.mark.parametrize("seed", QUICK)
def test_the_ways_to_train_a_model_agree(seed):
    _agree(seed, ["eager"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_all_ways_to_train_a_model_agree(seed):
    _agree(seed, WAYS)


@pytest.mark.parametrize("seed", [1, 4])
def test_a_saved_model_predicts_the_same(seed, tmp_path):
    drawn = Drawn(seed)
    x, _, _ = drawn.given()
    drawn.model.save(tmp_path / "model.keras")
    keras.backend.clear_session()
    other = keras.saving.load_model(tmp_path / "model.keras")
    wanted = keras.tree.flatten(drawn.model.predict(x, verbose=0))
    for one, value in zip(keras.tree.flatten(other.predict(x, verbose=0)), wanted, strict=True):
        np.testing.assert_allclose(one, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "seeds",
    [FUNCTIONS["quick"], pytest.param(FUNCTIONS["long"], marks=pytest.mark.slow)],
    ids=["quick", "long"],
)
def test_functions_of_functions_give_the_same_in_a_step(seeds):
    for seed in seeds:
        found = functions_recorded(seed, slopes=False)
        lines = [line for line in inconsistencies(found) if not any(x in line for x in LOUD)]
        assert lines == [], (seed, list(found["words"]))
