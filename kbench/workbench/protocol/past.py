"""The question about what a variable was after an earlier cell."""

from __future__ import annotations

from kbench.workbench.protocol.names import VariableRow
from kbench.workbench.protocol.question import Answer, Question


class PastReply(Answer):
    """`name` is the address to ask by from now on: `x@3`, or `x` itself for what it is now.

    The value is the same after all cells from `cell` to `until`; `last` is the newest cell. `row`
    is None where there is no value, and `words` say why.
    """

    name: str
    cell: int
    until: int
    last: int
    row: VariableRow | None = None
    words: str = ""
    kept: int = 0
    budget: int = 0
    """Bytes of all copies, and how many they may be."""


class Past(Question[PastReply], verb="past"):
    """What a name, or what is inside it, was after a cell; `d['a']`, or `d@3['a']` for the past.

    `step` -1 goes to the value before that of the address, 1 to the one after it.
    """

    name: str
    cell: int | None = None
    step: int = 0
