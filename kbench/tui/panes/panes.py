"""The controllers of all panes: made from the table of panes."""

from __future__ import annotations

import importlib
from typing import TypeVar

from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.registry import PANES

Controller = TypeVar("Controller", bound=PaneController)


class Panes:
    """Knows no pane by name. The variables, which may be thousands, are told last."""

    def __init__(self, bench: Bench) -> None:
        kinds = [_controller_of(pane.controller) for pane in PANES if pane.controller]
        self._controllers = [kind(bench) for kind in kinds]
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


def _controller_of(place: str) -> type[PaneController]:
    module, _, name = place.partition(":")
    kind: type[PaneController] = getattr(importlib.import_module(module), name)
    return kind
