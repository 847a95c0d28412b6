"""An error as a few rows: class and reason, the user's expression with carets, what would work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style

from kbench.tui.glyphs import UNICODE, Glyphs
from kbench.tui.palette import MUTED
from kbench.tui.text import fold, one_line, safe

if TYPE_CHECKING:
    from kbench.tui.blocks import ErrorPart

MOST_LINES = 6
MARGIN = 2


def error_rows(part: ErrorPart, width: int, glyphs: Glyphs | None) -> list[Content]:
    """The folded error; the explain screen has all of it."""
    glyphs = glyphs or UNICODE
    detail = part.detail
    reason = str(detail.get("reason") or part.value or "")
    if detail.get("function"):
        reason = f"{detail['function']}: {reason}"
    rows = _head(part.name, reason, width)
    plain = not detail.get("source") and not detail.get("operands")
    keys = explain_words(part)
    if plain and len(rows) == 1 and rows[0].cell_length + len(keys) + 2 <= width:
        return [rows[0] + " " * (width - rows[0].cell_length - len(keys)) + keys]
    if detail.get("source") or detail.get("operands"):
        rows += expression_rows(detail.get("source") or (), detail, width, glyphs)
    suggestion = detail.get("suggestion")
    words = f"try {suggestion}" if suggestion else ""
    rows += _last_rows(words, keys, width)
    return rows


def _head(name: str, reason: str, width: int) -> list[Content]:
    lines = reason.strip("\n").split("\n")
    first = Content.assemble((safe(name), "bold $text-error"), "  ", safe(lines[0]))
    rows = first.wrap(max(width, 8)) if first.cell_length > width else [first]
    for line in lines[1:MOST_LINES]:
        rows += fold(Content(safe(line)), width)
    if len(lines) > MOST_LINES:
        rows.append(Content.styled(f"({len(lines) - MOST_LINES} more lines)", MUTED))
    return list(rows)


def explain_words(part: ErrorPart) -> Content:
    """How to see more, by key or by click."""
    words = Content.styled("alt+E explain", MUTED)
    return words.stylize(Style.from_meta({"@click": f"screen.explain('{part.cell}')"}))


def _last_rows(words: str, keys: Content, width: int) -> list[Content]:
    margin = " " * MARGIN
    if not words:
        return [margin + keys]
    words = safe(words)
    gap = width - MARGIN - cell_len(words) - len(keys)
    if gap >= 2:
        return [Content.assemble(margin, (words, "$text-success"), " " * gap) + keys]
    rows = fold(Content.styled(margin + words, "$text-success"), width)
    return [*rows, margin + keys]


def expression_rows(
    source: Sequence[str], detail: dict[str, Any], width: int, glyphs: Glyphs
) -> list[Content]:
    """The user's expression; below each line, joined to where it stands, what each operand is."""
    operands = [one for one in detail.get("operands", ()) if isinstance(one, dict)]
    indent = min((len(one) - len(one.lstrip()) for one in source if one.strip()), default=0)
    rows: list[Content] = []
    drawn: set[int] = set()
    for number, line in enumerate(source):
        shown = one_line(line[indent:], width - MARGIN, glyphs.ellipsis)
        rows.append(Content(" " * MARGIN + shown))
        here = [
            (int(one["start"]) - indent, one)
            for one in operands
            if one.get("line") == number and isinstance(one.get("start"), int)
        ]
        here.sort(key=lambda pair: pair[0])
        reach = max((start for start, _ in here), default=0) + 3
        if not here or here[0][0] < 0 or reach + MARGIN > max(width // 2, 24):
            continue  # too far right for a drawing: named below instead
        drawn.update(id(one) for _, one in here)
        while here:
            start, operand = here.pop()
            rows.append(_branch(here, start, reach, operand, width, glyphs))
    for one in operands:
        if id(one) not in drawn:
            words = f"{one.get('role', '')}  {operand_words(one)}"
            shown = one_line(words, width - MARGIN - 2, glyphs.ellipsis)
            rows.append(Content(" " * (MARGIN + 2) + shown))
    return rows


def _branch(
    left: list[tuple[int, dict[str, Any]]],
    start: int,
    reach: int,
    operand: dict[str, Any],
    width: int,
    glyphs: Glyphs,
) -> Content:
    """`|   +--- words`: bars under the operands still to come, a corner under this one."""
    cells = [" "] * reach
    for column, _ in left:
        cells[column] = glyphs.pipe
    cells[start] = glyphs.corner
    for column in range(start + 1, reach):
        cells[column] = glyphs.dash
    lead = " " * MARGIN + "".join(cells) + " "
    room = max(width - len(lead), 8)
    words = operand_words(operand)
    if cell_len(words) > room:
        words = operand_words({**operand, "kind": ""})
    words = one_line(words, room, glyphs.ellipsis)
    return Content.assemble((lead, "$text-warning"), words)


def operand_words(operand: dict[str, Any]) -> str:
    """`float32[32, 784]  axis -2 !  placeholder 'x', In [2]`."""
    words = str(operand.get("spec", ""))
    axis = operand.get("axis")
    if isinstance(axis, int):
        words += f"  axis {axis} !"
    kind, name, place = (str(operand.get(key) or "") for key in ("kind", "name", "place"))
    made = " ".join(one for one in (kind, f"'{name}'" if name else "") if one)
    if made:
        words += f"  {made}"
    return f"{words}, {place}" if place else words
