"""Commands of a lesson as learners type them: alone, between the lines of a cell, over a blank.

What is typed stays Python wherever it can be: `x[:hint]` is a slice. A word is a command where the
text could not run with it, or behind what the lesson gave; the text without it is given back.
"""

from __future__ import annotations

import re

from msgspec import Struct

from kbench.engine.core import syntax
from kbench.tui.lesson.lesson_words import COMMANDS
from kbench.workbench.lessons.lesson_files import BLANK

_LINE = re.compile(r":([a-z]+)((?: +[a-z]+)*)")
_OVER = re.compile(r":([a-z]+)$|%(hint|check|solution|skip|again)$")
_MAGIC = re.compile(r"%(hint|check|solution|skip|again)((?: +\S+)*)")
_RESET = re.compile(r"%lesson\s+reset")
_LESSON = re.compile(r"%lesson +(\d{1,3}|off)")


class TypedCommand(Struct, frozen=True):
    """A command, its further words included, and what stays in the prompt."""

    command: str
    rest: str


def command_in(text: str, position: int, given: str = "", starter: str = "") -> TypedCommand | None:
    """The command that was typed before the cursor, at `position`; None where there is none.

    `given` is what the lesson had put into the prompt, `starter` the code of the step: what the
    command was typed over is taken from them.
    """
    if ":" not in text and "%" not in text:
        return None
    alone = text.strip()
    if alone.startswith(":") and "\n" not in alone:
        return TypedCommand(" ".join(alone[1:].lower().split()), "")
    return _between(text, position) or _over(text, position, given, starter)


def magic_in(text: str, exercise: str | None) -> str | None:
    """The command that a notebook's magic stands for, on the exercise that is shown or on none."""
    if _RESET.fullmatch(text.strip()):
        return "reset"
    found = _MAGIC.fullmatch(text.strip())
    if found is None:
        return None
    words = found[2].split()
    sure = found[1] == "solution" and "--sure" in words
    names = [word for word in words if word != "--sure"]
    if names not in ([], [exercise]) or (len(words) > len(names) and not sure):
        return None
    return f"{found[1]} sure" if sure else found[1]


def lesson_in(text: str) -> int | None:
    """The number in `%lesson 3`; 0 for `%lesson off`."""
    found = _LESSON.fullmatch(text.strip())
    return None if found is None else int(found[1].replace("off", "0"))


def _between(text: str, position: int) -> TypedCommand | None:
    """A known command that has the cursor's line for itself."""
    row = text.count("\n", 0, position)
    lines = text.split("\n")
    found = _LINE.fullmatch(lines[row].strip())
    if found is None or found[1] not in COMMANDS or _runs(text):
        return None
    rest = "\n".join(lines[:row] + lines[row + 1 :])
    return TypedCommand(f"{found[1]}{found[2]}", rest.rstrip())


def _over(text: str, position: int, given: str, starter: str) -> TypedCommand | None:
    """A known command that was typed in the midst of code: over a blank, or behind the end."""
    before, after = text[:position], text[position:]
    found = _OVER.search(before)
    command = "" if found is None else found[1] or found[2]
    if found is None or command not in COMMANDS:
        return None
    word, before = found[0], before[: found.start()]
    if word[0] == ":" and given and before + after == given.rstrip():
        return TypedCommand(
            command, given
        )  # behind `y` it would be an annotation, which nobody means
    if _runs(text):
        return None
    if word.startswith("%") and not before.strip():
        return None  # a magic
    if len(given) >= len(before + after) and given.startswith(before) and given.endswith(after):
        return TypedCommand(command, given)
    if filled := _blank_again(before, word, after, starter):
        return TypedCommand(command, filled)
    return TypedCommand(command, before + after) if _runs(before + after) else None


def _blank_again(before: str, word: str, after: str, starter: str) -> str:
    """The text with a blank in place of `word`, if its line is the starter's, filled in; or ''."""
    row = before.count("\n")
    lines, starters = f"{before}{word}{after}".split("\n"), starter.split("\n")
    if row >= len(starters):
        return ""
    pieces = starters[row].split(BLANK)
    match = re.fullmatch("(.*?)".join(map(re.escape, pieces)), lines[row])
    if match is None or word not in match.groups():
        return ""
    fills = [BLANK if fill == word else fill for fill in match.groups()]
    lines[row] = "".join(piece + fill for piece, fill in zip(pieces, [*fills, ""], strict=True))
    return "\n".join(lines)


def retyped(text: str, starter: str) -> str | None:
    """The text as it was meant, where a whole line was typed into the first blank of that line."""
    lines = text.split("\n")
    for row, (line, begun) in enumerate(zip(lines, starter.split("\n"), strict=False)):
        before, blank, after = begun.partition(BLANK)
        if not blank or not (line.startswith(before) and line.endswith(after)):
            continue
        inside = line[len(before) : len(line) - len(after)]
        if len(before.strip()) > 2 and inside.lstrip().startswith(before.strip()):
            lines[row] = inside if _runs(inside) else inside + after
            return "\n".join(lines)
    return None


def _runs(text: str) -> bool:
    """Whether Python takes the text as it is."""
    try:
        syntax.parse_module(text)
    except (SyntaxError, ValueError):
        return False
    return True
