"""Static HTML: well formed, escaped, small, and never a reason to fail, whatever it is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench import backend as K
from kbench.engine import describe
from kbench.notebook import html, style, views
from kbench.notebook.live import rows
from kbench.notebook.style import STYLE
from kbench.workbench.namespace import View

LIMIT = 12_000
VOID = {"br", "hr", "img", "meta"}
ALLOWED = {
    "div", "style", "p", "b", "code", "span", "dl", "dt", "dd", "details", "summary",
    "table", "caption", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"class", "role", "aria-label", "scope", "open"}
HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "</style><img src=x onerror=alert(1)>",
    "]]><!--",
    "a\u202eb\u2066c",
    "\x00\x1b[31mred\x07",
    "&lt;&amp;",
    "x" * 5000,
    "{}%s%(a)s$x",
    "\ud800",
]


class Reader(HTMLParser):
    """Reads markup strictly: known tags and attributes only, every tag closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def read(markup: str) -> Reader:
    """Parse one output and hold it to what every output must be."""
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    assert len(markup.encode("utf-8")) <= LIMIT
    assert markup.count("<style>") == 1
    return reader


def text_of(value: Any) -> str:
    return "".join(read(html.show(value)).text)


@pytest.fixture(autouse=True)
def fresh_graph() -> None:
    K.clear_session()


def test_style_is_small_and_scoped() -> None:
    assert len(STYLE.encode()) <= 3072
    assert "@import" not in STYLE and "url(" not in STYLE and "#kb" not in STYLE
    selectors = [rule.split("{")[0] for rule in STYLE.split("}") if "{" in rule]
    plain = [one for one in selectors if not one.startswith("@")]
    assert all(".kb" in part for one in plain for part in one.split(","))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: K.variable([[1.0, 2.0]], name="w"), ["variable", "w", "float32[1, 2]", "version"]),
        (lambda: K.placeholder((None, 3), name="x"), ["placeholder", "float32[?, 3]", "until"]),
        (lambda: K.constant([4.0, 5.0]), ["constant", "float32[2]", "values", "mean"]),
        (lambda: K.placeholder((2,)) + 1, ["tensor", "not evaluated", "graph", "add"]),
        (lambda: K.function([K.placeholder((2,), name="x")], []), ["function", "x", "outputs"]),
        (lambda: np.zeros((0, 3)), ["float64[0, 3]", "no elements"]),
        (lambda: np.float16(3.0), ["float16[]", "3"]),
        (lambda: np.array([np.nan, np.inf]), ["NaN: 1, first at [0]", "Inf: 1, first at [1]"]),
        (lambda: np.array([1j]), ["no statistics for dtype complex128"]),
        (lambda: np.array(["a"], dtype=object), ["no statistics for dtype object"]),
        (lambda: object(), ["object"]),
    ],
)
def test_says_what_there_is_to_say(make: Any, words: list[str]) -> None:
    text = text_of(make())
    assert [word for word in words if word not in text] == []


def test_symbolic_tensors_are_not_evaluated() -> None:
    total = K.variable(0.0)
    drawn = K.update_add(total, 1.0)
    html.bundle(drawn)
    html.bundle(K.sum(total))
    assert K.get_value(total) == 0.0


def test_last_run_is_told() -> None:
    x = K.placeholder((None,), name="x")
    y = x * 2
    K.function([x], [y])([np.array([1.0, 2.0])])
    assert "last run [2]: 2, 4" in text_of(y)
    assert "last fed [2]" in text_of(x)


def test_table_is_readable_by_machines() -> None:
    reader = read(html.show(np.arange(12.0).reshape(3, 4)))
    scopes = [attrs.get("scope") for tag, attrs in reader.tags if tag == "th"]
    assert scopes.count("col") == 5 and scopes.count("row") == 3
    assert "caption" in [tag for tag, _ in reader.tags]
    bars = [attrs for _, attrs in reader.tags if attrs.get("role") == "img"]
    assert len(bars) == 1 and "16 bins" in str(bars[0]["aria-label"])


@pytest.mark.parametrize("shape", [(3, 40, 50), (1000, 1000), (2,) * 8, (1, 100_000), (11, 11)])
def test_only_edges_are_shown(shape: tuple[int, ...]) -> None:
    reader = read(html.show(np.full(shape, -1.2345e-30)))
    cells = [tag for tag, _ in reader.tags if tag == "td"]
    assert 0 < len(cells) <= 11 * 11


def test_caption_names_the_slice() -> None:
    assert "w[0, :, :], 5 from each edge" in text_of(K.variable(np.zeros((2, 20, 30)), name="w"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name: str) -> None:
    x = K.placeholder((2,), name=name)
    for value in (x, x + 1, K.function([x], [x], name=name), K.variable([1.0], name=name)):
        reader = read(html.show(value))
        assert "not shown" not in "".join(reader.text)
    read(views.names_table(rows(View({name: x, name + "2": np.ones(3)}))))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_name(name: str) -> None:
    key = f"n{name}"
    shown = "".join(read(views.names_table(rows(View({key: np.ones(3)})))).text)
    assert describe.printable(key) in shown
    assert all(one.isprintable() for one in shown)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=100), max_size=60))
def test_many_names_stay_within_the_limit(names: list[str]) -> None:
    read(views.names_table(rows(View({f"n{name}": np.ones(3) for name in names}))))


class Broken:
    """An object that raises from everything that a repr might touch."""

    kind = "tensor"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("<b>no</b>")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __len__ = __repr__  # type: ignore[assignment]


def test_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    read(html.show(Broken()))

    def refuse(value: Any) -> None:
        raise RuntimeError("<b>broken</b>" * 100)

    monkeypatch.setattr(describe, "tensor", refuse)
    assert "not shown: RuntimeError" in text_of(K.variable(1.0))


def test_long_chains_are_cut() -> None:
    x = K.placeholder((2,), name="n" * 200)
    for _ in range(3000):
        x = x + 1
    assert "the nearest 12 shown" in text_of(x)


def test_bundle_goes_through_json() -> None:
    bundle = K.variable([1.0, 2.0], name="w")._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("variable w")
    assert json.loads(json.dumps(bundle)) == bundle


def test_settings_table() -> None:
    shown = "".join(read(views.settings()).text)
    assert "epsilon" in shown and "1e-07" in shown and "channels_last" in shown


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [one / 255 for one in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "colours, page, page_colour",
    [
        (style._LIGHT, style._LIGHT_PAGE, (255, 255, 255)),
        (style._DARK, style._DARK_PAGE, (17, 17, 17)),
        (style._DARK, style._DARK_PAGE, (31, 31, 31)),
    ],
)
def test_contrast(colours: str, page: str, page_colour: tuple[float, ...]) -> None:
    known = dict(one.split(":") for one in f"{colours};{page}".split(";"))
    ink = {
        name: tuple(int(known[name][i : i + 2], 16) for i in (1, 3, 5))
        for name in ("--kb-text", "--kb-soft", "--kb-bad", "--kb-name")
    }
    for name, colour in ink.items():
        assert contrast(colour, page_colour) >= 4.5, name
    heat, share = [float(one) for one in known["--kb-heat"].split()], style._STEPS[-1]
    shade = tuple(h * share + p * (1 - share) for h, p in zip(heat, page_colour, strict=True))
    assert contrast(ink["--kb-text"], shade) >= 4.5


def test_html_loads_no_jupyter() -> None:
    code = (
        "import sys; from kbench import backend as K; K.variable([1.0])._repr_mimebundle_();"
        "print([one for one in ('IPython', 'ipywidgets', 'traitlets', 'matplotlib', 'textual')"
        " if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
