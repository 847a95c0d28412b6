"""Voila in a real browser: a notebook as a page, whose widgets are live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser_lab import WIDGET_CELLS, Browser, free_port, serving, skip_without, until
from browser_page import poor_contrast

skip_without("voila")
pytestmark = pytest.mark.slow

WIDGETS = 3
"""How many of the cells show one."""


@contextmanager
def voila(home: Path, theme: str) -> Iterator[str]:
    """Where Voila shows the notebook; it listens on the loopback address alone."""
    book = nbformat.v4.new_notebook()
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    book.cells = [nbformat.v4.new_code_cell(code) for code in WIDGET_CELLS]
    nbformat.write(book, home / "book.ipynb")
    port = free_port()
    words = ["voila", "book.ipynb", "--no-browser", f"--theme={theme}", "--Voila.ip=127.0.0.1"]
    names = {f"JUPYTER_{name}_DIR": name.lower() for name in ("CONFIG", "DATA", "RUNTIME")}
    folders = {variable: str(home / folder) for variable, folder in names.items()}
    with serving([*words, f"--port={port}"], home, folders, "is running at"):
        yield f"http://127.0.0.1:{port}"


def shown(page: Any) -> int:
    """How many widgets are live."""
    return int(page.locator(".jp-OutputArea-child:has(.jupyter-widgets .jupyter-widgets)").count())


@pytest.mark.parametrize(
    ("theme", "width"), [("light", 1280), ("dark", 800)], ids=["light-1280", "dark-800"]
)
def test_widgets_are_live(browser: Browser, tmp_path: Path, theme: str, width: int) -> None:
    page = browser.page(dark=theme == "light")  # the system prefers the other theme
    page.set_viewport_size({"width": width, "height": 1200})
    with voila(tmp_path, theme) as address:
        page.goto(address)
        until(lambda: shown(page) == WIDGETS, "the widgets", 60)
        twins = page.locator(".kb-twin")
        until(lambda: twins.count() == WIDGETS, "their pictures", 60)
        assert not any(one.is_visible() for one in twins.all())
        assert poor_contrast(page.locator("body")) == []
        image = page.locator("img").first
        inverted = image.evaluate("one => getComputedStyle(one).filter") != "none"
        assert inverted is (theme == "dark")
        before = image.get_attribute("src")
        page.get_by_label("axis 0", exact=True).press("ArrowUp")
        until(lambda: image.get_attribute("src") != before, "another heat map")
        page.locator(".kb-hits").get_by_role("button", name="relu", exact=False).click()
        until(lambda: "made at" in page.locator("body").inner_text(), "the facts of a node")
        page.screenshot(path=str(browser.pictures / f"voila-{theme}-{width}.png"))
