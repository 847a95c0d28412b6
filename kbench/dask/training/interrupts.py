"""Ctrl+C that Python loses: it prints one that comes within a `__del__`, and raises it no more.

The same holds for what is called when an object goes that others refer to weakly. Dask's futures
have both, and each training makes and drops many, its first before the first step.
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
