"""Losses over 100 steps are those of JAX: same weights, same data, no randomness."""

import keras3_there  # noqa: F401  # isort: skip
import json

import keras3_curves
import numpy as np
import pytest

GOLDEN = json.loads(keras3_curves.GOLDEN.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", keras3_curves.KINDS)
def test_a_training_loses_as_on_jax(name):
    assert GOLDEN["backend"] == "jax"
    found, wanted = keras3_curves.losses(name), GOLDEN["losses"][name]
    assert wanted[-1] < 0.97 * wanted[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
