"""How long something has taken, as people say it; no more than that, so that all may import it."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """3.2 s, 1:20, 2:03:04."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
