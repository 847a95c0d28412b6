"""Which form a kernel of several took: told by the kernel, asked for by the step that called it."""

from __future__ import annotations

import threading


class _ThreadState(threading.local):
    form: str | None = None


_thread = _ThreadState()


def record(form: str) -> None:
    """Say which form this thread's call took, where it is not the usual one."""
    _thread.form = form


def take_recorded() -> str | None:
    """What was noted since this thread last asked."""
    form, _thread.form = _thread.form, None
    return form
