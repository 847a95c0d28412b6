"""`%value x 3` in a cell: a copy of what `x` was after cell 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

USAGE = "%value NAME CELL gives what a name was after a cell, as %value w 3 or %value d['a'] 3"


def install(shell: Shell, past: Callable[[str, int], object]) -> None:
    """Have the magic in a shell; `past` gives a copy, and raises ProtocolError."""
    from IPython.core.error import UsageError

    def value(line: str) -> object:
        name, _, cell = line.strip().rpartition(" ")
        if not name or not cell.isdecimal():
            raise UsageError(USAGE)
        try:
            return past(name.strip(), int(cell[:9]))
        except ProtocolError as error:
            raise UsageError(error.reason) from None

    value.__doc__ = USAGE
    shell.register_magic_function(value, "line", "value")
