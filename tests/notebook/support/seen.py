"""What a reader sees of an output or a widget, read by a parser that takes nothing amiss."""

from __future__ import annotations

from collections.abc import Set
from html.parser import HTMLParser
from typing import Any

from waiting import wait_for_words

from kbench.notebook.html import html

LIMIT = 12_000
VOID = {"br", "hr", "img", "meta"}
REFUSED = {"script", "iframe", "object", "foreignobject", "a"}  # wherever it stands
STATIC = {
    "div", "style", "p", "b", "code", "span", "pre", "dl", "dt", "dd", "details", "summary",
    "table", "caption", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
STATIC_ATTRIBUTES = {"class", "role", "aria-label", "scope", "open"}


class Reader(HTMLParser):
    """Collects text outside styles; nothing active, no comments, every tag closed in its order.

    With `tags` and `attributes`, there are no others.
    """

    def __init__(self, tags: Set[str] | None = None, attributes: Set[str] | None = None) -> None:
        super().__init__(convert_charrefs=True)
        self._allowed, self._attributes = tags, attributes
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert tag not in REFUSED, tag
        assert not any(name.startswith("on") for name in names), attrs
        assert self._allowed is None or tag in self._allowed, tag
        assert self._attributes is None or names <= self._attributes, attrs
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def parsed(reader: Reader, markup: str) -> Reader:
    """The reader at the end of the markup."""
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    return reader


def read(markup: str) -> Reader:
    """Parse one static output and hold it to what every output must be."""
    assert len(markup.encode("utf-8")) <= LIMIT
    assert markup.count("<style>") == 1
    return parsed(Reader(STATIC, STATIC_ATTRIBUTES), markup)


def text_of(markup: str) -> str:
    """What a reader sees of a widget."""
    return "".join(parsed(Reader(), markup).text)


def text_of_value(value: Any) -> str:
    """What a reader sees of the static output of a value."""
    return "".join(read(html.show(value)).text)


def settled(words: str, part: Any) -> None:
    """Wait until a shown widget says the words."""
    wait_for_words(words, lambda: text_of(part.html))
