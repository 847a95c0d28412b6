"""The question about what is inside a value: its entries, or its lines, a page at a time."""

from __future__ import annotations

from kbench.workbench.protocol.names import VariableRow
from kbench.workbench.protocol.question import Answer, Question


class OpenReply(Answer):
    """`rows` are those from `start` on of `total`; `row` is the value itself.

    `form` is "entries", where `key` of a row is what to ask by and its `name` how the entry is
    reached; "lines" or "bytes", where `name` is a number and `text` what stands there. `words` say
    what people should know of it: why there is nothing, or what was not evaluated.
    """

    name: str
    form: str
    row: VariableRow
    rows: list[VariableRow]
    start: int
    total: int
    words: str = ""


class Open(Question[OpenReply], verb="open"):
    """What is inside a value, by its name or an address such as `d['a'][3].w`.

    At most `count` rows from `start` on; lines of a text are cut at `width` characters.
    """

    name: str
    start: int = 0
    count: int = 100
    width: int = 80
