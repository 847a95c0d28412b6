"""Fail if a page of the built site loads something from elsewhere, or shows a file that is missing.

`python .ci/site_offline.py FOLDER`. Links that a reader may follow can lead anywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_LOADED = {"canonical", "next", "prev", "alternate", "edit"}  # kinds of <link>
IMPORT = re.compile(r"(?:@import\s+|url\()\s*[\"']?(https?:)?//")


class Loads(HTMLParser):
    """What a page asks for while it is shown, in `found`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address, if this element loads one."""
        values = dict(attrs)
        address = values.get(LOADED.get(tag, ""))
        if address and not NOT_LOADED & set((values.get("rel") or "").split()):
            self.found.append(address)


def faults(site: Path) -> Iterator[str]:
    """One line for each address that is elsewhere or leads to nothing."""
    for page in sorted(site.rglob("*.html")):
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        for address in loads.found:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                yield f"{page.relative_to(site)} loads {address}"
                continue
            base = site if parts.path.startswith("/") else page.parent
            if not (base / unquote(parts.path).lstrip("/")).exists():
                yield f"{page.relative_to(site)}: {address} is missing"
    for style in sorted(site.rglob("*.css")):
        if IMPORT.search(style.read_text("utf-8")):
            yield f"{style.relative_to(site)} loads a file from elsewhere"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print("\n".join(found) or "the site loads nothing from elsewhere")
    sys.exit(bool(found))
