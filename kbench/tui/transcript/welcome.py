"""What an empty session says: how to begin, each way of which can be clicked."""

from __future__ import annotations

import functools
from collections.abc import Callable

from textual.content import Content
from textual.style import Style

from kbench.tui.keys import keys
from kbench.tui.session.bars import clickable
from kbench.tui.text.text import fold, wrap
from kbench.tui.themes import MUTED

WAYS = (
    ("examples", "examples"), ("lessons", "lessons"), ("palette", "all commands"), ("help", "help")
)  # fmt: skip
FIRST = (
    "Type Python and press Enter. K is the backend (K.dot, K.function ...), np NumPy.",
    "Type Python and press Enter. K is the backend, np NumPy.",
    "Type Python. K is the backend, np NumPy.",
    "Type Python. K is the backend.",
)
LESSON = (
    "Results come here. Enter runs the code in the prompt;",
    "Enter on the empty prompt goes on. :help lists commands.",
)


def rows(key_word: Callable[[str], str], width: int, lesson: bool = False) -> tuple[Content, ...]:
    """Lines for the empty transcript; a narrow one gets fewer words."""
    return _rows(tuple(key_word(ident) for ident, _ in WAYS), width, lesson)


@functools.lru_cache(maxsize=8)
def _rows(ways: tuple[str, ...], width: int, lesson: bool) -> tuple[Content, ...]:
    """Kept, as each row that is drawn, and each question how many there are, asks for all."""
    if lesson:
        lines = [Content.styled(words, MUTED) for words in LESSON]
        return tuple(Content(" ") + row for line in lines for row in wrap(line, max(width - 1, 4)))
    first = next((words for words in FIRST if len(words) < width), FIRST[-1])
    parts: list[str | tuple[str, Style]] = []
    room = width - 1
    for key, (ident, words) in zip(ways, WAYS, strict=True):
        text = f"{key} {words}"
        if len(text) > room:
            break
        parts += [clickable(text, f"screen.{keys.named(ident).action}", "$text-accent"), "   "]
        room -= len(text) + 3
    lines = [Content.styled(first, MUTED), Content.assemble(*parts[:-1])]
    lessons = "New here? Take a lesson; `kbench learn` in a shell does the same."
    if len(lessons) < width:
        lines.append(Content.styled(lessons, MUTED))
    return tuple(Content(" ") + row for line in lines for row in fold(line, max(width - 1, 4)))
