"""An error as a few rows: class and reason, the user's expression with carets, what would work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style

from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import fold_words, one_line, safe
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import ErrorPart

MAX_REASON_LINES = 6
"""Lines of a reason in the transcript; the explain screen has all."""
MARGIN_CELLS = 2
"""Cells by which what belongs to an error is indented."""
EXPLAIN = "alt+E"


def error_rows(
    part: ErrorPart, width: int, glyphs: Glyphs | None, key: str = EXPLAIN
) -> list[Content]:
    """The folded error; the explain screen, which `key` opens, has all of it."""
    glyphs = glyphs or UNICODE
    detail = part.detail
    reason = str(detail.get("reason") or part.value or "")
    if detail.get("function"):
        reason = f"{detail['function']}: {reason}"
    rows = _head(part.name, reason, width)
    suggestion = detail.get("suggestion")
    words = f"try {suggestion}" if suggestion else str(detail.get("meant") or "")
    plain = not words and not detail.get("source") and not detail.get("operands")
    keys = explain_words(part, key)
    if plain and len(rows) == 1 and rows[0].cell_length + len(keys) + 2 <= width:
        return [rows[0] + " " * (width - rows[0].cell_length - len(keys)) + keys]
    rows += chain_rows(detail, width, glyphs)
    if detail.get("source") or detail.get("operands"):
        rows += expression_rows(detail.get("source") or (), detail, width, glyphs)
    rows += _last_rows(words, keys, width)
    return rows


def _head(name: str, reason: str, width: int) -> list[Content]:
    lines = reason.strip("\n").split("\n")
    first = Content.assemble((safe(name), "bold $text-error"), "  ", safe(lines[0]))
    rows = first.wrap(max(width, 8)) if first.cell_length > width else [first]
    for line in lines[1:MAX_REASON_LINES]:
        rows += fold_words(Content(safe(line)), width)
    if len(lines) > MAX_REASON_LINES:
        rows.append(Content.styled(f"({len(lines) - MAX_REASON_LINES} more lines)", MUTED))
    return list(rows)


def explain_words(part: ErrorPart, key: str) -> Content:
    """How to see more, by key or by click."""
    words = Content.styled(f"{key} explain", MUTED)
    return words.stylize(Style.from_meta({"@click": f"screen.explain('{part.cell}')"}))


def _last_rows(words: str, keys: Content, width: int) -> list[Content]:
    margin = " " * MARGIN_CELLS
    if not words:
        return [margin + keys]
    words = safe(words)
    gap = width - MARGIN_CELLS - cell_len(words) - len(keys)
    if gap >= 2:
        return [Content.assemble(margin, (words, "$text-success"), " " * gap) + keys]
    rows = fold_words(Content.styled(margin + words, "$text-success"), width)
    return [*rows, margin + keys]


def chain_rows(detail: JsonObject, width: int, glyphs: Glyphs, full: bool = False) -> list[Content]:
    """The lines called on the way, one row each; `full`: what failed in them marked below."""
    chain = [call for call in detail.get("chain", ()) if isinstance(call, dict)]
    if not chain:
        return []
    places = [str(call.get("place") or "") for call in chain] + [str(detail.get("place") or "")]
    label = min(max(cell_len(safe(place)) for place in places), max(width // 3, 8))
    rows: list[Content] = []
    skipped = int(detail.get("skipped") or 0)
    for number, (call, place) in enumerate(zip(chain, places, strict=False)):
        rows += _called(call, place, label, width, glyphs, full)
        if skipped and number == 1:
            words = f"{glyphs.ellipsis} {skipped} more calls"
            rows.append(Content.styled(" " * MARGIN_CELLS + words, MUTED))
    head = one_line(f"{places[-1]}:", width - MARGIN_CELLS, glyphs.ellipsis)
    return [*rows, Content.styled(" " * MARGIN_CELLS + head, MUTED)]


def _called(
    call: JsonObject, place: str, label: int, width: int, glyphs: Glyphs, full: bool
) -> list[Content]:
    """`In [9]  loss = train(x)`, the call or the operand at fault underlined."""
    source = str(call.get("source") or "")
    indent = len(source) - len(source.lstrip())
    lead = one_line(place, label, glyphs.ellipsis)
    lead = " " * MARGIN_CELLS + lead + " " * (label - cell_len(lead) + 2)
    room = max(width - cell_len(lead), 8)
    marks = [
        (mark[0] - indent, mark[1] - indent) for mark in call.get("marks", ()) if len(mark) == 2
    ]
    text, moved = _window(source[indent:], marks, room, glyphs)
    shown = Content(text)
    below = [" "] * room
    for start, end in marks:
        start, end = max(start + moved, 0), min(end + moved, len(text))
        shown = shown.stylize("underline", start, max(end, start))
        first = cell_len(text[:start])
        last = min(max(first + cell_len(text[start:end]), first + 1), room)
        below[first:last] = "^" * max(last - first, 0)
    rows = [Content.assemble((lead, MUTED)) + shown]
    if full and marks:
        carets = "".join(below).rstrip()
        rows.append(Content.assemble((" " * cell_len(lead) + carets, "$text-warning")))
    return rows


def _window(
    text: str, marks: Sequence[tuple[int, int]], room: int, glyphs: Glyphs
) -> tuple[str, int]:
    """The part of a line in which the marks are, and by how much its columns have moved."""
    text = safe(text)
    begin = min((start for start, _ in marks), default=0)
    end = max((end for _, end in marks), default=0)
    if cell_len(text) <= room or cell_len(text[: min(end, begin + room // 2)]) < room - 1:
        return one_line(text, room, glyphs.ellipsis), 0
    cut = max(begin - 4, 0)
    return one_line(glyphs.ellipsis + text[cut:], room, glyphs.ellipsis), len(glyphs.ellipsis) - cut


def expression_rows(
    source: Sequence[str], detail: JsonObject, width: int, glyphs: Glyphs
) -> list[Content]:
    """The user's expression; below each line, joined to where it stands, what each operand is."""
    operands = [operand for operand in detail.get("operands", ()) if isinstance(operand, dict)]
    indent = min((len(line) - len(line.lstrip()) for line in source if line.strip()), default=0)
    rows: list[Content] = []
    drawn: set[int] = set()
    span = detail.get("span") or (-1, 0, 0)
    for number, line in enumerate(source):
        here = [
            (int(operand["start"]) - indent, operand)
            for operand in operands
            if operand.get("line") == number and isinstance(operand.get("start"), int)
        ]
        here.sort(key=lambda pair: pair[0])
        text, moved = _drawable(line[indent:], [start for start, _ in here], width, glyphs)
        rows.append(
            Content(" " * MARGIN_CELLS + one_line(text, width - MARGIN_CELLS, glyphs.ellipsis))
        )
        placed = [(cell_len(text[: start + moved]), operand) for start, operand in here]
        reach = max((start for start, _ in placed), default=0) + 3
        if not here and not drawn and number == span[0] and not _located(operands):
            rows += _caret(text, int(span[1]) - indent, int(span[2]) - indent, width)
        if not here or reach + MARGIN_CELLS > _limit(width):
            continue  # too far right for a drawing: named below instead
        drawn.update(id(operand) for _, operand in placed)
        while placed:
            start, operand = placed.pop()
            rows.append(_branch(placed, start, reach, operand, width, glyphs))
    for operand in operands:
        if id(operand) not in drawn:
            words = f"{operand.get('role', '')}  {operand_words(operand)}"
            shown = one_line(words, width - MARGIN_CELLS - 2, glyphs.ellipsis)
            rows.append(Content(" " * (MARGIN_CELLS + 2) + shown))
    if detail.get("layer"):
        words = one_line(f"in {detail['layer']}", width - MARGIN_CELLS - 2, glyphs.ellipsis)
        rows.append(Content.styled(" " * (MARGIN_CELLS + 2) + words, MUTED))
    return rows


def _located(operands: Sequence[JsonObject]) -> bool:
    return any(operand.get("line") is not None for operand in operands)


def _drawable(text: str, starts: Sequence[int], width: int, glyphs: Glyphs) -> tuple[str, int]:
    """A line whose operands stand far enough left to be drawn, and how far its columns moved."""
    if not starts or cell_len(text[: starts[-1]]) + 3 + MARGIN_CELLS <= _limit(width):
        return text, 0
    name = re.search(r"[\w.]+[(\[]+$", text[: starts[0]])  # what was called with them
    cut = name.start() if name is not None else max(starts[0] - 2, 0)
    return glyphs.ellipsis + text[cut:], len(glyphs.ellipsis) - cut


def _limit(width: int) -> int:
    """How far right an operand may stand, so that there is room for words about it."""
    return max(width // 2, min(24, width - 12))


def _caret(text: str, start: int, end: int, width: int) -> list[Content]:
    """`^^^^` under the part of a line that failed, where no operand is to be seen in it."""
    lead, size = cell_len(text[: max(start, 0)]), cell_len(text[max(start, 0) : max(end, 0)])
    size = min(max(size, 1), width - MARGIN_CELLS - lead)
    words = " " * (MARGIN_CELLS + lead) + "^" * size
    return [Content.styled(words, "$text-warning")] if size > 0 else []


def _branch(
    left: list[tuple[int, JsonObject]],
    start: int,
    reach: int,
    operand: JsonObject,
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
    lead = " " * MARGIN_CELLS + "".join(cells) + " "
    room = max(width - len(lead), 8)
    words = operand_words(operand)
    if cell_len(words) > room:
        words = operand_words({**operand, "kind": ""})
    words = one_line(words, room, glyphs.ellipsis)
    return Content.assemble((lead, "$text-warning"), words)


def operand_words(operand: JsonObject) -> str:
    """`float32[32, 784]  axis -2 !  placeholder 'x', In [2]`."""
    words = str(operand.get("spec", ""))
    axis = operand.get("axis")
    if isinstance(axis, int):
        words += f"  axis {axis} !"
    kind, name, place = (str(operand.get(key) or "") for key in ("kind", "name", "place"))
    made = " ".join(word for word in (kind, f"'{name}'" if name else "") if word)
    if made:
        words += f"  {made}"
    return f"{words}, {place}" if place else words
