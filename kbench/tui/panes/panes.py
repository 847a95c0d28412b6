"""The controllers of all panes: made from the table of panes, and told what has happened."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from kbench.tui.messages import PaneMessage
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.registry import PANES
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.session import events

Controller = TypeVar("Controller", bound=PaneController)


class Panes:
    """Knows no pane by name. The variables, which may be thousands, are told last."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        kinds = [_controller_of(pane.controller) for pane in PANES if pane.controller]
        self._controllers = [kind(bench) for kind in kinds]
        self._told = list(reversed(self._controllers))

    def controller(self, kind: type[Controller]) -> Controller:
        """The one of a class, for what is outside the panes."""
        return next(one for one in self._controllers if isinstance(one, kind))

    def mounted(self) -> None:
        """The widgets of all panes are there."""
        for one in self._told:
            one.mounted()

    def kernel_started(self) -> None:
        """A kernel answers: everything is asked for anew."""
        for one in self._told:
            one.started()

    def kernel_lost(self) -> None:
        """Nothing of the old kernel can be asked any more; what is shown says so."""
        for one in self._told:
            one.forget()

    def changed(self, names: Sequence[str], many: bool = False) -> None:
        """The kernel has pushed names whose rows are old; any may be, where they are too many."""
        for one in self._told:
            one.changed(names, many)

    def cell_done(self, event: events.CellDone, block: Block | None) -> None:
        """A run may have been recorded, and symbols may have been fed or evaluated."""
        for one in self._told:
            one.cell_done()

    def state_changed(self) -> None:
        """A cell begins, or none runs any more."""
        for one in self._told:
            one.state_changed()

    def settings_changed(self, settings: JsonObject) -> None:
        """What is set, as the kernel says it."""
        for one in self._told:
            one.settings_changed(settings)

    def shown_changed(self) -> None:
        """Another set of panes is on the screen: they catch up."""
        for one in self._told:
            one.refresh()

    def answer(self, event: PaneMessage) -> None:
        """A widget asks for something."""
        self._bench.tell(event)

    def pushed(self, kind: str, data: JsonObject) -> bool:
        """The kernel tells something; False where it is for no pane."""
        return self._bench.push(kind, data)


def _controller_of(place: str) -> type[PaneController]:
    module, _, name = place.partition(":")
    kind: type[PaneController] = getattr(importlib.import_module(module), name)
    return kind
