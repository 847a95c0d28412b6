"""What front ends without ipywidgets get: marimo takes `_mime_`, others the HTML of the bundle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from seen import text_of

from kbench import backend as K
from kbench.notebook import registry

ARGUMENTS: dict[str, tuple[Any, ...]] = {"value": (np.arange(6.0),), "explore": ("softmax",)}


@pytest.mark.parametrize("spec", registry.WIDGETS, ids=lambda spec: spec.word)
def test_every_widget_has_a_picture_for_marimo(spec: registry.WidgetSpec) -> None:
    made = registry.widget(spec.name)(*ARGUMENTS.get(spec.word, ()))
    kind, markup = made._mime_()
    assert kind == "text/html" and "<script" not in markup
    assert markup.startswith('<div class="kb-v">') and text_of(markup).strip()
    made.close()


def test_the_picture_is_that_of_now() -> None:
    from kbench.notebook import VariableTable

    names: dict[str, object] = {}
    table = VariableTable(names)
    names["w"] = K.variable(np.ones((2, 2)), name="w")
    assert "float32[2, 2]" in table._mime_()[1]
    table.close()


def test_what_fails_says_so() -> None:
    from kbench.notebook import TensorView

    view = TensorView(np.arange(3.0))
    view._static_html = lambda: 1 / 0
    assert "not shown: ZeroDivisionError" in view._mime_()[1]
    view.close()
