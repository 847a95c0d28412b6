"""The controllers of all panes: made from the table of panes."""

from __future__ import annotations

from typing import TypeVar

from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.registry import PANES, loaded

Controller = TypeVar("Controller", bound=PaneController)


class Panes:
    """Knows no pane by name. The variables, which may be thousands, are told last."""

    def __init__(self, bench: Bench) -> None:
        self._controllers: list[PaneController] = [
            loaded(pane.controller)(bench) for pane in PANES if pane.controller
        ]
        self._told = list(reversed(self._controllers))
        for one in self._told:
            one.subscribe()

    def controller(self, kind: type[Controller]) -> Controller:
        """The one of a class, for what is outside the panes."""
        return next(one for one in self._controllers if isinstance(one, kind))

    def mounted(self) -> None:
        """The widgets of all panes are there."""
        for one in self._told:
            one.mounted()
