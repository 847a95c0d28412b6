"""A namespace with one of everything, and an inspector over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from inspector_helpers import Hostile, Loud, ask

import kbench as K
from kbench.workbench.inspector.inspector import Inspector


@pytest.fixture
def names() -> dict[str, Any]:
    x = K.placeholder((None, 4), name="x")
    return {
        "x": x,
        "w": K.variable(np.arange(12.0).reshape(4, 3), name="w"),
        "y": x + 1.0,
        "f": K.function([x], [x + 1.0], name="plus_one"),
        "data": np.array([[1.0, np.nan], [np.inf, 4.0]], np.float32),
        "count": 3,
        "rate": 0.5,
        "text": "secret words",
        "items": [1, 2, 3],
        "loud": Loud(),
        "hostile": Hostile(),
        "np": np,
        "Loud": Loud,
        "print": print,
        "_private": 1,
        "In": [],
    }


@pytest.fixture
def recording(names: dict[str, Any]) -> Iterator[Inspector]:
    """An inspector that records what runs."""
    made = Inspector(names)
    ask(made, "trace", on=True)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def closed_inspectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever inspector a test makes listens no longer when the test is over."""
    made: list[Inspector] = []
    init = Inspector.__init__

    def noted(self: Inspector, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(Inspector, "__init__", noted)
    yield
    for one in made:
        one.close()


@pytest.fixture
def inspector(names: dict[str, Any]) -> Iterator[Inspector]:
    made = Inspector(names)
    yield made
    made.close()
