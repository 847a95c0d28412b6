"""What a piece of a traced step assigns to variables and adds as losses, kept apart from the step.

Keras holds both in a scope of its own, which each assignment changes. A branch that may not be
taken, and a body that runs several times, must not leave there what they stored while traced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope
from msgspec import Struct, field


class Stores(Struct):
    """New values by the ids of variables, and losses; complete behind the block."""

    values: dict[int, Any] = field(default_factory=dict)
    losses: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def stores_apart() -> Iterator[Stores]:
    """Take back what the block stores, and tell it."""
    found = Stores()
    if not in_stateless_scope():
        yield found
        return
    scope = get_stateless_scope()
    before, count = dict(scope.state_mapping), len(scope.losses)
    try:
        yield found
        found.values = {
            key: value for key, value in scope.state_mapping.items() if before.get(key) is not value
        }
        found.losses = scope.losses[count:]
    finally:
        scope.state_mapping.clear()
        scope.state_mapping.update(before)
        del scope.losses[count:]
