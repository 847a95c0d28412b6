"""Watches, gradients and losses follow a training loop while its cell runs; the end is exact."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from seen import settled, text_of

from kbench import backend as K
from kbench.engine.inspect import describe
from kbench.notebook import GradPanel, WatchList
from kbench.notebook.drawing import loss_picture
from kbench.notebook.ipython import progress_bar
from kbench.workbench.kernel import live_sampling
from kbench.workbench.progress import courses
from kbench.workbench.progress.course import Course, Curve


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    x = K.placeholder((None, 3), name="x")
    w = K.variable(np.ones((3, 2)), name="w")
    loss = K.mean(K.square(K.dot(x, w)))
    slope = K.gradients(loss, [w])[0]
    courses.program.cell_started()
    yield {
        "K": K, "x": x, "w": w, "loss": loss, "data": np.ones((4, 3)),
        "train": K.function([x], [loss], [(w, w - 1e-5 * slope)], name="train"),
    }  # fmt: skip
    K.clear_session()


def step(names: dict[str, Any]) -> float:
    return float(names["train"]([names["data"]])[0])


def test_a_loop_is_followed_and_its_end_is_exact(names: dict[str, Any]) -> None:
    watch, slopes = WatchList("K.sum(w)", names), GradPanel("loss", names)
    for part in (watch, slopes):
        part._activate()
    first = step(names)
    slopes.refresh()
    settled("d loss / d variable", slopes)
    watch.hub.inspector.cell_started()
    seen: set[str] = set()
    for _ in range(500_000):
        last = step(names)
        seen.update(re.findall(r"changed: [\d.]+", watch.html))
        if live_sampling.WORDS in watch.html and live_sampling.WORDS in slopes.html and seen:
            break
    assert seen, watch.html
    for part in (watch, slopes):
        assert "<svg" in part.html and "calls of train" in text_of(part.html)
    watch.hub.inspector.cell_ended()
    for part in (watch, slopes):
        part.refresh()
    total = float(K.get_value(names["w"]).sum())
    settled(describe.number(total), watch)
    said = text_of(watch.html)
    assert live_sampling.WORDS not in said
    shown = courses.program.shown()[0].curve
    assert (shown.first, shown.last) == (first, last)
    line = loss_picture.words(courses.program.shown()[0], "loss")
    assert line in said and line in watch._static_text()
    for part in (watch, slopes):
        part.close()


def found(values: list[float]) -> Course:
    function = K.function([], [K.variable(1.0) * 2.0], name="<b>fit</b>")
    made = Course.of_function(function, 0)
    for value in values:
        made.curve.add(value)
    return made


@pytest.mark.parametrize(
    ("values", "words", "drawn", "bars"),
    [
        ([2.0], "loss 2, 1 call of", 0, ""),
        ([2.0, 0.5], "loss 2 -> 0.5, 2 calls of", 1, "█▁"),
        ([1.0] * 3, "loss 1 -> 1, 3 calls of", 1, "▅▅▅"),
        ([float("nan")] * 3, "loss nan -> nan, 3 calls of", 0, ""),
        ([1.0, float("inf"), 2.0], "loss 1 -> 2, 3 calls of", 1, "▁ █"),
        ([1.7e308, -1.7e308, 0.0], "loss 1.7e+308 -> 0, 3 calls of", 1, "█▁▅"),
        (list(np.linspace(9, 1, 5000)), "loss 9 -> 1, 5,000 calls of", 1, "██▇▇▇▆▆▆▅"),
    ],
)
def test_a_curve_is_small_and_says_in_words_what_it_shows(
    values: list[float], words: str, drawn: int, bars: str
) -> None:
    (line,) = loss_picture.lines([found(values)], lambda _tensor: "loss")
    assert line.replace("NaN", "nan").startswith(words) and bars in line
    assert len(line) < 100
    markup = loss_picture.losses([found(values)], lambda _tensor: "loss")
    assert markup.count("<svg") == drawn and len(markup) < 3_000
    assert words in text_of(markup).replace("NaN", "nan")
    assert "<b>" not in markup and "nan" not in "".join(re.findall(r' d="[^"]*"', markup))


def test_a_curve_ends_at_its_last_value() -> None:
    curve = Curve()
    for value in range(100_000, -1, -1):
        curve.add(float(value))
    path = re.findall(r' d="([^"]*)"', loss_picture.curve(curve, "falls"))[0]
    points = [tuple(map(float, point.split())) for point in re.split("[ML]", path)[1:]]
    assert points[-1] == (loss_picture.WIDTH - 2, loss_picture.HEIGHT - 2)
    assert points[0][1] < 4 and len(points) <= loss_picture.WIDTH // loss_picture.STEP + 1
    assert all(one[1] <= other[1] for one, other in zip(points, points[1:], strict=False))


def test_the_bar_of_a_cell_and_its_last_line_have_the_curve() -> None:
    some = [found([3.0, 2.0, 1.0])]
    data = {"loops": [["epoch", 2, 10]], "calls": 3, "rate": 5.0, "left": None, "compiling": 0}
    for bundle in (progress_bar.drawn(data, some), progress_bar.done(data, 2.0, False, some)):
        assert "3 -> 1, 3 calls of" in bundle["text/plain"]
        assert "<svg" in bundle["text/html"]
