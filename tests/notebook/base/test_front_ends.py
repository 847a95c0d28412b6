"""What front ends without ipywidgets get: marimo takes `_mime_`, others the HTML of the bundle."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from seen import text_of
from waiting import wait_for_words

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


def bare(markup: str) -> str:
    """What a code hosting site leaves: no style, no script, no drawing, no attribute."""
    gone = re.sub(r"<(style|script|svg)\b.*?</\1>", "", markup, flags=re.DOTALL)
    return text_of(re.sub(r"<(\w+)( [^>]*)>", r"<\1>", gone))


@pytest.fixture
def trained() -> dict[str, Any]:
    """Names of a session that has trained, one call after another."""
    x, w = K.placeholder((None, 2), name="x"), K.variable(np.ones((2, 1)), name="w")
    loss = K.mean(K.square(K.dot(x, w)))
    (slope,) = K.gradients(loss, [w])
    step = K.function([x], [loss], [K.update_sub(w, 0.1 * slope)], name="step")
    return {"x": x, "w": w, "loss": loss, "step": step}


# What must be read of each widget in HTML without style and SVG, and in text alone.
READ: dict[str, tuple[tuple[Any, ...], tuple[str, ...], tuple[str, ...]]] = {
    "names": ((), ("float32[2, 1]", "step"), ("loss", "step")),
    "value": (("w",), ("float32[2, 1]", "values"), ("[:, :]", "float32[2, 1]")),
    "watches": ((["w", "loss"],), ("w", "loss", "before", "now"), ("w", "loss")),
    "gradients": (("loss",), ("norm", "zeros", "w"), ("d loss / d variable", "w", "norm")),
    "graph": (("loss",), ("graph of loss as a list", "dot", "takes"), ("graph of loss", "dot")),
    "plan": (("step",), ("form", "time", "dot"), ("step", "dot")),
    "settings": ((), ("epsilon", "channels_last"), ("epsilon", "channels_last")),
}


@pytest.mark.parametrize("word", READ)
def test_a_saved_widget_is_read_without_style_script_and_drawing(
    trained: dict[str, Any], word: str
) -> None:
    arguments, in_html, in_text = READ[word]
    made = registry.widget(next(one.name for one in registry.WIDGETS if one.word == word))
    options = {} if word in ("settings", "value") else {"namespace": trained}
    given = (trained["w"],) if word == "value" else arguments
    part = made(*given, **options)
    part._repr_mimebundle_()
    for _ in range(3):
        trained["step"]([np.ones((4, 2))])
    wait_for_words(in_text[0], part._static_text)
    shown = bare(part._mime_()[1])
    assert [one for one in in_html if one not in shown] == []
    assert [one for one in in_text if one not in part._static_text()] == []
    part.close()
