"""Questions to an inspector, each reply checked to be JSON within the cap; hostile objects."""

from __future__ import annotations

import json
import types
import typing
from typing import Any

from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol import messages, verbs
from kbench.workbench.protocol.record import Record, hints_of


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
    assert misfits(verbs.VERBS[verb].reply_type(), reply["data"]) == []
    return reply["data"]


def parts(inspector: Inspector, *names: str) -> dict[str, dict[str, Any]]:
    """The rows below names, from all pages, by their keys."""
    found, start = [], 0
    while start is not None:
        data = ask(inspector, "parts", names=list(names), start=start)
        found += data["rows"]
        start = data["next"]
    return {row["key"]: row for row in found}


def misfits(hint: Any, value: object, at: str = "") -> list[str]:
    """Where a value of JSON is not of the type that a record declares for it."""
    if hint is Any:
        return []
    if isinstance(hint, type) and issubclass(hint, Record):
        if not isinstance(value, dict):
            return [f"{at}: {value!r} is no {hint.__name__}"]
        hints = hints_of(hint)
        found = [f"{at}.{name} is not declared" for name in value.keys() - hints.keys()]
        found += [f"{at}.{name} is missing" for name in hint._needed - value.keys()]
        for name in value.keys() & hints.keys():
            found += misfits(hints[name], value[name], f"{at}.{name}")
        return found
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return min((misfits(one, value, at) for one in arguments), key=len)
    if origin is list and isinstance(value, list):
        return [one for item in value for one in misfits(arguments[0], item, f"{at}[]")]
    if origin is dict and isinstance(value, dict):
        return [one for item in value.values() for one in misfits(arguments[1], item, f"{at}{{}}")]
    kinds = (int, float) if hint is float else origin or hint
    fits = isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))
    return [] if fits else [f"{at}: {value!r} is no {hint}"]


def refused(inspector: Inspector, verb: str, **arguments: Any) -> dict[str, Any]:
    reply = inspector.handle({"id": 1, "verb": verb, **arguments})
    assert not reply["ok"]
    return reply["error"]


def rows(inspector: Inspector, **arguments: Any) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in ask(inspector, "summary", **arguments)["rows"]}
