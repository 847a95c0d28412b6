"""The keys of vim for the prompt: a mode, what has been typed of a command, and the register.

Of a text of some lines that is what hands remember: motions, operators with them, counts, undo.
Where a key is no command of the mode, it is what it is without vim.
"""

from __future__ import annotations

import re
from typing import Protocol

from textual import events

from kbench.tui.prompt import vim_motions
from kbench.tui.prompt.vim_motions import first_written, last_on_line, line_end, line_start

COMMAND = re.compile(
    r"(?P<count>[1-9]\d*)?(?:"
    r"(?P<operator>[dcy])(?P<again>[1-9]\d*)?(?P<over>(?P=operator)|gg|[fFtT].|[hjklwbeWBE0^$G])"
    r"|(?P<motion>gg|[fFtT].|[hjklwbeWBE0^$G])"
    r"|r(?P<letter>.)|(?P<plain>[xXpPuiaIAoODCYSsJ/]))"
)
BEGUN = re.compile(r"(?:[1-9]\d*)?(?:r|[dcy]?(?:[1-9]\d*)?(?:g|[fFtT])?)")
"""What may still become a command."""
SHORT = {"D": "d$", "C": "c$", "Y": "yy", "S": "cc", "x": "dl", "X": "dh", "s": "cl"}
"""Commands that are an operator and its motion."""
MAX_COUNT = 10_000
"""Times that a command is repeated at most: a longer number is a slip."""
HELP = (
    ("Esc", "normal mode; from there, the transcript"),
    ("i a I A o O", "insert here, behind, at the line's ends, on a new line"),
    ("h j k l  0 ^ $", "left, down, up, right; the line's ends; j and k also walk the history"),
    ("w b e  gg G  fx tx", "words (W B E up to blanks), first and last line, to a character"),
    ("d c y", "delete, change, copy with a motion; doubled the line: dd cc yy"),
    ("x X s r  D C S Y  J", "a character or the rest of the line; join lines"),
    ("p P  u ^R", "put back what was deleted or copied; undo, redo"),
    ("/", "search the history"),
)  # a number before a command repeats it


class Checkpoints(Protocol):
    """What is undone at once ends here."""

    def checkpoint(self) -> None: ...


class Editor(Protocol):
    """What vim needs of the prompt."""

    @property
    def text(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def history(self) -> Checkpoints: ...
    def go_to(self, offset: int) -> None: ...
    def insert_at(self, start: int, end: int, text: str) -> None: ...
    def open_line(self, below: bool) -> None: ...
    def walk_history(self, step: int) -> bool: ...
    def undo(self) -> None: ...
    def redo(self) -> None: ...
    def action_search(self) -> None: ...
    def tell_mode(self) -> None: ...


class Vim:
    """Takes the keys of one prompt before anybody else."""

    def __init__(self, prompt: Editor) -> None:
        self._prompt = prompt
        self.normal = False
        self.pending = ""
        self._register = ""
        self._lines = False  # the register has whole lines

    @property
    def mark(self) -> str:
        """What is told beside the prompt."""
        return f"-- {'NORMAL' if self.normal else 'INSERT'} -- {self.pending}".rstrip()

    def take(self, event: events.Key) -> bool:
        """True if the key was for vim."""
        if not self.normal:
            if event.key != "escape":
                return False
            self.enter_normal()
            return True
        if event.key == "escape" and self.pending:
            self._wait("")
            return True
        if event.key == "ctrl+r":
            self._prompt.redo()
            self._stand(self._at)
            return True
        if event.key == "backspace":
            self._run("h", {"motion": "h"})
            return True
        if not event.is_printable or event.character is None or event.key.startswith("alt+"):
            return False
        self._typed(self.pending + event.character)
        return True

    def take_escaped(self, letter: str) -> None:
        """Escape and a letter right behind it, which a terminal sends as one key."""
        self.enter_normal()
        if len(letter) == 1:
            self._typed(letter)

    def enter_normal(self) -> None:
        """As Esc does: the cursor goes to the character before it."""
        self.normal = True
        self._prompt.history.checkpoint()
        self._stand(max(self._at - 1, line_start(self._text, self._at)))
        self._wait("")

    def insert(self) -> None:
        """What is typed is text."""
        self.normal = False
        self._prompt.history.checkpoint()
        self._wait("")

    def _typed(self, pending: str) -> None:
        found = COMMAND.fullmatch(pending)
        if found is None:
            self._wait(pending if BEGUN.fullmatch(pending) else "")
            return
        self._wait("")
        plain = found["plain"]
        if plain in SHORT:
            found = COMMAND.fullmatch(f"{found['count'] or ''}{SHORT[plain]}")
            assert found is not None
        self._run(found[0], found.groupdict())

    # ------------------------------------------------------------------ the text

    @property
    def _text(self) -> str:
        return self._prompt.text

    @property
    def _at(self) -> int:
        return self._prompt.position

    def _stand(self, at: int) -> None:
        """Put the cursor on a character; in normal mode never behind the last of its line."""
        text = self._text
        at = max(0, min(at, len(text)))
        self._prompt.go_to(min(at, last_on_line(text, at)) if self.normal else at)

    def _wait(self, pending: str) -> None:
        self.pending = pending
        self._prompt.tell_mode()

    # ------------------------------------------------------------------ commands

    def _run(self, command: str, parts: dict[str, str | None]) -> None:
        given = parts.get("count")
        again = parts.get("again")
        count = None
        if given or again:
            count = min(int(given or 1) * int(again or 1), MAX_COUNT)
        if motion := parts.get("motion"):
            self._move(motion, count)
        elif operator := parts.get("operator"):
            self._operate(operator, str(parts["over"]), count)
        elif letter := parts.get("letter"):
            self._replace(letter, count or 1)
        else:
            self._plain(command[-1], count or 1)

    def _move(self, motion: str, count: int | None) -> None:
        span = vim_motions.find(self._text, self._at, motion, count)
        if span is not None:
            self._stand(span.at)
        elif motion in ("j", "k"):
            self._prompt.walk_history(1 if motion == "j" else -1)
            self._stand(self._at)

    def _operate(self, operator: str, motion: str, count: int | None) -> None:
        text, at = self._text, self._at
        if motion == operator:  # whole lines, this one the first
            rows = min((count or 1) - 1, text.count("\n", at))
            end = at
            for _ in range(rows):
                end = line_end(text, end) + 1
            span: vim_motions.Span | None = vim_motions.Span(end, linewise=True)
        else:
            blank = text[at : at + 1].isspace() or at >= len(text)
            if operator == "c" and motion in ("w", "W") and not blank:
                motion = {"w": "e", "W": "E"}[motion]
                at_end = vim_motions.find(text, at - 1, motion, 1)
                alone = at_end is not None and at_end.at == at  # a word of one character
                span = at_end if alone and count is None else None
                span = span or vim_motions.find(text, at, motion, count)
            else:
                span = vim_motions.find(text, at, motion, count)
        if span is not None:
            low, high = vim_motions.covered(text, at, motion, span)
            self._take_out(operator, low, high, span.linewise)

    def _take_out(self, operator: str, low: int, high: int, lines: bool) -> None:
        text = self._text
        self._register, self._lines = text[low:high], lines
        if operator == "y":
            self._stand(low if not lines else min(self._at, low))
            return
        self._prompt.history.checkpoint()
        if operator == "c":
            if lines:  # the indentation stays
                low += len(text[low:high]) - len(text[low:high].lstrip(" "))
            self._prompt.insert_at(low, max(low, high), "")
            self.insert()
            self._stand(low)
            return
        if lines:  # with the line break behind them, or else the one before
            if high < len(text):
                high += 1
            elif low > 0:
                low -= 1
        self._prompt.insert_at(low, high, "")
        self._stand(first_written(self._text, min(low, len(self._text))) if lines else low)

    def _replace(self, letter: str, count: int) -> None:
        at = self._at
        if at + count <= line_end(self._text, at):
            self._prompt.history.checkpoint()
            self._prompt.insert_at(at, at + count, letter * count)
            self._stand(at + count - 1)

    def _plain(self, command: str, count: int) -> None:
        text, at = self._text, self._at
        if command == "u":
            for _ in range(count):
                self._prompt.undo()
            self._stand(self._at)
        elif command in "pP":
            self._put(command == "p", count)
        elif command == "J":
            self._join(count)
        elif command == "/":
            self._prompt.action_search()
        elif command in "oO":
            self.insert()
            self._prompt.open_line(below=command == "o")
        else:
            places = {"i": at, "I": first_written(text, at), "A": line_end(text, at)}
            place = places.get(command, min(at + 1, line_end(text, at)))
            self.insert()
            self._stand(place)

    def _put(self, behind: bool, count: int) -> None:
        text, at = self._text, self._at
        if not self._register and not self._lines:
            return
        self._prompt.history.checkpoint()
        if self._lines:
            block = "\n".join([self._register] * count)
            place = line_end(text, at) if behind else line_start(text, at)
            self._prompt.insert_at(place, place, f"\n{block}" if behind else f"{block}\n")
            self._stand(first_written(self._text, place + behind))
            return
        place = min(at + 1, line_end(text, at)) if behind else at
        put = self._register * count
        self._prompt.insert_at(place, place, put)
        self._stand(place + len(put) - 1)

    def _join(self, count: int) -> None:
        text, start = self._text, self._at
        end = line_end(text, start)
        joined, behind, seam = text[start:end], end, end
        for _ in range(max(count - 1, 1)):
            if behind >= len(text):
                break
            line_behind = line_end(text, behind + 1)
            line = text[behind + 1 : line_behind].strip()
            seam, behind = start + len(joined), line_behind
            joined += f" {line}" if line else ""
        if behind > end:
            self._prompt.history.checkpoint()
            self._prompt.insert_at(start, behind, joined)
            self._stand(seam)
