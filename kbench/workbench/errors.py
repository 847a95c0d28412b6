"""A KbenchError told in the user's own expression: which operand stands where, what is wrong.

The operands' places in the source come from the code positions of the failing frame (Python 3.11)
and from matching operands to the names and arguments there. Nothing is executed again.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from kbench.engine.describe import printable
from kbench.engine.errors import KbenchError, Operand, Place, is_internal, is_users

_LINES = 8
_TEXT_LIMIT = 4_000


@dataclass(frozen=True)
class _Call:
    """The failing expression: its node, its operands' nodes by role, and the frame's names."""

    lines: list[str]
    first_line: int
    arguments: list[tuple[str | None, ast.expr]]
    frame: FrameType


def safe_text(error: BaseException) -> str:
    """`str(error)`, whatever the class does there."""
    try:
        text = str(error)
        return "\n".join(printable(line, 10 * len(line) + 1) for line in text.split("\n"))
    except Exception as second:
        return f"(no text: {type(second).__name__})"


def printable_lines(text: str) -> str:
    return "\n".join(printable(line, _TEXT_LIMIT) for line in text.splitlines()[:200])


def detail(error: BaseException) -> dict[str, Any]:
    """What a front end needs to draw a KbenchError; empty for every other exception."""
    if not isinstance(error, KbenchError):
        return {}
    call = _failing_call(error.__traceback__)
    spans = _spans(error, call) if call is not None else {}
    operands = [_operand_row(one, spans.get(place)) for place, one in enumerate(error.operands)]
    row: dict[str, Any] = {
        "kind": type(error).__name__,
        "function": error.function,
        "reason": printable(error.reason, _TEXT_LIMIT),
        "place": _place(error.place),
        "suggestion": printable(error.suggestion, _TEXT_LIMIT) if error.suggestion else None,
        "operands": operands,
        "source": [] if call is None else [printable(one, 200) for one in call.lines],
        "line": None if call is None else call.first_line,
        "text": printable_lines(str(error)),
    }
    return {**row, "drawing": drawing(row)}


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the engine's frames, which say nothing that the message does not."""
    kept = []
    while traceback is not None:
        if not is_internal(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for one in reversed(kept):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result


def _place(place: Place | None) -> str | None:
    return None if place is None else printable(place)


def _operand_row(operand: Operand, span: tuple[int, int, int] | None) -> dict[str, Any]:
    line, start, end = span if span is not None else (None, None, None)
    return {
        "role": operand.role,
        "spec": operand.spec,
        "kind": operand.kind,
        "name": printable(operand.name),
        "place": _place(operand.place),
        "axis": operand.axis,
        "line": line,
        "start": start,
        "end": end,
    }


# ------------------------------------------------------------------ finding the expression


def _failing_call(traceback: TracebackType | None) -> _Call | None:
    """The expression at which the user's innermost frame left for the engine."""
    found = None
    while traceback is not None:
        if is_users(traceback.tb_frame.f_code.co_filename):
            found = traceback
        traceback = traceback.tb_next
    if found is None:
        return None
    frame = found.tb_frame
    positions = list(frame.f_code.co_positions())
    where = positions[found.tb_lasti // 2] if found.tb_lasti // 2 < len(positions) else None
    source = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if where is None or not source or None in where:
        return None
    node = _node_at("".join(source), where)
    if node is None:
        return None
    first, last = node.lineno, min(node.end_lineno or node.lineno, node.lineno + _LINES - 1)
    lines = [line.rstrip("\n") for line in source[first - 1 : last]]
    return _Call(lines, first, _arguments(node), frame)


def _node_at(source: str, where: tuple[Any, ...]) -> ast.expr | ast.stmt | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript,
                             ast.AugAssign)):
            place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            if place == tuple(where):
                return node
    return None


def _arguments(node: ast.expr | ast.stmt) -> list[tuple[str | None, ast.expr]]:
    """The operands of an expression, with the keyword they were given by."""
    if isinstance(node, ast.Call):
        plain: list[tuple[str | None, ast.expr]] = [(None, one) for one in node.args]
        return plain + [(one.arg, one.value) for one in node.keywords]
    if isinstance(node, ast.BinOp):
        return [(None, node.left), (None, node.right)]
    if isinstance(node, ast.AugAssign):
        return [(None, node.target), (None, node.value)]
    if isinstance(node, ast.Compare):
        return [(None, node.left), *((None, one) for one in node.comparators)]
    if isinstance(node, ast.UnaryOp):
        return [(None, node.operand)]
    if isinstance(node, ast.Subscript):
        return [(None, node.value)]
    return []


# ------------------------------------------------------------------ matching operands to it


def _spans(error: KbenchError, call: _Call) -> dict[int, tuple[int, int, int]]:
    """For each operand found in the source: line (from 0), first column, column behind."""
    nodes: dict[int, ast.expr] = {}
    flat = [item for pair in call.arguments for item in _items(pair)]
    for position, operand in enumerate(error.operands):
        for _, node in flat:
            if _ident(node, call.frame) == operand.ident and node not in nodes.values():
                nodes[position] = node
                break
    roles = _roles(error, call)
    for position, operand in enumerate(error.operands):
        node_of_role = roles.get(operand.role)
        if position not in nodes and node_of_role is not None:
            if node_of_role not in nodes.values():
                nodes[position] = node_of_role
    return {position: _span(node, call) for position, node in nodes.items()}


def _items(pair: tuple[str | None, ast.expr]) -> list[tuple[str | None, ast.expr]]:
    """An argument, or the items of a list or tuple written in place."""
    if isinstance(pair[1], (ast.List, ast.Tuple)):
        return [(None, one) for one in pair[1].elts]
    return [pair]


def _ident(node: ast.expr, frame: FrameType) -> int | None:
    """The identity of what a name in the source stands for."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return id(names[node.id])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = frame.f_locals.get(node.value.id, frame.f_globals.get(node.value.id))
        fields = inspect.getattr_static(owner, "__dict__", None)
        if isinstance(fields, dict) and node.attr in fields:
            return id(fields[node.attr])
    return None


def _roles(error: KbenchError, call: _Call) -> dict[str, ast.expr]:
    """Parameter names of the failing K function -> the expressions given for them."""
    from kbench import backend

    function = getattr(backend, error.function or "", None)
    parameters: list[str] = []
    if callable(function):
        try:
            parameters = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            parameters = []
    if not parameters:
        parameters = [one.role for one in error.operands]
    roles: dict[str, ast.expr] = {}
    for name, (keyword, node) in zip(parameters, call.arguments, strict=False):
        roles[keyword or name] = node
    for keyword, node in call.arguments:
        if keyword is not None:
            roles[keyword] = node
    for role, node in list(roles.items()):
        if isinstance(node, (ast.List, ast.Tuple)):
            roles.update({f"{role}[{i}]": one for i, one in enumerate(node.elts)})
    return roles


def _span(node: ast.expr, call: _Call) -> tuple[int, int, int]:
    line = node.lineno - call.first_line
    text = call.lines[line] if line < len(call.lines) else ""
    start = _column(text, node.col_offset)
    same = node.end_lineno == node.lineno and node.end_col_offset is not None
    return line, start, _column(text, node.end_col_offset or 0) if same else len(text)


def _column(text: str, offset: int) -> int:
    """Python counts columns in UTF-8 bytes; screens count characters."""
    return len(text.encode("utf-8")[:offset].decode("utf-8", "ignore"))


# ------------------------------------------------------------------ drawing


def drawing(row: dict[str, Any]) -> list[str]:
    """The expression with a line from each operand to what is known of it, in ASCII.

    K.dot(w, x)
          |  +- float32[32, 784]  placeholder 'x', In [2]  axis -2 is at fault
          +---- float32[784, 10]  variable 'w', In [3]
    """
    lines: list[str] = []
    indent = min((len(one) - len(one.lstrip()) for one in row["source"] if one.strip()), default=0)
    for number, source in enumerate(row["source"]):
        lines.append(source[indent:])
        here = [one for one in row["operands"] if one["line"] == number]
        lines += _connectors(sorted(here, key=lambda one: one["start"]), indent)
    if row["suggestion"]:
        lines.append(f"try {row['suggestion']}")
    return lines


def _connectors(operands: list[dict[str, Any]], indent: int) -> list[str]:
    columns = [one["start"] - indent for one in operands]
    if not columns:
        return []
    end = columns[-1] + 3
    lines = []
    for position in range(len(operands) - 1, -1, -1):
        bars = "".join(
            "|" if column in columns[:position] else " " for column in range(columns[position])
        )
        arm = "+" + "-" * (end - columns[position] - 1)
        lines.append(f"{bars}{arm} {_told(operands[position])}")
    return lines


def _told(operand: dict[str, Any]) -> str:
    name = f" '{operand['name']}'" if operand["name"] else ""
    place = f", {operand['place']}" if operand["place"] else ""
    fault = f"  axis {operand['axis']} is at fault" if operand["axis"] is not None else ""
    return f"{operand['spec']}  {operand['kind']}{name}{place}{fault}"
