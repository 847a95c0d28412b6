"""Questions to an inspector, each reply checked to be JSON within the cap; hostile objects."""

from __future__ import annotations

import json
from typing import Any

from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol import messages


class Hostile:
    """Raises from everything."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")


class Loud:
    """Notes every access to what only its own code may touch."""

    touched: list[str] = []

    def __repr__(self) -> str:
        Loud.touched.append("repr")
        return "loud"

    @property
    def shape(self) -> tuple[int, ...]:
        Loud.touched.append("shape")
        return (1,)

    @property
    def dtype(self) -> str:
        Loud.touched.append("dtype")
        return "float32"


def ask(inspector: Inspector, verb: str, **arguments: Any) -> dict[str, Any]:
    reply = inspector.handle({"id": 1, "verb": verb, **arguments})
    assert json.loads(json.dumps(reply, allow_nan=False)) == reply
    assert messages.size(reply) <= messages.MAX_MESSAGE_BYTES
    assert reply["ok"], reply["error"]
    return reply["data"]


def refused(inspector: Inspector, verb: str, **arguments: Any) -> dict[str, Any]:
    reply = inspector.handle({"id": 1, "verb": verb, **arguments})
    assert not reply["ok"]
    return reply["error"]


def rows(inspector: Inspector, **arguments: Any) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in ask(inspector, "summary", **arguments)["rows"]}
