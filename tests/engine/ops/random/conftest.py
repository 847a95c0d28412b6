"""The laws that random numbers are held against."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture(scope="session")
def stats() -> Any:
    """`scipy.stats`, which takes half a second: not for every process that collects tests."""
    return importlib.import_module("scipy.stats")
