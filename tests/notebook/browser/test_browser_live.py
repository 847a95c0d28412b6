"""In a real browser: widgets follow a loop while its cell trains."""

from __future__ import annotations

from typing import Any

import pytest
from browser_lab import Book, Browser, until
from browser_page import blank, controls, poor_contrast

pytestmark = pytest.mark.slow

MODEL = """%load_ext kbench
import time
import numpy as np
import kbench
from kbench import backend as K

draw = np.random.RandomState(0)
x, t = K.placeholder((None, 8), name="x"), K.placeholder((None, 3), name="t")
w = K.variable(draw.normal(size=(8, 3)), name="w")
loss = K.mean(K.square(K.dot(x, w) - t))
slopes = K.gradients(loss, [w])
train = K.function([x, t], [loss], [K.update_sub(w, 1e-3 * slopes[0])], name="train")
batch = [draw.normal(size=(32, 8)), draw.normal(size=(32, 3))]
train(batch)"""
WATCH = "watch = kbench.WatchList(['K.std(w)', 'loss'])\nwatch"
SLOPES = "slope = kbench.GradPanel('loss')\nslope"
TRAIN = """end = time.monotonic() + 300
while '1 + 1' not in watch.expressions and time.monotonic() < end:
    train(batch)"""


def opened(browser: Browser, *cells: str, dark: bool) -> Book:
    book = browser.open(browser.lab.write("live.ipynb", [MODEL, *cells]), dark)
    for number, cell in enumerate((MODEL, *cells)):
        if cell != TRAIN:
            book.run(number)
    return book


def says(book: Book, number: int, words: str) -> None:
    """Wait until the output of a cell shows the words."""
    area = book.cell(number).locator(".jp-Cell-outputArea")
    until(lambda: words in area.inner_text(), lambda: f"{words!r} in {area.inner_text()!r}")


def has_curve(area: Any) -> None:
    """Wait until an output has a curve in sight.

    One of a value that has settled is a level line: its own box has no height, that of its svg has.
    """
    curve = area.locator("svg:has(path[d*='L'])").first
    until(curve.is_visible, lambda: f"a curve in {area.inner_html()}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_widgets_follow_a_loop_while_it_trains(browser: Browser, dark: bool) -> None:
    book = opened(browser, WATCH, SLOPES, TRAIN, dark=dark)
    book.cell(1).scroll_into_view_if_needed()
    book.start(3)
    for number in (1, 2):
        says(book, number, "updated up to 4 times a second while the cell runs")
        says(book, number, "calls of train")
        area = book.cell(number).locator(".jp-OutputArea-child").first
        has_curve(area)
        assert poor_contrast(area) == [] and blank(area) == []
        assert [one for one in controls(book.page, area) if not one.name] == []
        book.picture(f"live-{number}", area)
    field = book.cell(1).get_by_label("expression", exact=True).locator("visible=true")
    field.fill("1 + 1")
    field.press("Enter")  # which the loop waits for
    book.wait_idle()
    until(lambda: "while the cell" not in book.cell(1).inner_text(), "the end of the loop")
    assert book.said == []
