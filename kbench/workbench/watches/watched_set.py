"""The expressions that a session watches: one list for `%watch` and for the panes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.engine.core import fork_safety
from kbench.engine.runtime.signal import Signal
from kbench.workbench.watches.watches import MAX_WATCHES

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

_SHELL_ATTRIBUTE = "_kbench_watched"
"""Of a shell: its session's list."""


class WatchedSet:
    """An ordered list without doubles. `changed` emits the whole list after each change."""

    def __init__(self) -> None:
        self.changed = Signal("watches.listed")
        self._lock = fork_safety.lock()
        self._expressions: tuple[str, ...] = ()

    @property
    def expressions(self) -> list[str]:
        """Those that are watched, in the order in which they were added."""
        return list(self._expressions)

    def add(self, expression: str) -> None:
        """Watch one more; ValueError when there are too many."""
        with self._lock:
            before = self._expressions
            if expression in before:
                return
            if len(before) >= MAX_WATCHES:
                raise ValueError(f"the limit is {MAX_WATCHES} watches; remove one first")
            self._expressions = (*before, expression)
        self.changed.emit(self.expressions)

    def remove(self, number: int) -> str:
        """Take watch `number`, counted from 1, off the list; ValueError when there is none."""
        with self._lock:
            before = self._expressions
            if not 1 <= number <= len(before):
                raise ValueError(f"there is no watch {number}; the list has {len(before)}")
            self._expressions = (*before[: number - 1], *before[number:])
        self.changed.emit(self.expressions)
        return before[number - 1]

    def replace(self, expressions: Sequence[str], join: bool = False) -> None:
        """Watch these instead, `MAX_WATCHES` at most; with `join` behind those that are there."""
        with self._lock:
            before = self._expressions
            wanted = dict.fromkeys([*(before if join else ()), *expressions])
            self._expressions = tuple(wanted)[:MAX_WATCHES]
            if self._expressions == before:
                return
        self.changed.emit(self.expressions)


def forget(shell: Shell) -> None:
    """What no front end knows of any more is let go."""
    found: WatchedSet | None = getattr(shell, _SHELL_ATTRIBUTE, None)
    if found is not None and not found.changed:
        delattr(shell, _SHELL_ATTRIBUTE)


def of_shell(shell: Shell) -> WatchedSet:
    """The list of a shell's session."""
    found: WatchedSet | None = getattr(shell, _SHELL_ATTRIBUTE, None)
    if found is None:
        found = WatchedSet()
        setattr(shell, _SHELL_ATTRIBUTE, found)
    return found
