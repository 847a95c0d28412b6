"""Where in the user's source an error stands: the lines on the way to it, the expressions there.

Read from the traceback: code positions of Python 3.11, and the source that `linecache` has. Nothing
is executed again, and no method of a user's object is called.
"""

from __future__ import annotations

import ast
import linecache
import os
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

from msgspec import Struct

from kbench.engine.core import syntax
from kbench.engine.core.errors import is_users
from kbench.workbench.models.fields import field

SourceRange = tuple[int, int, int, int]
"""First line, last line, first column, column behind; columns in bytes."""
Argument = tuple[str | None, ast.expr]
"""An expression with the keyword that it was given by."""

_MAX_LINES = 8
"""Of an expression that are shown."""
_PACKAGE = str(Path(__file__).resolve().parents[2])
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_OPERATIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)
_MAX_SEARCHED_KEYS = 1_000
"""Of a dictionary, among which the one with a key is looked for."""


class Spot(Struct, frozen=True):
    """A place in one of the user's frames: its lines, from number `first`, and what is run there.

    `node` is None where the source does not tell; `span` is its line (from 0) and columns.
    """

    frame: FrameType
    line: int
    first: int
    lines: tuple[str, ...]
    node: ast.AST | None

    @property
    def span(self) -> tuple[int, int, int] | None:
        return None if self.node is None else span(self.node, self)


def path(traceback: TracebackType | None) -> list[Spot]:
    """The user's places from the outermost call to the line at fault.

    Of code that is nobody's own (a library's, that of the shell which runs the cell) nothing is
    taken, unless there is nothing else.
    """
    steps = []
    while traceback is not None:
        steps.append(traceback)
        traceback = traceback.tb_next
    written = [step for step in steps if is_own(step.tb_frame.f_code.co_filename)]
    if not written:
        written = [step for step in steps if is_users(step.tb_frame.f_code.co_filename)][-1:]
    if not written:  # made, but never raised
        return []
    kept = [
        step
        for step, inner in zip(written, [*written[1:], None], strict=True)
        if inner is None or not _within(inner, step)
    ]
    return [_spot(step) for step in kept]


def is_own(filename: str) -> bool:
    """True for what the user wrote: no library's file, none of Python's, none of this package."""
    if not is_users(filename) or filename.startswith((*_installed(), "<decorator-gen")):
        return False
    return not any(part in filename for part in _SITES)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """Folders of Python's own modules and of this package, and the file that starts it."""
    known = sysconfig.get_paths()
    folders = {known[name] for name in ("stdlib", "platstdlib")}
    launcher = os.path.join(os.path.dirname(_PACKAGE), "kbench_launcher.py")
    return (*(os.path.join(folder, "") for folder in folders), os.path.join(_PACKAGE, ""), launcher)


def _within(inner: TracebackType, outer: TracebackType) -> bool:
    """True when a frame is that of a comprehension written in the line of the frame before it."""
    code = inner.tb_frame.f_code
    same = code.co_filename == outer.tb_frame.f_code.co_filename
    return same and code.co_name in _COMPREHENSIONS


# ------------------------------------------------------------------ the source


def _spot(step: TracebackType) -> Spot:
    frame = step.tb_frame
    source = tuple(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    where = _where(step)
    node = None if where is None or not source else node_at("".join(source), where)
    first = step.tb_lineno if node is None else getattr(node, "lineno", step.tb_lineno)
    last = first if node is None else getattr(node, "end_lineno", first)
    if isinstance(node, ast.stmt) and not isinstance(node, (ast.AugAssign, ast.Assign)):
        last = first  # the head of a block, not the block
    lines = source[first - 1 : min(last, first + _MAX_LINES - 1)]
    return Spot(frame, step.tb_lineno, first, tuple(line.rstrip("\n") for line in lines), node)


def _where(step: TracebackType) -> SourceRange | None:
    at = step.tb_lasti // 2
    for index, where in enumerate(step.tb_frame.f_code.co_positions()):
        if index == at:
            return None if None in where else where  # type: ignore[return-value]
    return None


@lru_cache(maxsize=8)
def tree(source: str) -> ast.AST | None:
    """The syntax tree of a source, None when it is not Python."""
    try:
        return syntax.parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def node_at(source: str, where: SourceRange) -> ast.AST | None:
    """The expression or statement that stands exactly at a position; an operation before others."""
    parsed = tree(source)
    if parsed is None:
        return None
    found: ast.AST | None = None
    for node in ast.walk(parsed):
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno != where[1]:
            continue
        place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        if place == where or _is_method_at(node, where):
            if isinstance(node, _OPERATIONS):
                return node
            found = found or node
    return found


def _is_method_at(node: ast.AST, where: SourceRange) -> bool:
    """Python places `.method(...)` on a line of its own at the method's name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name = node.func
    start = (name.end_col_offset or 0) - len(name.attr.encode())
    return (name.end_lineno, node.end_lineno, start, node.end_col_offset) == where


def arguments(node: ast.AST | None) -> list[Argument]:
    """The operands of an expression, with the keyword they were given by."""
    if isinstance(node, ast.Call):
        plain: list[Argument] = [(None, argument) for argument in node.args]
        return plain + [(keyword.arg, keyword.value) for keyword in node.keywords]
    if isinstance(node, ast.BinOp):
        return [(None, node.left), (None, node.right)]
    if isinstance(node, ast.AugAssign):
        return [(None, node.target), (None, node.value)]
    if isinstance(node, ast.Compare):
        return [(None, node.left), *((None, operand) for operand in node.comparators)]
    if isinstance(node, ast.UnaryOp):
        return [(None, node.operand)]
    if isinstance(node, ast.Subscript):
        return [(None, node.value)]
    return []


def owner(node: ast.AST | None) -> ast.expr | None:
    """`x` of the call `x.method(...)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return None


def span(node: ast.AST, spot: Spot) -> tuple[int, int, int]:
    """Line (from 0) of the spot, first column, column behind; to the line's end for a longer one.

    Of a method's call below its object only the part on the method's own line counts.
    """
    line = getattr(node, "lineno", spot.first) - spot.first
    start = getattr(node, "col_offset", 0)
    text = spot.lines[line] if 0 <= line < len(spot.lines) else ""
    same = getattr(node, "end_lineno", None) == getattr(node, "lineno", None)
    end = _column(text, getattr(node, "end_col_offset", 0)) if same else len(text.rstrip())
    return line, _column(text, start), end


def _column(text: str, offset: int) -> int:
    """Python counts columns in UTF-8 bytes; screens count characters."""
    return len(text.encode("utf-8")[:offset].decode("utf-8", "ignore"))


def segment(node: ast.AST, spot: Spot) -> str | None:
    """The text of a node that stands on one line."""
    if getattr(node, "end_lineno", None) != getattr(node, "lineno", 0):
        return None
    line, start, end = span(node, spot)
    return spot.lines[line][start:end] if 0 <= line < len(spot.lines) else None


# ------------------------------------------------------------------ what a name stands for


def value_of(node: ast.AST, frame: FrameType) -> object:
    """What a name, a field of it or an entry of a list or dictionary stands for; else `None`.

    Fields are read from the objects' own dictionaries, entries from exactly `list`, `tuple` and
    `dict`: no code of the user's runs.
    """
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return field(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _entry(value_of(node.value, frame), _key(node.slice))
    return None


def _key(node: ast.expr) -> int | str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str)):
        return None if isinstance(node.value, bool) else node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        key = _key(node.operand)
        return -key if type(key) is int else None
    return None


def _entry(held: object, key: int | str | None) -> object:
    if type(held) in (list, tuple) and isinstance(held, (list, tuple)) and type(key) is int:
        return held[key] if -len(held) <= key < len(held) else None
    if type(held) is dict and key is not None:
        for known, _ in zip(held, range(_MAX_SEARCHED_KEYS), strict=False):
            if type(known) is type(key) and known == key:
                return held[known]
    return None
