"""A lesson as pages: prose and the code that follows it, one thing to do at a time.

A notebook's cells are finer than what one reads at once. A page is all prose up to the next code;
the check of an exercise belongs to the exercise's page. How far a learner came is still stored by
the notebook's own steps.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from kbench.engine.core import syntax
from kbench.workbench.lessons.lesson_files import BLANK, Lesson, Step

_NOTEBOOK_ONLY = re.compile(r"%(load_ext\s+kbench|lesson\s+\d+)\s*$")
DEFAULT_PROSE = "Run the code in the prompt, and look at what comes out."
"""The words of a page whose step has none before it."""
_MIN_SIMILARITY = 0.6
"""From which on code that was typed counts as an answer to the starter."""
_ASSIGNED = re.compile(r"^(\w+) *=(?!=)", re.MULTILINE)
_BLANK = re.compile(rf"(?<!\w){BLANK}|{BLANK}(?!\w)")


class Page(Struct, frozen=True):
    """What a learner has before them: `prose` to read, then perhaps `step` to run."""

    prose: str
    step: Step | None
    first: int  # of the lesson's steps that are on it
    last: int

    @property
    def code(self) -> str:
        """What is put into the editor; '' on a page that is only read."""
        return "" if self.step is None else code_of(self.step)

    @property
    def exercise(self) -> str | None:
        """The exercise to be solved here."""
        return self.step.name if self.step is not None and self.step.is_exercise else None

    @property
    def runs_again(self) -> bool:
        """Whether later pages need what its code makes, whoever runs it."""
        return bool(self.code) and self.exercise is None

    @property
    def text(self) -> str:
        """The prose without the title of the lesson, which stands elsewhere on a screen."""
        first, _, rest = self.prose.partition("\n")
        return rest.lstrip("\n") if first.startswith("# ") else self.prose

    @property
    def heading(self) -> str:
        """The first heading of the prose, '' without one."""
        lines = (line.lstrip() for line in self.prose.splitlines())
        return next((line.lstrip("# ") for line in lines if line.startswith("#")), "")

    def answers(self, code: str) -> bool:
        """Whether code that was typed is meant for this page, and is no trial of something else."""
        own = self.code
        if not own:
            return False
        names = made(code) or _ASSIGNED.findall(code)  # what cannot be parsed is no less meant
        if code.strip() == own.strip() or set(made(own)) & set(names):
            return True
        if any(_fits(begun, line) for begun in own.splitlines() for line in code.splitlines()):
            return True
        return difflib.SequenceMatcher(None, own, code, autojunk=False).ratio() >= _MIN_SIMILARITY


def pages(lesson: Lesson) -> tuple[Page, ...]:
    """The lesson's pages, in order."""
    found: list[Page] = []
    prose: list[str] = []
    first = 0
    for index, step in enumerate(lesson.steps):
        if step.role == "check":
            if found and not prose:
                found[-1] = Page(found[-1].prose, found[-1].step, found[-1].first, index)
                first = index + 1
            continue
        if not step.is_code:
            prose.append(step.text.strip())
        elif code_of(step):
            found.append(Page("\n\n".join(prose), step, first, index))
            prose, first = [], index + 1
    if prose:
        found.append(Page("\n\n".join(prose), None, first, len(lesson.steps) - 1))
    return tuple(_with_prose(found))


def _with_prose(found: list[Page]) -> Iterator[Page]:
    """No page is empty: the words of the one before go on, unless that was an exercise."""
    before: Page | None = None
    for page in found:
        if not page.prose:
            goes_on = before is not None and before.exercise is None
            page = replace(page, prose=before.prose if before and goes_on else DEFAULT_PROSE)
        yield page
        before = page


def page_of(found: tuple[Page, ...], step: int) -> int:
    """Index of the page on which a step of the lesson is."""
    return next((at for at, page in enumerate(found) if step <= page.last), len(found) - 1)


def code_of(step: Step) -> str:
    """The code of a step without the lines that only a notebook needs."""
    lines = [line for line in step.text.splitlines() if not _NOTEBOOK_ONLY.match(line.strip())]
    return "\n".join(lines).strip("\n")


def _fits(begun: str, line: str) -> bool:
    """Whether a line is what a line with blanks becomes by filling them in, however spaced."""
    pieces = _BLANK.split("".join(begun.split()))
    pattern = "(.+?)".join(map(re.escape, pieces))
    return len(pieces) > 1 and re.fullmatch(pattern, "".join(line.split())) is not None


def blanks(code: str) -> list[tuple[int, int]]:
    """Where code still has a blank to fill in, as (row, column) from 0; not in texts or remarks."""
    found: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            left = token.string.startswith(BLANK) or token.string.endswith(BLANK)
            if token.type == tokenize.NAME and left:  # something typed beside it included
                found.append((token.start[0] - 1, token.start[1]))
    except (tokenize.TokenError, SyntaxError):  # what stands there is no Python, or not yet
        rows = enumerate(code.splitlines())
        return [(row, blank.start()) for row, line in rows for blank in _BLANK.finditer(line)]
    return found


def filled_in(starter: str, answer: str) -> tuple[int, int, int] | None:
    """Row, first and last column of what an answer has in place of the starter's first blank."""
    for row, column in blanks(starter)[:1]:
        before, lines = starter.splitlines()[row], answer.splitlines()
        pieces = re.split(_BLANK, before[column:])
        pattern = "(.*?)".join(map(re.escape, [before[:column] + pieces[0], *pieces[1:]]))
        match = re.fullmatch(pattern, lines[row]) if row < len(lines) else None
        return None if match is None else (row, *match.span(1))
    return None


def left_out(starter: str, answer: str) -> dict[str, str]:
    """The starter's assignments without a blank of names that an answer does not make, by name.

    An answer may be typed as one line of several; later steps count on all names of the starter.
    """
    try:
        body = syntax.parse_module(starter).body
    except (SyntaxError, ValueError):
        return {}
    there = made(answer)
    found: dict[str, str] = {}
    for statement in body:
        code, names = ast.unparse(statement), made(ast.unparse(statement))
        if isinstance(statement, ast.Assign) and len(names) == 1 and not blanks(code):
            found |= {} if names[0] in there else {names[0]: code}
    return found


def made(code: str) -> list[str]:
    """Names that code makes at its top level, in order."""
    try:
        body = syntax.parse_module(code).body
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
            names += [
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            ]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]
