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
from kbench.engine import describe, errors
from kbench.engine.trace import RunRecord
from kbench.notebook import graph_rows, html, show, style, views
from kbench.notebook.live import rows
from kbench.notebook.style import STYLE
from kbench.workbench.namespace import View

LIMIT = 12_000
VOID = {"br", "hr", "img", "meta"}
ALLOWED = {
    "div", "style", "p", "b", "code", "span", "pre", "dl", "dt", "dd", "details", "summary",
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


def raised(action: Any) -> Exception:
    """The error that an action ends in."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("no error")


def recorded() -> list[Any]:
    """The records of one small evaluation."""
    with K.record() as runs:
        K.eval(K.constant(1.0) + K.variable(2.0))
    return list(runs)


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
        (
            lambda: raised(lambda: K.dot(K.zeros((2, 3)), K.zeros((2, 3)))),
            ["ShapeError", "dot", "float32[2, 3]", "2 operands", "try", "transpose"],
        ),
        (lambda: recorded()[0], ["run", "eval", "1 step", "form", "GB/s"]),
        (lambda: recorded(), ["list", "1 entry", "[0]"]),
        (
            lambda: K.gradients(K.sum(K.variable([1.0], name="w") ** 2), [K.variable(1.0)]),
            ["[0]", "None"],
        ),
        (
            lambda: {"w": K.variable([1.0, 2.0]), 3: None, (1,): np.ones(9)},
            ["dict", "['w']", "variable", "1, 2", "[3]", "[<tuple>]", "float64[9]"],
        ),
        (lambda: [np.zeros((3, 3))] * 99, ["the first", "of 99 entries", "all zero"]),
        (lambda: [np.ones(4_000_000, np.int8)] * 3, ["all 1", "int8[4000000] 3.8 MB"]),
        (lambda: (), ["tuple", "0 entries"]),
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
    assert all(one.isprintable() for one in shown.replace("\u00a0", " "))  # of empty bins


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


class Liar(np.ndarray):
    """An array that tells nothing true of itself and raises when it is asked for more."""

    shape = property(lambda self: Broken())  # type: ignore[assignment]
    dtype = size = ndim = nbytes = shape  # type: ignore[assignment]
    __repr__ = __str__ = __len__ = __array__ = Broken.__repr__  # type: ignore[assignment]


class Sly(list):  # type: ignore[type-arg]
    """A list that raises when it is looked into."""

    __iter__ = __len__ = __getitem__ = __repr__ = Broken.__repr__  # type: ignore[assignment]


HOLDER = np.empty(3, object)
HOLDER[0], HOLDER[1] = Broken, type("<b>bad</b>", (), {})()
WEIRD = [
    Broken(),
    Broken,
    np.zeros(3).view(Liar),
    Sly([1]),
    [Broken(), Sly([1])],
    {Broken: Broken()},
    type("<b>bad</b>", (), {})(),
    errors.ShapeError("<b>no</b>" * 200, function="<i>", suggestion="<u>" * 99),
    errors.ShapeError(Broken()),  # type: ignore[arg-type]
    RunRecord("<b>" * 99, float("nan"), -1, [None]),  # type: ignore[list-item]
    np.zeros(2, [("<b>", "f4"), ("b", "i8")]),
    np.ma.masked_all((2, 2)),
    np.array(["<b>x</b>", "\u202e"]),
    np.array(b"<b>"),
    np.datetime64("2020-01-01"),
    HOLDER,
]


@pytest.mark.parametrize("value", WEIRD, ids=range(len(WEIRD)))
def test_anything_can_be_shown(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = html.bundle(value)
    read(bundle["text/html"])
    assert bundle["text/plain"].replace("\n", "").isprintable()
    show(value)
    assert capsys.readouterr().out == bundle["text/plain"] + "\n"


CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
    | st.integers(0, len(WEIRD) - 1).map(lambda at: WEIRD[at]),
    lambda inner: st.lists(inner, max_size=8)
    | st.dictionaries(st.text(max_size=20) | st.integers(), inner, max_size=8),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(CONTENTS, max_size=6))
def test_any_collection(value: Any) -> None:
    bundle = html.bundle(value)
    assert "not shown" not in "".join(read(bundle["text/html"]).text)
    json.dumps(bundle)


def test_show_without_values_tells_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    assert "floatx  float32" in capsys.readouterr().out


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
    assert "6001 nodes, the nearest 12 shown" in text_of(x)


def test_graphs_are_not_walked_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    x = y = K.placeholder((2,), name="x")
    for _ in range(100):
        y = K.relu(y)
    last = y * x
    assert "102 nodes, the nearest 12 shown" in text_of(last)
    monkeypatch.setattr(graph_rows, "WALKED", 50)
    monkeypatch.setattr(describe, "graph", None)
    reader = read(html.show(last))
    assert "more than 50 nodes, the nearest 12 shown" in "".join(reader.text)
    lines = [tag for tag, _ in reader.tags].count("tr") - 1
    assert lines == 12 and reader.text.count("relu") == 10


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
