"""nbclassic in a real browser: widgets are live there, and their picture is shown where none is."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from browser_lab import WIDGET_CELLS, Browser, Lab, skip_without, until
from browser_page import controls, poor_contrast

skip_without("nbclassic")
pytestmark = pytest.mark.slow

CELLS = (
    f"%load_ext kbench\nimport time\n{WIDGET_CELLS[0]}",
    *WIDGET_CELLS[1:],
    "print(K.floatx())",
)
# Long enough for a bar on a machine that is busy: one is shown from half a second on.
BAR = "for _ in kbench.progress(range(40), name='step'):\n    time.sleep(0.1)"
VALUE, VIEW, GRAPH, PANEL, FLOATX, LOOP = range(1, 7)
"""Numbers of the cells."""
LIVE = ".jupyter-widgets .jupyter-widgets"
RUN = "numbers => { Jupyter.notebook.execute_cells(numbers); }"
ENDED = r"""numbers => numbers.every(number => /\[\d+\]/.test(
    document.querySelectorAll('.code_cell .input_prompt')[number].textContent))"""
SAVE = """() => new Promise(done => {
    Jupyter.notebook.events.one('notebook_saved.Notebook', done);
    Jupyter.notebook.save_notebook();
})"""
# The classes of kbench's elements that a rule of nbclassic's own style sheets names.
SHARED = r"""() => {
    const ours = new Set([...document.querySelectorAll('.kb-v, .kb-v *')].flatMap(
        one => [...one.classList]));
    const rules = [...document.styleSheets].filter(one => one.href).flatMap(
        one => [...one.cssRules]);
    const named = new Set(rules.flatMap(one => one.cssText.match(/\.[a-z][\w-]*/gi) ?? []));
    const both = [...ours].filter(one => named.has('.' + one));
    return {count: named.size, ours: ours.size, both};
}"""


def written(lab: Lab) -> str:
    """The notebook; a cell at its end shows a widget that is gone, which nbclassic draws anew."""
    name = lab.write("classic.ipynb", [*CELLS, BAR, "'a widget that is gone'"])
    book = nbformat.read(lab.notebooks / name, as_version=4)
    view = {"model_id": "gone", "version_major": 2, "version_minor": 0}
    data = {"application/vnd.jupyter.widget-view+json": view, "text/plain": "gone"}
    book.cells[-1].outputs = [nbformat.v4.new_output("display_data", data)]
    nbformat.write(book, lab.notebooks / name)
    return name


def run(browser: Browser, dark: bool = False, width: int = 1280) -> Any:
    """A page on which all cells have run but the one with a bar."""
    page = browser.classic(written(browser.lab), dark, width)
    execute(page, *range(len(CELLS)))
    for number in (VIEW, GRAPH, PANEL):
        areas(page, number).locator(LIVE).first.wait_for()
        areas(page, number).nth(1).wait_for(state="attached")  # the picture
    return page


def execute(page: Any, *numbers: int) -> None:
    """Run code cells and wait for their end."""
    page.evaluate(RUN, list(numbers))
    page.wait_for_function(ENDED, arg=list(numbers))


def areas(page: Any, number: int) -> Any:
    """The outputs of a code cell."""
    return page.locator(".code_cell").nth(number).locator(".output_area")


def seen_alone(seen: Any, hidden: Any) -> None:
    """Wait until of a widget and its picture this one is seen and that one is not."""
    until(
        lambda: seen.is_visible() and not hidden.is_visible(),
        lambda: f"{seen.inner_html()} without {hidden.inner_html()}",
    )


def keep(browser: Browser, page: Any, name: str) -> None:
    """A picture of each cell."""
    for number in range(VALUE, LOOP + 1):
        cell = page.locator(".code_cell").nth(number)
        cell.screenshot(path=str(browser.pictures / f"classic-{name}-{number}.png"))


@pytest.mark.parametrize(
    ("dark", "width"), [(False, 1280), (True, 800)], ids=["light-1280", "dark-800"]
)
def test_widgets_are_live_and_hide_their_pictures(browser: Browser, dark: bool, width: int) -> None:
    page = run(browser, dark, width)
    for number in (VIEW, GRAPH, PANEL):
        live, twin = areas(page, number).all()
        seen_alone(live, twin)
        assert poor_contrast(live, ".prompt") == []
        assert [one for one in controls(page, live) if not one.name.strip()] == []
    folded = areas(page, VALUE).locator("summary").first
    assert folded.evaluate("one => getComputedStyle(one).display") == "list-item"  # its triangle
    assert poor_contrast(areas(page, VALUE).first, ".prompt") == []
    execute(page, LOOP)
    until(lambda: areas(page, LOOP).count() == 2, "the bar, and the line that is left of it")
    bar, line = areas(page, LOOP).all()
    until(lambda: "done in" in line.inner_text(), line.inner_text)
    until(lambda: not bar.is_visible(), "the end of the bar")
    keep(browser, page, f"{'dark' if dark else 'light'}-{width}")
    assert page.evaluate("() => window.drawnAgain") == 1  # nothing was drawn anew meanwhile


def test_clicks_and_keys_reach_python(browser: Browser) -> None:
    page = run(browser)
    image = areas(page, VIEW).locator("img").first
    before = image.get_attribute("src")
    areas(page, VIEW).get_by_label("axis 0", exact=True).press("ArrowUp")
    until(lambda: image.get_attribute("src") != before, "another heat map")
    graph = areas(page, GRAPH).first
    graph.locator(".kb-hits").get_by_role("button", name="relu", exact=False).click()
    until(lambda: "made at" in graph.inner_text(), graph.inner_text)
    areas(page, PANEL).get_by_label("floatx").select_option("float16")

    def told() -> bool:
        execute(page, FLOATX)
        return "float16" in areas(page, FLOATX).first.inner_text()

    until(told, "Python following the panel")


def test_no_class_is_one_of_nbclassics(browser: Browser) -> None:
    found = run(browser).evaluate(SHARED)
    assert found["both"] == [] and found["count"] > 100 and found["ours"] > 3


def test_where_no_widget_is_left_its_picture_is_shown(browser: Browser) -> None:
    page = run(browser)
    execute(page, LOOP, LOOP + 1)  # a notebook is trusted whose cells have all been run
    page.evaluate(SAVE)
    browser.close_books()
    page = browser.classic("classic.ipynb")  # with a kernel that knows of no widget
    for number, word in ((VIEW, "w[0, :, :]"), (GRAPH, "softmax"), (PANEL, "image_data_format")):
        gone, twin = areas(page, number).all()
        seen_alone(twin, gone)
        assert word in twin.text_content()  # of a graph in the list below its image
        assert poor_contrast(twin, ".prompt") == []
    keep(browser, page, "saved")
