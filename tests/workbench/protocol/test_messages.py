"""Requests are checked, replies are plain JSON within the cap, and nothing is cut in silence."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.workbench.protocol import messages, verbs
from kbench.workbench.protocol.arrays import Window
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import SummaryReply, VariableRow
from kbench.workbench.protocol.runs import PlanReply

BAD = [
    (None, "request"),
    ([], "request"),
    ({}, "verb"),
    ({"verb": 3}, "verb"),
    ({"verb": "eval"}, "verb"),
    ({"verb": "_init"}, "verb"),
    ({"verb": "window"}, "argument"),
    ({"verb": "window", "name": 3}, "argument"),
    ({"verb": "window", "name": "x", "row_axis": True}, "argument"),
    ({"verb": "window", "name": "x", "shape": []}, "argument"),
    ({"verb": "stats", "name": "x", "exact": 1}, "argument"),
    ({"verb": "changes", "since": "0"}, "argument"),
    ({"verb": "summary", "names": "x"}, "argument"),
    ({"verb": "config", "set": []}, "argument"),
    ({"verb": "export", "name": "x"}, "argument"),
]


@pytest.mark.parametrize(("raw", "kind"), BAD, ids=[json.dumps(raw) for raw, _ in BAD])
def test_bad_requests_are_refused(raw: object, kind: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        verbs.parse(raw)
    assert caught.value.kind == kind
    reply = messages.refusal(raw, caught.value)
    assert reply["ok"] is False and reply["error"]["reason"] == caught.value.reason


def test_good_requests_keep_their_arguments() -> None:
    request = verbs.parse({"id": 7, "verb": "window", "name": "x", "row_axis": None})
    assert (request.ident, request.question) == (7, Window(name="x", row_axis=None))
    assert request.question.arguments() == {"name": "x", "row_axis": None}


def test_plain_values_only() -> None:
    given_value = {"a": np.float32(1.5), 2: (np.int64(3), math.nan, -math.inf), "b": True}
    assert messages.plain(given_value) == {"a": 1.5, "2": [3, "nan", "-inf"], "b": True}
    with pytest.raises(ProtocolError):
        messages.plain({"x": object()})


def test_a_long_reply_says_what_it_left_out() -> None:
    rows = [VariableRow(name=f"variable_{i}", kind="scalar", text="x" * 100) for i in range(2000)]
    reply = messages.reply(1, "summary", SummaryReply(rows=rows, total=2000, epoch=3, next=None))
    assert messages.size(reply) <= messages.MAX_MESSAGE_BYTES
    kept = len(reply["data"]["rows"])
    assert reply["data"]["truncated"] == {"rows": {"of": 2000, "kept": kept}} and kept > 200


def test_what_cannot_be_shortened_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="exceeds"):
        messages.reply(1, "plan", PlanReply(source="x" * messages.MAX_MESSAGE_BYTES))


def test_the_limit_counts_bytes_not_characters() -> None:
    message = messages.push("changed", {"names": ["\u6f22" * 70] * 500})
    assert messages.size(message) <= messages.MAX_MESSAGE_BYTES
    assert message["data"]["truncated"]["names"]["of"] == 500


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=12,
    )
)
def test_any_value_becomes_strict_json(value: object) -> None:
    json.dumps(messages.plain(value), allow_nan=False)


@given(st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text(max_size=8)))
def test_parse_never_fails_otherwise(raw: dict) -> None:
    try:
        verbs.parse(raw)
    except ProtocolError as error:
        messages.refusal(raw, error)
