"""Outputs on pages of other programs: legible whatever the page sets and the reader's system likes.

The pages are empty but for what such a program gives an output: its colours, its variables, and
how it says that it is dark. The outputs are those of a saved notebook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from browser_lab import Browser
from browser_page import poor_contrast

from kbench import backend as K
from kbench.notebook import registry
from kbench.notebook.html import html
from kbench.notebook.html.run_steps import STEPS
from kbench.notebook.html.views import picture, styled
from kbench.notebook.markup.columns import share

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Page:
    """A page of another program's: attributes of its body and of its root, and its style."""

    name: str
    style: str
    body: str = ""
    root: str = ""
    dark: bool = False


def vscode(kind: str, ink: str, ground: str, also: str = "") -> Page:
    """The view of a notebook's outputs in VS Code: a class, and the theme as variables."""
    style = (
        f":root{{--vscode-foreground:{ink};--vscode-editor-background:{ground};"
        "--vscode-editor-font-family:monospace;--vscode-editor-font-size:15px;"
        "--vscode-textPreformat-foreground:#a31515}"
        "body{color:var(--vscode-foreground);background:var(--vscode-editor-background)}"
        "code{color:var(--vscode-textPreformat-foreground)}"
    )
    name = f"vscode-{kind}"
    body = f'class="{name} {also}" data-vscode-theme-kind="{name}"'
    return Page(name, style, body, dark=kind in ("dark", "high-contrast"))


PAGES = (
    vscode("light", "#3b3b3b", "#ffffff"),
    vscode("dark", "#cccccc", "#1f1f1f"),
    vscode("high-contrast", "#ffffff", "#000000"),
    vscode("high-contrast-light", "#292929", "#ffffff", "vscode-high-contrast"),
    Page("viewer", "body{color:#000;background:#fff}"),  # light, whatever the reader prefers
    Page("site", "body{color:#f0f6fc;background:#0d1117}", root='data-theme="dark"', dark=True),
    Page("unknown-dark", "body{color:#e0e0e0;background:#303030}"),
    Page("colab", "body{color:#e3e3e3;background:#1f1f1f}", root='theme="dark"', dark=True),
)


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """The HTML of values and of every widget."""
    w = K.variable(np.arange(-3.0, 3.0).reshape(2, 3), name="w")
    x = K.placeholder((None, 2), name="x")
    loss = K.mean(K.square(K.dot(x, w)))
    K.function([x], [loss])([np.ones((4, 2))])
    arguments: dict[str, tuple[Any, ...]] = {
        "value": (w,), "explore": ("softmax",), "graph": (loss,), "gradients": (loss,),
        "watches": ([w, loss],),
    }  # fmt: skip
    found = [html.show(np.array([[1.0, np.nan], [-np.inf, -4.0]])), html.show(w), html.show(loss)]
    for spec in registry.WIDGETS:
        made = registry.widget(spec.name)(*arguments.get(spec.word, ()))
        found.append(made._mime_()[1])
        made.close()
    return found


@pytest.mark.parametrize("prefers_dark", [False, True], ids=["light-system", "dark-system"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_outputs_have_the_colours_of_the_page(
    browser: Browser, outputs: list[str], page: Page, prefers_dark: bool
) -> None:
    shown = browser.page(prefers_dark)
    figure = styled(picture(b"", "a figure"))
    body = "".join(f"<section>{one}</section>" for one in [*outputs, figure])
    shown.set_content(
        f"<!DOCTYPE html><html {page.root}><head><style>{page.style}</style></head>"
        f"<body {page.body}>{body}</body></html>"
    )
    assert poor_contrast(shown.locator("body")) == []
    filters = "all => all.map(one => getComputedStyle(one).filter)"
    inverted = shown.locator(".kb-figure").evaluate_all(filters)
    assert [one != "none" for one in inverted] == [page.dark] * 2
    if page.name.startswith("vscode"):
        size = shown.locator(".kb-v").first.evaluate("one => getComputedStyle(one).fontSize")
        assert size == "15px"
    system = "dark" if prefers_dark else "light"
    shown.screenshot(
        path=str(browser.pictures / f"page-{page.name}-{system}-system.png"), full_page=True
    )


LIVE = '<div class="jupyter-widgets"><div class="jupyter-widgets">live</div></div>'
GONE = '<div class="jupyter-widgets">Error displaying widget</div>'


@pytest.mark.parametrize("place", ["jp-OutputArea-child", "output_area", "output_container"])
def test_a_picture_is_hidden_where_its_widget_is_live(browser: Browser, place: str) -> None:
    """In what JupyterLab, nbclassic and VS Code put around each output of a cell."""
    shown = browser.page()
    made = registry.widget("ConfigPanel")()
    twin = made._static_bundle()["text/html"]
    made.close()
    for first in (LIVE, GONE):
        outputs = "".join(f'<div class="{place}"><div>{one}</div></div>' for one in (first, twin))
        shown.set_content(f"<!DOCTYPE html><body><div>{outputs}</div></body>")
        seen = [one.is_visible() for one in shown.locator(f".{place}").all()]
        assert seen == ([True, False] if first == LIVE else [False, True])


@pytest.mark.parametrize("width", [320, 450, 1280])
def test_a_step_with_a_long_name_leaves_room_for_its_time(browser: Browser, width: int) -> None:
    shown = browser.page()
    shown.set_viewport_size({"width": width, "height": 600})
    name = "0 subtract+square+negative+exp+multiply"
    row = (name, "fused", "65.2 ms", share(1.0), "4 MB", "9.66", "1.21", "In [30] line 3")
    table = STEPS.drawn("1 step", [row])
    shown.set_content(f"<!DOCTYPE html><body>{styled(table, STEPS.style)}</body>")
    box = shown.get_by_text("65.2 ms").bounding_box()
    assert box is not None and box["x"] + box["width"] < width
    lines = shown.get_by_text(name).bounding_box()
    assert lines is not None and (lines["height"] > 40) is (width < 560)
