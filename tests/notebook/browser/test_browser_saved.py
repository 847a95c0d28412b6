"""Lessons run whole in a real browser; and what is left of a notebook where nothing runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser_lab import Browser, until
from browser_page import poor_contrast

from kbench.workbench.lessons import lesson_files

pytestmark = pytest.mark.slow

CELLS = {
    "start": """%load_ext kbench
import numpy as np
import kbench
from kbench import backend as K
from kbench.notebook import *
w = K.variable(np.arange(24.0).reshape(2, 3, 4), name="w")
x = K.placeholder((None, 4), name="x")
v = K.variable(np.ones((4, 3)), name="v")
loss = K.mean(K.square(K.dot(x, v)))
step = K.function([x], [loss], updates=[(v, v * 0.5)])
step([np.ones((2, 4))])""",
    "panel": "ConfigPanel()",
    "table": "VariableTable()",
    "numbers": "TensorView(w, 'w')",
    "heat map": "TensorView(w, 'w', mode='heat map')",
    "image": "TensorView(np.eye(32), 'eye', mode='image')",
    "histogram": "TensorView(w, 'w', mode='histogram')",
    "watches": "WatchList(['K.mean(v)', 'w'])",
    "gradients": "GradPanel(loss)",
    "nodes": "GraphView(loss)",
    "plan": "PlanTable(step)",
    "compare": "CompareView('K.mean(v)')",
    "function": "explore('relu')",
    "explorer": "explorer()",
    "variable": "w",
    "graph": "K.softmax(K.dot(x, K.ones((4, 3))))",
    "show": "show(np.array([[1.0, np.nan], [np.inf, 4.0]]))",
    "changes": "K.set_epsilon(0.25)\nK.set_value(w, K.eval(w) + 1000)",
}
# What must still be read of each, where nothing is live and no style is kept.
LEFT = {
    "panel": ("epsilon", "0.25", "channels_last"),
    "table": ("names", "variable", "float32[2, 3, 4]", "v1"),
    "numbers": ("w[0, :, :]", "1023", "1011", "mean"),
    "heat map": ("w[0, :, :]", "1023"),
    "image": ("eye", "float64[32, 32]"),
    "histogram": ("1023", "1011"),
    "watches": ("K.mean(v)", "0.5", "mean 1012"),
    "gradients": ("d loss / d variable", "float32[4, 3]", "on x float32[2, 4]"),
    "nodes": ("graph of loss as a list",),
    "plan": ("steps", "dot", "multiply"),
    "compare": ("K.mean(v)", "compare"),
    "function": ("K.relu(x)", "float32[6, 8]"),
    "explorer": ("epsilon", "0.25", "float32[2, 3, 4]"),
    "variable": ("variable", "w:0", "version"),
    "graph": ("softmax", "not evaluated"),
    "show": ("NaN: 1, first at [0, 1]", "Inf: 1, first at [1, 0]"),
}
CANARY = (
    "<p>canary</p><script>window.canary = 'script'</script>"
    "<img src='data:,x' onerror=\"window.canary = 'event'\">"
    "<a href=\"javascript:window.canary = 'link'\">link</a>"
)


# ------------------------------------------------------------------ lessons


@pytest.mark.parametrize("number", [1, 10])
def test_a_lesson_run_whole(browser: Browser, number: int) -> None:
    lesson = lesson_files.load(number)
    notebook = nbformat.read(lesson.path, as_version=4)
    checks = []
    code = [one for one in notebook.cells if one.cell_type == "code"]
    for position, cell in enumerate(code):
        facts = cell.metadata["kbench"]
        if facts["role"] in ("exercise", "predict"):
            cell.source = lesson.exercises[facts["id"]].solution
        if facts["role"] == "check":
            checks.append((position, facts["of"]))
    nbformat.write(notebook, browser.lab.notebooks / lesson.path.name)
    book = browser.open(lesson.path.name, dark=number == 10)
    book.run_all()
    for position, name in checks:
        shown = book.cell(position).locator(".jp-OutputArea-output").last
        assert shown.inner_text().startswith(f"{name}: passed"), shown.inner_text()
        assert shown.locator(".kb-good").count() == 1
    assert sorted(name for _, name in checks) == sorted(lesson.exercises)
    assert poor_contrast(book.cell(checks[-1][0]).locator(".jp-OutputArea-output").last) == []
    book.cell(checks[-1][0]).scroll_into_view_if_needed()
    book.picture(f"lesson-{number}")
    assert book.said == []


# ------------------------------------------------------------------ saved notebooks


@pytest.fixture(scope="module")
def saved(started: Browser) -> Path:
    """A notebook with live widgets as JupyterLab saves it."""
    book = started.open(started.lab.write("saved.ipynb", list(CELLS.values())))
    book.run_all()
    # Pictures follow the live widgets a little later.
    until(lambda: missing(book.save()) == [], lambda: f"pictures that show {missing(book.save())}")
    started.close_books()
    return started.lab.notebooks / "saved.ipynb"


def missing(path: Path) -> list[tuple[str, str]]:
    """What the saved outputs do not tell yet."""
    cells = nbformat.read(path, as_version=4).cells
    told = {
        name: re.sub(r"<style>.*?</style>|<[^>]*>", " ", markup_of(cell), flags=re.DOTALL)
        for name, cell in zip(CELLS, cells, strict=True)
    }
    return [
        (name, word) for name, words in LEFT.items() for word in words if word not in told[name]
    ]


def markup_of(cell: nbformat.NotebookNode) -> str:
    """The HTML of all outputs of a cell."""
    return "".join(one.data.get("text/html", "") for one in cell.outputs if "data" in one)


def foreign(path: Path) -> nbformat.NotebookNode:
    """The saved notebook as someone else may have sent it: unsigned, and with a hostile output."""
    notebook = nbformat.read(path, as_version=4)
    data = {"text/html": CANARY, "text/plain": "canary"}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data)]
    notebook.metadata = {"kernelspec": {"name": "gone", "display_name": "Gone"}}
    return notebook


def told(area: Any, words: Sequence[str]) -> None:
    """Wait until an output shows the words: a page draws one after the other."""
    until(
        lambda: all(word in area.inner_text() for word in words),
        lambda: f"{words} in {area.inner_text()}",
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_untrusted_and_without_a_kernel(browser: Browser, saved: Path, dark: bool) -> None:
    nbformat.write(foreign(saved), browser.lab.notebooks / "foreign.ipynb")
    book = browser.open("foreign.ipynb", dark, kernel=False)
    trusted = "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(0).trusted"
    assert book.page.evaluate(trusted) is False
    for number, name in enumerate(CELLS):
        area = book.cell(number).locator(".jp-Cell-outputArea")
        if name in LEFT:
            told(area, LEFT[name])
            text = area.inner_text()
            assert "rror" not in text and "widget" not in text.lower(), text
            assert poor_contrast(area, ".jp-OutputPrompt") == []
            book.picture(f"untrusted-{name.replace(' ', '-')}", book.cell(number))
    assert "canary" in book.cell(0).inner_text()
    assert book.page.evaluate("() => window.canary") is None
    assert book.page.locator(".jp-OutputArea-output script").count() == 0
    assert book.said == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_exported(browser: Browser, saved: Path, scripts: bool, tmp_path: Path) -> None:
    from nbconvert import HTMLExporter  # half a second, in each process that collects tests

    exporter = HTMLExporter(template_name="lab", embed_images=True)
    file = tmp_path / "exported.html"
    body, _ = exporter.from_notebook_node(nbformat.read(saved, as_version=4))
    file.write_text(body, encoding="utf-8")
    page = browser.blank(scripts)
    page.goto(file.as_uri())
    for number, name in enumerate(CELLS):
        cell = page.locator(".jp-CodeCell").nth(number)
        text = cell.locator(".jp-Cell-outputWrapper").inner_text() if name in LEFT else ""
        assert [word for word in LEFT.get(name, ()) if word not in text] == [], text
    page.screenshot(path=str(browser.pictures / f"exported-{scripts}.png"), full_page=True)
    assert "Error displaying widget" not in page.locator("body").inner_text()


def test_where_styles_are_stripped(browser: Browser, saved: Path) -> None:
    """As on code hosting sites, which leave elements but neither styles nor attributes."""
    page = browser.blank()
    for number, name in enumerate(CELLS):
        markup = markup_of(nbformat.read(saved, as_version=4).cells[number])
        bare = re.sub(r"<style>.*?</style>", "", markup, flags=re.DOTALL)
        bare = re.sub(r"<(\w+)( [^>]*)>", lambda found: f"<{found[1]}>", bare)
        page.set_content(f"<!DOCTYPE html><body>{bare}</body>")
        text = page.locator("body").text_content()  # also what is folded: it can be opened
        assert [word for word in LEFT.get(name, ()) if word not in text] == [], text
        if name in LEFT:
            page.screenshot(path=str(browser.pictures / f"stripped-{name.replace(' ', '-')}.png"))
