"""Ctrl+C that Python loses: one that comes while a `__del__` runs is printed, and raised no more.

Dask's futures have a `__del__`, and each step of a training makes and drops many.
"""

from __future__ import annotations

import sys
from types import TracebackType


class LostInterrupts:
    """Within its block, `check` raises the KeyboardInterrupt that Python has lost since."""

    def __init__(self) -> None:
        self._is_lost = False

    def __enter__(self) -> LostInterrupts:
        self._before = sys.unraisablehook
        sys.unraisablehook = self._note
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.unraisablehook = self._before
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise a KeyboardInterrupt once for those that were lost."""
        if self._is_lost:
            self._is_lost = False
            raise KeyboardInterrupt

    def _note(self, unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._is_lost = True
        else:
            self._before(unraisable)
