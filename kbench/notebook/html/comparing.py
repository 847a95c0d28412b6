"""The HTML of what `kbench.compare` found: the same rows as its text, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from kbench.notebook.markup.markup import Html, details, element, escape, join, page, table
from kbench.workbench.inspector import summary

if TYPE_CHECKING:
    from kbench.api.differences import Comparison, Result

HOME = "kbench.api.differences"  # where the class lives, which need not be loaded to tell it


def is_comparison(value: object) -> TypeGuard[Comparison]:
    """Whether `value` is a result of `kbench.compare`."""
    return (type(value).__module__, type(value).__name__) == (HOME, "Comparison")


def comparison(value: Comparison) -> str:
    """A table of engines; failures below it, and the values folded away."""
    head = join([element("b", "comparison"), escape(f" of {value.title()}")])
    parts: list[Html] = []
    rows = value.rows()
    if rows and value.reference is not None:
        caption = f"differences are those from {value.reference.engine}"
        content = table(caption, value.heads, rows)
        parts.append(element("div", content, class_="kb-text"))
    parts += [
        element("p", join([element("code", engine), escape(f": {said}", 400)]), class_="kb-bad")
        for engine, said in value.notes()
    ]
    if unfelt := value.unfelt():
        parts.append(element("p", escape(unfelt, 400), class_="kb-note"))
    shown = [_outputs(result) for result in value.results if result.outputs]
    if shown:
        parts.append(details("outputs", join(shown)))
    return page(element("p", head, class_="kb-head"), parts)


def _outputs(result: Result) -> Html:
    """One line of text for each output of an engine."""
    lines = [
        element("p", join([element("code", f"{result.engine}{name}"), escape(f" {text}")]))
        for name, text in ((name, summary.line(output)) for name, output in result.outputs.items())
    ]
    return join(lines[:8])
