"""nbclassic in a real browser: widgets are live there, and their picture is shown where none is."""

from __future__ import annotations

from typing import Any

import pytest
from browser_lab import Browser, until
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


def run(browser: Browser, dark: bool = False) -> Any:
    """A page on which all cells have run."""
    page = browser.classic(browser.lab.write("classic.ipynb", CELLS), dark)
    page.evaluate(RUN)
    page.wait_for_function(ENDED)
    for number in (VIEW, PANEL):
        areas(page, number).locator(LIVE).first.wait_for()
    return page


def areas(page: Any, number: int) -> Any:
    """The outputs of a code cell."""
    return page.locator(".code_cell").nth(number).locator(".output_area")


def keep(browser: Browser, page: Any, name: str) -> None:
    """A picture of each cell."""
    for number in range(VALUE, LOOP + 1):
        cell = page.locator(".code_cell").nth(number)
        cell.screenshot(path=str(browser.pictures / f"classic-{name}-{number}.png"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_live_widget_hides_its_picture(browser: Browser, dark: bool) -> None:
    page = run(browser, dark)
    for number in (VIEW, PANEL):
        live, twin = areas(page, number).all()
        assert live.is_visible() and not twin.is_visible()
        assert poor_contrast(live, ".prompt") == []
    assert poor_contrast(areas(page, VALUE).first, ".prompt") == []
    keep(browser, page, "dark" if dark else "light")
    bar, line = areas(page, LOOP).all()
    assert not bar.is_visible() and "done in" in line.inner_text()
    image = areas(page, VIEW).locator("img").first
    before = image.get_attribute("src")
    areas(page, VIEW).get_by_label("axis 0", exact=True).press("ArrowUp")
    until(lambda: image.get_attribute("src") != before, "another heat map")


def test_where_no_widget_is_left_its_picture_is_shown(browser: Browser) -> None:
    run(browser).evaluate(SAVE)
    browser.close_books()
    page = browser.classic("classic.ipynb")  # with a kernel that knows of no widget
    for number, word in ((VIEW, "w[0, :, :]"), (PANEL, "image_data_format")):
        gone, twin = areas(page, number).all()
        assert not gone.is_visible() and twin.is_visible()
        assert word in twin.inner_text()
        assert poor_contrast(twin, ".prompt") == []
    keep(browser, page, "saved")
