"""marimo in a real browser: it has no ipywidgets, and shows values and the pictures of widgets."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_lab import MORTAL, ROOT, Browser, free_port, until
from browser_page import poor_contrast

if importlib.util.find_spec("marimo") is None:
    pytest.skip(
        "marimo is not installed: pip install -e '.[front-ends]', as .ci/run does",
        allow_module_level=True,
    )

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
    port, log = free_port(), home / "log"
    words = [sys.executable, "-c", MORTAL, "-m", "marimo", "run", "book.py", "--headless"]
    words += ["--no-token", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment["XDG_CONFIG_HOME"] = environment["XDG_STATE_HOME"] = str(home)
    with log.open("w") as out:
        server = subprocess.Popen(words, cwd=home, env=environment, stdout=out, stderr=out)
    until(lambda: "http" in log.read_text(), lambda: f"marimo's start: {log.read_text()}", 60)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


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
