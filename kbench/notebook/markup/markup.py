"""Small pieces of HTML. A plain string is always escaped on its way in; only `Html` is not."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from kbench.engine.inspect import describe
from kbench.notebook.markup.style import STYLE

MAX_OUTPUT_BYTES = 12_000
"""Bytes of one output: a notebook of a hundred cells stays about a megabyte."""
_CUT_NOTE = "more is not shown, to keep the notebook small"


class Html(str):
    """Text that is markup already. Everything else that reaches this module is escaped."""


def escape(content: object, limit: int = describe.MAX_NAME_CHARACTERS) -> Html:
    """Any object as safe text: escaped, invisible characters spelled out, length capped."""
    if isinstance(content, Html):
        return content
    return Html(html.escape(describe.printable(content, limit), quote=True))


def join(pieces: Iterable[Html]) -> Html:
    """Markup after markup."""
    return Html("".join(pieces))


def element(tag: str, content: object = "", **attributes: str) -> Html:
    """`<tag name="value">content</tag>`; `class_` is written `class`, `aria_label` `aria-label`."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value, 400)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>{escape(content)}</{tag}>")


def facts(rows: Iterable[tuple[str, object]]) -> Html:
    """A list of terms with what is known of each; empty facts are left out."""
    pairs = [
        element("div", join([element("dt", term), element("dd", fact)]))
        for term, fact in rows
        if fact not in (None, "")
    ]
    return element("dl", join(pairs)) if pairs else Html("")


def table(
    caption: str,
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    classes: Sequence[Sequence[str]] | None = None,
) -> Html:
    """A table whose first column names the row; `classes` are those of the other cells."""
    head = join(element("th", head, scope="col") for head in heads)
    lines = []
    for number, row in enumerate(rows):
        cells = [element("th", row[0], scope="row")]
        for column, cell in enumerate(row[1:]):
            name = classes[number][column] if classes else ""
            cells.append(element("td", cell, class_=name) if name else element("td", cell))
        lines.append(element("tr", join(cells)))
    body = join(lines)
    top = element("thead", element("tr", head))
    return element("table", join([element("caption", caption), top, element("tbody", body)]))


def details(title: str, content: Html, is_open: bool = False) -> Html:
    """A part that folds without any script."""
    return Html(
        f"<details{' open' if is_open else ''}>{element('summary', title)}{content}</details>"
    )


def histogram(counts: Sequence[int], low: float | None, high: float | None) -> Html:
    """A bar of block characters, with its meaning in words for those who do not see it."""
    if not counts:
        return Html("")
    first, last = describe.number(low), describe.number(high)
    label = (
        f"histogram of the finite values from {first} to {last}, "
        f"{len(counts)} bins, counts {' '.join(map(str, counts))}"
    )
    # Spaces that stay where the style is stripped: an empty bin is as wide as any other.
    glyphs = Html(describe.glyphs(counts, 16).replace(" ", "&nbsp;"))
    bars = element("span", glyphs, class_="kb-bars", role="img", aria_label=label)
    return join([escape(f"{first} "), bars, escape(f" {last}")])


def page(head: Html, parts: Sequence[Html]) -> str:
    """One output: style, heading line and parts, without those that would make it too long."""
    kept: list[Html] = []
    room = MAX_OUTPUT_BYTES - len(STYLE.encode()) - len(head.encode()) - 200
    cut = False
    for part in parts:
        size = len(part.encode())
        if size <= room:
            kept.append(part)
            room -= size
        else:
            cut = True
    note = element("p", _CUT_NOTE) if cut else Html("")
    return f'<div class="kb-v"><style>{STYLE}</style>{head}{join(kept)}{note}</div>'
