"""Cells under their numbers wherever Python names a file: errors, warnings, debuggers, logs.

ipykernel keeps a cell's source under a file name made of a hash, as `2955584457.py`. The folder
stays, since tools such as Numba's cache know cells by it; the file is called `cell 3.py`.
"""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import CellInfo, Shell

_CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\](cell \d+(?: \(\d+\))?|hidden cell \d+)\.py$")


def name_of(file: str) -> str:
    """`cell 3` for the file name of a cell, '' for any other."""
    found = _CELL_FILE.search(file)
    return found.group(1) if found is not None else ""


def _is_own(error: SyntaxError) -> bool:
    """Whether a text without a file is the cell itself, as IPython has it of wrong tabs from
    Python 3.12 on, and not what the cell compiled."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return error.filename == "<string>" and not any(map(name_of, frames))


class CellNames:
    """Gives the cells of a shell their file names."""

    def __init__(self, shell: Shell) -> None:
        compiler: Any = getattr(shell, "compile")  # noqa: B009 - IPython types it as an object
        self._hashed: Callable[[str, str, int], str] = compiler.get_code_name
        self._shell = shell
        self._counted = True
        self._sources: dict[str, str] = {}
        self._hidden = 0
        self.number = 0

    def begin(self, info: CellInfo) -> None:
        """A cell is about to be compiled; one of the front end's own has no number."""
        self._counted = bool(getattr(info, "store_history", True))
        self.number = self._shell.execution_count - 1 if self._counted else 0

    def get_code_name(self, raw_code: str, code: str, number: int) -> str:
        """The file name of a cell, a different one for each source."""
        folder = os.path.dirname(self._hashed(raw_code, code, number))
        if not self._counted:
            self._hidden += 1
            return os.path.join(folder, f"hidden cell {self._hidden}.py")
        name, again = f"cell {number}", 1
        while self._sources.setdefault(name, raw_code) != raw_code:  # the count was reset
            again += 1
            name = f"cell {number} ({again})"
        return os.path.join(folder, f"{name}.py")


def install(shell: Shell) -> None:
    """Name the cells of a kernel's shell, and say `cell 3, line 2` in syntax errors, warnings."""
    names = CellNames(shell)
    compiler: Any = shell.compile
    compiler.get_code_name = names.get_code_name
    shell.events.register("pre_run_cell", names.begin)
    show = shell._showtraceback

    def show_named(kind: type[BaseException], error: BaseException, lines: list[str]) -> None:
        if isinstance(error, SyntaxError):
            file = str(error.filename or "")
            if _is_own(error) and names.number:
                error.filename = f"cell {names.number}"
            elif cell := name_of(file):
                error.filename = cell
        show(kind, error, lines)

    shell._showtraceback = show_named  # type: ignore[method-assign]
    form = warnings.formatwarning

    def format_named(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if cell := name_of(filename):
            return f"{cell}, line {lineno}: {category.__name__}: {message}\n"
        return form(message, category, filename, lineno, line)

    warnings.formatwarning = format_named
