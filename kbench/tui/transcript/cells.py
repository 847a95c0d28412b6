"""The cells of the transcript as rows of text: input, output, results, errors, notes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from textual.content import Content
from textual.highlight import highlight

from kbench.tui.graphics.graphics import SharpPicture
from kbench.tui.text import half_blocks
from kbench.tui.text.glyphs import Glyphs, human_seconds
from kbench.tui.text.half_blocks import Canvas
from kbench.tui.text.text import OutputDecoder, fold_words, one_line, safe, wrap
from kbench.tui.themes import MUTED
from kbench.tui.transcript.error_rows import EXPLAIN, error_rows
from kbench.tui.transcript.fit_curve import FitCurve
from kbench.workbench.core_types import JsonObject
from kbench.workbench.output.terminal_lines import overwrite, settled

if TYPE_CHECKING:
    from kbench.workbench.output.picture import Picture

MAX_PART_LINES = 10_000
"""Lines that are kept of one output; of a longer one the last are."""
RELEASED_LINES = 20
"""Lines that are left of the outputs of the oldest cells, once there are too many in all."""
MAX_LINE_CHARACTERS = 10_000
"""Characters of one line; a number says how many more there were."""
HANGING_CELLS = 4
"""By which the further rows of a long line of code are indented more than the line."""
_CANVAS = Canvas()
STREAM_STYLES = {"stderr": "$text-warning", "notice": MUTED}


@lru_cache(maxsize=512)
def coloured(code: str) -> tuple[Content, ...]:
    """Lines of Python code with colours."""
    text = "\n".join(safe(line) for line in code.split("\n"))
    return tuple(highlight(text, language="python").split("\n"))


class StreamPart:
    """Printed text; only what was added since the last drawing is decoded and folded."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.question = ""  # that waits for an answer, and stands below what is printed meanwhile
        self._style = STREAM_STYLES.get(name, "")
        self._open = ""
        self._beyond = 0  # characters of the open line that are not kept
        self._done: list[Content] = []
        self._decoder = OutputDecoder()
        self._rows: list[Content] = []
        self._folded = 0
        self._width = 0
        self.dropped = 0

    def append(self, text: str) -> None:
        """Add printed text."""
        if self._beyond:
            text = self._past_the_end(text)
        *whole, self._open = (self._open + text).replace("\r\n", "\n").split("\n")
        self._open = settled(self._open)  # a progress bar is redrawn thousands of times
        self._done += [self._decoder.line(_cut(line)) for line in whole]
        self._shorten()
        self._drop(MAX_PART_LINES)

    def ask(self, question: str) -> None:
        """Show a question below the text, of which what is printed meanwhile comes first."""
        lines = (self.question + question).split("\n")[-MAX_PART_LINES:]
        self.question = "\n".join(map(_cut, lines))

    def _shorten(self) -> None:
        """Keep the beginning of an open line that is too long, and where its cursor is."""
        shown = self._open.rstrip("\b")
        if len(shown) <= MAX_LINE_CHARACTERS:
            return
        cursor = 2 * len(shown) - len(self._open)
        if cursor > MAX_LINE_CHARACTERS:
            self._beyond = len(shown) - MAX_LINE_CHARACTERS
            self._open = shown[:MAX_LINE_CHARACTERS]
        else:
            self._open = shown[:MAX_LINE_CHARACTERS] + "\b" * (MAX_LINE_CHARACTERS - cursor)

    def _past_the_end(self, text: str) -> str:
        """What of the text does not only lengthen a line that is too long already."""
        ends = [at for at in (text.find("\n"), text.find("\r")) if at >= 0]
        at = min(ends, default=len(text))
        self._beyond += at
        if at == len(text):
            return ""
        beyond, self._beyond = self._beyond, 0
        ending = "\r\n" if text.startswith("\r\n", at) else text[at]
        if ending == "\r":
            return text[at:]
        self._done.append(self._decoder.line(self._open + _beyond_words(beyond)))
        self._open = ""
        return text[at + len(ending) :]

    def _drop(self, most: int) -> None:
        if len(self._done) > most:
            cut = len(self._done) - most
            del self._done[:cut]
            self.dropped += cut
            self._width = 0

    def release(self) -> None:
        """Let go of all but the last lines."""
        self._drop(RELEASED_LINES)
        self._rows = []

    def ending(self, lines: int) -> str:
        """The last lines without colours."""
        shown = [line.plain for line in self._done[-lines:]]
        return "\n".join([*shown, *map(overwrite, self._last_lines())])

    def plain(self) -> str:
        """The text without colours, for copying."""
        lines = [line.plain for line in self._done]
        if self._open or self.question:
            lines += map(overwrite, self._last_lines())
        return "\n".join(lines)

    def _last_lines(self, more: str = "") -> list[str]:
        """The line that is open, `more` words of it, and the question behind it, as lines."""
        return (self._open + more + self.question).split("\n")

    def rows(self, width: int) -> list[Content]:
        """The text as rows of at most `width` cells."""
        if width != self._width:
            self._rows, self._folded, self._width = [], 0, width
        for line in self._done[self._folded :]:
            self._rows += self._fold(line, width)
        self._folded = len(self._done)
        rows = self._rows
        if self.dropped:
            note = Content.styled(f"({self.dropped:,} earlier lines not shown)", MUTED)
            rows = [note, *rows]
        if self._open or self.question:
            more = _beyond_words(self._beyond) if self._beyond else ""
            for text in self._last_lines(more):
                rows = rows + self._fold(OutputDecoder().line(text), width)
        return rows

    def _fold(self, line: Content, width: int) -> list[Content]:
        rows = fold_words(line, width)
        return [row.stylize_before(self._style) for row in rows] if self._style else rows


def _cut(line: str) -> str:
    """A line, or the beginning of one that is too long, and how much is left out."""
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    line = overwrite(line)
    beyond = len(line) - MAX_LINE_CHARACTERS
    return line if beyond <= 0 else line[:MAX_LINE_CHARACTERS] + _beyond_words(beyond)


def _beyond_words(count: int) -> str:
    return f" ... ({count:,} more characters)"


class ResultPart(Struct):
    """The value of the last expression, or what was displayed; `picture` once it is decoded.

    `sharp`: the picture as the terminal draws it, if it does. `display_id`: by what a later display
    takes its place.
    """

    text: str
    labelled: bool = True
    display_id: str = ""
    picture: Picture | None = None
    sharp: SharpPicture | None = None

    def rows(self, width: int, label: str, canvas: Canvas | None = None) -> list[Content]:
        """`Out[n]: ` and the text, its further lines aligned below the first; then the picture.

        Without a canvas, as for copying, there is the text alone.
        """
        decoder = OutputDecoder()
        room = max(width - len(label), 8)
        rows: list[Content] = []
        for line in self.text.split("\n")[:MAX_PART_LINES]:
            rows += fold_words(decoder.line(line), room)
        head = Content.styled(label, "$text-error")
        indent = Content(" " * len(label))
        text = [(indent if at else head) + row for at, row in enumerate(rows)]
        return text if canvas is None else text + self._picture_rows(width, canvas)

    def _picture_rows(self, width: int, canvas: Canvas) -> list[Content]:
        if self.picture is None:
            return []
        room = canvas.room(width)
        if canvas.pixels and self.sharp is not None:
            columns, lines = self.picture.fitted_size(*room)
            return self.sharp.rows(columns, -(-lines // 2))
        return half_blocks.drawn(self.picture.fitted(*room), canvas.colours)


class ErrorPart(Struct):
    """An exception, with what a KbenchError says of itself in `detail`."""

    name: str
    value: str
    traceback: list[str]
    detail: JsonObject = field(default_factory=dict)
    cell: str = ""


class NotePart(Struct):
    """Words of the workbench itself."""

    text: str


OutputPart = StreamPart | ResultPart | ErrorPart | NotePart


class Block:
    """One cell: what was typed and what came of it."""

    def __init__(
        self, ident: str, code: str, state: str = "queued", origin: str = "", past: bool = False
    ) -> None:
        self.ident = ident
        self.origin = origin  # who ran it, if it was not typed here
        self.past = past  # its namespace is not that of the kernel
        self.code = code
        self.state = state  # queued, running, ok, failed, lost, note
        self.count: int | None = None
        self.seconds: float | None = None
        self.parts: list[OutputPart] = []
        self.fit: FitCurve | None = None  # of a Keras fit that runs in it, or ran last
        self.folded = False
        self._cache: tuple[object, list[Content]] | None = None
        self._version = 0

    def touch(self) -> None:
        """Forget the drawn rows."""
        self._version += 1

    def stream(self, name: str, text: str) -> None:
        """Add printed text."""
        self._stream_part(name).append(text)
        self.touch()

    def _stream_part(self, name: str) -> StreamPart:
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, StreamPart) or last.name != name:
            last = StreamPart(name)
            self.parts.append(last)
        return last

    def ask(self, question: str) -> None:
        """Show a question, below all that was printed before, which may come after it."""
        self._stream_part("stdout").ask(question)
        self.touch()

    def answer(self, text: str) -> None:
        """Add an answer to what was printed, behind its question."""
        for part in self.parts:
            if isinstance(part, StreamPart) and part.question:
                text, part.question = part.question + text, ""
        self.stream("stdout", text)

    def add(self, part: OutputPart) -> None:
        """Add a result, an error or a note."""
        self.parts.append(part)
        self.touch()

    def update(self, display_id: str, text: str) -> Iterator[tuple[ResultPart, ResultPart]]:
        """Put another text in the place of what was displayed under an id: the old, the new part.

        A picture stays until the new one is decoded.
        """
        for at, old in enumerate(self.parts):
            if isinstance(old, ResultPart) and old.display_id == display_id:
                new = self.parts[at] = replace(old, text=text)
                self.touch()
                yield old, new

    def release(self) -> None:
        """Let go of most of a long output, to make room for that of newer cells."""
        for part in self.parts:
            if isinstance(part, StreamPart):
                part.release()
            elif isinstance(part, ResultPart) and part.text.count("\n") > RELEASED_LINES:
                part.text = "\n".join([*part.text.split("\n")[:RELEASED_LINES], "..."])
        self.touch()

    @property
    def error(self) -> ErrorPart | None:
        """The error that ended the cell."""
        return next((part for part in self.parts if isinstance(part, ErrorPart)), None)

    @property
    def has_picture(self) -> bool:
        """Whether it shows a picture."""
        return any(isinstance(part, ResultPart) and part.picture for part in self.parts)

    def output_text(self) -> str:
        """Everything below the input as plain text."""
        return "\n".join(row.plain.rstrip() for row in self._output(10_000, None))

    def rows(
        self, width: int, glyphs: Glyphs, explain: str = EXPLAIN, canvas: Canvas = _CANVAS
    ) -> list[Content]:
        """The whole cell as rows of at most `width` cells; `explain` is the key of that action."""
        facts = (self._version, self.state, self.count, self.folded, self.seconds)
        key = (width, *facts, glyphs, explain, canvas)
        if self._cache is None or self._cache[0] != key:
            self._cache = (key, self._draw(width, glyphs, explain, canvas))
        return self._cache[1]

    def _draw(self, width: int, glyphs: Glyphs, explain: str, canvas: Canvas) -> list[Content]:
        rows = [] if self.state == "note" else self._input(width)
        output = self._output(width, glyphs, explain, canvas)
        if self.folded and len(output) > 1:
            hidden = len(output) - 1
            more = f"  {glyphs.ellipsis} {hidden} more rows, Enter unfolds"
            output = [output[0], Content.styled(one_line(more, width, glyphs.ellipsis), MUTED)]
        return rows + output

    @property
    def label(self) -> str:
        """`In [3]: `, or a star while it runs or waits."""
        unknown = " " if self.past else "*"
        return f"In [{unknown if self.count is None else self.count}]: "

    def _input(self, width: int) -> list[Content]:
        label = self.label
        room = max(width - len(label), 8)
        rows: list[Content] = []
        for line in coloured(self.code):
            text = line.plain
            hang = len(text) - len(text.lstrip(" ")) + HANGING_CELLS
            rows += wrap(line, room, " ,(", hang)
        style = MUTED if self.past or self.state in ("queued", "lost") else "$text-success"
        head = Content.styled(label, style)
        indent = Content(" " * len(label))
        drawn = [(indent if at else head) + row for at, row in enumerate(rows)]
        words = self._words()
        if words and drawn[0].cell_length + len(words) + 2 <= width:
            gap = width - drawn[0].cell_length - len(words)
            drawn[0] = drawn[0] + Content(" " * gap) + Content.styled(words, MUTED)
        return drawn

    def _words(self) -> str:
        words = [self.origin] if self.origin else []
        if self.state in ("queued", "lost"):
            words.append({"queued": "waiting", "lost": "kernel lost"}[self.state])
        elif self.seconds is not None and self.seconds >= 0.1:
            words.append(human_seconds(self.seconds))
        return ", ".join(words)

    def _output(
        self,
        width: int,
        glyphs: Glyphs | None,
        explain: str = EXPLAIN,
        canvas: Canvas | None = None,
    ) -> list[Content]:
        rows: list[Content] = []
        for part in self.parts:
            if isinstance(part, StreamPart):
                rows += part.rows(width)
            elif isinstance(part, ResultPart):
                label = f"Out[{self.count}]: " if part.labelled else ""
                rows += part.rows(width, label, canvas)
            elif isinstance(part, ErrorPart):
                rows += error_rows(part, width, glyphs, explain)
            else:
                for line in part.text.split("\n"):
                    rows += wrap(Content.styled(safe(line), MUTED), width)
        return rows if self.fit is None else rows + self.fit.rows(width, glyphs)
