"""nbclassic in a real browser: widgets are live there, and their picture is shown where none is.

Outputs and the end of a cell come on two channels, in any order: what is looked at is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from browser_lab import LOST_WIDGET, Browser, until
from browser_page import poor_contrast

pytestmark = pytest.mark.slow

CELLS = (
    """%load_ext kbench
import time
import numpy as np
import kbench
w = kbench.variable(np.random.RandomState(0).normal(size=(4, 6, 8)), name="w")""",
    "w",
    "kbench.TensorView(w, 'w', mode='heat map')",
    "kbench.ConfigPanel()",
    "for _ in kbench.progress(range(8), name='step'):\n    time.sleep(0.1)",
)
VALUE, VIEW, PANEL, LOOP = range(1, 5)
"""Numbers of the cells."""
LIVE = ".jupyter-widgets .jupyter-widgets"
RUN = "() => { Jupyter.notebook.execute_all_cells(); }"
ENDED = r"""() => [...document.querySelectorAll('.code_cell .input_prompt')].every(
    one => /\[\d+\]/.test(one.textContent))"""
SAVE = """() => new Promise(done => {
    Jupyter.notebook.events.one('notebook_saved.Notebook', done);
    Jupyter.notebook.save_notebook();
})"""


def write(browser: Browser) -> str:
    """A notebook with a saved widget, by which one sees when nbclassic has drawn its cells."""
    name = browser.lab.write("classic.ipynb", CELLS)
    file = browser.lab.notebooks / name
    notebook = nbformat.read(file, as_version=4)
    notebook.cells[PANEL].outputs = [nbformat.v4.new_output("display_data", LOST_WIDGET)]
    nbformat.write(notebook, file)
    return name


def run(browser: Browser, dark: bool = False) -> Any:
    """A page on which all cells have run, and whose widgets are live."""
    page = browser.classic(write(browser), dark)
    page.evaluate(RUN)
    page.wait_for_function(ENDED)
    for number in (VIEW, PANEL):
        areas(page, number).locator(LIVE).first.wait_for()
    return page


def areas(page: Any, number: int) -> Any:
    """The outputs of a code cell."""
    return page.locator(".code_cell").nth(number).locator(".output_area")


def both(page: Any, number: int, shown: Callable[[Any, Any], bool]) -> tuple[Any, Any]:
    """The two outputs of a cell, when they are there and shown as they should be."""

    def found() -> bool:
        parts = areas(page, number)
        return parts.count() == 2 and shown(parts.nth(0), parts.nth(1))

    def seen() -> str:
        parts = [(one.is_visible(), one.inner_text()) for one in areas(page, number).all()]
        return f"the two outputs of cell {number}, which are {parts}"

    until(found, seen)
    return areas(page, number).nth(0), areas(page, number).nth(1)


def only_first(first: Any, second: Any) -> bool:
    return bool(first.is_visible() and not second.is_visible())


def only_second(first: Any, second: Any) -> bool:
    return bool(second.is_visible() and not first.is_visible())


def keep(browser: Browser, page: Any, name: str) -> None:
    """A picture of each cell."""
    for number in range(VALUE, LOOP + 1):
        cell = page.locator(".code_cell").nth(number)
        cell.screenshot(path=str(browser.pictures / f"classic-{name}-{number}.png"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_live_widget_hides_its_picture(browser: Browser, dark: bool) -> None:
    page = run(browser, dark)
    for number in (VIEW, PANEL):
        live, _twin = both(page, number, only_first)
        assert poor_contrast(live, ".prompt") == []
    areas(page, VALUE).first.wait_for()
    assert poor_contrast(areas(page, VALUE).first, ".prompt") == []
    _bar, line = both(page, LOOP, only_second)
    assert "done in" in line.inner_text()
    keep(browser, page, "dark" if dark else "light")
    image = areas(page, VIEW).locator("img").first
    before = image.get_attribute("src")
    areas(page, VIEW).get_by_label("axis 0", exact=True).press("ArrowUp")
    until(lambda: image.get_attribute("src") != before, "another heat map")


def test_where_no_widget_is_left_its_picture_is_shown(browser: Browser) -> None:
    page = run(browser)
    for number in (VIEW, PANEL):
        both(page, number, only_first)
    page.evaluate(SAVE)
    browser.close_books()
    page = browser.classic("classic.ipynb")  # with a kernel that knows of no widget
    for number, word in ((VIEW, "w[0, :, :]"), (PANEL, "image_data_format")):
        _gone, twin = both(page, number, only_second)
        assert word in twin.inner_text()
        assert poor_contrast(twin, ".prompt") == []
    keep(browser, page, "saved")
