"""Static pictures of what the widgets show: settings and the table of names.

A widget's MIME bundle carries one of these beside its live view, so that a notebook that is
exported, reopened or read on a code hosting site still shows the state in which it was left.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.markup.columns import Columns, span
from kbench.notebook.markup.markup import (
    MAX_OUTPUT_BYTES,
    Html,
    element,
    escape,
    histogram,
    join,
    page,
    table,
)
from kbench.notebook.markup.style import STYLE
from kbench.workbench.core_types import Row
from kbench.workbench.protocol.names import VariableRow, number_of

MAX_ROWS = 100
"""Rows of a table; fewer where they would not fit an output."""
NAMES = Columns(
    "kb-vars",
    ("name", "dtype[shape]", "size", "range", "kind", "last shape", "version"),
    {"version": 760, "last shape": 710, "kind": 650, "range": 500, "size": 330},
)
"""The table of names; what is most asked for stays longest."""
MESSAGE_CHARACTERS = 400
"""Characters of a sentence."""
RANGE_CHARACTERS = 32
"""Characters of what takes the place of a range; no wider than one with its histogram."""
FLAGS_CHARACTERS = 10
"""Characters of NaN and infinities in words; beside more there is no room for a histogram."""


def styled(content: Html, more: str = "") -> str:
    """One piece of markup with the style sheet and `more` rules, for the text parts of a widget."""
    return f'<div class="kb-v"><style>{STYLE}{more}</style>{content}</div>'


def picture(
    data: bytes,
    alternative: str,
    is_figure: bool = True,
    style: str = "max-width:100%",
    kind: str = "png",
) -> Html:
    """A PNG or SVG that says in words what it shows; HTML, since `Image` has no such text.

    A figure, black on white, follows the theme where the style sheet is; an image keeps its
    colours. A small one is enlarged by the page, as `style` says, so that few bytes are sent.
    """
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    words = escape(alternative)
    class_ = ' class="kb-figure"' if is_figure else ""
    return Html(f'<img{class_} src="{source}" alt="{words}" style="{style}">')


def long(text: str) -> Html:
    """A sentence, escaped; longer than a name may be."""
    return escape(text, MESSAGE_CHARACTERS)


def settings() -> str:
    """The settings as a table."""
    rows = [(name, setting(name, value)) for name, value in config.snapshot().items()]
    content = table("settings", ("name", "value"), rows)
    return page(_title("kbench settings"), [element("div", content, class_="kb-text")])


def setting(name: str, value: object) -> str:
    """A setting's value as shown to people."""
    if name == "learning_phase" and value is None:
        return "symbolic"
    return f"{value:g}" if isinstance(value, float) else str(value)


def lines(text: str, limit: int) -> Html:
    """Lines of code, escaped one by one; what is over the limit is cut, and says so."""
    shown = text if len(text) <= limit else f"{text[:limit]}\n# more is not shown"
    return Html("\n".join(escape(line, MESSAGE_CHARACTERS) for line in shown.split("\n")))


def alerts(row: Row) -> Html:
    """NaN and infinities in words, with how many and where the first one is."""
    found = []
    for word, name in (("nan", "NaN"), ("inf", "Inf")):
        if row.get(word):
            first = row.get(f"first_{word}")
            place = f", first at {first}" if first is not None else ""
            found.append(element("p", f"{name}: {row[word]}{place}", class_="kb-bad"))
    return join(found)


def _title(text: str) -> Html:
    return element("p", element("b", text), class_="kb-head")


def listing(
    title: str,
    heads: Sequence[object] | Columns,
    rows: Sequence[Sequence[object]],
    note: str = "",
    after: Html | None = None,
) -> str:
    """A table under its title; of a long one as many rows as there is room for, and says so."""
    rules = heads.style if isinstance(heads, Columns) else ""
    shown = list(rows[:MAX_ROWS])
    last = join([element("p", long(note), class_="kb-note"), after or Html("")])
    while True:
        cut = "" if len(shown) == len(rows) else f", the first {len(shown)} of {len(rows)}"
        if isinstance(heads, Columns):
            content = heads.drawn(f"{title}{cut}", shown)
        else:
            content = element("div", table(f"{title}{cut}", heads, shown), class_="kb-text")
        text = styled(join([content, last if note or after else Html("")]), rules)
        if len(text.encode()) <= MAX_OUTPUT_BYTES or len(shown) <= 1:
            return text
        shown = shown[: max(len(shown) * 3 // 4, 1)]


# ------------------------------------------------------------------ names


def names_table(
    rows: Sequence[VariableRow],
    title: str = "names",
    most_bytes: int = MAX_OUTPUT_BYTES,
) -> str:
    """Rows of `namespace.View` as a table; a long list is cut, and says so.

    Of `NameRows` (redraw.py) it says how many names there are in all, and which these are.
    """
    if not rows:
        return page(_title(title), [element("p", "no names yet")])
    shown = rows[:MAX_ROWS]
    while True:
        total, start = getattr(rows, "total", len(rows)), getattr(rows, "start", 0)
        text = _names_page(shown, total, title, start)
        if len(text.encode()) <= most_bytes or len(shown) == 1:
            return text
        shown = shown[: max(len(shown) * 3 // 4, 1)]


def _names_page(shown: Sequence[VariableRow], total: int, title: str, start: int) -> str:
    lines = [
        (
            row.name,
            spec_of(row),
            (row.about or "") + describe.size(row.bytes),
            _range(row),
            row.kind,
            _last_shape(row),
            f"v{row.version}" if row.version is not None else "",
        )
        for row in shown
    ]
    content = NAMES.drawn(span(start, len(shown), total, "name"), lines)
    return styled(join([_title(title), content]), NAMES.style)


def _last_shape(row: VariableRow) -> str:
    return "" if row.last is None else f"[{', '.join(map(str, row.last.shape))}]"


def spec_of(row: VariableRow) -> str:
    """`float32[2, 3]` of what has a shape, else what kind of object it is."""
    if row.shape is not None:
        return describe.spec_text(row.shape, row.dtype or "")
    length = "" if row.length is None else f" of {row.length}"
    return f"{row.type or ''}{length}"


def _range(row: VariableRow) -> Html:
    """NaN and infinities in words, then the range with a histogram; or the value itself."""
    if row.histogram is None:
        last = "" if row.last is None else row.last.text
        return escape(row.text or last or "", RANGE_CHARACTERS)
    flags = element("span", f"{row.flags} ", class_="kb-bad") if row.flags else Html("")
    mark, low, high = escape("~" if row.sampled else ""), number_of(row.min), number_of(row.max)
    if len(row.flags or "") > FLAGS_CHARACTERS and low is not None:
        return join([flags, mark, escape(f"{describe.number(low)} to {describe.number(high)}")])
    return join([flags, mark, histogram(row.histogram, low, high)])
