"""What a widget is given: the name of a value, or the value itself; and what it can show of it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.analysis import engine_functions, keras_models
from kbench.workbench.inspector import summary

Accepts = Callable[[Any], bool]


def has_graph(value: object) -> bool:
    """Whether a value is made by a graph: a tensor, function, model or layer, or a list of them.

    >>> has_graph(3)
    False
    """
    if type(value) in (list, tuple):
        return bool(value) and all(map(_has_nodes, value))  # type: ignore[call-overload]
    return _has_nodes(value) or keras_models.is_layer(value)


def _has_nodes(value: object) -> bool:
    return describe.is_tensor(value) or describe.is_function(value)


def is_runnable(value: object) -> bool:
    """Whether a value is what the engine runs, or a list of such."""
    if type(value) in (list, tuple):
        return bool(value) and all(map(engine_functions.is_computed, value))  # type: ignore[call-overload]
    return engine_functions.is_computed(value)


def is_watched(value: object) -> bool:
    """Whether a value can be told in one line that changes."""
    return has_graph(value) or describe.held_array(value) is not None


def argument_error(widget: str, argument: str, value: object, needed: str) -> ArgumentError:
    """The error for what a widget cannot show."""
    return ArgumentError(
        f"{argument} must be {needed}; got {describe_operand(value)}", function=widget
    )


def as_list(value: Any) -> list[Any]:
    """What was given, one or several, as a list."""
    return list(value) if type(value) in (list, tuple) else [value]


# ------------------------------------------------------------------ names for what has none


def identifier_of(value: object) -> str:
    """What a value calls itself, as an identifier; `given` where it has no name.

    >>> identifier_of(np.ones(3))
    'given'
    """
    name: object = ""
    if _has_nodes(value):
        name = value.name  # type: ignore[attr-defined]
    elif keras_models.is_layer(value):
        name = keras_models.name_of(value)
    text = str(name).partition(":")[0].rpartition("/")[2]
    text = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_")
    fits = text.isidentifier() and not keyword.iskeyword(text)
    return text if fits else "given"


def unique_name(name: str, taken: Iterable[str]) -> str:
    """The name, or with a number behind it where it is taken.

    >>> unique_name("loss", ["loss", "loss_2"])
    'loss_3'
    """
    there = set(taken)
    found, number = name, 1
    while found in there:
        number += 1
        found = f"{name}_{number}"
    return found


# ------------------------------------------------------------------ what can be looked into


def values_inside(value: object, name: str) -> list[tuple[str, Any]] | None:
    """The values within a list, dictionary, model, layer or function, with what to call them.

    None for what is one value by itself, such as a tensor, an array or a list of numbers.
    """
    found: list[tuple[str, Any]] | None = None
    if keras_models.is_layer(value):
        parts = _weights(value, "")
        found = [
            (describe.printable(part.value.name).removesuffix(":0"), part.value) for part in parts
        ]
    elif describe.is_function(value):
        function: Any = value
        stores = [(describe.printable(target.name), target) for target in function.plan.targets]
        made = [(describe.printable(output.name), output) for output in function.outputs]
        found = [(text.removesuffix(":0"), value) for text, value in (*made, *stores)]
    elif type(value) is dict:
        found = [(describe.printable(key), value) for key, value in value.items()]
    elif type(value) in (list, tuple) and any(map(_is_value, value)):  # type: ignore[call-overload]
        items: Any = value
        found = [(_item(item, f"{name}[{at}]"), item) for at, item in enumerate(items)]
    if found is None:
        return None
    seen: list[str] = []
    for text, _ in found:
        seen.append(unique_name(text, seen))
    return [(text, value) for text, (_, value) in zip(seen, found, strict=True) if _is_value(value)]


def _is_value(value: object) -> bool:
    held = describe.held_array(value)
    return describe.is_tensor(value) or (held is not None and held.ndim > 0)


def _item(value: object, place: str) -> str:
    return f"{place} {identifier_of(value)}" if describe.is_tensor(value) else place


def _weights(layer: Any, address: str) -> list[keras_models.Part]:
    """The parts below a layer that are weights."""
    found = []
    for part in keras_models.parts(layer, address):
        if part.weight is not None:
            found.append(part)
        elif keras_models.is_layer(part.value):
            found += _weights(part.value, part.address)
    return found


def array_of(value: Any) -> np.ndarray | None:
    """The numbers that a value holds or is made of; None for a symbol.

    Raises:
        ArgumentError: it is neither.
    """
    held = describe.held_array(value)
    if held is not None:
        return held
    if sparse_summary.held_matrix(value) is not None:
        return np.asarray(value if describe.is_tensor(value) else value.toarray())
    if describe.is_tensor(value):
        return None
    kind = summary.type_name(value)
    if value is None or isinstance(value, (str, bytes)) or callable(value):
        raise ArgumentError(
            f"a tensor, an array or numbers are needed; got {describe_operand(value)}"
        )
    try:
        array = np.asarray(value)
    except Exception as error:  # whatever an object of the user's raises
        from kbench.workbench.errors import explanation

        raise ArgumentError(f"{kind} is no array: {explanation.safe_text(error)}") from None
    if array.dtype.kind == "O" and type(value) is not np.ndarray:
        raise ArgumentError(
            f"a tensor, an array or numbers are needed; got {describe_operand(value)}"
        )
    return array
