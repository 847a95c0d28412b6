"""The messages of a front end and the inspector: requests, replies, pushes; JSON, capped.

A request is `{"id", "verb", ...arguments}`. Its reply is `{"v", "id", "verb", "ok", "data"}`; with
ok False `{"error": {"kind", "reason"}}` stands for the data. What the inspector says unasked is
`{"v", "push", "data"}`.
No message exceeds `MAX_MESSAGE_BYTES`. A summary, or `parts`, is continued by asking again with
`start` set to its `next`; of other replies rows are left out, and `truncated` says how many there
were.
"""

from __future__ import annotations

import json
import math
from typing import Any

from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.record import Record

VERSION = 1
TARGET = "kbench.inspect.v1"
MAX_MESSAGE_BYTES = 64 * 1024
"""Of one message, so that none holds up those behind it."""
MAX_PAGE_BYTES = MAX_MESSAGE_BYTES - 4 * 1024
"""Of rows in one reply that is continued by `next`; the rest is for what stands around them."""
_MAX_REASON_CHARACTERS = 2_000
"""Of the words of an error: a page of the terminal."""

_JSON_SCALARS = frozenset((int, str, bool, type(None)))


class ProtocolError(Exception):
    """A request that the inspector does not understand, or cannot serve; `kind` is for programs."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def reply(ident: int | str | None, verb: str, data: Record) -> JsonObject:
    """The answer to a request, within the limit."""
    head = {"v": VERSION, "id": ident, "verb": verb, "ok": True}
    return capped({**head, "data": data})


def refusal(raw: object, error: ProtocolError) -> JsonObject:
    """The answer to a request that was not served."""
    ident, verb = (raw.get("id"), raw.get("verb")) if isinstance(raw, dict) else (None, None)
    if not isinstance(ident, (int, str)):
        ident = None
    return {
        "v": VERSION,
        "id": ident if not isinstance(ident, str) else ident[:80],
        "verb": str(verb)[:40],
        "ok": False,
        "error": {"kind": error.kind, "reason": error.reason[:_MAX_REASON_CHARACTERS]},
    }


def following(reply: JsonObject) -> int | None:
    """Where the next page of a reply starts, None when there is none."""
    return reply["data"].get("next") if reply["ok"] else None


def joined(pages: list[JsonObject]) -> JsonObject:
    """One reply of several pages; a refusal on the way is the reply."""
    last = pages[-1]
    if len(pages) == 1 or not last["ok"]:
        return last
    rows = [row for page in pages for row in page["data"]["rows"]]
    return {**last, "data": {**last["data"], "rows": rows}}


def push(kind: str, data: JsonObject) -> JsonObject:
    """A message that nobody asked for, within the limit."""
    return capped({"v": VERSION, "push": kind, "data": data})


def size(message: JsonObject | Record) -> int:
    """Bytes of a message, or of a part of one, as it crosses the wire."""
    text = json.dumps(message, ensure_ascii=False, default=_fields)
    return len(text.encode("utf-8", "surrogatepass"))


def _fields(value: object) -> JsonObject:
    if isinstance(value, Record):
        return value.given()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def capped(message: JsonObject) -> JsonObject:
    """The message as plain JSON values, its longest lists halved until it fits the limit."""
    message = plain(message)
    try:
        length = len(json.dumps(message, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError:  # a lone surrogate in a name: no wire carries it
        message = encodable(message)
        length = size(message)
    while length > MAX_MESSAGE_BYTES:
        data = message["data"]
        lists = {key: value for key, value in data.items() if isinstance(value, list) and value}
        if not lists:
            raise ProtocolError("size", f"the answer exceeds {MAX_MESSAGE_BYTES} bytes")
        key = max(lists, key=lambda name: len(json.dumps(lists[name])))
        truncated = data.setdefault("truncated", {})
        truncated.setdefault(key, {"of": len(data[key])})
        data[key] = data[key][: len(data[key]) // 2]
        truncated[key]["kept"] = len(data[key])
        length = size(message)
    return message


def encodable(value: object) -> Any:
    """The same JSON value with lone surrogates written as escapes, since no wire carries them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, (list, tuple)) else value


def plain(value: object) -> Any:
    """Only what JSON has: NaN and infinities become their names, numpy's scalars Python's."""
    if type(value) in _JSON_SCALARS or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    whole = _JSON_SCALARS  # whose values are as they shall be: most, so that no call is worth while
    if isinstance(value, Record):
        value = vars(value)
    if isinstance(value, dict):
        return {
            str(key): item if type(item) in whole else plain(item) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [item if type(item) in whole else plain(item) for item in value]
    if hasattr(value, "item"):
        return plain(value.item())
    raise ProtocolError("json", f"{type(value).__name__} is not a JSON value")
