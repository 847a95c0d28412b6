"""The error of a cluster that does not do what was asked of it."""

from __future__ import annotations

from kbench.engine.core.errors import KbenchError


class ClusterError(KbenchError, RuntimeError):
    """No scheduler, no workers, or workers that are lost again and again."""
