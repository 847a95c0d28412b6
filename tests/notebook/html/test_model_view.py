"""Keras models in notebooks: a table without script, small however large the model."""

from __future__ import annotations

from typing import Any

import keras_loaded
import numpy as np
import pytest

from kbench.notebook.base.redraw import rows
from kbench.notebook.html import html, views
from kbench.notebook.ipython import extension
from kbench.workbench.inspector.namespace import View
from tests.notebook.html.test_html import read

pytestmark = keras_loaded.OWN_WARNINGS


def words(value: object) -> str:
    """The text of a value's HTML, which `read` holds to what every output must be."""
    return " ".join(read(html.show(value)).text)


def test_a_model_is_a_table_of_layers_and_weights() -> None:
    model = keras_loaded.residual()
    text = words(model)
    for one in (
        "residual",
        "float32[?, 3]",
        "7 layers",
        "norm",
        "BatchNormalization",
        "187",
        "first, second",
        "weights",
        "first/kernel",
    ):
        assert one in text, one
    bundle = html.bundle(model)
    assert bundle["text/plain"].startswith("residual  float32[?, 3]  Model step 0")


def test_frozen_layers_say_so() -> None:
    model = keras_loaded.deep(2)
    model.layers[0].trainable = False
    cells = [one.strip() for one in read(html.show(model)).text]
    layer = cells.index(model.layers[0].name)
    assert cells[layer + 3 : layer + 5] == ["20", "no"]


def test_a_layer_shows_its_weights_at_once() -> None:
    layer = keras_loaded.residual().layers[4]
    markup = html.show(layer)
    assert "<details open>" in markup and "moving_mean" in words(layer)


@pytest.mark.parametrize("count", [1, 40, pytest.param(400, marks=pytest.mark.slow)])
def test_a_deep_model_is_cut_and_says_so(count: int) -> None:
    text = words(keras_loaded.deep(count))
    assert ("the first" in text) == (count > 20)
    assert f"{count} layer{'s' * (count > 1)}" in text


def test_hostile_names_are_escaped() -> None:
    layers = keras_loaded.load().layers
    hostile = "<b>x</b>" + "y" * 300
    model = keras_loaded.load().models.Sequential([layers.Dense(2, input_shape=(3,), name="d")])
    vars(model)["name"] = hostile
    vars(model.layers[0])["name"] = hostile
    assert "<b>x" in words(model) and hostile not in words(model)


def test_values_that_are_not_finite_are_shown() -> None:
    model = keras_loaded.deep(1)
    model.set_weights([np.full((4, 4), np.nan), np.full((4,), np.inf)])
    assert "1 layer " in words(model)


def test_the_table_of_names_tells_of_models() -> None:
    view = View({"model": keras_loaded.residual(), "x": np.ones(3)})
    text = " ".join(read(views.names_table(rows(view))).text)
    assert "float32[?, 3]" in text and "187 params" in text


def test_a_shell_shows_models_by_the_extension() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell()
    shell.history_manager.enabled = False
    extension.load_ipython_extension(shell)
    model = keras_loaded.residual()
    data, _ = shell.display_formatter.format(model)
    assert "7 layers" in data["text/html"] and data["text/plain"].startswith("residual")
    extension.unload_ipython_extension(shell)
    data, _ = shell.display_formatter.format(model)
    assert "text/html" not in data
