"""What every question and every reply has: a verb, the type of the reply, arguments to check."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.record import MissingFieldError, Record, hints_of


class Answer(Record):
    """Base of all replies."""

    truncated: dict[str, dict[str, int]] | None = None
    """By the name of a list that was cut: how many rows it would have had, how many are kept."""


ReplyData = TypeVar("ReplyData", bound=Answer)


class Question(Record, Generic[ReplyData]):
    """Base of all questions: `class Window(Question[WindowReply], verb="window")`.

    An argument that is None is left out of the request, unless `null_arguments` names it.
    """

    verb: ClassVar[str]
    null_arguments: ClassVar[frozenset[str]] = frozenset()
    """Those for which null means something, and is not their default."""
    _kinds: ClassVar[dict[str, tuple[type, ...]] | None] = None

    def __init_subclass__(cls, verb: str = "") -> None:
        super().__init_subclass__()
        cls.verb = verb
        cls._kinds = None

    @classmethod
    def reply_type(cls) -> type[ReplyData]:
        """The class of the reply."""
        base = cls.__dict__["__orig_bases__"][0]
        return cast("type[ReplyData]", typing.get_args(base)[0])

    @classmethod
    def kinds(cls) -> dict[str, tuple[type, ...]]:
        """The types that each argument accepts."""
        if cls._kinds is None:
            hints = hints_of(cls)
            null = cls.null_arguments
            cls._kinds = {name: _kinds(hint, name in null) for name, hint in hints.items()}
        return cls._kinds

    @classmethod
    def parse(cls, arguments: JsonObject) -> Self:
        """The question that has these arguments; ProtocolError names what is wrong with them."""
        kinds = cls.kinds()
        for key, value in arguments.items():
            if key not in kinds:
                raise ProtocolError("argument", f"{cls.verb} has no argument {str(key)[:40]!r}")
            if not _fits(value, kinds[key]):
                names = " or ".join(kind.__name__ for kind in kinds[key])
                raise ProtocolError("argument", f"{cls.verb}: {key} must be {names}")
        for key in cls.__annotations__:
            if key in cls._needed and key not in arguments:
                raise ProtocolError("argument", f"{cls.verb} needs {key}")
        return cls(**arguments)

    def arguments(self) -> JsonObject:
        """The arguments as a request has them."""
        return {
            name: value
            for name, value in self.given().items()
            if value is not None or name in self.null_arguments
        }

    def answer(self, reply: JsonObject) -> ReplyData:
        """The record in the inspector's reply.

        Raises:
            ProtocolError: it is a refusal, or lacks what this version of kbench reads.
        """
        if not reply.get("ok"):
            error = reply.get("error") or {}
            kind, reason = error.get("kind") or "refused", error.get("reason") or "refused"
            raise ProtocolError(str(kind), str(reason))
        try:
            return self.reply_type().from_json(reply.get("data") or {})
        except MissingFieldError as error:
            words = f"{self.verb}: {error}; does the kernel run another version of kbench?"
            raise ProtocolError("reply", words) from None

    @classmethod
    def served_by(cls, serve: Callable[[Self], ReplyData]) -> Served:
        """What answers questions of this class."""
        return cls, serve


Served = tuple[type[Question[Any]], Callable[[Any], Answer]]
"""A class of questions, and the method that answers them."""


def _kinds(hint: Any, null: bool) -> tuple[type, ...]:
    """The classes of JSON's values that fit a type."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = [typing.get_origin(one) or one for one in (typing.get_args(hint) if union else [hint])]
    return tuple(kind for kind in kinds if null or kind is not type(None))


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds)
