"""The cells of the transcript as rows of text: input, output, results, errors, notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from textual.content import Content
from textual.highlight import highlight

from kbench.tui.error_rows import error_rows
from kbench.tui.glyphs import Glyphs, human_seconds
from kbench.tui.palette import MUTED
from kbench.tui.text import OutputDecoder, fold, safe
from kbench.workbench.terminal import overwrite, settled

MOST_ROWS = 10_000
STREAM_STYLES = {"stderr": "$text-warning", "notice": MUTED}


@lru_cache(maxsize=512)
def coloured(code: str) -> tuple[Content, ...]:
    """Lines of Python code with colours."""
    text = "\n".join(safe(line) for line in code.split("\n"))
    return tuple(highlight(text, language="python").split("\n"))


def break_code(line: Content, width: int) -> list[Content]:
    """Cut a line of code, behind a comma or a space where there is one in the last third."""
    rows: list[Content] = []
    while line.cell_length > width:
        head = fold(line, width)[0]
        text = head.plain
        at = max(text.rfind(mark, len(text) * 2 // 3) for mark in (" ", ",", "(")) + 1
        cut = at if at > 1 else len(text)
        rows.append(line[:cut])
        line = line[cut:]
    return [*rows, line]


class StreamPart:
    """Printed text; only what was added since the last drawing is decoded and folded."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open = ""
        self._done: list[Content] = []
        self._decoder = OutputDecoder()
        self._rows: list[Content] = []
        self._folded = 0
        self._width = 0
        self.dropped = 0

    def append(self, text: str) -> None:
        """Add printed text."""
        *whole, self._open = (self._open + text).replace("\r\n", "\n").split("\n")
        self._open = settled(self._open)  # a progress bar is redrawn thousands of times
        self._done += [self._decoder.line(line) for line in whole]
        if len(self._done) > MOST_ROWS:
            cut = len(self._done) - MOST_ROWS
            del self._done[:cut]
            self.dropped += cut
            self._width = 0

    def plain(self) -> str:
        """The text without colours, for copying."""
        lines = [line.plain for line in self._done]
        return "\n".join([*lines, overwrite(self._open)] if self._open else lines)

    def rows(self, width: int) -> list[Content]:
        """The text as rows of at most `width` cells."""
        if width != self._width:
            self._rows, self._folded, self._width = [], 0, width
        for line in self._done[self._folded :]:
            self._rows += fold(line, width)
        self._folded = len(self._done)
        rows = self._rows
        if self.dropped:
            note = Content.styled(f"({self.dropped} earlier lines not shown)", MUTED)
            rows = [note, *rows]
        if self._open:
            rows = rows + fold(OutputDecoder().line(self._open), width)
        style = STREAM_STYLES.get(self.name)
        return [row.stylize_before(style) for row in rows] if style else rows


@dataclass
class ResultPart:
    """The value of the last expression."""

    text: str
    labelled: bool = True

    def rows(self, width: int, label: str) -> list[Content]:
        """`Out[n]: ` and the text, its further lines aligned below the first."""
        decoder = OutputDecoder()
        room = max(width - len(label), 8)
        rows: list[Content] = []
        for line in self.text.split("\n")[:MOST_ROWS]:
            rows += fold(decoder.line(line), room)
        head = Content.styled(label, "$text-error")
        indent = Content(" " * len(label))
        return [(indent if at else head) + row for at, row in enumerate(rows)]


@dataclass
class ErrorPart:
    """An exception, with what a KbenchError says of itself in `detail`."""

    name: str
    value: str
    traceback: list[str]
    detail: dict[str, Any] = field(default_factory=dict)
    cell: str = ""


@dataclass
class NotePart:
    """Words of the workbench itself."""

    text: str


Part = StreamPart | ResultPart | ErrorPart | NotePart


class Block:
    """One cell: what was typed and what came of it."""

    def __init__(self, ident: str, code: str, state: str = "queued") -> None:
        self.ident = ident
        self.code = code
        self.state = state  # queued, running, ok, failed, lost, note
        self.count: int | None = None
        self.seconds: float | None = None
        self.parts: list[Part] = []
        self.folded = False
        self._cache: tuple[Any, list[Content]] | None = None
        self._version = 0

    def touch(self) -> None:
        """Forget the drawn rows."""
        self._version += 1

    def stream(self, name: str, text: str) -> None:
        """Add printed text."""
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, StreamPart) or last.name != name:
            last = StreamPart(name)
            self.parts.append(last)
        last.append(text)
        self.touch()

    def add(self, part: Part) -> None:
        """Add a result, an error or a note."""
        self.parts.append(part)
        self.touch()

    @property
    def error(self) -> ErrorPart | None:
        """The error that ended the cell."""
        return next((part for part in self.parts if isinstance(part, ErrorPart)), None)

    def output_text(self) -> str:
        """Everything below the input as plain text."""
        return "\n".join(row.plain.rstrip() for row in self._output(10_000, None))

    def rows(self, width: int, glyphs: Glyphs) -> list[Content]:
        """The whole cell as rows of at most `width` cells."""
        key = (width, self._version, self.state, self.count, self.folded, self.seconds, glyphs)
        if self._cache is None or self._cache[0] != key:
            self._cache = (key, self._draw(width, glyphs))
        return self._cache[1]

    def _draw(self, width: int, glyphs: Glyphs) -> list[Content]:
        rows = [] if self.state == "note" else self._input(width)
        output = self._output(width, glyphs)
        if self.folded and len(output) > 1:
            hidden = len(output) - 1
            more = f"  {glyphs.ellipsis} {hidden} more rows, Enter unfolds"
            output = [output[0], Content.styled(more, MUTED)]
        return rows + output

    @property
    def label(self) -> str:
        """`In [3]: `, or a star while it runs or waits."""
        return f"In [{'*' if self.count is None else self.count}]: "

    def _input(self, width: int) -> list[Content]:
        label = self.label
        room = max(width - len(label), 8)
        rows: list[Content] = []
        for line in coloured(self.code):
            rows += fold(line, room) if line.cell_length <= room else break_code(line, room)
        style = MUTED if self.state in ("queued", "lost") else "$text-success"
        head = Content.styled(label, style)
        indent = Content(" " * len(label))
        drawn = [(indent if at else head) + row for at, row in enumerate(rows)]
        words = self._words()
        if words and drawn[0].cell_length + len(words) + 2 <= width:
            gap = width - drawn[0].cell_length - len(words)
            drawn[0] = drawn[0] + Content(" " * gap) + Content.styled(words, MUTED)
        return drawn

    def _words(self) -> str:
        if self.state in ("queued", "lost"):
            return {"queued": "waiting", "lost": "kernel lost"}[self.state]
        if self.seconds is not None and self.seconds >= 0.1:
            return human_seconds(self.seconds)
        return ""

    def _output(self, width: int, glyphs: Glyphs | None) -> list[Content]:
        rows: list[Content] = []
        for part in self.parts:
            if isinstance(part, StreamPart):
                rows += part.rows(width)
            elif isinstance(part, ResultPart):
                label = f"Out[{self.count}]: " if part.labelled else ""
                rows += part.rows(width, label)
            elif isinstance(part, ErrorPart):
                rows += error_rows(part, width, glyphs)
            else:
                for line in part.text.split("\n"):
                    rows += fold(Content.styled(safe(line), MUTED), width)
        return rows
