"""Types that many modules of the workbench name: written once, imported everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]
"""An object as JSON has them: arguments of a request, data of a reply or a push, a row to draw."""

Row = Mapping[str, Any]
"""A row as those read it who draw it: nobody writes into it."""

Message = JsonObject
"""A message of Jupyter's protocol: `header`, `parent_header`, `content` and more."""

Reply = JsonObject
"""The inspector's answer to a request: `verb`, `ok`, and `data` or `error`."""

SettingValue = str | int | float | None
"""What a setting is set to; the kernel judges it."""

Publish = Callable[[JsonObject], None]
"""Sends the front ends a message that nobody asked for, as `messages.push` makes them."""
