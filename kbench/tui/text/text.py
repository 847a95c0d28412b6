"""User text made safe to draw: never markup, no control or direction-changing characters."""

from __future__ import annotations

import re

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from textual.content import Content

from kbench.workbench.output.terminal_lines import overwrite

# C0 without tab and newline, DEL, C1, and the characters that reorder or hide their neighbours.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
# As those, but for the joiners that emoji and some scripts need within a word.
_UNTYPED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_PART = re.compile(r"  +(?=\S)| (?=\[)")
LEAST_HEAD_CELLS = 6
"""Of a text that is cut in its middle: fewer letters of its beginning say nothing."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def safe(text: str) -> str:
    """`text` with every unsafe character shown as its escape; tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text.expandtabs(8))


def typed(text: str) -> str:
    """`text` for an editor: unsafe characters become the escapes that mean them in a Python string.

    Line ends are of one kind, and the form feeds that part some sources into pages are left out.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
    return _UNTYPED.sub(_escape, text)


def one_line(text: str, width: int, ellipsis: str = "…") -> str:
    """The safe text on one line, cut to `width` cells with an ellipsis."""
    flat = safe(text.replace("\n", " "))
    if len(flat) <= width and flat.isascii():
        return flat
    if cell_len(flat) <= width:
        return flat
    room = max(width - cell_len(ellipsis), 0)
    while flat and cell_len(flat) > room:
        flat = flat[: min(len(flat) - 1, room)] if len(flat) > room else flat[:-1]
    return (flat + ellipsis)[:width] if width < len(ellipsis) else flat + ellipsis


def end_kept(text: str, width: int, ellipsis: str = "…") -> str:
    """Like `one_line`, but the last parts stay whole, and what is before them gives way.

    A part begins behind two blanks, or with a bracket behind one.
    """
    flat = safe(text.replace("\n", " "))
    if cell_len(flat) <= width:
        return flat
    places = [match.end() for match in _PART.finditer(flat)]
    room = width - cell_len(ellipsis) - 1
    at = next((place for place in places if cell_len(flat[place:]) <= room), None)
    if at is None:
        return one_line(text, width, ellipsis)
    left = width - 1 - cell_len(flat[at:])
    head = (
        one_line(flat[:at].rstrip() + 2 * " ", left, ellipsis) if left >= LEAST_HEAD_CELLS else ""
    )
    return f"{head or ellipsis} {flat[at:]}"


class OutputDecoder:
    """Turns printed lines into Content, keeping colour that runs over line ends."""

    def __init__(self) -> None:
        self._colours: AnsiDecoder | None = None

    def line(self, text: str) -> Content:
        """One line without its newline; colours are kept, other escape sequences removed."""
        if text.isascii() and text.isprintable() and self._colours is None:
            return Content(text)
        text = overwrite(text)
        if "\x1b" in text:
            kept = _ESCAPES.sub(lambda m: m.group() if _COLOURS.fullmatch(m.group()) else "", text)
            pieces = _COLOURS.split(kept)
            codes = _COLOURS.findall(kept)
            text = safe(pieces[0]) + "".join(
                code + safe(piece) for code, piece in zip(codes, pieces[1:], strict=True)
            )
            self._colours = self._colours or AnsiDecoder()
        else:
            text = safe(text)
        if self._colours is None:
            return Content(text)
        return Content.from_rich_text(self._colours.decode_line(text))


def fold(content: Content, width: int) -> list[Content]:
    """Cut one line into rows of at most `width` cells."""
    width = max(width, 2)
    if len(content) * 2 <= width or content.cell_length <= width:
        return [content]
    text = content.plain
    if text.isascii() and not content.spans:
        return [Content(text[at : at + width]) for at in range(0, len(text), width)]
    return content.fold(width)


def fold_words(line: Content, width: int) -> list[Content]:
    """Cut printed text into rows at blanks, which are left out; in a word where none is near.

    Further rows are indented as the line is, so that paragraphs and tables keep their left edge.
    """
    width = max(width, 2)
    if len(line) * 2 <= width or line.cell_length <= width:
        return [line]
    text = line.plain
    if " " not in text.strip():
        return fold(line, width)
    indent = len(text) - len(text.lstrip(" "))
    hanging = Content(" " * indent if indent <= width // 4 else "")
    rows: list[Content] = []
    start, end = 0, len(text.rstrip(" "))
    while start < end:
        lead = hanging if rows else Content("")
        room = width - len(lead)
        cut = len(fold(line[start : start + room], room)[0])
        stop = following = start + cut
        if stop < end and text[stop] != " ":
            at = text.rfind(" ", start + max(room // 2, 0 if rows else indent), stop)
            stop = following = at if at > start else stop
        while following < end and text[following] == " ":
            following += 1
        rows.append(lead + line[start : start + len(text[start:stop].rstrip(" "))])
        start = following
    return rows


def wrap(line: Content, width: int, marks: str = " ", hang: int = 0) -> list[Content]:
    """Cut one line into rows, behind one of `marks` where there is one in the last third.

    Further rows are indented by `hang` cells, if that leaves half of the width.
    """
    width = max(width, 2)
    if len(line) * 2 <= width or line.cell_length <= width:
        return [line]
    rows: list[Content] = []
    hanging = Content(" " * hang if hang <= width // 2 else "")
    start, end = 0, len(line)
    while start < end:
        lead = hanging if rows else Content("")
        room = width - len(lead)
        head = fold(line[start : start + room], room)[0]
        text, cut = head.plain, len(head)
        if start + cut < end:
            at = max(text.rfind(mark, len(text) * 2 // 3) for mark in marks) + 1
            cut = at if at > 1 else cut
        rows.append(lead + line[start : start + cut])
        start += cut
    return rows
