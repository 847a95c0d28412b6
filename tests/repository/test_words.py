"""Phrases that users did not understand stay away: from what kbench says, lessons, reader pages.

docs/style.md says what to write instead. A phrase is found across line ends, in whole words.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench import backend

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_READERS = ("architecture.md", "style.md")  # for those who work on kbench

OLD = {
    "over which they are multiplied": "inner sizes differ",
    "a batch is one size": "batch sizes differ",
    "of which only one may be": "only one of a and b may be",
    "is no single number": "is not a scalar",
    "no truth value before": "has no truth value; use K.switch",
    "is told only when": "is known only when",
    "comes about": "is computed",
    "come about": "are computed",
    "of kbench's knowing": "kbench has not seen",
    "that made some": "gave NaN or Inf",
    "holds NaN already": "already contains NaN",
    "in place of what is not finite": "0 for NaN and Inf",
    "as the call has left them": "as they are after the call",
    "nothing finite": "all NaN or Inf",
    "graphs built from now on": "affects new graphs only",
    "graphs built keep": "affects new graphs only",
    "cannot be had": "is not available",
    "as good as none": "counts as unset",
    "goes with the workbench": "only applies to",
    "is the most": "the limit is",
    "of limit": "% of peak",
    "is there already": "already exists",
    "call that does not stop": "not responding to interrupt",
    "lets it run on": "it keeps running",
    "as of before": "values from before",
    "nothing of it has run": "nothing was run again",
    "offer no more": "don't offer again",
    "whatever stands there": "insert newline",
    "do again": "redo",
    "give a search up": "cancel the search",
    "give a line up": "cancel the input",
    "a question not at all": "dismiss the question",
    "compute no longer": "stop computing",
    "compare no longer": "stop comparing",
    "watch it no longer": "stop watching it",
    "begin the lesson anew": "restart the lesson",
    "unfold the way to": "find a node",
    "takes everything back": "undoes all of this",
    "of more a sample": "beyond that a sample",
    "that cannot be is": "an invalid combination is",
    "is told in words": "is explained",
    "what is told is": "progress is shown for",
    "memory that does not grow": "bounded memory",
    "say today's": "tell you the current ones",
    "kernels compiled ahead, figures": "precompile kernels, run benchmarks",
    "which static shape has": "what static shape does it have",
    "has shown what": "showed what",
    "form still is": "form is still",
    "some hundred": "about a hundred",
    "on the average": "on average",
    "two last": "last two",
    "notes an expression": "remembers an expression",
    "is no array": "is not an array",
    "is no backend": "is not a backend",
    "is no dtype": "is not a dtype",
    "is no index": "is not an index",
    "is no input": "is not an input",
    "is no number": "is not a number",
    "is no picture": "cannot be shown as a picture",
    "is no symbol": "is not a symbol",
    "is no tensor": "is not a tensor",
    "is no terminal": "is not a terminal",
    "are no axes": "are not axes",
    "are no integers": "are not integers",
    "nothing would be left": "the output would be empty",
    "makes no array": "is not an array",
    "where only dense": "only dense tensors are allowed",
    "beyond every size": "is too large for a size",
    "that no array can have": "too large for any array",
    "which has no taps": "an empty window",
    "logic is of bool": "logical operators need bool",
    "stand beside lists": "numbers and lists are mixed",
    "was said to have": "was declared with size",
    "computes with floats": "needs a float dtype",
    "over which a mask": "does not broadcast",
    "entries are multiplied with": "inner sizes differ",
    "which do not fill": "cannot reshape x into",
    "it is called as": "call it as",
    "given another; use": "cannot be fed; use",
    "no whole number": "not a whole number",
    "is no json value": "is not a JSON value",
    "is there twice": "appears twice",
    "put it right with": "fix it with",
    "to be given by name": "must be given by name",
    "the others took the time": "other tensors took the time",
    "than can be taken in": "faster than it can be shown",
    "not taken in": "dropped",
    "not known any more": "no longer known",
    "has no name any more": "has no name now",
    "must have as many": "must have the same number",
    "where all must have": "all must have the same number",
    "can be had": "is available",
    "no place on other machines": "cannot be sent to other machines",
    "is another for each": "differs between",
    "could not be told": "could not be reported",
    "told as a list": "listed below",
    "tell its arguments": "say which arguments it takes",
    "made from now on": "new tensors",
    "carry their channels": "have the channels",
    "wants the name": "needs the name",
    "wants name": "needs name",
    "takes nothing but": "takes no argument",
    "run to its end": "did not finish",
    "says nothing of itself": "does not identify itself",
    "has told of itself": "has reported",
    "it is not known which": "is not known",
    "what stands at": "what is at",
    "what stood": "your input",
    "the place is kept": "your place is kept",
    "talk line by line": "runs line by line",
    "how far each is": "your progress in each",
    "go with the workbench": "only apply to the workbench",
    "bring back the cells": "restore the cells",
    "brings back the cells": "restores the cells",
    "fit for screen readers": "for screen readers",
    "prints aside": "prints go to standard error",
    "the terminal is gone": "the terminal was closed",
    "told by colour": "shown by colour",
    "count in no statistic": "are left out of statistics",
    "is heeded": "is respected",
    "as told below": "see below",
    "nothing moves": "no animation",
    "do not stack": "all tensors need the same shape",
    "not fill the shape": "cannot reshape to the shape of",
    "places of x": "needs x of spatial sizes",
    "two axes are needed": "rank 2 is needed",
    "not what comes out": "is not right",
    "brings them back": "restores them",
    "last but one": "second-to-last",
    "the mean taken away": "subtract the mean",
    "largest entry away": "subtracts the largest entry",
    "away from the weights": "subtract it from the weights",
    "axis of time": "time axis",
    "times are gone through": "there are fifty time steps",
    "ought to be the same": "should be the same",
    "comes out even": "fits",
    "come out even": "fit",
}
PATTERN = re.compile(rf"\b(?:{'|'.join(re.escape(phrase) for phrase in OLD)})\b", re.IGNORECASE)


def found(text: str) -> list[str]:
    """The old phrases in a text."""
    return [words.lower() for words in PATTERN.findall(" ".join(text.split()))]


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a module may say; what an f-string fills in is `{}`.

    Strings that are statements are for those who read the source, but for public docstrings.
    """
    unsaid: set[int] = set()
    public: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # which meets a node before its parts
        if isinstance(node, ast.FunctionDef) and node.name in backend.__all__:
            public.add(id(node.body[0]))
        elif isinstance(node, ast.Expr) and id(node) not in public:
            unsaid.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            unsaid |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                ),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in unsaid:
                yield node.lineno, node.value


def _pages() -> Iterator[tuple[str, str]]:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in NOT_FOR_READERS]
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *pages,
        *(ROOT / "tutorials").glob("*.toml"),
    ]:
        yield page.name, page.read_text("utf-8")
    for book in (ROOT / "tutorials").glob("*.ipynb"):
        for number, cell in enumerate(json.loads(book.read_text("utf-8"))["cells"]):
            yield f"{book.name}, cell {number}", "".join(cell["source"])


def test_the_program_says_none_of_them() -> None:
    said = [
        f"{path.relative_to(ROOT)}:{line}: {old!r}, write {OLD[old]!r}"
        for path in sorted((ROOT / "kbench").rglob("*.py"))
        for line, text in _texts(path.read_text("utf-8"))
        for old in found(text)
    ]
    assert not said, "\n".join(said)


def test_lessons_and_reader_pages_say_none_of_them() -> None:
    said = [
        f"{name}: {old!r}, write {OLD[old]!r}" for name, text in _pages() for old in found(text)
    ]
    assert not said, "\n".join(said)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ('x = "it cannot\\n  be had"', ["cannot be had"]),
        ('f(f"{a} is there "\n  f"already: {b}")', ["is there already"]),
        ('def sin():\n    "How it comes about."', ["comes about"]),
        ('def _made():\n    "How it comes about."', []),
        ('LIMIT = 3\n"""Cannot be had."""', []),
        ('x = "undo again"', []),
    ],
)
def test_what_is_looked_at(source: str, seen: list[str]) -> None:
    assert [old for _, text in _texts(source) for old in found(text)] == seen
