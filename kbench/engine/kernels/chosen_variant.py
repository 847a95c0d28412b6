"""Which form a kernel of several took: told by the kernel, asked for by the step that called it."""

from __future__ import annotations

import threading


class _Here(threading.local):
    form: str | None = None


_here = _Here()


def note(form: str) -> None:
    """Say which form this thread's call took, where it is not the usual one."""
    _here.form = form


def noted() -> str | None:
    """What was noted since this thread last asked."""
    form, _here.form = _here.form, None
    return form
