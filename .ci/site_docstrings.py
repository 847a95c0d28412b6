"""How the site reads docstrings: sections and errors are apart, an example is a block of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

KNOWN = re.compile(r"^(Arguments|Returns|Raises):", re.MULTILINE)
OWN = re.compile(r"^(Gradient|Source):", re.MULTILINE)
RAISES = re.compile(r"^Raises:\n(?:    .*\n?)+", re.MULTILINE)
ANOTHER = re.compile(r"(?<=\S)\s+(?=\w+Error: )")
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring whose own sections and examples Markdown leaves as they are."""
    text = RAISES.sub(lambda found: ANOTHER.sub("\n    ", found[0]), text)
    text = KNOWN.sub(r"\n\1:", text)
    text = OWN.sub(r"\n**\1**:", text)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **_others: Any) -> None:
        """Called by griffe for each module, class and function."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
