"""The programs of benchmarks/, which find each other by their names."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@contextlib.contextmanager
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, they can be imported by their names; afterwards they are forgotten."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(FOLDER):
            del sys.modules[name]
