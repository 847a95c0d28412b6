"""What is known of the session: written by its controller, read by whoever tells of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.workbench.session import events


class SessionState(Struct, eq=False):
    """Of the present kernel, and of what was typed for it."""

    state: str = "starting"  # starting, idle, busy, dead, failed
    settings: JsonObject = field(default_factory=dict)
    hello: JsonObject = field(default_factory=dict)  # the inspector's greeting
    ready_seconds: float | None = None  # from its start until it answered
    death: events.Died | None = None
    memory: int = 0  # bytes of the kernel process, when last asked
    asks: str = ""  # what the running cell asks for at the prompt
    pace: JsonObject = field(default_factory=dict)  # of the running cell's loop
    since: float = field(default_factory=time.monotonic)  # when it began what it does now
    last_seconds: float | None = None  # what the last cell took
    first_block: int = 0  # the first cell of the present kernel
    ran_before: int = 0  # cells that an attached kernel has run without us
