"""The table of verbs, and how a request becomes the question it stands for."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kbench.workbench.protocol.arrays import Curve, Export, Exporting, Find, Image, Stats, Window
from kbench.workbench.protocol.contents import Open
from kbench.workbench.protocol.findings import Gradient, Nan, Versus, Watch, WatchList
from kbench.workbench.protocol.graphs import Graph, Node
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import Parts, Summary
from kbench.workbench.protocol.past import Past
from kbench.workbench.protocol.question import Question
from kbench.workbench.protocol.runs import Jobs, Plan, Trace
from kbench.workbench.protocol.session import (
    Cancel,
    Changes,
    Config,
    Hello,
    Help,
    Meanings,
    Push,
)

QUESTIONS: tuple[type[Question[Any]], ...] = (
    Hello,
    Push,
    Changes,
    Summary,
    Parts,
    Open,
    Past,
    Window,
    Stats,
    Image,
    Curve,
    Find,
    Graph,
    Node,
    Export,
    Exporting,
    Config,
    Plan,
    Jobs,
    Help,
    Meanings,
    Cancel,
    Trace,
    Watch,
    WatchList,
    Versus,
    Nan,
    Gradient,
)
"""Every question that the inspector answers."""
VERBS = {question.verb: question for question in QUESTIONS}


class Request(Struct, frozen=True):
    """A request that has been checked."""

    ident: int | str | None
    question: Question[Any]


def parse(raw: object) -> Request:
    """Check a request; ProtocolError names what is wrong with it."""
    if not isinstance(raw, dict):
        raise ProtocolError("request", "a request is a JSON object")
    verb = raw.get("verb")
    if not isinstance(verb, str) or verb not in VERBS:
        raise ProtocolError("verb", f"unknown verb {str(verb)[:40]!r}")
    arguments = {key: value for key, value in raw.items() if key not in ("id", "verb", "v")}
    return Request(raw.get("id"), VERBS[verb].parse(arguments))
