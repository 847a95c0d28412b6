"""How a notebook shows a KbenchError: the user's own frames, then the operands where they stand.

Below an error about a name it says which one was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import errors
from kbench.workbench.errors import did_you_mean, explanation

if TYPE_CHECKING:
    from types import TracebackType

    from kbench.workbench.ipython_types import Shell


def install(shell: Shell) -> Callable[[], None]:
    """Report such errors in this shell; the returned function restores what was there before."""
    before = shell.custom_exceptions, shell.CustomTB
    shell.set_custom_exc((errors.KbenchError, *did_you_mean.reported()), _report)

    def restore() -> None:
        shell.custom_exceptions, shell.CustomTB = before

    return restore


def _report(
    shell: Shell,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    """IPython's handler: show and return the lines of the report."""
    if not isinstance(error, errors.KbenchError):
        return did_you_mean.report(shell, kind, error, traceback, tb_offset)
    offset = shell.InteractiveTB.tb_offset if tb_offset is None else tb_offset
    own = explanation.user_frames(traceback) or traceback
    lines = shell.InteractiveTB.structured_traceback(kind, error, own, offset)
    words, more = explanation.parts(error)
    if more:
        whole = str(error)
        lines = [*(line.replace(whole, words) for line in lines), "", *more]
    shell._showtraceback(kind, error, lines)
    return lines
