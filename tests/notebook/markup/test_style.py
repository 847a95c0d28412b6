"""The style of static HTML: small, scoped, with contrast enough; and what is left without it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.notebook.html import html
from kbench.notebook.markup import style
from kbench.notebook.markup.style import STYLE


def test_style_is_small_and_scoped() -> None:
    assert len(STYLE.encode()) <= 3072
    assert "@import" not in STYLE and "url(" not in STYLE and "#kb" not in STYLE
    selectors = [rule.split("{")[0] for rule in STYLE.split("}") if "{" in rule]
    plain = [one for one in selectors if not one.startswith("@")]
    assert all(".kb" in part for one in plain for part in one.split(","))


class Plain(HTMLParser):
    """What a site leaves that strips styles, classes and every other attribute."""

    BLOCKS = {"p", "dt", "dd", "tr", "caption", "summary", "td", "th", "pre"}

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.silent = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.silent = tag == "style"
        if tag in self.BLOCKS:
            self.words.append("")

    def handle_endtag(self, tag: str) -> None:
        self.silent = False

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.words[-1:] = ["".join([*self.words[-1:], data])]


def test_legible_when_stripped() -> None:
    reader = Plain()
    reader.feed(html.show(K.variable([[1.0, np.nan], [0.0, 4.0]], name="w")))
    words = reader.words
    assert words[0] == "variable w:0 float32[2, 2]"
    assert words[words.index("size") + 1] == "16 B"
    assert words[words.index("mean") + 1] == "1.667"
    assert "NaN: 1, first at [0, 1]" in words
    assert words[-3:] == ["1", "0", "4"]


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [one / 255 for one in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


# The colour of the text and of its ground: what pages give an output.
PAGES = {
    "JupyterLab, light": ((33, 33, 33), (255, 255, 255)),
    "JupyterLab, dark": ((255, 255, 255), (17, 17, 17)),
    "nbclassic": ((0, 0, 0), (255, 255, 255)),
    "a code hosting site, dark": ((240, 246, 252), (13, 17, 23)),
    "VS Code, light": ((59, 59, 59), (255, 255, 255)),
    "VS Code, dark": ((204, 204, 204), (31, 31, 31)),
    "VS Code, high contrast": ((255, 255, 255), (0, 0, 0)),
    "paper": ((50, 46, 40), (253, 246, 227)),
    "a grey page": ((224, 224, 224), (48, 48, 48)),
}
Colour = tuple[float, ...]


def mixed(first: Colour, second: Colour, share: float) -> Colour:
    """The share of the first colour, and the rest of the second."""
    return tuple(f * share + s * (1 - share) for f, s in zip(first, second, strict=True))


def hue(text: str) -> Colour:
    return tuple(float(one) for one in text.split())


@pytest.mark.parametrize("ink, ground", PAGES.values(), ids=PAGES)
def test_contrast(ink: Colour, ground: Colour) -> None:
    soft = mixed(ink, ground, style._SOFT / 100)
    texts = {"labels": soft, "bad": mixed(ink, hue(style._BAD), 0.5)}
    texts["names"] = mixed(ink, hue(style._NAME), 0.5)
    for name, colour in texts.items():
        assert contrast(colour, ground) >= 4.5, name
    for sign, shade in style._SHADES.items():
        assert contrast(ink, mixed(hue(shade), ground, style._STEPS[-1])) >= 4.5, sign


def test_texts_have_the_colour_of_the_page() -> None:
    """No rule knows the page, so none may set a colour of its own, nor ask what readers prefer."""
    on_screen = re.sub(r"@media print{.*?}}", "", STYLE)
    found = re.findall(r"(?<=[{;])color:(.*?)[;}]", on_screen)
    own = [one for one in found if one != "inherit" and "currentColor" not in one]
    assert own == ["var(--jp-ui-font-color1,inherit)"]  # the tabs of ipywidgets
    assert "prefers-color-scheme" not in STYLE
    assert all("," in one for one in re.findall(r"var\((.*?)\)", STYLE))  # each has a fallback


def test_shades_tell_the_sign() -> None:
    page = html.show(np.array([-4.0, -1.0, 0.0, 1.0, 4.0, np.nan]))
    cells = re.findall(r"<td(?: class=\"(.*?)\")?>(.*?)</td>", page)
    found = {text: name for name, text in cells}
    assert found["-4"] == "kb-n4" and found["4"] == "kb-p4"
    assert found["0"] == "" and found["NaN"] == "kb-bad"
    assert set(re.findall(r"<td(?: class=\"(.*?)\")?>0</td>", html.show(np.zeros((2, 3))))) == {""}


def test_no_class_is_that_of_another_front_end() -> None:
    """nbclassic styles `.kb`: every class of ours has the prefix and a name behind it."""
    page = html.show(K.variable([[1.0, np.nan]], name="w")) + STYLE
    classes = re.findall(r"class=\"(.*?)\"", page)
    assert classes and all(re.fullmatch(r"kb-\w+", one) for one in classes)
    assert re.findall(r"\.kb(?![-\w])", page) == []
