"""What a widget is given: the name of a value, or the value itself; and what it can show of it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.analysis import engine_functions
from kbench.workbench.inspector import summary
from kbench.workbench.models import keras_models

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

Accepts = Callable[[object], bool]


def _is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return type(value) in (list, tuple)


def has_graph(value: object) -> bool:
    """Whether a value is made by a graph: a tensor, function, model or layer, or a list of them.

    >>> has_graph(3)
    False
    """
    if _is_list(value):
        return bool(value) and all(map(_has_nodes, value))
    return _has_nodes(value) or keras_models.is_layer(value)


def _has_nodes(value: object) -> TypeGuard[Tensor | Function]:
    return describe.is_tensor(value) or describe.is_function(value)


def is_runnable(value: object) -> bool:
    """Whether a value is what the engine runs, or a list of such."""
    if _is_list(value):
        return bool(value) and all(map(engine_functions.is_computed, value))
    return engine_functions.is_computed(value)


def is_watched(value: object) -> bool:
    """Whether a value can be told in one line that changes."""
    return has_graph(value) or describe.held_array(value) is not None


def holds_numbers(value: object) -> bool:
    """Whether a value holds an array or a sparse matrix right now."""
    if describe.held_array(value) is not None:
        return True
    return sparse_summary.held_matrix(value) is not None


def argument_error(widget: str, argument: str, value: object, needed: str) -> ArgumentError:
    """The error for what a widget cannot show."""
    return ArgumentError(
        f"{argument} must be {needed}; got {describe_operand(value)}", function=widget
    )


def as_list(value: object) -> list[object]:
    """What was given, one or several, as a list."""
    return [*value] if _is_list(value) else [value]


# ------------------------------------------------------------------ names for what has none


def identifier_of(value: object) -> str:
    """What a value calls itself, as an identifier; `given` where it has no name.

    >>> identifier_of(np.ones(3))
    'given'
    """
    name: object = ""
    if _has_nodes(value):
        name = value.name
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


def values_inside(value: object, name: str) -> list[tuple[str, object]] | None:
    """The values within a list, dictionary, model, layer or function, with what to call them.

    None for what is one value by itself, such as a tensor, an array or a list of numbers.
    """
    found: list[tuple[str, object]] | None = None
    if keras_models.is_layer(value):
        weights = [part.weight for part in _weights(value, "") if part.weight is not None]
        found = [(describe.printable(weight.name), weight.variable) for weight in weights]
    elif describe.is_function(value):
        function = value
        stores = [(describe.printable(target.name), target) for target in function.plan.targets]
        made = [(describe.printable(output.name), output) for output in function.outputs]
        found = [(text.removesuffix(":0"), value) for text, value in (*made, *stores)]
    elif type(value) is dict:
        found = [(describe.printable(key), value) for key, value in value.items()]
    elif _is_list(value) and any(map(_is_value, value)):
        found = [(_item(item, f"{name}[{at}]"), item) for at, item in enumerate(value)]
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


def _weights(layer: object, address: str) -> list[keras_models.Part]:
    """The parts below a layer that are weights."""
    found = []
    for part in keras_models.parts(layer, address):
        if part.weight is not None:
            found.append(part)
        elif keras_models.is_layer(part.value):
            found += _weights(part.value, part.address)
    return found


def array_of(value: object) -> np.ndarray | None:
    """The numbers that a value holds or is made of; None for a symbol.

    Raises:
        ArgumentError: it is neither.
    """
    held = describe.held_array(value)
    if held is not None:
        return held
    if sparse_summary.held_matrix(value) is not None:
        matrix: Any = value
        return np.asarray(value if describe.is_tensor(value) else matrix.toarray())
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

        raise ArgumentError(f"{kind} is not an array: {explanation.safe_text(error)}") from None
    if array.dtype.kind == "O" and type(value) is not np.ndarray:
        raise ArgumentError(
            f"a tensor, an array or numbers are needed; got {describe_operand(value)}"
        )
    return array
