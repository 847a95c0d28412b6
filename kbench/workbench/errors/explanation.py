"""A KbenchError explained in the user's own expression: which operand stands where, what is wrong.

The operands' places in the source come from the code positions of the failing frame (Python 3.11)
and from matching operands to the names and arguments there. Nothing is executed again.
"""

from __future__ import annotations

import ast
import inspect
import unicodedata
from types import TracebackType

from kbench.engine.core.errors import KbenchError, Operand, Place, is_users
from kbench.engine.inspect import describe
from kbench.engine.inspect.describe import printable
from kbench.workbench.core_types import JsonObject
from kbench.workbench.errors import positions, suggestions
from kbench.workbench.errors.positions import Spot
from kbench.workbench.models import keras_models
from kbench.workbench.models.fields import field
from kbench.workbench.output.terminal_lines import without_colours

_MAX_TEXT_CHARACTERS = 4_000
"""Of an error's words: a page of the terminal."""
_MAX_LINE_CHARACTERS = 200
"""Of a line of source."""
_OUTERMOST_CALLS, _INNERMOST_CALLS = 2, 4
"""Of a long chain of calls those that are shown."""


def safe_text(error: BaseException) -> str:
    """`str(error)` without colours, whatever the class does there."""
    try:
        text = without_colours(str(error))
        return "\n".join(printable(line, 10 * len(line) + 1) for line in text.split("\n"))
    except Exception as second:
        return f"(no text: {type(second).__name__})"


def printable_lines(text: str) -> str:
    return "\n".join(printable(line, _MAX_TEXT_CHARACTERS) for line in text.splitlines()[:200])


def detail(error: BaseException) -> JsonObject:
    """What a front end needs to draw a KbenchError; empty for every other exception."""
    if not isinstance(error, KbenchError):
        return {}
    path = positions.path(error.__traceback__)
    spot = path[-1] if path and path[-1].node is not None else None
    nodes = _nodes(error, spot) if spot is not None else {}
    spans = {at: positions.span(node, spot) for at, node in nodes.items() if spot is not None}
    operands = [_operand_row(operand, spans.get(at)) for at, operand in enumerate(error.operands)]
    suggestion = _suggestion(error, nodes, spot)
    chain, skipped = _chain(error, path[:-1])
    row: JsonObject = {
        "kind": type(error).__name__,
        "function": error.function,
        "reason": printable(error.reason, _MAX_TEXT_CHARACTERS),
        "place": _place(error.place),
        "suggestion": printable(suggestion, _MAX_TEXT_CHARACTERS) if suggestion else None,
        "operands": operands,
        "source": []
        if spot is None
        else [printable(line, _MAX_LINE_CHARACTERS) for line in spot.lines],
        "line": None if spot is None else spot.first,
        "span": None if spot is None else spot.span,
        "chain": chain,
        "skipped": skipped,
        "layer": _layer(error.__traceback__),
        "text": printable_lines(str(error)),
    }
    return {**row, "drawing": drawing(row)}


def error_text(error: BaseException) -> str:
    """The words of an error, its operands drawn in the user's expression where they stand there."""
    words, more = parts(error)
    return "\n".join([words, *(f"  {line}" for line in more)])


def parts(error: BaseException) -> tuple[str, list[str]]:
    """An error's words and the lines to show below them.

    Where the lines draw the operands in the user's expression, the words leave them out.
    """
    try:
        row = detail(error)
    except Exception:  # the report of an error must not replace it
        row = {}
    if any(operand["line"] is not None for operand in row.get("operands", ())):
        head = f"{row['function']}: {row['reason']}" if row["function"] else row["reason"]
        return head, row["drawing"]
    more = [f"in {row['layer']}"] if row.get("layer") else []
    if row.get("suggestion") and not getattr(error, "suggestion", None):
        more.append(f"try {row['suggestion']}")
    return safe_text(error), more


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of the engine and of Keras, which say less than the message."""
    kept = []
    while traceback is not None:
        if is_users(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for step in reversed(kept):
        result = TracebackType(result, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return result


def _place(place: Place | None) -> str | None:
    return None if place is None else printable(place)


def _operand_row(operand: Operand, span: tuple[int, int, int] | None) -> JsonObject:
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


# ------------------------------------------------------------------ the way to the expression


def _chain(error: KbenchError, outer: list[Spot]) -> tuple[list[JsonObject], int]:
    """The lines called on the way, outermost first, and how many in their middle are left out."""
    shown, skipped = outer, 0
    if len(outer) > _OUTERMOST_CALLS + _INNERMOST_CALLS:
        shown = outer[:_OUTERMOST_CALLS] + outer[-_INNERMOST_CALLS:]
        skipped = len(outer) - len(shown)
    return [_call_row(error, spot) for spot in shown if spot.lines], skipped


def _call_row(error: KbenchError, spot: Spot) -> JsonObject:
    """A line that called on, and in it the operands at fault, or else the call as a whole."""
    found = _by_identity(error, spot)
    spans = [positions.span(node, spot) for node in found.values()]
    if not spans and spot.span is not None:
        spans = [spot.span]
    code = spot.frame.f_code
    return {
        "place": _place(Place(code.co_filename, spot.line)),
        "function": printable(code.co_name),
        "source": printable(spot.lines[0], _MAX_LINE_CHARACTERS),
        "marks": [[span[1], span[2]] for span in spans if span[0] == 0],
    }


def _layer(traceback: TracebackType | None) -> str | None:
    """The innermost layer of Keras in which it happened, by its name and class."""
    found = None
    while traceback is not None:
        held = traceback.tb_frame.f_locals.get("self")
        if keras_models.is_layer(held) and not keras_models.is_model(held):
            found = held
        traceback = traceback.tb_next
    if found is None:
        return None
    name = field(found, "name")
    words = f" {printable(name)!r}" if type(name) is str else ""
    return f"layer{words} ({printable(type(found).__name__)})"


def _suggestion(error: KbenchError, nodes: dict[int, ast.expr], spot: Spot | None) -> str | None:
    """What would fit, in the user's own names where these are short."""
    texts = {at: positions.segment(node, spot) for at, node in nodes.items() if spot is not None}
    return suggestions.find(error, texts)


# ------------------------------------------------------------------ matching operands to it


def _nodes(error: KbenchError, spot: Spot) -> dict[int, ast.expr]:
    """For each operand found in the source, by its number, the expression that gave it."""
    nodes = _by_identity(error, spot)
    roles = _roles(error, spot)
    for position, operand in enumerate(error.operands):
        node = roles.get(operand.role)
        if position not in nodes and node is not None and node not in nodes.values():
            nodes[position] = node
    return nodes


def _by_identity(error: KbenchError, spot: Spot) -> dict[int, ast.expr]:
    """Operands which are the value of a name, field or entry that stands in the expression."""
    nodes: dict[int, ast.expr] = {}
    known = [*positions.arguments(spot.node)]
    if (held := positions.owner(spot.node)) is not None:
        known.append((None, held))
    given = [node for pair in known for node in _items(pair)]
    flat = [(node, id(positions.value_of(node, spot.frame))) for node in given]
    for position, operand in enumerate(error.operands):
        for node, ident in flat:
            if ident == operand.ident and node not in nodes.values():
                nodes[position] = node
                break
    return nodes


def _items(pair: positions.Argument) -> list[ast.expr]:
    """An argument, or the items of a list or tuple written in place."""
    return list(pair[1].elts) if isinstance(pair[1], (ast.List, ast.Tuple)) else [pair[1]]


def _roles(error: KbenchError, spot: Spot) -> dict[str, ast.expr]:
    """Parameter names of what was called -> the expressions given for them."""
    given = positions.arguments(spot.node)
    roles: dict[str, ast.expr] = {}
    for name, (keyword, node) in zip(_parameters(error, spot), given, strict=False):
        if isinstance(node, ast.Starred):
            break  # how many parameters it fills is not written
        roles[keyword or name] = node
    for keyword, node in given:
        if keyword is not None and roles:
            roles[keyword] = node
    for role, node in list(roles.items()):
        if isinstance(node, (ast.List, ast.Tuple)):
            roles.update({f"{role}[{i}]": item for i, item in enumerate(node.elts)})
    return roles


def _parameters(error: KbenchError, spot: Spot) -> list[str]:
    """Of the failing K function or operator, if that is what stands in the expression."""
    from kbench import backend

    function = getattr(backend, error.function or "", None)
    if not isinstance(spot.node, ast.Call):
        return [operand.role for operand in error.operands]
    called = positions.value_of(spot.node.func, spot.frame)
    if describe.is_function(called):
        return ["inputs"]
    name = getattr(spot.node.func, "attr", getattr(spot.node.func, "id", None))
    if not callable(function) or (called is not function and name != error.function):
        return []  # a function of the user's or of a library, whose parameters are others
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


# ------------------------------------------------------------------ drawing


def drawing(row: JsonObject) -> list[str]:
    """The expression with a line from each operand to what is known of it, in ASCII.

    K.dot(w, x)
          |  +- float32[32, 784]  placeholder 'x', In [2]  axis -2 does not fit
          +---- float32[784, 10]  variable 'w', In [3]
    """
    lines: list[str] = []
    indent = min(
        (len(line) - len(line.lstrip()) for line in row["source"] if line.strip()), default=0
    )
    found = any(operand["line"] is not None for operand in row["operands"])
    for number, source in enumerate(row["source"]):
        text = source[indent:]
        lines.append(text)
        here = [operand for operand in row["operands"] if operand["line"] == number]
        columns = [_cells(text[: operand["start"] - indent]) for operand in here]
        lines += _connectors(sorted(zip(columns, here, strict=True), key=lambda pair: pair[0]))
        span = row.get("span")
        if not found and span is not None and span[0] == number:
            start, end = (max(column - indent, 0) for column in span[1:])
            lines.append(" " * _cells(text[:start]) + "^" * max(_cells(text[start:end]), 1))
    if row["source"]:
        unseen = [operand for operand in row["operands"] if operand["line"] is None]
        lines += [f"  {operand['role']}  {_describe_operand(operand)}" for operand in unseen]
    if row.get("layer"):
        lines.append(f"in {row['layer']}")
    if row["suggestion"]:
        lines.append(f"try {row['suggestion']}")
    return lines


def _cells(text: str) -> int:
    """Cells of a terminal that a text takes: characters of East Asia take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _connectors(operands: list[tuple[int, JsonObject]]) -> list[str]:
    columns = [column for column, _ in operands]
    if not columns:
        return []
    end = columns[-1] + 3
    lines = []
    for position in range(len(operands) - 1, -1, -1):
        bars = "".join(
            "|" if column in columns[:position] else " " for column in range(columns[position])
        )
        arm = "+" + "-" * (end - columns[position] - 1)
        lines.append(f"{bars}{arm} {_describe_operand(operands[position][1])}")
    return lines


def _describe_operand(operand: JsonObject) -> str:
    name = f" '{operand['name']}'" if operand["name"] else ""
    place = f", {operand['place']}" if operand["place"] else ""
    fault = f"  axis {operand['axis']} does not fit" if operand["axis"] is not None else ""
    return f"{operand['spec']}  {operand['kind']}{name}{place}{fault}"
