"""The explorer's tabs in a real browser: what they show, and that unseen widgets rest."""

from __future__ import annotations

import pytest
from browser_lab import Book, Browser, until
from browser_page import blank, controls, poor_contrast, unreached

pytestmark = pytest.mark.slow

START = """%load_ext kbench
import time
import numpy as np
import kbench
from kbench import backend as K
draw = np.random.RandomState(0)
x = K.placeholder((None, 8), name="x")
w = K.variable(draw.normal(size=(8, 3)), name="w")
dead = K.variable(np.ones(3), name="dead")
y = K.dot(x, w)
loss = K.mean(K.square(y)) + K.sum(dead * 0.0)
train = K.function([x], [loss], name="train")
it = kbench.explorer()
it"""
RUN = "train([np.ones((4, 8))])"
JOB = """from kbench.dask import activity
job = activity.track("fit", "mlp", 300)
at = [f"tcp://10.0.0.{number}:40001" for number in range(1, 5)]
for address in at:
    job.worker(address, threads=2, state="working")
job.worker(at[3], state="lost")
while not globals().get("enough"):
    for number, address in enumerate(at[:3], 1):
        job.add(address, rows=32, seconds=number // 3 * 0.2 + 0.1, received=98304, returned=4096)
    job.step()
    enough = job.job().steps > 5 and it.tabs['plan'].run.value is not None or job.job().steps > 3000
    time.sleep(0.02)
job.say("one machine would be faster: a step moves 12 MB in 40 ms and computes for 9 ms")
job.end()"""
SEEN = """one => one.innerText + [...one.querySelectorAll('svg text')]
    .filter(text => text.checkVisibility()).map(text => text.textContent).join(' ')"""
TABS = {  # and something that each shows; what is done before is in the tests
    "Names": "float32[8, 3]",
    "Value": "w[",
    "Watches": "K.sum(w)",
    "Gradients": "dead !",
    "Graph": "float32[?, 3]",
    "Plan": "GB/s",
    "A/B": "2 variants",
    "Settings": "floatx",
}


def shown(browser: Browser, *cells: str, dark: bool = False) -> Book:
    """A notebook with an explorer in its first cell, which has run."""
    book = browser.open(browser.lab.write("explorer.ipynb", [START, *cells]), dark)
    book.run(0)
    book.cell(0).locator(".lm-TabBar-tab").first.wait_for()
    return book


def tab(book: Book, title: str) -> None:
    """Open a tab."""
    book.cell(0).locator(".widget-tab > .lm-TabBar .lm-TabBar-tab", has_text=title).click()


def says(book: Book, words: str) -> None:
    """Wait until the open tab shows the words."""
    area = book.cell(0).locator(".jp-OutputArea-child").first
    until(lambda: words in area.evaluate(SEEN), lambda: f"{words!r} in {area.evaluate(SEEN)!r}")


def fill(book: Book, label: str, text: str) -> None:
    """Type into a field of the open tab, and press Enter."""
    field = book.cell(0).get_by_label(label, exact=True).locator("visible=true")
    field.fill(text)
    field.press("Enter")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_tab_shows_its_facts_and_can_be_used_by_all(browser: Browser, dark: bool) -> None:
    book = shown(browser, RUN, dark=dark)
    whole = book.cell(0).locator(".jp-OutputArea-child").first
    for title, words in TABS.items():
        tab(book, title)
        if title == "Value":
            book.cell(0).get_by_label("name", exact=True).select_option("w")
        elif title == "Watches":
            fill(book, "expression", "K.sum(w)")
        elif title in ("Gradients", "Plan"):
            book.run(1)
        elif title == "Graph":
            book.cell(0).get_by_label("graph of", exact=True).select_option("train")
        elif title == "A/B":
            fill(book, "variants", "epsilon=1,2")
            fill(book, "expression", "K.ones((2,)) * K.epsilon()")
            book.cell(0).get_by_role("button", name="compare", exact=True).click()
        says(book, words)
        if title == "Gradients":
            book.cell(0).get_by_label("look into").select_option("w")
            says(book, "d loss / d w")
        assert [one for one in controls(book.page, whole) if not one.name] == []
        assert poor_contrast(whole) == []
        assert blank(whole) == []
        book.picture(f"explorer-{title.replace('/', '')}", whole)
    assert unreached(book.page, whole) == []
    assert book.said == []


def test_a_name_carries_over_to_the_other_tabs(browser: Browser) -> None:
    book = shown(browser)
    tab(book, "Graph")
    book.cell(0).get_by_label("graph of", exact=True).select_option("w")
    tab(book, "Value")
    says(book, "w[")
    tab(book, "Watches")
    field = book.cell(0).get_by_label("expression", exact=True).locator("visible=true")
    until(lambda: field.input_value() == "w", lambda: f"w as the watch, not {field.input_value()}")
    assert book.said == []


def test_a_watch_is_added_while_a_cell_runs(browser: Browser) -> None:
    book = shown(browser, "while not it.tabs['watches'].expressions: time.sleep(0.01)")
    tab(book, "Watches")
    book.start(1)
    fill(book, "expression", "K.sum(dead)")
    book.wait_idle()
    says(book, "3")
    assert book.said == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_workers_of_a_job_are_seen_while_the_cell_runs(browser: Browser, dark: bool) -> None:
    book = shown(browser, JOB, RUN, dark=dark)
    whole = book.cell(0).locator(".jp-OutputArea-child").first
    tab(book, "Plan")
    book.start(1)
    for words in ("fit of model 'mlp': step ", "of 300, 4 workers, 1 lost", "w4 is lost"):
        says(book, words)
    says(book, "w3 is slow: 3.0 times the median per row")
    says(book, "slow, working")
    assert [one for one in controls(book.page, whole) if not one.name] == []
    assert poor_contrast(whole) == [] and blank(whole) == []
    book.picture("explorer-workers", whole)
    book.cell(0).get_by_label("run", exact=True).select_option("fit of model 'mlp', running")
    book.wait_idle()  # the cell has heard of that while it ran
    says(book, "fit of model 'mlp' ended: step ")
    says(book, "one machine would be faster")
    assert book.said == []


def test_a_cleared_output_lets_the_widget_rest(browser: Browser) -> None:
    book = shown(
        browser,
        "print(it.tabs['names'].redraws.running)",
        "end = time.monotonic() + 50\n"
        "while it.tabs['names'].redraws.running and time.monotonic() < end: time.sleep(0.01)\n"
        "print(it.tabs['names'].redraws.running)",
    )
    assert book.run(1).strip() == "True"
    book.cell(0).locator(".jp-InputArea-editor").click()
    book.command("notebook:clear-cell-output")
    assert book.run(2).strip() == "False"
    assert book.said == []
