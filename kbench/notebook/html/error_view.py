"""Static HTML of a KbenchError that is shown as a value: reason, operands, the drawn expression."""

from __future__ import annotations

from typing import Any

from kbench.engine.core.errors import KbenchError
from kbench.notebook.markup.markup import Html, element, escape, facts, join, table
from kbench.workbench.errors import explanation

_TEXT_CHARACTERS = 400
"""Characters of a reason, of a suggestion, of a spec."""
_MAX_DRAWING_LINES = 30
"""Lines of a drawn expression."""
_DRAWING_CHARACTERS = 160
"""Characters of each."""


def is_error(value: object) -> bool:
    """Whether `value` is an error of the engine's."""
    return issubclass(type(value), KbenchError)


def head(error: Any) -> Html:
    """The class of the error and the function that refused."""
    parts = [element("b", type(error).__name__), escape(" ")]
    return join([*parts, element("code", error.function or "")])


def parts(error: Any) -> list[Html]:
    """Reason, place and what would fit; the operands; the expression with its operands marked."""
    row = explanation.detail(error) if error.__traceback__ is not None else {}  # never raised
    fitting = row.get("suggestion") or error.suggestion
    found = [
        element("p", escape(error.reason, _TEXT_CHARACTERS), class_="kb-bad"),
        facts([("at", str(error.place or "")), ("try", _code(fitting))]),
    ]
    if error.operands:
        found.append(element("div", _operands(error.operands), class_="kb-text"))
    if any(operand["start"] is not None for operand in row.get("operands", ())):
        lines = [escape(line, _DRAWING_CHARACTERS) for line in row["drawing"][:_MAX_DRAWING_LINES]]
        found.append(element("pre", Html("\n".join(lines))))
    return found


def _code(text: str | None) -> Html | None:
    return None if not text else element("code", escape(text, _TEXT_CHARACTERS))


def _operands(operands: Any) -> Html:
    rows = [
        (
            operand.role,
            operand.kind,
            operand.name,
            escape(operand.spec, _TEXT_CHARACTERS),
            str(operand.place or ""),
        )
        for operand in operands[:8]
    ]
    cut = "" if len(rows) == len(operands) else f"the first {len(rows)} of "
    words = "operand" if len(operands) == 1 else "operands"
    heads = ("operand", "kind", "name", "dtype[shape]", "made at")
    return table(f"{cut}{len(operands)} {words}", heads, rows)
