"""Settings for the length of a block: as they were behind it, whatever happens inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kbench.engine.runtime import config


@contextmanager
def temporarily(settings: Mapping[str, object]) -> Iterator[None]:
    """Other settings within a block; behind it each is as it was, after an interrupt, too.

    Raises:
        ArgumentError: unknown setting, or a value it refuses. Nothing is changed then.
    """
    known = config.snapshot()
    before = {
        name: known[name] if name == "learning_phase" else config._values.get(name)
        for name in settings
        if name in known
    }
    try:
        for name, value in settings.items():
            config.assign(name, value)
        yield
    finally:
        _put_back(before)


def _put_back(before: dict[str, Any]) -> None:
    stopped: KeyboardInterrupt | None = None
    while before:
        name = next(iter(before))
        try:
            if name == "learning_phase":
                config.assign(name, before[name])
            else:
                config._store(name, before[name])
            del before[name]
        except KeyboardInterrupt as error:  # first all of them, then what the user wants
            stopped = error
    if stopped is not None:
        raise stopped
