"""The terminal tests: accept the screens as they are now drawn; a folder for what keys write."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept-screens", action="store_true", help="rewrite tests/tui/screens")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys at random may write a session or an array to a file."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    """True when the drawn screens shall become the expected ones."""
    return bool(request.config.getoption("--accept-screens"))
