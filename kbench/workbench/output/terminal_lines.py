"""What a terminal shows of a line that moves its cursor back: progress bars, spinners.

Carriage returns and backspaces move the cursor, what follows overwrites; `ESC [K` erases. Colours
stay with the characters that they were printed with; other escape sequences are dropped.
"""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"(?P<plain>[^\r\x08\x1b]+)|(?P<return>\r)|(?P<back>\x08+)"
    r"|\x1b\[(?P<erase>[0-2]?)K|(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_MAX_COLOUR_CODES = 6
"""Colours, weight and slant that hold at once."""
_MAX_LINE_CHARACTERS = 50_000
"""Of a line that is drawn character by character; of a longer one the last redrawings count."""
_MAX_REDRAWN_CHARACTERS = 4_000
"""Of a line's redrawings that are kept for the next drawing."""
_RESET = re.compile(r"\x1b\[0*m")
ColouredCharacter = tuple[str, str]  # a character and the colours it is drawn with


def overwrite(line: str) -> str:
    """The line as it looks in the end, colours kept, without a character that moves the cursor."""
    if "\r" not in line and "\b" not in line:
        return line
    cells, _, colour = _draw(line)
    return _text(cells, colour)


def without_colours(text: str) -> str:
    """The text without codes for colour and weight, which errors of Keras 3 have in their words."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def settled(line: str) -> str:
    """A shorter line that looks the same and goes on the same way, whatever is printed next."""
    if "\r" not in line and "\b" not in line:
        return line
    cells, at, colour = _draw(line)
    return _text(cells, colour) + "\b" * (len(cells) - at)


def joined(before: str, text: str) -> str:
    """Printed text and what is printed next, without what the second overwrites."""
    done, newline, begun = before.rpartition("\n")
    *whole, last = (begun + text).split("\n")
    return done + newline + "\n".join([*map(overwrite, whole), settled(last)])


def latest(text: str) -> str:
    """Printed text without what it redraws itself, where that is long.

    Whatever was printed before and is printed after, the line then looks the same; only among
    coloured redrawings the oldest are dropped though something of them may have remained.
    """
    if len(text) <= _MAX_REDRAWN_CHARACTERS or "\r" not in text:
        return text
    return "\n".join(_latest(line) for line in text.split("\n"))


def _latest(line: str) -> str:
    body = line.removesuffix("\r")
    if len(body) <= _MAX_REDRAWN_CHARACTERS or "\r" not in body:
        return line
    if "\b" not in line and "\x1b" not in line:
        head, *parts = line.split("\r")
        shown = _shown(parts)
        return f"{head}\r{shown}" + "\b" * (len(shown) - len(parts[-1]))
    cut = body.find("\r", len(body) - _MAX_REDRAWN_CHARACTERS)
    if cut < 0:
        return line
    return "\r" + "".join(_COLOUR.findall(line[:cut])[-_MAX_COLOUR_CODES:]) + line[cut + 1 :]


def visible_length(text: str, before: int) -> tuple[int, int]:
    """How many characters printed text adds to what stays, and how long its last line is.

    `before` is the length of the line that it continues: a carriage return takes that back.
    """
    *whole, open_line = text.split("\n")
    kept = "\n".join([*(_redrawn(line, "\r") for line in whole), _redrawn(open_line)])
    first = text.split("\n", 1)[0]
    begun = 0 if "\r" in first.removesuffix("\r") else before
    *_, last = kept.rsplit("\n", 1)
    return len(kept) - before + begun, len(last) + (begun if "\n" not in text else 0)


def _redrawn(line: str, ending: str = "") -> str:
    """What follows the last carriage return; one that belongs to the line's ending is no such."""
    body = line.removesuffix(ending) if ending else line
    return line[body.rfind("\r") + 1 :]


def _draw(line: str) -> tuple[list[ColouredCharacter], int, str]:
    """The cells of a line, where the cursor is, and the colours for what comes next."""
    if "\b" not in line and "\x1b" not in line:
        return _overlaid(line.split("\r"))
    if len(line) > _MAX_LINE_CHARACTERS:  # thousands of redrawings at once: the last ones count
        line = line[max(line.find("\r", len(line) - _MAX_LINE_CHARACTERS), 0) :]
    cells: list[ColouredCharacter] = []
    at, colour = 0, ""
    for match in _PIECES.finditer(line):
        kind, text = match.lastgroup, match.group()
        if kind == "plain":
            cells += [(" ", "")] * (at - len(cells))
            cells[at : at + len(text)] = [(character, colour) for character in text]
            at += len(text)
        elif kind == "return":
            at = 0
        elif kind == "back":
            at = max(at - len(text), 0)
        elif kind == "erase":
            whole = match.group("erase") == "2"
            cells[0 if whole else at :] = []
        elif kind == "colour":
            codes = [] if _RESET.fullmatch(text) else _COLOUR.findall(colour + text)
            colour = "".join(codes[-_MAX_COLOUR_CODES:])
    return cells, at, colour


def _overlaid(parts: list[str]) -> tuple[list[ColouredCharacter], int, str]:
    """Plain texts printed over one another: of each what is longer than all that follow it."""
    return [(character, "") for character in _shown(parts)], len(parts[-1]), ""


def _shown(parts: list[str]) -> str:
    width = max(map(len, parts))
    shown = ""
    for part in reversed(parts):
        shown += part[len(shown) :]
        if len(shown) == width:
            break
    return shown


def _text(cells: list[ColouredCharacter], colour_behind: str) -> str:
    parts: list[str] = []
    now = ""
    for character, colour in [*cells, ("", colour_behind)]:
        if colour != now:
            parts.append(("\x1b[0m" if now else "") + colour)
            now = colour
        parts.append(character)
    return "".join(parts)
