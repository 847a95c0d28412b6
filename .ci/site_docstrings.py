"""How the site reads docstrings: an example is a block of code, gradient and source are lines."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Gradient|Source):", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring whose own sections and examples Markdown leaves as they are."""
    text = SECTION.sub(r"\n**\1**:", text)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **_others: Any) -> None:
        """Called by griffe for each module, class and function."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
