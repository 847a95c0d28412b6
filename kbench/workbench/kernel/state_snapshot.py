"""Runs something on a program's graph, and leaves its variables and last values as they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kbench.engine.execute.function import Function
from kbench.engine.graph import variables
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Variable

if TYPE_CHECKING:
    from kbench.workbench.nan.nan_values import Array

VERSION_OFFSET = 1 << 20
"""By which versions are raised meanwhile: who looks on keeps what they find under versions that
never come again."""


@contextmanager
def preserve_state(names: Mapping[str, object]) -> Iterator[None]:
    """Within, whatever is stored to variables that these names lead to is taken back at the end.

    Versions too, and what the last run saw of a tensor: panes then show what the program did.
    """
    nodes = walk(list(_tensors(names.values())))
    lasts = [(node, node.last) for node in nodes]
    with variables.store_lock:
        held = [(node, node._array, node.version) for node in nodes if isinstance(node, Variable)]
    try:
        for variable, _, version in held:
            variable.version = version + VERSION_OFFSET
        yield
    finally:
        _put_back(held)
        for node, last in lasts:
            node.last = last


def _put_back(held: list[tuple[Variable, Array, int]]) -> None:
    """A value is never changed in place, so the one from before is still what it was."""
    with variables.store_lock:
        changed = [entry for entry in held if entry[0].version != entry[2] + VERSION_OFFSET]
        for variable, array, version in held:
            variable._array, variable.version = array, version
    for variable, _, _ in changed:
        variables.changed.emit(variable)


def _tensors(values: Iterable[object], depth: int = 2) -> Iterator[Tensor]:
    """Tensors among these values, in functions, and in plain containers."""
    for value in list(values):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Function):
            yield from _tensors([*value.inputs, *value.outputs, *value.updates])
        elif depth and type(value) in (list, tuple) and isinstance(value, (list, tuple)):
            yield from _tensors(value, depth - 1)
        elif depth and type(value) is dict:
            yield from _tensors(value.values(), depth - 1)
