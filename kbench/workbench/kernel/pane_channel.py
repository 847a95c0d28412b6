"""What leads from a shell to the panes of a front end. Loads nothing, so that all may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.workbench.inspector.inspector import Inspector
    from kbench.workbench.ipython_types import Shell

ATTRIBUTE = "_kbench_channel"
"""Of the shell of a workbench."""


class PaneChannel(Protocol):
    """What tells the panes something that they have not asked for; `inspector` answers them."""

    inspector: Inspector

    def publish(self, message: JsonObject) -> None: ...


def of(shell: Shell | None) -> PaneChannel | None:
    """The one of a shell, None where there are no panes."""
    found: PaneChannel | None = getattr(shell, ATTRIBUTE, None)
    return found
