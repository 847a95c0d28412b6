"""An option of the terminal tests: accept the screens as they are now drawn."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept-screens", action="store_true", help="rewrite tests/tui/screens")


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    """True when the drawn screens shall become the expected ones."""
    return bool(request.config.getoption("--accept-screens"))
