"""What kbench uses of ipywidgets' controls, as protocols: that package has no types of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class TraitChange(Protocol):
    """What an observer of a trait is told; a trait holds whatever its widget has it hold."""

    @property
    def new(self) -> Any: ...
    @property
    def old(self) -> Any: ...
    @property
    def owner(self) -> Control: ...


class Control(Protocol):
    """A widget that holds a value."""

    value: Any

    def observe(self, handler: Callable[[TraitChange], object], names: str) -> None: ...


class ChoiceControl(Control, Protocol):
    """One that offers values with words for each."""

    options: Any  # a list of pairs, whatever else it was set to
