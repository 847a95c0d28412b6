"""Tables that leave whole columns out where there is no room for them, rather than clip or overlap.

A table's `Columns` name its heads and say below which width of its container each goes; the style
they make stands in the one style element of an output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kbench.notebook.markup.markup import Html, element, table

BAR_CHARACTERS = 8
"""Of the bar that shows a share."""
_NARROW_PIXELS = 900
"""Of a table in which names break."""


class Columns(Struct, frozen=True):
    """The heads of a table, its style class, and the pixels below which a column goes."""

    class_: str
    heads: Sequence[str]
    needs: Mapping[str, int] = field(default_factory=dict)

    @property
    def style(self) -> str:
        """Rules by which columns go, in a table as in the live heads above one."""
        rules = [
            f"@container (max-width:{pixels}px){{.{self.class_} "
            f":is(tr,.kb-heads div)>:nth-child({self.heads.index(head) + 1}){{display:none}}}}"
            for head, pixels in self.needs.items()
            if head in self.heads
        ]
        rules.append(  # where little is left the names break, so that what is beside them is seen
            f"@container (max-width:{_NARROW_PIXELS}px){{.kb-v .{self.class_} tbody th{{"
            "white-space:normal;overflow-wrap:anywhere;min-width:8em}}"
        )
        return ".kb-cols{container-type:inline-size}" + "".join(rules)

    def drawn(self, caption: str, rows: Sequence[Sequence[object]]) -> Html:
        """The table; its first column names the row."""
        inner = element("div", table(caption, self.heads, rows), class_=f"kb-text {self.class_}")
        return element("div", inner, class_="kb-cols")


def wrapped(words: Html) -> Html:
    """A cell that breaks at blanks where the table is too wide; all others are one line."""
    return element("div", words, class_="kb-words")


def share(part: float) -> Html:
    """A bar, and the share in percent, which is all of it for those who do not see it."""
    full = max(round(part * BAR_CHARACTERS), 1 if part > 0.005 else 0)
    # Spaces that stay where the style is stripped: percentages stand below one another.
    bar = "█" * min(full, BAR_CHARACTERS) + "\u00a0" * (BAR_CHARACTERS - full)
    return Html(f'<span class="kb-bars">{bar}</span> {part:.0%}')


def span(start: int, shown: int, total: int, noun: str) -> str:
    """`1,204 rows, 1-50`: how many there are, and which of them are on view.

    >>> span(0, 50, 1204, "row"), span(0, 3, 3, "name"), span(0, 1, 1, "step")
    ('1,204 rows, 1-50', '3 names', '1 step')
    """
    words = f"{total:,} {noun}{'' if total == 1 else 's'}"
    return words if shown >= total else f"{words}, {start + 1:,}-{start + shown:,}"
