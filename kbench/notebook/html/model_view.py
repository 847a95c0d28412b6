"""Static HTML of a Keras model or layer: its layers, and its weights with their ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.engine.inspect import describe
from kbench.notebook.html.allowance import ReadBudget
from kbench.notebook.markup.markup import (
    MAX_OUTPUT_BYTES,
    Html,
    details,
    element,
    escape,
    facts,
    histogram,
    table,
)
from kbench.notebook.markup.style import STYLE
from kbench.workbench.core_types import Row
from kbench.workbench.models import keras_models
from kbench.workbench.models.keras_models import Part

TABLE_BYTES = MAX_OUTPUT_BYTES - len(STYLE.encode()) - 1_500
"""Bytes for the tables of one output."""
LAYERS_SHARE = 0.7
"""The part of them that the table of layers may take."""
MAX_WEIGHTS = 12
"""Statistics are taken of at most so many weights."""


def parts(value: object) -> list[Html]:
    """What stands below the heading: facts, layers, weights."""
    row = keras_models.facts(value)
    known = [
        ("output", spec(row)),
        ("layers", str(row["layers"]) if "layers" in row else None),
        ("params", f"{row['params']:,}"),
        ("trainable", f"{row['trainable']:,}"),
        ("size", describe.size(row["bytes"])),
        ("step", None if row.get("step") is None else str(row["step"])),
    ]
    inside = keras_models.parts(value, "")
    layers = [part for part in inside if part.weight is None]
    weights = [part for part in inside if part.weight is not None]
    for layer in layers:
        held = keras_models.parts(layer.value, "")
        weights += [part for part in held if part.weight is not None]
    found = [facts(known)]
    room = TABLE_BYTES
    if layers:
        found.append(_cut(_layers, layers, int(room * LAYERS_SHARE), len(layers)))
        room -= len(found[-1].encode())
    if weights:
        shown = _cut(_weights, weights[:MAX_WEIGHTS], room, len(weights))
        found.append(details("weights", shown, not layers))
    return found


def spec(row: Row) -> str | None:
    """`float32[?, 10]` of a layer's one output."""
    return None if row["shape"] is None else describe.spec_text(row["shape"], row["dtype"])


def _cut(
    build: Callable[[Sequence[Part], int], Html], shown: Sequence[Part], room: int, total: int
) -> Html:
    """The table of as many parts as there is room for."""
    while True:
        content = element("div", build(shown, total), class_="kb-text")
        if len(content.encode()) <= room or len(shown) <= 1:
            return content
        shown = shown[: max(len(shown) * 3 // 4, 1)]


def _caption(shown: int, total: int, what: str) -> str:
    words = what.removesuffix("s") if total == 1 else what
    return f"{total} {words}" if shown == total else f"the first {shown} of {total} {what}"


def _layers(shown: Sequence[Part], total: int) -> Html:
    rows = []
    for part in shown:
        row = keras_models.facts(part.value, part.owner)
        idle = row["params"] and not row["trainable"]
        trained = "" if not row["params"] else "no" if idle else f"{row['trainable']:,}"
        sources = ", ".join(row["sources"])
        line = (row["label"], row["type"], spec(row) or "", f"{row['params']:,}", trained, sources)
        rows.append(line)
    heads = ("layer", "type", "output", "params", "trainable", "inputs")
    return table(_caption(len(shown), total, "layers"), heads, rows)


def _weights(shown: Sequence[Part], total: int) -> Html:
    rows = []
    budget = ReadBudget()
    for part in shown:
        assert part.weight is not None
        variable = part.weight.variable
        array = describe.held_array(variable)
        row = describe.array(array) if array is not None and budget.take(array) else {}
        name = describe.printable(part.weight.name)
        learns = "yes" if part.weight.trainable else "no"
        mean = describe.number(row["mean"]) if row.get("finite") else ""
        rows.append((name, str(variable.spec), _range(row), mean, learns))
    heads = ("weight", "dtype[shape]", "range", "mean", "trainable")
    return table(_caption(len(shown), total, "weights"), heads, rows)


def _range(row: Row) -> Html:
    if not row:
        return escape("not read")
    if "refused" in row:
        return escape(row["refused"])
    return histogram(row["histogram"], row["min"], row["max"]) if row["finite"] else Html("")
