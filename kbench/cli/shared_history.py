"""`--plain` has the history of all sessions, those of the workbench among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.history import History as PromptHistory

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kbench.workbench.history.input_history import History
    from kbench.workbench.ipython_types import CellInfo


class _Typed(PromptHistory):
    """What Up and the search find; what is run is added by the shell's own event."""

    def __init__(self, kept: History) -> None:
        super().__init__()
        self._kept = kept

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._kept.latest())

    def store_string(self, string: str) -> None:
        """The shell tells what it runs, also where it has no such prompt."""


def share(shell: InteractiveShell, kept: History) -> None:
    """Give a shell the history of all sessions in place of IPython's."""
    prompt = getattr(shell, "pt_app", None)
    if prompt is not None:
        prompt.history = prompt.default_buffer.history = _Typed(kept)

    def add(info: CellInfo) -> None:
        if info.store_history:
            kept.add(str(info.raw_cell).rstrip())

    shell.events.register("pre_run_cell", add)
