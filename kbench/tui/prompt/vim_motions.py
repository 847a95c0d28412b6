"""Where the motions of vim lead: functions of a text, an offset into it and a count."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

Step = Callable[[str, int], int]


class Span(Struct, frozen=True):
    """What a motion goes over: from its start to `at`.

    `inclusive`: the character at the end belongs to it; `linewise`: whole lines do.
    """

    at: int
    inclusive: bool = False
    linewise: bool = False


def line_start(text: str, at: int) -> int:
    """The offset of the first character of a line."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The offset behind the last character of a line."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def first_written(text: str, at: int) -> int:
    """The offset of the first character of a line that is no blank."""
    start, end = line_start(text, at), line_end(text, at)
    line = text[start:end]
    return start + min(len(line) - len(line.lstrip()), max(len(line) - 1, 0))


def last_on_line(text: str, at: int) -> int:
    """The offset of the last character of a line, on which a cursor can stand."""
    return max(line_end(text, at) - 1, line_start(text, at))


def _kind(character: str, big: bool) -> int:
    """0: a blank; 1: of a word; 2: of a run of other characters, which `big` counts as a word."""
    if character.isspace():
        return 0
    return 1 if big or character.isalnum() or character == "_" else 2


def _word_on(text: str, at: int, big: bool) -> int:
    kind = _kind(text[at], big) if at < len(text) else 0
    while kind and at < len(text) and _kind(text[at], big) == kind:
        at += 1
    while at < len(text) and _kind(text[at], big) == 0:
        at += 1
    return at


def _word_end(text: str, at: int, big: bool) -> int:
    at += 1
    while at < len(text) and _kind(text[at], big) == 0:
        at += 1
    while at + 1 < len(text) and _kind(text[at + 1], big) == _kind(text[at], big):
        at += 1
    return min(at, max(len(text) - 1, 0))


def _word_back(text: str, at: int, big: bool) -> int:
    at -= 1
    while at > 0 and _kind(text[at], big) == 0:
        at -= 1
    while at > 0 and _kind(text[at - 1], big) == _kind(text[at], big):
        at -= 1
    return max(at, 0)


WORDS: dict[str, Callable[[str, int, bool], int]] = {
    "w": _word_on,
    "e": _word_end,
    "b": _word_back,
}


def line_at(text: str, number: int) -> int:
    """The offset of the first character of a line, counted from 0; of the last one beyond it."""
    at = 0
    for _ in range(number):
        end = text.find("\n", at)
        if end < 0:
            break
        at = end + 1
    return at


def vertical(text: str, at: int, lines: int) -> int | None:
    """The same column some lines on, or the end of a shorter line; None where there is none."""
    row, column = text.count("\n", 0, at), at - line_start(text, at)
    if not 0 <= row + lines <= text.count("\n"):
        return None
    start = line_at(text, row + lines)
    return min(start + column, last_on_line(text, start))


def to_character(text: str, at: int, motion: str, count: int) -> Span | None:
    """`fx`, `tx` on the line, `Fx`, `Tx` back; None where the character is not there."""
    how, wanted = motion[0], motion[1]
    start, end = line_start(text, at), line_end(text, at)
    place = at
    for _ in range(count):
        found = (
            text.find(wanted, place + 1, end) if how in "ft" else text.rfind(wanted, start, place)
        )
        if found < 0:
            return None
        place = found
    place += {"t": -1, "T": 1}.get(how, 0)
    return Span(place, inclusive=how in "ft")


def find(text: str, at: int, motion: str, count: int | None) -> Span | None:
    """Where a motion leads; None where it leads nowhere."""
    times = count or 1
    start, end = line_start(text, at), line_end(text, at)
    if motion.lower() in WORDS:
        step, place = WORDS[motion.lower()], at
        for _ in range(times):
            place = step(text, place, motion.isupper())
        return Span(place, inclusive=motion in "eE")
    if motion in ("h", "l"):
        return Span(max(at - times, start) if motion == "h" else min(at + times, end))
    if motion in ("j", "k"):
        place_on = vertical(text, at, times if motion == "j" else -times)
        return None if place_on is None else Span(place_on, linewise=True)
    if motion == "$":
        below = vertical(text, start, times - 1)
        return None if below is None else Span(last_on_line(text, below), inclusive=True)
    if motion in ("gg", "G"):
        last = text.count("\n")
        row = last if count is None and motion == "G" else min(times - 1, last)
        return Span(first_written(text, line_at(text, row)), linewise=True)
    if motion[0] in "fFtT":
        return to_character(text, at, motion, times)
    return Span(start if motion == "0" else first_written(text, at))


def covered(text: str, at: int, motion: str, span: Span) -> tuple[int, int]:
    """The characters that an operator works on, whole lines without their last line break."""
    low, high = min(at, span.at), max(at, span.at)
    if span.linewise:
        return line_start(text, low), line_end(text, high)
    high += span.inclusive and high < line_end(text, high)
    if motion in ("w", "W") and "\n" in text[low:high]:  # to the end of the last word's line
        words = text[low:high].rstrip()
        high = low + len(words) if words else line_end(text, low)
    return low, high
