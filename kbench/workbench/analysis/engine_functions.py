"""Under which of the user's names a recorded run can be run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.models import keras_models

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.runtime.profile import RunRecord


def functions_of(value: object) -> list[Function]:
    """The engine's functions that a value holds: itself, those of a model, of a tensor's eval."""
    if describe.is_function(value):
        return [value]
    if type(value) in (list, tuple) and isinstance(value, (list, tuple)):
        return [function for item in value for function in functions_of(item)]
    if describe.is_tensor(value):
        return list(value.__dict__.get("_functions", {}).values())
    return keras_models.functions(value) if keras_models.is_model(value) else []


def find_recorded(
    values: Mapping[str, object], record: RunRecord | None
) -> tuple[str, Function | None]:
    """The name under which the user has what ran as `record`, and the engine's function.

    >>> found({}, None)
    ('', None)
    """
    if record is None:
        return "", None
    held = [
        (name, function)
        for name, value in values.items()
        for function in functions_of(value)
        if function.records is not None
    ]
    for name, function in held:
        if function.records is record:
            return name, function
    wanted = _nodes(record)  # it may have run again since
    for name, function in held:
        if wanted and _nodes(function.records) == wanted:
            return name, function
    return "", None


def _nodes(record: RunRecord | None) -> set[str]:
    """The tensors that a run computed, whatever it ran as one."""
    if record is None:
        return set()
    found = {step.node for step in record.steps}
    return (found | {part.node for step in record.steps for part in step.parts}) - {""}


def is_computed(value: object) -> bool:
    """Whether a value is something that is computed by the engine.

    >>> runs(3)
    False
    """
    is_model: bool = keras_models.is_model(value)
    return is_model or describe.is_function(value) or describe.is_tensor(value)
