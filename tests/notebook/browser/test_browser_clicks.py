"""What can be clicked in a widget's picture: nodes of a graph, heads and rows of tables."""

from __future__ import annotations

from typing import Any

import pytest
from browser_lab import Book, Browser, until
from browser_page import controls, poor_contrast, unreached

pytestmark = pytest.mark.slow

START = """%load_ext kbench
import numpy as np
from kbench import backend as K
from kbench.notebook import GraphView, PlanTable, TensorView, VariableTable
draw = np.random.RandomState(0)
x = K.placeholder((None, 8), name="x")
w = K.variable(draw.normal(size=(8, 3)), name="a_kernel_with_quite_a_long_name_of_its_own")
mean, var = K.variable(np.zeros(3), name="mean"), K.variable(np.ones(3), name="var")
y = K.softmax(K.batch_normalization(K.relu(K.dot(x, w)), mean, var, mean, var))
f = K.function([x], [y], name="f")
f([draw.normal(size=(4, 8))])"""
AREA = ".jp-Cell-outputArea"
WIDTHS = (800, 1280)


def opened(browser: Browser, code: str, dark: bool = False, width: int = 1280) -> tuple[Book, Any]:
    """A notebook whose second cell shows a widget; the cell."""
    book = browser.open(browser.lab.write("clicks.ipynb", [START, code]), dark)
    if width != WIDTHS[-1]:
        book.page.set_viewport_size({"width": width, "height": 1200})
    book.run(0)
    book.run(1)
    return book, book.cell(1)


def says(cell: Any, words: str) -> None:
    """Wait until the cell says the words."""
    until(lambda: words in cell.inner_text(), lambda: f"{words!r} in {cell.inner_text()}")


def test_a_node_of_a_graph_tells_its_facts_and_a_call_opens(browser: Browser) -> None:
    book, cell = opened(browser, "GraphView('y')")
    hits = cell.locator(".kb-hits")
    hits.get_by_role("button", name="relu", exact=False).click()
    says(cell, "made at")
    says(cell, "last call")
    composite = hits.get_by_role("button", name="add_1 batch_normalization")
    lies_over = """one => { const box = one.getBoundingClientRect();
        const svg = one.closest('.kb-canvas').querySelector('svg');
        const found = [...svg.querySelectorAll('text')].find(
            text => text.textContent == 'batch_normalization').getBoundingClientRect();
        return box.left <= found.left && found.right <= box.right
            && box.top <= found.top && found.bottom <= box.bottom; }"""
    until(lambda: composite.evaluate(lies_over), "the button over the box of its node")
    composite.press("Enter")
    says(cell, "part of")
    until(lambda: hits.get_by_role("button").count() > 8, "the operations of the call")
    cell.get_by_role("button", name="close", exact=True).click()
    until(lambda: hits.get_by_role("button").count() < 8, "the call as one node")
    assert book.said == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_graph_labels_are_whole_and_legible(browser: Browser, dark: bool, width: int) -> None:
    book, cell = opened(browser, "GraphView('y')", dark, width)
    cell.locator(".kb-hits button").nth(1).click()
    says(cell, "made at")
    clipped = cell.locator(".kb-canvas svg").evaluate(
        """svg => [...svg.querySelectorAll('g')].flatMap(node => {
            const box = node.querySelector('rect').getBoundingClientRect();
            return [...node.querySelectorAll('text[text-anchor=middle]')].filter(text => {
                const own = text.getBoundingClientRect();
                return own.left < box.left || own.right > box.right || own.bottom > box.bottom;
            }).map(text => text.textContent);
        })"""
    )
    assert clipped == []
    assert "…" not in cell.locator(".kb-canvas svg").inner_html()
    area = cell.locator(AREA)
    assert poor_contrast(area, ".jp-OutputPrompt") == []
    assert [one for one in controls(book.page, area) if not one.name.strip()] == []
    assert unreached(book.page, area) == []
    book.picture(f"graph-{width}", cell)
    assert book.said == []


MANY = "many = {f'name_{at:03d}': np.ones(at + 1) for at in range(120)}\nVariableTable(many)"


def test_a_table_sorts_pages_and_opens_rows(browser: Browser) -> None:
    book, cell = opened(browser, MANY)
    says(cell, "120 names, 1-25")
    heads, firsts = cell.locator(".kb-heads"), cell.locator(".kb-firsts button")
    until(lambda: firsts.first.inner_text() == "name_000", "the first page")
    heads.get_by_role("button", name="size").click()
    until(lambda: firsts.first.inner_text() == "name_119", "the largest first")
    heads.get_by_role("button", name="size").click()
    until(lambda: firsts.first.inner_text() == "name_000", "the other way round")
    cell.get_by_role("button", name="next").click()
    says(cell, "120 names, 26-50")
    until(lambda: firsts.first.inner_text() == "name_025", "the second page")
    firsts.first.click()
    says(cell, "float64[26]")
    until(lambda: "values" in cell.inner_text(), "the details of the row")
    assert book.said == []


CELLS = """grid => {
    const boxes = [...grid.querySelectorAll('td, button')].filter(
        one => one.checkVisibility()).map(one => one.getBoundingClientRect());
    const over = (a, b) => a.left < b.right - 2 && b.left < a.right - 2
        && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    return boxes.flatMap((a, at) => boxes.slice(at + 1).filter(b => over(a, b))).length;
}"""
TABLES = {"names": "VariableTable()", "plan": "PlanTable(f)"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_fit(browser: Browser, name: str, dark: bool, width: int) -> None:
    """Columns go whole where there is no room; no cell lies over another, none is cut."""
    book, cell = opened(browser, TABLES[name], dark, width)
    grid = cell.locator(".kb-grid:has(td)")
    heads = grid.locator(".kb-heads button").locator("visible=true")
    until(lambda: grid.locator("td").count() and heads.count() >= 2, "the cells and their heads")
    assert grid.evaluate(CELLS) == 0
    assert grid.evaluate("grid => grid.scrollWidth - grid.clientWidth") <= 0
    assert (heads.count() < 6) if width == WIDTHS[0] else (heads.count() >= 6)
    grid.locator(".kb-firsts button").first.click()
    book.wait_idle()
    area = cell.locator(AREA)
    assert poor_contrast(area, ".jp-OutputPrompt") == []
    assert [one for one in controls(book.page, area) if not one.name.strip()] == []
    assert unreached(book.page, area) == []
    book.picture(f"{name}-{width}", cell)
    assert book.said == []
