"""What a reader sees of a widget."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from waiting import wait_for


def settled(words: str, part: Any) -> None:
    """Wait until a shown widget says the words."""
    wait_for(lambda: words in text_of(part.html))


def text_of(markup: str) -> str:
    """What a reader sees; a tag that the parser does not close is a failure."""
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    return "".join(reader.text)


class Reader(HTMLParser):
    """Collects text outside styles, and the tags that were never closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "foreignobject", "a"), tag
        assert not any(name.startswith("on") for name, _ in attrs), attrs
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)
