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
from kbench.notebook.html.views import picture, styled

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
    inverted = shown.locator(".kb-figure").evaluate("one => getComputedStyle(one).filter")
    assert (inverted != "none") is page.dark
    if page.name.startswith("vscode"):
        size = shown.locator(".kb-v").first.evaluate("one => getComputedStyle(one).fontSize")
        assert size == "15px"
    system = "dark" if prefers_dark else "light"
    shown.screenshot(
        path=str(browser.pictures / f"page-{page.name}-{system}-system.png"), full_page=True
    )
