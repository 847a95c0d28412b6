"""Gradients of a loss: `view` is the table, `controller` chooses the loss and has it derived."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("gradient", "gradient_now", "ctrl+r", "compute", "compute now, however long it takes"),
    Key("gradient", "gradient_loss", "l", "choose", "choose the loss"),
    Key("gradient", "gradient_stop", "c", "stop", "stop computing"),
    Key("gradient", "gradient_copy", "y", "copy", "copy the row"),
)
SPEC = PaneSpec(
    id="gradient",
    title="Grad",
    letter="g",
    about="How a loss changes with each variable, on what was fed last. Enter shows values.",
    region="stack",
    view="kbench.tui.panes.gradient.view:GradientTable",
    controller="kbench.tui.panes.gradient.controller:GradientController",
    takers=(
        Taker(
            "gradient",
            ("table", "gradient"),
            {"row_open": "values", "gradient_loss": "loss", "gradient_now": "compute"},
        ),
    ),
    keys=KEYS,
)  # fmt: skip
