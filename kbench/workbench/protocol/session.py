"""Questions about the kernel itself: who answers, what has changed, settings, help, cancelling."""

from __future__ import annotations

from kbench.workbench.core_types import SettingValue
from kbench.workbench.protocol.question import Answer, Question


class HelloReply(Answer):
    version: int
    kbench: str
    python: str
    pid: int
    verbs: list[str]
    config: dict[str, SettingValue]
    epoch: int


class Hello(Question[HelloReply], verb="hello"):
    """Who answers: versions, process, verbs, settings; `push`, `record`: switch these on."""

    push: bool = False
    record: bool = False


class PushReply(Answer):
    on: bool


class Push(Question[PushReply], verb="push"):
    """Whether changes are pushed; off while no pane is visible."""

    on: bool = True


class ChangesReply(Answer):
    """Where the names are more than a message holds, none, and in `many` how many have changed."""

    epoch: int
    names: list[str]
    all: list[str]
    many: int
    config: dict[str, SettingValue]


class Changes(Question[ChangesReply], verb="changes"):
    """Names whose row is not what it was at epoch `since`, and all names there are."""

    since: int = 0


class ConfigReply(Answer):
    """`queued`: the settings that wait for the end of the running cell."""

    config: dict[str, SettingValue]
    queued: list[str] | None = None
    epoch: int | None = None


class Config(Question[ConfigReply], verb="config"):
    """The settings, after `set` was applied; while a cell runs `set` waits for its end."""

    set: dict[str, SettingValue] | None = None


class HelpReply(Answer):
    """`argument`: the index of the one that the cursor is at; all empty where there is no call."""

    text: str
    name: str
    signature: str
    doc: str
    argument: int
    operands: list[str]


class Help(Question[HelpReply], verb="help"):
    """Signature of the call at a position in code."""

    code: str
    position: int


class MeaningsReply(Answer):
    """For each name "function", "class", "module", "value" or "", and its signature."""

    kinds: list[str]
    signatures: list[str]


class Meanings(Question[MeaningsReply], verb="meanings"):
    """What dotted names stand for, as a list of completions shows them; nothing is evaluated."""

    names: list[str]


class CancelReply(Answer):
    busy: bool


class Cancel(Question[CancelReply], verb="cancel"):
    """Ask the running evaluation to stop."""
