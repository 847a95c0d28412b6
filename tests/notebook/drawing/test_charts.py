"""Charts: the same numbers as SVG and as characters, for curves, histograms and pictures."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kbench
from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.notebook.drawing import charts

X = np.linspace(-4.0, 4.0, 81)
SQUARE = np.zeros((8, 10))
SQUARE[2:6, 3:7] = 1.0
DRAW = np.random.default_rng(0).normal(size=500)
BAD = [1.0, np.nan, np.inf, -np.inf, 2.0]
WIDTH = 50  # what a session shows at 120 columns
BYTES = 12_000  # of one saved picture


CHARTS: dict[str, Callable[[], charts.Chart]] = {
    "one": lambda: charts.lines({"loss": 0.9 ** np.arange(50)}, title="Loss", x_label="call"),
    "log": lambda: charts.lines({"loss": 0.5 ** np.arange(40)}, y_log=True, y_label="loss"),
    "both-log": lambda: charts.lines({"e": [1.0, 0.1, 10.0]}, [1e-6, 1e-3, 1.0], x_log=True),
    "several": lambda: charts.lines({str(n): X**n for n in range(1, 9)}, X, title="Powers"),
    "points": lambda: charts.lines({"p": X**2}, X, points={"start": (-3, 9), "no": (0, np.nan)}),
    "tensor": lambda: charts.lines({"relu": K.relu(K.constant(X))}, x=K.constant(X)),
    "flat": lambda: charts.lines({"zero": [0.0, 0.0]}),
    "single": lambda: charts.lines({"one": [3.0]}),
    "bad": lambda: charts.lines({"bad": BAD, "worse": [np.nan] * 5}),
    "all-bad": lambda: charts.lines({"bad": [np.nan, np.inf]}, y_log=True),
    "long": lambda: charts.lines({"noise": np.random.default_rng(0).normal(size=100_000)}),
    "histograms": lambda: charts.histograms({"in": DRAW, "out": np.maximum(DRAW, 0)}, title="H"),
    "histogram-bad": lambda: charts.histograms({"bad": BAD}, bins=2),
    "images": lambda: charts.images({"a": SQUARE, "down": np.diff(SQUARE, axis=0)}, "Edges"),
    "image-bad": lambda: charts.images({"a": [[np.nan, 1.0], [-1.0, 0.0]]}),
    "image-large": lambda: charts.images({"a": np.eye(64), "b": np.zeros((64, 64))}),
    "markup": lambda: charts.lines({"<script>&": [1, 2]}, title="<b>", x_label='"', y_label="'"),
}
LARGE = ("long", "several", "image-large")


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_has_two_renderings(name: str) -> None:
    chart = CHARTS[name]()
    bundle = chart._repr_mimebundle_()
    markup = bundle.pop("text/html")
    assert bundle == {"image/svg+xml": chart.svg, "text/plain": repr(chart)}
    source = re.search(r'<img class="kb-figure" src="data:image/svg\+xml;base64,([^"]*)"', markup)
    assert source is not None and base64.b64decode(source[1]).decode() == chart.svg
    assert CHARTS[name]().svg == chart.svg  # the same bytes again
    root = ElementTree.fromstring(chart.svg)
    tags = {one.tag.rpartition("}")[2] for one in root.iter()}
    assert not tags & {"style", "script", "foreignObject", "image", "use"}
    assert not {key for one in root.iter() for key in one.attrib} & {"id", "class", "style"}
    shapes = [one for one in root.iter() if one.tag.rpartition("}")[2] in ("path", "rect")]
    assert not [one.attrib for one in shapes if "nan" in str(one.attrib)]
    assert max(map(len, chart.text.splitlines())) <= WIDTH
    if name not in LARGE:
        assert len(chart.svg) < BYTES, len(chart.svg)


def longest(chart: charts.Chart) -> str:
    """The path of the curve with the most points."""
    return max(re.findall(r' d="([^"]*)"', chart.svg), key=len)


def test_a_falling_loss_is_seen_to_fall() -> None:
    chart = CHARTS["one"]()
    bars = [line.partition("|")[2] for line in chart.text.splitlines() if "|" in line]
    assert [len(bar) for bar in bars] == sorted(len(bar) for bar in bars)
    heights = [float(number) for number in re.findall(r"[ML][\d.]+ ([\d.]+)", longest(chart))]
    assert heights == sorted(heights) and len(heights) == 50  # downwards is more


def test_gaps_legends_and_marks() -> None:
    assert longest(CHARTS["bad"]()).count("M") == 2
    several = CHARTS["several"]()
    assert all(f"{mark} {at}" in several.text for at, mark in enumerate("*o+x#@%=", start=1))
    dashes = re.findall(r'stroke-dasharray="([^"]*)"', several.svg)
    assert len(set(dashes)) == charts.MAX_SERIES - 1  # the first is solid
    assert "A start" in CHARTS["points"]().text


def test_curves_that_coincide_take_turns() -> None:
    body = charts.lines({"a": X, "b": X}).text.rpartition("+--")[0]
    assert "*o*" in body.replace(" ", "").replace("|", "").replace("\n", "")


def test_the_peak_of_a_long_line_stays() -> None:
    values = np.zeros(100_000)
    values[54_321], values[77_777] = 9.0, np.nan
    ((x, y),) = charts.lines({"y": values}).series.values()
    assert len(y) <= charts.MAX_POINTS and x[y == 9.0].tolist() == [54_321.0]


def test_colours_are_those_of_heat_maps() -> None:
    svg = charts.images({"a": [[1.0, 0.0, -1.0, np.nan]]}).svg
    fills = dict(re.findall(r'd="M(\d) 0[^"]*" fill="#(\w{6})"', svg))
    red, green, blue = zip(*(bytes.fromhex(fills[at]) for at in "023"), strict=True)
    assert red[0] > 2 * blue[0] and blue[1] > 2 * red[1]  # red above zero, blue below it
    assert green[2] == 0 and "1" not in fills  # magenta, and zero is the ground


def test_many_pictures_fit_a_screen_and_keep_their_peaks() -> None:
    dot = np.zeros((16, 16))
    dot[7, 3] = -1.0
    text = charts.images({str(n): dot for n in range(5)}).text
    assert len(text.splitlines()) <= 32 and text.count("@") == 5 + 1  # and in the legend


def test_pictures_have_one_scale_whose_middle_is_zero() -> None:
    chart = charts.images({"weak": [[0.0, 0.25]], "strong": [[1.0, -1.0]]})
    weak, strong = chart.text.splitlines()[2].split()
    assert weak == "..▒▒" and strong == "██@@"
    assert "?" in CHARTS["image-bad"]().text


def test_histograms_count_what_they_leave_out() -> None:
    chart = CHARTS["histogram-bad"]()
    assert isinstance(chart, charts.Histograms)
    assert chart.counts["bad"].tolist() == [1, 1] and chart.left_out == {"bad": 3}
    assert "3 not finite" in chart.text and "3 not finite" in chart.svg


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: charts.lines({}), "lines: a dict of 1 to 8 names and values is needed, got 0"),
    (lambda: charts.lines([1, 2]), "needed, got list"),  # type: ignore[arg-type]
    (lambda: charts.lines({str(n): [1] for n in range(9)}), "got 9"),
    (lambda: charts.lines({"a": [[1, 2]]}), "'a' is int64[1, 2]; 1 axes with values"),
    (lambda: charts.lines({"a": []}), "'a' is float64[0]"),
    (lambda: charts.lines({"a": "text"}), "an array or numbers are needed; got the string 'text'"),
    (lambda: charts.lines({"a": [1j]}), "'a' is complex128, not real numbers"),
    (lambda: charts.lines({"a": [1, 2]}, x=[1]), "series 'a' has 2 values, x has 1"),
    (lambda: charts.lines({"a": [1]}, points={"p": (1, 2, 3)}), "'p' needs x and y, got 3"),  # type: ignore[dict-item]
    (lambda: charts.lines({"a": [1]}, points={"p": 3}), "'point p' is int64[]"),  # type: ignore[dict-item]
    (lambda: charts.histograms({"a": [1]}, bins=1), "bins must be 2 to 44, got 1"),
    (lambda: charts.lines({"a": K.placeholder((None,), name="p")}), "'a': "),
    (lambda: charts.images({"a": [1, 2]}), "2 axes with values are needed"),
    (lambda: charts.images({"a": np.zeros((65, 2))}), "the limit is 64 rows and columns"),
]


@pytest.mark.parametrize("call, message", REFUSED)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        call()


def test_the_package_hands_it_out() -> None:
    assert kbench.charts is charts
