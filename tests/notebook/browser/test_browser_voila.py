"""Voila in a real browser: a notebook as a page, whose widgets are live."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser_lab import MORTAL, ROOT, Browser, free_port, until
from browser_page import poor_contrast

if importlib.util.find_spec("voila") is None:
    pytest.skip(
        "voila is not installed: pip install -e '.[front-ends]', as .ci/run does",
        allow_module_level=True,
    )

pytestmark = pytest.mark.slow

CELLS = (
    """import numpy as np
import kbench
from kbench import backend as K
w = K.variable(np.random.RandomState(0).normal(size=(4, 6, 8)), name="w")
y = K.softmax(K.relu(w))""",
    "w",
    "kbench.TensorView(w, 'w', mode='heat map')",
    "kbench.GraphView(y)",
    "kbench.ConfigPanel()",
)
WIDGETS = 3
"""How many of the cells show one."""


@contextmanager
def voila(home: Path, theme: str) -> Iterator[str]:
    """Where Voila shows the notebook; it listens on the loopback address alone."""
    book = nbformat.v4.new_notebook()
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    book.cells = [nbformat.v4.new_code_cell(code) for code in CELLS]
    nbformat.write(book, home / "book.ipynb")
    port, log = free_port(), home / "log"
    words = [sys.executable, "-c", MORTAL, "-m", "voila", "book.ipynb", "--no-browser"]
    words += [f"--theme={theme}", "--Voila.ip=127.0.0.1", f"--port={port}"]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(home / name.lower())
    with log.open("w") as out:
        server = subprocess.Popen(words, cwd=home, env=environment, stdout=out, stderr=out)
    until(lambda: "is running at" in log.read_text(), lambda: f"Voila: {log.read_text()}", 60)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


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
