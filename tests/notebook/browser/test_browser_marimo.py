"""marimo in a real browser: it has no ipywidgets, and shows values and the pictures of widgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_lab import Browser, free_port, serving, skip_without
from browser_page import poor_contrast

skip_without("marimo")
pytestmark = pytest.mark.slow

BOOK = """
import marimo
app = marimo.App()

@app.cell
def _():
    import numpy as np
    import kbench
    w = kbench.variable(np.random.RandomState(0).normal(size=(3, 2)), name="w")
    w
    return kbench, w

@app.cell
def _(kbench, w):
    kbench.TensorView(w, "w", mode="heat map")
    return

@app.cell
def _(kbench, w):
    kbench.GraphView(kbench.softmax(kbench.dot(w, kbench.ones((2, 4)))))
    return
"""
SEEN = (("variable", "float32[3, 2]"), ("w[:, :]",), ("softmax", "float32[3, 4]"))
"""Words of each cell."""


def dark(page: Any) -> bool:
    """Whether marimo's own theme is the dark one."""
    return bool(page.evaluate("() => getComputedStyle(document.body).colorScheme === 'dark'"))


@contextmanager
def marimo(home: Path, theme: str) -> Iterator[str]:
    """Where marimo shows the book; it listens on the loopback address alone."""
    (home / "book.py").write_text(BOOK)
    (home / "pyproject.toml").write_text(f'[tool.marimo.display]\ntheme = "{theme}"\n')
    port = free_port()
    words = ["marimo", "run", "book.py", "--headless", "--no-token", "--host", "127.0.0.1"]
    folders = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(home))
    with serving([*words, "--port", str(port)], home, folders, "http"):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_values_and_pictures_of_widgets(browser: Browser, tmp_path: Path, theme: str) -> None:
    page = browser.page(dark=theme == "light")  # the system prefers the other theme
    with marimo(tmp_path, theme) as address:
        page.goto(address)
        page.locator(".kb-v").nth(len(SEEN) - 1).wait_for()
        page.screenshot(path=str(browser.pictures / f"marimo-{theme}.png"))
        assert dark(page) is (theme == "dark")
        for number, words in enumerate(SEEN):
            area = page.locator(".kb-v").nth(number)
            text = area.text_content()  # of a graph in the list below its image
            assert [word for word in words if word not in text] == [], text
            assert poor_contrast(area) == []
        assert "not supported in marimo" not in page.locator("body").inner_text()
