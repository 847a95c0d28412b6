"""The table of verbs: each has a question and a reply, both typed, and the inspector answers it."""

from __future__ import annotations

import json
import types
import typing
from typing import Any

import numpy as np
import pytest
from inspector_helpers import misfits

import kbench as K
from kbench.api import comparison
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol import messages, verbs
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import Summary, SummaryReply, VariableRow
from kbench.workbench.protocol.question import Answer, Question
from kbench.workbench.protocol.record import Record, hints_of

# A request for each verb that is answered on any namespace with an array `a` and a loss.
ASKED: dict[str, dict[str, Any]] = {
    "window": {"name": "a", "rows": [0, 1], "cols": [0, 1], "row_axis": None},
    "open": {"name": "a", "start": 0, "count": 5},
    "stats": {"name": "a"},
    "image": {"name": "a", "size": [4, 4]},
    "curve": {"name": "a", "stretches": 4},
    "find": {"name": "a", "what": "> 0"},
    "graph": {"name": "loss", "start": 0},
    "parts": {"names": ["a"]},
    "help": {"code": "len(", "position": 4},
    "meanings": {"names": ["a", "len"]},
    "watch": {"expressions": ["a"]},
    "watch_list": {"expressions": ["a"]},
    "jobs": {"most": 3},
    "plan": {"record": True},
}
REFUSED = {
    "export": ({"name": "a", "path": "a.xyz"}, "value"),
    "exporting": ({"job": 1}, "job"),
    "versus": ({}, "name"),
    "past": ({"name": "a", "step": -1}, "past"),
    "node": ({"name": "loss", "number": 0, "node": "other:0"}, "name"),
}


def subclasses(base: type) -> set[type]:
    return {one for child in base.__subclasses__() for one in (child, *subclasses(child))}


def test_the_table_has_every_question() -> None:
    kbenchs = {one for one in subclasses(Question) if one.__module__.startswith("kbench.")}
    assert set(verbs.QUESTIONS) == kbenchs and len(verbs.VERBS) == len(verbs.QUESTIONS)


@pytest.mark.parametrize("verb", verbs.VERBS)
def test_each_verb_has_a_question_and_a_reply(verb: str) -> None:
    question = verbs.VERBS[verb]
    assert question.verb == verb and issubclass(question.reply_type(), Answer)
    assert question.__name__.lower() == verb.replace("_", "") and question.__doc__
    hints = hints_of(question) | hints_of(question.reply_type())
    assert all(hint is not Any for hint in hints.values())


def test_the_inspector_answers_every_verb_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "latest", [])
    x = K.placeholder((None, 2), name="x")
    names: dict[str, Any] = {"a": np.ones((2, 2)), "loss": K.mean(K.square(x))}
    inspector = Inspector(names)
    assert set(inspector.answers) == set(verbs.QUESTIONS)
    for verb, question in verbs.VERBS.items():
        arguments, kind = REFUSED.get(verb, (ASKED.get(verb, {}), ""))
        request = {"id": 1, "verb": verb, **arguments}
        assert verbs.parse(request).question.arguments() == arguments
        reply = json.loads(json.dumps(inspector.handle(request)))
        if kind:
            assert reply["error"]["kind"] == kind, reply
            continue
        assert reply["ok"], reply
        assert misfits(question.reply_type(), reply["data"]) == []
        read = question(**arguments).answer(reply)
        assert messages.plain(read) == reply["data"]
    inspector.close()


# ------------------------------------------------------------------ every field, there and back


def sample(hint: Any) -> Any:
    """A value of a type, with every field of every record in it."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint(**{name: sample(one) for name, one in hints_of(hint).items()})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return sample(next(one for one in arguments if one is not type(None)))
    if origin is list:
        return [sample(arguments[0])]
    if origin is dict:
        return {"key": sample(arguments[1])}
    return {int: 7, float: 0.5, str: "text", bool: True}[hint]


@pytest.mark.parametrize("verb", verbs.VERBS)
def test_a_round_trip_keeps_every_field(verb: str) -> None:
    question = verbs.VERBS[verb]
    asked = sample(question)
    wire = json.loads(json.dumps({"id": 3, "verb": verb, **asked.arguments()}))
    assert verbs.parse(wire).question == asked
    reply = sample(question.reply_type())
    assert set(reply.given()) == set(hints_of(question.reply_type()))
    wire = json.loads(json.dumps(messages.reply(3, verb, reply)))
    assert asked.answer(wire) == reply


# ------------------------------------------------------------------ what an asker is told


BAD: list[tuple[Any, str, str]] = [
    ({"ok": False, "error": {"kind": "name", "reason": "no name w"}}, "name", "no name w"),
    ({"ok": False}, "refused", "refused"),
    ({"ok": True, "data": {"rows": []}}, "reply", "summary: SummaryReply lacks epoch, next, total"),
    ({"ok": True, "data": {"rows": 3, "total": 1, "epoch": 1, "next": None}}, "reply", "int in pl"),
]


@pytest.mark.parametrize(("reply", "kind", "words"), BAD)
def test_a_refusal_or_another_version_is_told(reply: Any, kind: str, words: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        Summary().answer(reply)
    assert caught.value.kind == kind and words in caught.value.reason


def test_a_reply_that_was_cut_says_so() -> None:
    rows = [VariableRow(name=f"v{number}", kind="scalar", text="x" * 90) for number in range(2000)]
    wire = messages.reply(1, "summary", SummaryReply(rows=rows, total=2000, epoch=1, next=None))
    read = Summary().answer(wire)
    assert read.truncated == {"rows": {"of": 2000, "kept": len(read.rows)}}


def test_an_argument_that_is_none_is_left_out_but_where_null_means_something() -> None:
    assert Summary(names=None, start=0).arguments() == {"start": 0}
    assert verbs.VERBS["window"](name="a", row_axis=None, index=None).arguments() == {
        "name": "a",
        "row_axis": None,
    }
