"""While a lesson is open, a cell that still has a blank is not run, and says so.

Without this, `___` would be what IPython means by it: the last result but two.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from IPython.core.error import InputRejected

from kbench.workbench.lessons.lesson_files import BLANK

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell


class BlankLeft(InputRejected):
    """A cell still has a blank. IPython shows the message alone: where it was found is no help."""

    def _render_traceback_(self) -> list[str]:
        return [f"{self};", "the cell was not run"]  # short lines: a page cuts them anywhere


class _Refuser(ast.NodeTransformer):
    """Rejects code that uses the blank as a name or an attribute."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        _check(node, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        _check(node, node.attr)
        return node


def _check(node: ast.expr, name: str) -> None:
    if name == BLANK:
        raise BlankLeft(f"line {node.lineno} still has a {BLANK} to fill in")


def refuse(shell: Shell) -> None:
    """Have the shell reject cells with blanks from now on."""
    if not any(isinstance(transformer, _Refuser) for transformer in shell.ast_transformers):
        shell.ast_transformers.append(_Refuser())


def allow(shell: Shell) -> None:
    """Run every cell again as it is."""
    shell.ast_transformers[:] = [
        transformer
        for transformer in shell.ast_transformers
        if not isinstance(transformer, _Refuser)
    ]
