"""The widgets in a real browser: they follow, work while the kernel is busy, and fit everybody."""

from __future__ import annotations

from typing import Any

import pytest
from browser_lab import Book, Browser, until
from browser_page import blank, controls, poor_contrast, unreached

pytestmark = pytest.mark.slow

START = """%load_ext kbench
import os, time
import numpy as np
import kbench
from kbench import backend as K
from kbench.engine.runtime import config
from kbench.notebook import ConfigPanel, TensorView, VariableTable, explorer
w = K.variable(np.random.RandomState(0).normal(size=(4, 6, 8)), name="w")
bad = np.array([[1.0, np.nan], [np.inf, 4.0]])
x = K.placeholder((None, 8), name="x")
h = K.relu(K.dot(x, K.ones((8, 3))))
f = K.function([x], [K.softmax(h)], name="f")"""
AREA = ".jp-Cell-outputArea"
IMAGE = ".jp-OutputArea-output img[src^='data:image/png']"


def shown(browser: Browser, *cells: str, then: str = "", dark: bool = False) -> Book:
    """A notebook of these cells after one that imports, all run; a cell `then` not yet."""
    later = [then] if then else []
    book = browser.open(browser.lab.write("book.ipynb", [START, *cells, *later]), dark)
    for number in range(len(cells) + 1):
        book.run(number)
    return book


def source(book: Book, number: int) -> str:
    """The bytes of the picture that a cell shows, as they stand on the page."""
    return str(book.cell(number).locator(IMAGE).last.get_attribute("src"))


def test_a_stepper_changes_the_heat_map(browser: Browser) -> None:
    book = shown(browser, "TensorView(w, 'w', mode='heat map')")
    before = source(book, 1)
    book.cell(1).get_by_label("axis 0", exact=True).press("ArrowUp")
    until(lambda: source(book, 1) != before, "another heat map")
    index = book.cell(1).get_by_label("index")
    until(lambda: index.input_value() == "[1, :, :]", "the index following")
    assert book.cell(1).locator(IMAGE).first.get_attribute("alt") == "heat map of w[1, :, :]"
    assert book.said == []


def test_a_slider_changes_the_heat_map(browser: Browser) -> None:
    code = "def squash(x, by=1.0): return K.tanh(x * by)\nkbench.explore(squash, w, by=(0.5, 4.0))"
    book = shown(browser, code)
    cell = book.cell(1)
    cell.get_by_role("button", name="heat map").click()
    until(lambda: cell.locator(IMAGE).count(), "the heat map")
    before = source(book, 1)
    field = cell.get_by_role("spinbutton", name="by", exact=True)
    first = float(field.input_value())
    drag(book, cell.locator(".noUi-touch-area"), 40)
    until(lambda: source(book, 1) != before, "another heat map")
    until(lambda: float(field.input_value()) > first, "the field following")
    until(lambda: f"squash(w, by={field.input_value()})" in cell.inner_text(), "the line of code")
    before, second = source(book, 1), float(field.input_value())
    field.press("ArrowUp")
    until(lambda: source(book, 1) != before, "another heat map")
    until(lambda: float(field.input_value()) > second, "the field following")
    # ipywidgets gives a slider no name: for those who do not see it, there is the field alone.
    found = controls(book.page, cell.locator(AREA))
    assert [one for one in found if not one.name] == [] and len(found) > 3
    assert cell.get_by_role("slider").count() == 0
    assert cell.locator("[role=slider]").count() == 1
    assert unreached(book.page, cell.locator(AREA)) == []
    book.picture("slider", cell)
    assert book.said == []


def drag(book: Book, what: Any, far: int) -> None:
    """Drag something to the right with the mouse."""
    box = what.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    book.page.mouse.move(x, y)
    book.page.mouse.down()
    book.page.mouse.move(x + far, y, steps=4)
    book.page.mouse.up()


def test_a_new_value_changes_the_heat_map(browser: Browser) -> None:
    book = shown(
        browser, "TensorView(w, 'w', mode='heat map')", then="K.set_value(w, 2 - K.eval(w))"
    )
    before = source(book, 1)
    book.run(2)
    until(lambda: source(book, 1) != before, "another heat map")
    assert book.said == []


def test_floatx_in_python_and_in_the_panel(browser: Browser) -> None:
    book = shown(
        browser, "ConfigPanel()", "K.set_floatx('float64')", then="K.floatx(), K.epsilon()"
    )
    field = book.cell(1).get_by_label("floatx")
    until(lambda: field.input_value() == "float64", "the panel following Python")
    field.select_option("float16")
    book.cell(1).get_by_label("epsilon").fill("0.25")
    book.cell(1).get_by_label("epsilon").press("Enter")
    until(lambda: "('float16', 0.25)" in book.run(3), "Python following the panel")
    assert book.said == []


def test_the_symbolic_phase_can_be_chosen_again(browser: Browser) -> None:
    book = shown(browser, "ConfigPanel()", then="repr(config.snapshot()['learning_phase'])")
    field = book.cell(1).get_by_label("learning_phase")
    field.select_option("1, training")
    until(lambda: "1" in book.run(2), "the training phase")
    field.select_option("per call (test unless fed)")
    until(lambda: "None" in book.run(2), "the symbolic phase")
    assert blank(book.cell(1)) == []
    assert book.said == []


def test_a_refused_setting_is_told(browser: Browser) -> None:
    book = shown(browser, "ConfigPanel()")
    field = book.cell(1).get_by_label("epsilon")
    field.fill("<b>much</b>")
    field.press("Enter")
    until(lambda: "epsilon was not changed" in book.cell(1).inner_text(), "the refusal")
    until(lambda: field.input_value() == "1e-07", "the value as it was")
    assert book.said == []


@pytest.mark.parametrize(
    "work",
    ["time.sleep(0.05)", "sum(range(20_000))", "f([np.ones((20_000, 8))])"],
    ids=["sleep", "loop", "kernel"],
)
def test_paging_while_the_kernel_is_busy(browser: Browser, work: str) -> None:
    go = browser.lab.notebooks / "go"
    go.unlink(missing_ok=True)
    book = shown(
        browser,
        "TensorView(w, 'w', mode='heat map')",
        then=f"while not os.path.exists('go'):\n    {work}",
    )
    before = source(book, 1)
    try:
        book.start(2)
        prompt = book.cell(2).locator(".jp-InputArea-prompt")
        until(lambda: "[*]" in prompt.inner_text(), "the cell's start")
        book.cell(1).get_by_label("axis 0", exact=True).press("ArrowUp")
        until(lambda: source(book, 1) != before, "another heat map")
        assert "[*]" in prompt.inner_text()
        go.touch()
        until(lambda: "[*]" not in prompt.inner_text(), "the cell's end")
    finally:
        go.touch()
    assert book.said == []


def test_exploring_a_function(browser: Browser) -> None:
    book = shown(browser, "kbench.explore(K.conv2d)")
    cell = book.cell(1)
    says = lambda words: until(lambda: words in cell.inner_text(), words)  # noqa: E731
    says("float32[1, 14, 14, 4]")
    cell.get_by_label("padding").select_option("'same'")
    says("float32[1, 16, 16, 4]")
    says("K.conv2d(x, kernel, padding='same')")
    cell.get_by_label("strides").select_option("(2, 2)")
    says("float32[1, 8, 8, 4]")
    cell.get_by_label("dilation_rate").select_option("(2, 2)")
    says("dilation")
    until(lambda: cell.locator(".kb-bad").first.is_visible(), "the refusal in words")
    book.picture("explore-refused", cell)
    cell.get_by_label("function").select_option("conv1d")
    says("K.conv1d(")
    assert book.said == []


WIDGETS = {
    "settings": "ConfigPanel()",
    "names": "VariableTable()",
    "numbers": "TensorView(w, 'w')",
    "heat-map": "TensorView(w, 'w', mode='heat map')",
    "explorer": "explorer()",
    "explore": "kbench.explore('softmax', w)",
    "variable": "w",
    "array": "from kbench.notebook import show\nshow(bad)",
    "tensor": "K.softmax(h)",
    "run": "%%profile\nf([np.ones((4, 8))])",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_read_and_reach_everything(browser: Browser, dark: bool) -> None:
    book = shown(browser, *WIDGETS.values(), dark=dark)
    wrong = []
    for number, name in enumerate(WIDGETS, 1):
        cell = book.cell(number)
        cell.scroll_into_view_if_needed()
        book.picture(name, cell)
        area = cell.locator(".jp-Cell-outputArea")
        wrong += [f"{name}: too faint: {one}" for one in poor_contrast(area, ".jp-OutputPrompt")]
        found = controls(book.page, area)
        wrong += [f"{name}: no name: {one}" for one in found if not one.name.strip()]
        wrong += [f"{name}: no role: {one}" for one in found if one.role in ("", "generic")]
        wrong += [f"{name}: nothing chosen: {one}" for one in blank(area)]
        wrong += [f"{name}: out of reach: {one}" for one in unreached(book.page, area)]
    assert not wrong, "\n".join(wrong)
    assert book.said == []


# ------------------------------------------------------------------ pictures of the documentation

MODEL = """%load_ext kbench
import numpy as np, kbench
from kbench import backend as K

draw = np.random.RandomState(7)
x, t = K.placeholder((None, 16), name="x"), K.placeholder((None, 4), name="t")
first = K.variable(draw.normal(0, 0.5, (16, 24)), name="first")
last = K.variable(draw.normal(0, 0.5, (24, 4)), name="last")
y = K.softmax(K.dot(K.relu(K.dot(x, first)), last), axis=-1)
loss = K.mean(K.categorical_crossentropy(t, y))
slopes = K.gradients(loss, [first, last])
train = K.function([x, t], [loss], name="train",
                   updates=[K.update_sub(w, 0.1 * g) for w, g in zip([first, last], slopes)])"""
BATCH = """batch = draw.normal(size=(32, 16)), np.eye(4)[draw.randint(0, 4, 32)]
for step in range(50): train(batch)"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_of_the_documentation(browser: Browser, dark: bool) -> None:
    """With KBENCH_BROWSER_PICTURES=docs these are the pictures of docs/notebook.md."""
    book = browser.open(browser.lab.write("model.ipynb", [MODEL, "kbench.explorer()", BATCH]), dark)
    for number in range(3):
        book.run(number)
    whole = book.cell(1)
    title = "Gradients" if dark else "Value"
    whole.locator(".widget-tab > .lm-TabBar .lm-TabBar-tab", has_text=title).click()
    if dark:
        whole.get_by_label("look into").select_option("first")
    else:
        whole.get_by_label("name", exact=True).select_option("first")
    button = whole.get_by_role("button", name="heat map").locator("visible=true")
    button.click()
    until(lambda: whole.locator(IMAGE).locator("visible=true").count(), "the heat map")
    book.wait_idle()
    book.page.mouse.move(0, 0)
    book.picture("notebook", whole)
    assert book.said == []
